//! A server nobody here wrote the inside of: rmcp with its `TaskManager`, tasks of 2026-07-28 in memory.
//!
//! `rmcp-tasks-server PORT|stdio FOLDER`. The tools are those that `../clients` call.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ContentBlock,
    CreateTaskResult, ErrorCode, GetTaskParams, GetTaskResult, ListToolsResult, PaginatedRequestParams,
    ServerCapabilities, ServerConfig, Tool, UpdateTaskParams,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::task_manager::{TaskContext, TaskExit, TaskManager, TaskOptions};
use rmcp::transport::streamable_http_server::StreamableHttpService;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::{ErrorData, ServerHandler, ServiceExt};
use serde_json::{Value, json};
use taskgate_rust_peers::{Place, TOOLS, confirmed, form, held, schema};

#[derive(Clone)]
struct Server {
    tasks: TaskManager,
    folder: PathBuf,
}

fn text(text: impl Into<String>) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

async fn ask(task: &TaskContext, key: &str, form: Value) -> Result<Value, TaskExit> {
    let request = serde_json::from_value(form).expect("a request for input");
    task.request_input(key, request).await
}

async fn work(
    name: String,
    given: Value,
    folder: PathBuf,
    task: TaskContext,
) -> Result<CallToolResult, TaskExit> {
    let word = |key: &str| given[key].as_str().unwrap_or_default().to_owned();
    Ok(match name.as_str() {
        "slow_compute" => {
            let seconds = given["seconds"].as_f64().unwrap_or_default();
            tokio::select! {
                () = task.cancelled() => return Err(TaskExit::Cancelled),
                () = tokio::time::sleep(Duration::from_secs_f64(seconds)) => {}
            }
            text(format!("{} took {}s", word("label"), given["seconds"]))
        }
        "held" => text(held(&folder, &word("label"), task.cancelled()).await.ok_or(TaskExit::Cancelled)?),
        "large" => text("é".repeat(given["size"].as_u64().unwrap_or_default() as usize)),
        "failing_job" => CallToolResult::error(vec![ContentBlock::text("it did not work")]),
        "confirm_delete" => {
            let filename = word("filename");
            let asked = form(&format!("Delete {filename}?"), "confirm", "boolean");
            text(confirmed(&filename, &ask(&task, "confirm", asked).await?))
        }
        "multi_input" => {
            let (one, two) = tokio::try_join!(
                ask(&task, "one", form("one", "value", "string")),
                ask(&task, "two", form("two", "value", "string")),
            )?;
            let value = |answer: &Value| answer["content"]["value"].as_str().unwrap_or_default().to_owned();
            text(format!("{} {}", value(&one), value(&two)))
        }
        _ => return Err(TaskExit::Error(ErrorData::new(ErrorCode(-32050), "it went wrong", None))),
    })
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().enable_tasks().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = TOOLS.map(|(name, fields)| {
            let tool = json!({ "name": name, "description": name, "inputSchema": schema(fields) });
            serde_json::from_value::<Tool>(tool).expect("a tool")
        });
        Ok(ListToolsResult::with_all_items(tools.to_vec()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let given = Value::Object(request.arguments.unwrap_or_default());
        if request.name == "greet" {
            return Ok(text(format!("Hello, {}!", given["name"].as_str().unwrap_or_default())).into());
        }
        if !context.client_capabilities().is_some_and(|all| all.supports_tasks()) {
            return Ok(CallToolResult::error(vec![ContentBlock::text("a task here")]).into());
        }
        let (name, folder) = (request.name.into_owned(), self.folder.clone());
        let options = TaskOptions::new().with_poll_interval_ms(100);
        let task = self.tasks.spawn(options, |task| Box::pin(work(name, given, folder, task)));
        Ok(CallToolResponse::Task(CreateTaskResult::new(task)))
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        Ok(GetTaskResult::new(self.tasks.get_task(&request.task_id)?))
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks.update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks.cancel_task(&request.task_id)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let place = Place::new();
    let server = Server { tasks: TaskManager::new(), folder: place.folder };
    let Some(port) = place.port else {
        server.serve(rmcp::transport::stdio()).await?.waiting().await?;
        return Ok(());
    };
    // Every request has a handler of its own; the tasks are everybody's.
    let sessions = Arc::<LocalSessionManager>::default();
    let service = StreamableHttpService::new(move || Ok(server.clone()), sessions, Default::default());
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    eprintln!("peer listens on {port}");
    axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await?;
    Ok(())
}
