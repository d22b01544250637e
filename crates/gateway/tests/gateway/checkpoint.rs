//! Checkpoints of rmcp handlers in this program. The clock is paused.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::model::*;
use rmcp::service::{RequestContext, RoleServer};
use rmcp::{ErrorData, ServerHandler};
use serde_json::{Value, json};
use taskgate_gateway::{Checkpoint, Gateway, MemoryStore, NotSaved, TaskMode, ToolPolicy, WorkClass};

use crate::harness::{Pipe, logs, paused_store, quick, settings};

/// A handler whose one tool, under two names, saves `{"step": n}` each second, up to `steps`, and does not hear that it is
/// cancelled if it is `deaf`.
#[derive(Clone, Default)]
struct Stepper(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    /// What each run found saved; `None` if it had no checkpoints at all.
    found: Vec<Option<Value>>,
    /// Every step that was made.
    steps: Vec<u64>,
    /// The `_meta` of each call as its handler saw it.
    metas: Vec<Value>,
    /// What the last refused save said.
    refused: Option<String>,
}

impl ServerHandler for Stepper {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = || object(json!({"type": "object"}));
        Ok(ListToolsResult::with_all_items(
            ["resumed", "repeated"].map(|name| Tool::new(name, "", schema())).into(),
        ))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let checkpoint = context.extensions.get::<Checkpoint>().cloned();
        let value =
            |saved: &taskgate_gateway::Payload| serde_json::from_str::<Value>(saved.as_str()).expect("JSON");
        let found = checkpoint.as_ref().map(|checkpoint| checkpoint.saved().map_or(Value::Null, value));
        let first = found.as_ref().and_then(|saved| saved["step"].as_u64()).unwrap_or(0) + 1;
        {
            let mut seen = self.0.lock();
            seen.found.push(found);
            seen.metas.push(serde_json::to_value(&context.meta).expect("JSON"));
        }
        let steps = request.arguments.as_ref().and_then(|all| all.get("steps")?.as_u64()).unwrap_or(0);
        let is_deaf = request.arguments.as_ref().is_some_and(|all| all.contains_key("deaf"));
        for step in first..=steps {
            tokio::select! {
                () = tokio::time::sleep(Duration::from_secs(1)) => {}
                () = context.ct.cancelled(), if !is_deaf => return Err(ErrorData::internal_error("stopped", None)),
            }
            self.0.lock().steps.push(step);
            if let Some(checkpoint) = &checkpoint
                && let Err(error) = checkpoint.save(&json!({"step": step})).await
            {
                assert!(matches!(error, NotSaved::NotKept(_)), "{error}");
                self.0.lock().refused = Some(error.to_string());
                return Err(ErrorData::internal_error("not mine any more", None));
            }
        }
        Ok(CallToolResult::success(vec![ContentBlock::text(format!("{first} to {steps}"))]).into())
    }
}

async fn gateway(stepper: &Stepper, store: &MemoryStore) -> Gateway {
    let of = |class| ToolPolicy { tasks: TaskMode::Auto, class: Some(class), ..quick() };
    let builder = Gateway::builder().upstream(stepper.clone()).store(store.clone()).settings(settings());
    let builder =
        builder.tool("resumed", of(WorkClass::Resumable)).tool("repeated", of(WorkClass::Repeatable));
    builder.build().await.expect("gateway")
}

/// Case 20: a tool with `after_crash = "resume"` finds what it has saved and makes no step twice, as often as it takes;
/// another tool has no checkpoints and begins again.
#[tokio::test(start_paused = true)]
async fn a_tool_goes_on_from_what_it_has_saved() {
    let (stepper, store) = (Stepper::default(), paused_store());
    let mut gone = gateway(&stepper, &store).await;
    let mut pipe = Pipe::open(&gone).await;
    let call = json!({"name": "resumed", "arguments": {"steps": 20}, "task": {}});
    let id = pipe.ask("tools/call", call).await.task();
    for _ in 0..6 {
        tokio::time::sleep(Duration::from_millis(2200)).await;
        gone.drain().await;
        gone = gateway(&stepper, &store).await;
    }
    let mut pipe = Pipe::open(&gone).await;
    while pipe.ask("tasks/get", json!({"taskId": id})).await.result()["status"] == "working" {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let text = pipe.ask("tasks/result", json!({"taskId": id})).await.text().to_owned();
    let (found, steps) = {
        let seen = stepper.0.lock();
        (seen.found.clone(), seen.steps.clone())
    };
    assert_eq!(steps, (1..=20).collect::<Vec<u64>>());
    assert_eq!((found.len(), &found[0]), (7, &Some(Value::Null)));
    let last = found[6].as_ref().expect("checkpoints")["step"].as_u64().expect("a step");
    assert_eq!(text, format!("{} to 20", last + 1));

    let call = json!({"name": "repeated", "arguments": {"steps": 3}, "task": {}});
    let id = pipe.ask("tools/call", call).await.task();
    tokio::time::sleep(Duration::from_millis(1200)).await;
    gone.drain().await;
    let mut pipe = Pipe::open(&gateway(&stepper, &store).await).await;
    while pipe.ask("tasks/get", json!({"taskId": id})).await.result()["status"] == "working" {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let seen = stepper.0.lock();
    assert_eq!(seen.found[7..], [None, None]);
    assert_eq!(seen.steps[20..], [1, 1, 2, 3]);
    logs::clean();
}

/// Nothing of the way a checkpoint takes to its handler is seen at either end, and no caller finds another one's.
#[tokio::test(start_paused = true)]
async fn callers_cannot_reach_for_checkpoints() {
    let stepper = Stepper::default();
    let mut pipe = Pipe::open(&gateway(&stepper, &paused_store()).await).await;
    let forged = json!({"io.taskgate/checkpoint": "0000", "x/y": 1});
    for name in ["resumed", "repeated"] {
        pipe.ask("tools/call", json!({"name": name, "arguments": {}, "_meta": forged})).await.text();
    }
    let seen = stepper.0.lock();
    assert_eq!(seen.found, [Some(Value::Null), None]);
    for meta in &seen.metas {
        assert!(meta.get("io.taskgate/checkpoint").is_none() && meta["x/y"] == 1, "{meta}");
    }
}

/// Case 3: what is saved after the end is refused, and the handler hears so if it has not stopped by itself.
#[tokio::test(start_paused = true)]
async fn nothing_is_saved_after_the_end() {
    let stepper = Stepper::default();
    let mut pipe = Pipe::open(&gateway(&stepper, &paused_store()).await).await;
    let call = json!({"name": "resumed", "arguments": {"steps": 9, "deaf": true}, "task": {}});
    let id = pipe.ask("tools/call", call).await.task();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    pipe.ask("tasks/cancel", json!({"taskId": id})).await.result();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let seen = stepper.0.lock();
    assert_eq!((&seen.steps[..], seen.refused.is_some()), (&[1, 2][..], true));
    logs::clean();
}
