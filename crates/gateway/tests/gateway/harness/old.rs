//! A client of 2025-11-25 or earlier over HTTP, with a session.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use super::http::{self, Response};
use super::{Answer, Server, eventually, steps};

/// The client.
#[derive(Clone)]
pub struct Old {
    addr: SocketAddr,
    /// The session's id.
    pub session: String,
    version: String,
    numbers: Arc<AtomicU64>,
    /// What `initialize` was answered.
    pub initialized: Value,
    /// What its requests say in `Accept`.
    pub accept: String,
    /// What its requests say in `Authorization`, if anything.
    pub authorization: Option<String>,
}

impl Old {
    /// Opens a session of 2025-11-25 that can be asked everything and knows tasks.
    pub async fn open(server: &Server) -> Old {
        Old::with(server, "2025-11-25", json!({"elicitation": {}, "sampling": {}, "roots": {}, "tasks": {}}))
            .await
    }

    /// Opens a session.
    pub async fn with(server: &Server, version: &str, capabilities: Value) -> Old {
        Old::shown(server, version, capabilities, None).await
    }

    /// Opens a session of 2025-11-25 and shows this token, now and later.
    pub async fn of(server: &Server, token: &str) -> Old {
        Old::shown(server, "2025-11-25", json!({"elicitation": {}, "tasks": {}}), Some(token)).await
    }

    /// Opens a session, with a token if there is one to be shown.
    pub async fn shown(server: &Server, version: &str, capabilities: Value, token: Option<&str>) -> Old {
        let authorization = token.map(|token| format!("Bearer {token}"));
        let accept = "application/json, text/event-stream".to_owned();
        let params = json!({
            "protocolVersion": version,
            "capabilities": capabilities,
            "clientInfo": {"name": "test", "version": "1"},
        });
        let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).to_string();
        let mut headers = vec![("Accept", accept.as_str())];
        headers.extend(authorization.as_deref().map(|shown| ("Authorization", shown)));
        let response = http::send(server.addr, "POST", &headers, body.as_bytes()).await;
        let session = response.header("mcp-session-id").map(ToOwned::to_owned);
        let answer = response.answer().await;
        let initialized = answer.result().clone();
        let version = initialized["protocolVersion"].as_str().expect("a version").to_owned();
        let session = session.expect("a session");
        let old = Old {
            addr: server.addr,
            session,
            version,
            numbers: Arc::new(AtomicU64::new(1)),
            initialized,
            accept,
            authorization,
        };
        assert_eq!(
            old.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await.status,
            202
        );
        old
    }

    /// Where it is connected to.
    pub fn address(&self) -> SocketAddr {
        self.addr
    }

    /// The same session, presented to another server.
    pub fn moved_to(mut self, server: &Server) -> Old {
        self.addr = server.addr;
        self
    }

    async fn send(&self, verb: &str, mut headers: Vec<(&str, &str)>, body: &[u8]) -> Response {
        headers.push(("Mcp-Session-Id", &self.session));
        headers.extend(self.authorization.as_deref().map(|shown| ("Authorization", shown)));
        http::send(self.addr, verb, &headers, body).await
    }

    /// Posts a message and returns the response as it begins.
    pub async fn post(&self, message: &Value) -> Response {
        let headers = vec![("Accept", self.accept.as_str()), ("MCP-Protocol-Version", self.version.as_str())];
        self.send("POST", headers, message.to_string().as_bytes()).await
    }

    /// Opens the general stream.
    pub async fn stream(&self) -> Response {
        self.send("GET", vec![("Accept", "text/event-stream")], b"").await
    }

    /// Ends the session.
    pub async fn end(&self) -> u16 {
        self.send("DELETE", Vec::new(), b"").await.status
    }

    /// Sends a request and returns the response as it begins, and the request's id.
    pub async fn begin(&self, method: &str, params: Value) -> Response {
        let id = self.numbers.fetch_add(1, Ordering::Relaxed);
        self.post(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await
    }

    /// Sends a request and waits for its answer.
    pub async fn ask(&self, method: &str, params: Value) -> Answer {
        self.begin(method, params).await.answer().await
    }

    /// Calls a tool plainly.
    pub async fn tool(&self, name: &str, what: Value) -> Answer {
        self.ask("tools/call", json!({"name": name, "arguments": steps(&what)})).await
    }

    /// Calls a tool as a task.
    pub async fn augmented(&self, name: &str, what: Value) -> Answer {
        self.ask("tools/call", json!({"name": name, "arguments": steps(&what), "task": {}})).await
    }

    /// Where a task stands.
    pub async fn get(&self, id: &str) -> Value {
        self.ask("tasks/get", json!({"taskId": id})).await.result().clone()
    }

    /// Polls until the task has this status.
    pub async fn until(&self, id: &str, status: &str) -> Value {
        eventually(&format!("{status} of a task"), || async {
            let task = self.get(id).await;
            (task["status"] == status).then_some(task)
        })
        .await
    }

    /// Answers a request of the server.
    pub async fn respond(&self, id: &Value, result: Value) {
        let response = self.post(&json!({"jsonrpc": "2.0", "id": id, "result": result})).await;
        assert_eq!(response.status, 202);
    }
}
