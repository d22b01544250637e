//! Upstreams that are rmcp handlers in this program, unchanged.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rmcp::model::*;
use rmcp::service::{PeerRequestOptions, RequestContext, RoleServer};
use rmcp::{ErrorData, ServerHandler};
use serde_json::{Value, json};
use taskgate_gateway::{Gateway, TaskMode, ToolPolicy};

use crate::harness::{Modern, Old, Pipe, Server, accept, eventually, quick, settings};

/// A plain handler.
#[derive(Clone, Default)]
struct Plain {
    running: Arc<AtomicUsize>,
    cancelled: Arc<AtomicUsize>,
}

struct Running(Arc<AtomicUsize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn question() -> Value {
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    json!({"method": "elicitation/create", "params": {"mode": "form", "message": "Name?", "requestedSchema": schema}})
}

fn text(text: impl Into<String>) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(text)]).into()
}

impl ServerHandler for Plain {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = || object(json!({"type": "object", "properties": {}}));
        let names = ["echo", "hold", "progress", "panic", "ask", "raise"];
        Ok(ListToolsResult::with_all_items(names.map(|name| Tool::new(name, "A tool.", schema())).into()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.running.fetch_add(1, Ordering::SeqCst);
        let _running = Running(self.running.clone());
        match &*request.name {
            "echo" => {
                let arguments = Value::Object(request.arguments.clone().unwrap_or_default());
                Ok(text(arguments.to_string()))
            }
            "hold" => {
                context.ct.cancelled().await;
                self.cancelled.fetch_add(1, Ordering::SeqCst);
                Ok(text("too late"))
            }
            "progress" => {
                let token = context.meta.get_progress_token().expect("the gateway always sends one");
                let said = ProgressNotificationParam::new(token, 1.0).with_message("half");
                context.peer.notify_progress(said).await.expect("told");
                tokio::time::sleep(Duration::from_millis(200)).await;
                Ok(text("done"))
            }
            "panic" => panic!("the handler of a test"),
            "raise" => Err(ErrorData::new(ErrorCode(-32077), "raised", Some(json!({"why": [1.5, null]})))),
            _ => {
                let modern =
                    context.protocol_version().is_some_and(|version| version.as_str() >= "2026-07-28");
                if modern {
                    let answers = request.input_responses.as_ref().and_then(|answers| answers.get("name"));
                    return Ok(match answers {
                        Some(answer) => text(answer.to_string()),
                        None => {
                            let asked =
                                [("name".to_owned(), serde_json::from_value(question()).expect("a request"))];
                            InputRequiredResult::new(Some(asked.into()), Some("state".to_owned())).into()
                        }
                    });
                }
                let asked: ServerRequest = serde_json::from_value(question()).expect("a request");
                let handle =
                    context.peer.send_cancellable_request(asked, PeerRequestOptions::no_options()).await;
                let answer = handle.expect("sent").await_response().await;
                match answer {
                    Ok(answer) => Ok(text(serde_json::to_string(&answer).expect("JSON"))),
                    Err(error) => Ok(text(format!("refused: {error}"))),
                }
            }
        }
    }
}

async fn serve(plain: &Plain) -> Server {
    let always = ToolPolicy { tasks: TaskMode::Always, ..quick() };
    let never = ToolPolicy { tasks: TaskMode::Never, ..quick() };
    let at_once = ToolPolicy { inline_for: Duration::ZERO, ..quick() };
    let builder = Gateway::builder().upstream(plain.clone()).policy(quick()).settings(settings());
    let builder = builder.tool("hold", at_once).tool("progress", always).tool("raise", never);
    Server::start(builder.build().await.expect("gateway")).await
}

/// The library face: an unchanged handler gains tasks, in both dialects; a cancel reaches its token; a panic is an answer.
#[tokio::test(flavor = "multi_thread")]
async fn an_unchanged_handler_gains_tasks() {
    let plain = Plain::default();
    let server = serve(&plain).await;
    let modern = Modern::new(&server);
    let old = Old::open(&server).await;
    let call = |name: &str| json!({"name": name, "arguments": {"z": 1, "a": "é"}});
    assert_eq!(modern.ask("tools/call", call("echo")).await.text(), r#"{"z":1,"a":"é"}"#);
    assert_eq!(old.ask("tools/call", call("echo")).await.text(), r#"{"z":1,"a":"é"}"#);

    let held = modern.ask("tools/call", call("hold")).await.task();
    eventually("it runs", || async { (plain.running.load(Ordering::SeqCst) == 1).then_some(()) }).await;
    modern.ask("tasks/cancel", json!({"taskId": held})).await.result();
    eventually("it stops", || async { (plain.running.load(Ordering::SeqCst) == 0).then_some(()) }).await;
    assert_eq!(modern.get(&held).await["status"], "cancelled");

    let task = modern.ask("tools/call", call("progress")).await.task();
    eventually("progress", || async { (modern.get(&task).await["statusMessage"] == "half").then_some(()) })
        .await;
    modern.until(&task, "completed").await;

    let panicked = modern.ask("tools/call", call("panic")).await;
    assert_eq!(panicked.code(), -32603);
    assert!(panicked.error()["message"].as_str().expect("words").contains("the handler of a test"));
    let raised = json!({"code": -32077, "message": "raised", "data": {"why": [1.5, null]}});
    assert_eq!(*modern.ask("tools/call", call("raise")).await.error(), raised);
    assert_eq!(*old.ask("tools/call", call("raise")).await.error(), raised);
    assert_eq!(modern.ask("tools/call", json!({"name": "echo", "arguments": "x"})).await.code(), -32602);
    assert_eq!(modern.ask("tools/call", call("echo")).await.text(), r#"{"z":1,"a":"é"}"#);
}

/// A handler that asks in the way of each generation is understood in both, plainly and as a task.
#[tokio::test(flavor = "multi_thread")]
async fn a_handler_can_ask_in_both_generations() {
    let plain = Plain::default();
    let server = serve(&plain).await;
    let modern = Modern::new(&server);
    let asked = modern.ask("tools/call", json!({"name": "ask"})).await.result().clone();
    assert_eq!(asked["resultType"], "input_required");
    let again = json!({"name": "ask", "requestState": asked["requestState"], "inputResponses": {"name": accept("m")}});
    assert!(modern.ask("tools/call", again).await.text().contains("\"m\""));

    let old = Old::open(&server).await;
    let mut stream = old.begin("tools/call", json!({"name": "ask"})).await;
    let question: Value = serde_json::from_str(&stream.event().await.expect("a question")).expect("JSON");
    old.respond(&question["id"], accept("o")).await;
    assert!(stream.answer().await.text().contains("\"o\""));

    let mut pipe = Pipe::open(&server.gateway).await;
    let id = pipe.ask("tools/call", json!({"name": "ask", "task": {}})).await.task();
    pipe.until(&id, "input_required").await;
    let question = pipe.find(|message| message["method"] == "elicitation/create").await;
    pipe.respond(&question["id"], accept("p")).await;
    assert!(pipe.ask("tasks/result", json!({"taskId": id})).await.text().contains("\"p\""));
}
