//! A client of 2026-07-28 over HTTP: each request brings everything itself.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use taskgate_wire::header;

use super::http::{self, Response};
use super::{Answer, Server, eventually, steps};

/// The client.
#[derive(Clone)]
pub struct Modern {
    addr: SocketAddr,
    capabilities: Value,
    numbers: Arc<AtomicU64>,
    /// What its requests say in `Accept`.
    pub accept: String,
    /// What its requests say in `Authorization`, if anything.
    pub authorization: Option<String>,
}

/// The capabilities of a client that can do everything.
pub fn everything() -> Value {
    json!({
        "elicitation": {}, "sampling": {}, "roots": {},
        "extensions": {"io.modelcontextprotocol/tasks": {}},
    })
}

impl Modern {
    /// A client that can do everything.
    pub fn new(server: &Server) -> Modern {
        Modern::with(server, everything())
    }

    /// A client that can do everything and shows this token.
    pub fn of(server: &Server, token: &str) -> Modern {
        Modern { authorization: Some(format!("Bearer {token}")), ..Modern::new(server) }
    }

    /// A client that can ask its user but knows nothing of tasks.
    pub fn without_tasks(server: &Server) -> Modern {
        Modern::with(server, json!({"elicitation": {}, "sampling": {}, "roots": {}}))
    }

    /// A client with these capabilities.
    pub fn with(server: &Server, capabilities: Value) -> Modern {
        let accept = "application/json, text/event-stream".to_owned();
        Modern {
            addr: server.addr,
            capabilities,
            numbers: Arc::new(AtomicU64::new(1)),
            accept,
            authorization: None,
        }
    }

    /// The headers and the body of a request.
    pub fn request(&self, method: &str, mut params: Value) -> (Vec<(String, String)>, Value) {
        let id = self.numbers.fetch_add(1, Ordering::Relaxed);
        let mut meta = params.get("_meta").cloned().unwrap_or_else(|| json!({}));
        meta["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
        meta["io.modelcontextprotocol/clientInfo"] = json!({"name": "test", "version": "1"});
        meta["io.modelcontextprotocol/clientCapabilities"] = self.capabilities.clone();
        params["_meta"] = meta;
        let mut headers = vec![
            ("Accept".to_owned(), self.accept.clone()),
            ("MCP-Protocol-Version".to_owned(), "2026-07-28".to_owned()),
            ("Mcp-Method".to_owned(), method.to_owned()),
        ];
        headers.extend(self.authorization.clone().map(|shown| ("Authorization".to_owned(), shown)));
        let name = ["name", "uri", "taskId"].iter().find_map(|key| params.get(*key)?.as_str());
        if let Some(name) = name {
            headers.push(("Mcp-Name".to_owned(), header::encode(name).into_owned()));
        }
        (headers, json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
    }

    /// Sends a request and returns the response as it begins.
    pub async fn open(&self, method: &str, params: Value) -> Response {
        let (headers, body) = self.request(method, params);
        let headers: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        http::send(self.addr, "POST", &headers, body.to_string().as_bytes()).await
    }

    /// Sends a request and waits for its answer.
    pub async fn ask(&self, method: &str, params: Value) -> Answer {
        self.open(method, params).await.answer().await
    }

    /// Calls a tool with steps.
    pub async fn tool(&self, name: &str, what: Value) -> Answer {
        self.ask("tools/call", json!({"name": name, "arguments": steps(&what)})).await
    }

    /// Calls a tool that becomes a task and returns its id.
    pub async fn task(&self, name: &str, what: Value) -> String {
        self.tool(name, what).await.task()
    }

    /// Where a task stands.
    pub async fn get(&self, id: &str) -> Value {
        self.ask("tasks/get", json!({"taskId": id})).await.result().clone()
    }

    /// Polls until the task has this status.
    pub async fn until(&self, id: &str, status: &str) -> Value {
        eventually(&format!("{status} of a task"), || async {
            let task = self.get(id).await;
            let now = task["status"].as_str().unwrap_or_default();
            let over = matches!(now, "completed" | "failed" | "cancelled");
            assert!(!over || now == status, "wanted {status}: {task}");
            (now == status).then_some(task)
        })
        .await
    }

    /// Answers questions of a task.
    pub async fn update(&self, id: &str, answers: Value) -> Answer {
        self.ask("tasks/update", json!({"taskId": id, "inputResponses": answers})).await
    }

    /// Subscribes to tasks.
    pub async fn listen(&self, ids: &[&str]) -> Response {
        self.open("subscriptions/listen", json!({"notifications": {"taskIds": ids}})).await
    }
}
