//! The three tools of the benchmark, as a plain MCP server that knows nothing about tasks.
//!
//! The answers cost as little as possible, so that a measurement shows what sits in front of the tools: the list of
//! tools and the server's description are built once, and a call only copies its text.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rmcp::model::*;
use rmcp::service::{RequestContext, RoleServer};
use rmcp::{ErrorData as McpError, ServerHandler};
use serde_json::{Value, json};

/// The benchmark's server. Clones share everything.
#[derive(Clone)]
pub struct BenchTools {
    shared: Arc<Shared>,
}

struct Shared {
    info: ServerConfig,
    tools: Vec<Tool>,
}

impl BenchTools {
    pub fn new() -> Self {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        let implementation = Implementation::new("taskgate-bench", env!("CARGO_PKG_VERSION"));
        let tools = vec![
            tool("echo", "Returns the text.", "text", "string"),
            tool("instant", "Returns the text at once.", "text", "string"),
            tool("sleep", "Returns the time after a sleep.", "ms", "number"),
        ];
        let shared = Shared { info: ServerConfig::new(capabilities).with_server_info(implementation), tools };
        Self { shared: Arc::new(shared) }
    }
}

impl Default for BenchTools {
    fn default() -> Self {
        Self::new()
    }
}

/// Describes a tool with one required argument.
fn tool(name: &'static str, description: &'static str, argument: &str, argument_type: &str) -> Tool {
    let schema = json!({
        "type": "object",
        "properties": {argument: {"type": argument_type}},
        "required": [argument],
    });
    Tool::new(name, description, object(schema))
}

impl ServerHandler for BenchTools {
    fn get_info(&self) -> ServerConfig {
        self.shared.info.clone()
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let mut tools = self.shared.tools.iter();
        tools.find(|tool| tool.name == name).cloned()
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, McpError> {
        Ok(ListToolsResult::with_all_items(self.shared.tools.clone()))
    }

    async fn call_tool(
        &self,
        mut request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, McpError> {
        // The request is owned, so the text can be taken out of it instead of being copied.
        let mut take = |name| {
            let argument = request.arguments.as_mut().and_then(|a| a.get_mut(name));
            argument.map(Value::take)
        };
        let text = match request.name.as_ref() {
            "echo" | "instant" => match take("text") {
                Some(Value::String(text)) => text,
                _ => return Err(invalid("The argument text must be a string.")),
            },
            "sleep" => {
                let time = take("ms")
                    .and_then(|ms| ms.as_f64())
                    .and_then(|ms| Duration::try_from_secs_f64(ms / 1000.0).ok());
                let Some(time) = time else {
                    return Err(invalid("The argument ms must be a number of milliseconds."));
                };
                tokio::select! {
                    () = tokio::time::sleep(time) => now_ms(),
                    () = context.ct.cancelled() => {
                        return Err(McpError::internal_error("The call was cancelled.", None));
                    }
                }
            }
            _ => return Err(invalid("The tool is unknown.")),
        };
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }
}

fn invalid(message: &'static str) -> McpError {
    McpError::invalid_params(message, None)
}

/// The time in milliseconds since the epoch, with microseconds as the fraction.
#[expect(clippy::disallowed_methods, reason = "the receiver compares it with its own clock")]
fn now_ms() -> String {
    // A clock before 1970 has no useful answer; zero shows up in any figure.
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let micros = now.unwrap_or_default().as_micros();
    format!("{}.{:03}", micros / 1000, micros % 1000)
}
