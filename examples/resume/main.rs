//! A tool that goes on where it was when its process died.
//!
//! `cargo run --example resume`, then call `count` with `{"to": 100}` at http://127.0.0.1:8000/mcp. Kill the program in the middle
//! (`kill -9`) and start it again: the task goes on counting, and its result says where this process took over.
//! Other places: `cargo run --example resume -- ADDRESS DATABASE`.
#![forbid(unsafe_code)]

use std::time::Duration;

use rmcp::model::*;
use rmcp::service::{RequestContext, RoleServer};
use rmcp::{ErrorData, ServerHandler};
use serde_json::{Value, json};
use taskgate_gateway::{Checkpoint, Gateway, SqliteOptions, SqliteStore, ToolPolicy, WorkClass};

/// A server with one slow tool.
#[derive(Clone)]
struct Counter;

impl ServerHandler for Counter {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = json!({
            "type": "object",
            "properties": {"to": {"type": "integer"}, "ms": {"type": "integer"}},
            "required": ["to"],
        });
        Ok(ListToolsResult::with_all_items(vec![Tool::new("count", "Counts, slowly.", object(schema))]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let number = |name: &str| request.arguments.as_ref()?.get(name)?.as_u64();
        let to = number("to").ok_or_else(|| ErrorData::invalid_params("`to` must be a number", None))?;
        let pause = Duration::from_millis(number("ms").unwrap_or(100));
        let checkpoint = context.extensions.get::<Checkpoint>().cloned();
        let failed = |why: String| ErrorData::internal_error(why, None);

        // Where an earlier process has come to, or the beginning.
        let saved = checkpoint.as_ref().and_then(Checkpoint::saved);
        let from: u64 = match saved {
            Some(saved) => serde_json::from_str(saved.as_str()).map_err(|error| failed(error.to_string()))?,
            None => 0,
        };
        for done in from + 1..=to {
            tokio::select! {
                () = tokio::time::sleep(pause) => {} // one step of the work
                () = context.ct.cancelled() => return Err(failed("cancelled".to_owned())),
            }
            if let Some(checkpoint) = &checkpoint {
                // Durable when it returns. An error says that the work is no longer ours.
                checkpoint.save(&done).await.map_err(|error| failed(error.to_string()))?;
            }
            if let Some(token) = context.meta.get_progress_token() {
                let said = ProgressNotificationParam::new(token, done as f64).with_total(to as f64);
                let _ = context.peer.notify_progress(said).await;
            }
        }
        let counted: Value = json!({"from": from, "to": to});
        Ok(CallToolResult::structured(counted).into())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let address = words.next().unwrap_or_else(|| "127.0.0.1:8000".to_owned());
    let database = words.next().map_or_else(|| std::env::temp_dir().join("resume-tasks.db"), Into::into);
    let resumed = ToolPolicy { class: Some(WorkClass::Resumable), ..ToolPolicy::always() };
    let gateway = Gateway::builder()
        .upstream(Counter)
        .tool("count", resumed)
        .store(SqliteStore::open(SqliteOptions::new(database))?)
        .build()
        .await?;
    let listener = tokio::net::TcpListener::bind(address).await?;
    eprintln!("http://{}{}", listener.local_addr()?, gateway.settings().path);
    let stopped = async {
        let _ = tokio::signal::ctrl_c().await;
    };
    gateway.serve_http(listener, stopped).await?;
    Ok(())
}
