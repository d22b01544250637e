//! A server at a URL whose tasks belong to the session they were made in, as those of the TypeScript and the Python SDK do.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use parking_lot::Mutex;
use serde_json::{Value, json};
use taskgate_gateway::{
    Gateway, HttpServer, MemoryStore, ServerUrl, Settings, TaskMode, ToolPolicy, UpstreamKind, UpstreamSpec,
    UpstreamTasks,
};

use crate::harness::{Pipe, eventually, logs, quick, settings};

const SESSION: &str = "mcp-session-id";

/// What the server knows: one task at most.
#[derive(Default)]
struct Known {
    sessions: BTreeSet<String>,
    opened: usize,
    /// The session of the task.
    owner: Option<String>,
    calls: usize,
    asked: usize,
    is_done: bool,
    is_cancelled: bool,
    ended: Vec<String>,
}

type Shared = Arc<Mutex<Known>>;

async fn answer(State(known): State<Shared>, http: Method, headers: HeaderMap, body: Bytes) -> Response {
    let session = headers.get(SESSION).and_then(|id| id.to_str().ok()).map(ToOwned::to_owned);
    let mut known = known.lock();
    if http != Method::POST {
        if http == Method::DELETE {
            let name = session.expect("a session");
            known.sessions.remove(&name);
            known.ended.push(name);
            return StatusCode::NO_CONTENT.into_response();
        }
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    let message: Value = serde_json::from_slice(&body).expect("JSON");
    let (id, method) = (&message["id"], message["method"].as_str().expect("a method"));
    let opens = method == "initialize";
    if !opens
        && method != "server/discover"
        && session.as_ref().is_none_or(|name| !known.sessions.contains(name))
    {
        return StatusCode::NOT_FOUND.into_response();
    }
    if id.is_null() {
        return StatusCode::ACCEPTED.into_response();
    }
    let told = about(&mut known, session, &message);
    let (word, what) = match told {
        Ok(result) => ("result", result),
        Err((code, text)) => ("error", json!({"code": code, "message": text})),
    };
    let body = json!({"jsonrpc": "2.0", "id": id, word: what}).to_string();
    let mut response = ([(header::CONTENT_TYPE, "application/json")], body).into_response();
    if opens {
        known.opened += 1;
        let name = format!("session-{}", known.opened);
        response.headers_mut().insert(SESSION, name.parse().expect("a header"));
        known.sessions.insert(name);
    }
    response
}

fn about(known: &mut Known, session: Option<String>, message: &Value) -> Result<Value, (i64, &'static str)> {
    let status = if known.is_cancelled {
        "cancelled"
    } else if known.is_done {
        "completed"
    } else {
        "working"
    };
    let task = json!({"taskId": "one", "status": status, "createdAt": "x", "lastUpdatedAt": "x", "ttl": null, "pollInterval": 50});
    let method = message["method"].as_str().unwrap_or_default();
    if method.starts_with("tasks/") && known.owner != session {
        return Err((-32602, "Task not found"));
    }
    match method {
        "initialize" => Ok(json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}, "tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}},
            "serverInfo": {"name": "far", "version": "1"},
        })),
        "tools/list" => {
            let tool = json!({"name": "slow", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "optional"}});
            Ok(json!({"tools": [tool]}))
        }
        "tools/call" => {
            (known.owner, known.calls) = (session, known.calls + 1);
            Ok(json!({"task": task}))
        }
        "tasks/get" => {
            known.asked += 1;
            Ok(task)
        }
        "tasks/result" => Ok(json!({"content": [{"type": "text", "text": "done"}]})),
        "tasks/cancel" => {
            known.is_cancelled = true;
            Ok(task)
        }
        _ => Err((-32601, "Method not found")),
    }
}

async fn far() -> (Shared, UpstreamSpec) {
    let known = Shared::default();
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("bound"));
    let router = Router::new().route("/mcp", any(answer)).with_state(known.clone());
    tokio::spawn(async move { axum::serve(listener, router).await });
    let kind = UpstreamKind::Http(HttpServer::new(ServerUrl::parse(&url).expect("a URL")));
    let spec = UpstreamSpec { upstream_tasks: UpstreamTasks::Always, ..UpstreamSpec::new("far", kind) };
    (known, spec)
}

async fn gateway(spec: &UpstreamSpec, store: &MemoryStore) -> (Gateway, Pipe) {
    let always = ToolPolicy { tasks: TaskMode::Always, ..quick() };
    let settings = Settings { drain_grace: Duration::ZERO, ..settings() };
    let builder = Gateway::builder().add(spec.clone()).policy(always).settings(settings);
    let gateway = builder.store(store.clone()).build().await.expect("gateway");
    let pipe = Pipe::open(&gateway).await;
    (gateway, pipe)
}

/// Starts a task there and shuts the gateway down in good order while it runs.
async fn left_behind(spec: &UpstreamSpec, known: &Shared, store: &MemoryStore) -> String {
    let (first, mut pipe) = gateway(spec, store).await;
    let task = pipe.task("slow", json!([])).await;
    // The handle is put down before anything is asked.
    eventually("a question about it", || async { (known.lock().asked > 0).then_some(()) }).await;
    first.drain().await;
    drop((first, pipe));
    task
}

/// A restart, in good order too, leaves the session there, and the next gateway finds the task in it, or stops it there.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_found_again_in_the_session_it_was_made_in() {
    let (known, spec) = far().await;
    let store = MemoryStore::new();
    let task = left_behind(&spec, &known, &store).await;
    let (_second, mut pipe) = gateway(&spec, &store).await;
    known.lock().is_done = true;
    pipe.until(&task, "completed").await;
    assert_eq!(pipe.ask("tasks/result", json!({"taskId": task})).await.text(), "done");
    let known = known.lock();
    assert_eq!((known.calls, known.opened), (1, 2));
    assert!(!known.ended.contains(&"session-1".to_owned()), "{:?}", known.ended);
    logs::clean();
}

/// Case 17, through a restart.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_stopped_in_the_session_it_was_made_in() {
    let (known, spec) = far().await;
    let store = MemoryStore::new();
    let task = left_behind(&spec, &known, &store).await;
    let (_second, mut pipe) = gateway(&spec, &store).await;
    pipe.ask("tasks/cancel", json!({"taskId": task})).await.result();
    eventually("its end", || async { known.lock().is_cancelled.then_some(()) }).await;
    logs::clean();
}

/// Where the server has lost that session it has lost the task, and the call says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_whose_session_is_lost_is_lost() {
    let (known, spec) = far().await;
    let store = MemoryStore::new();
    let task = left_behind(&spec, &known, &store).await;
    known.lock().sessions.clear();
    let (_second, mut pipe) = gateway(&spec, &store).await;
    let failed = pipe.until(&task, "failed").await;
    let line = failed["statusMessage"].as_str().expect("a line");
    assert!(line.starts_with("The server no longer knows the task it made of this call"), "{line}");
    logs::clean();
}
