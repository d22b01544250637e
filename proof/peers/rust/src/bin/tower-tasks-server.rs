//! A server nobody here wrote the inside of: tower-mcp with its tasks of both generations, in memory.
//!
//! `tower-tasks-server PORT|stdio FOLDER`. The tools are those that `../clients` call.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use taskgate_rust_peers::{Place, TOOLS, confirmed, form, held, schema};
use tower_mcp::transport::{HttpTransport, StdioTransport};
use tower_mcp::{
    BoxError, CallToolResult, Error, InputRequests, JsonRpcError, McpRouter, TaskContext, TaskOutcome,
    ToolBuilder,
};

async fn ask(task: &TaskContext, forms: Value) -> Result<Value, Error> {
    let requests: InputRequests = serde_json::from_value(forms)?;
    Ok(serde_json::to_value(task.require_input(requests).await?)?)
}

async fn work(name: &str, given: Value, folder: PathBuf, task: TaskContext) -> Result<TaskOutcome, Error> {
    let word = |key: &str| given[key].as_str().unwrap_or_default().to_owned();
    let cancelled = Ok(TaskOutcome::Cancelled { message: None });
    let result = match name {
        "slow_compute" => {
            let seconds = given["seconds"].as_f64().unwrap_or_default();
            tokio::select! {
                () = task.cancelled() => return cancelled,
                () = tokio::time::sleep(Duration::from_secs_f64(seconds)) => {}
            }
            CallToolResult::text(format!("{} took {}s", word("label"), given["seconds"]))
        }
        "held" => match held(&folder, &word("label"), task.cancelled()).await {
            Some(text) => CallToolResult::text(text),
            None => return cancelled,
        },
        "large" => CallToolResult::text("é".repeat(given["size"].as_u64().unwrap_or_default() as usize)),
        "failing_job" => CallToolResult::error("it did not work"),
        "confirm_delete" => {
            let filename = word("filename");
            let asked = form(&format!("Delete {filename}?"), "confirm", "boolean");
            let answers = ask(&task, json!({ "confirm": asked })).await?;
            CallToolResult::text(confirmed(&filename, &answers["confirm"]))
        }
        "multi_input" => {
            let forms = ["one", "two"].map(|key| (key.to_owned(), form(key, "value", "string")));
            let answers = ask(&task, Value::Object(forms.into_iter().collect())).await?;
            let value = |key: &str| answers[key]["content"]["value"].as_str().unwrap_or_default().to_owned();
            CallToolResult::text(format!("{} {}", value("one"), value("two")))
        }
        _ => {
            let error = json!({ "code": -32050, "message": "it went wrong" });
            return Ok(TaskOutcome::Failed(serde_json::from_value::<JsonRpcError>(error)?));
        }
    };
    Ok(TaskOutcome::Completed(result))
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let place = Place::new();
    let mut router = McpRouter::new().server_info("tower-tasks", "1").with_tasks();
    for (name, fields) in TOOLS {
        let tool = ToolBuilder::new(name).description(name).input_schema(schema(fields));
        router = router.tool(if name == "greet" {
            let greet = |given: Value| async move {
                Ok(CallToolResult::text(format!("Hello, {}!", given["name"].as_str().unwrap_or_default())))
            };
            tool.handler(greet).build()
        } else {
            let folder = place.folder.clone();
            tool.live_task_handler(move |task: TaskContext, given: Value| {
                work(name, given, folder.clone(), task)
            })
            .build()
        });
    }
    match place.port {
        None => StdioTransport::new(router).run().await?,
        Some(port) => {
            eprintln!("peer listens on {port}");
            HttpTransport::new(router).serve(&format!("127.0.0.1:{port}")).await?;
        }
    }
    Ok(())
}
