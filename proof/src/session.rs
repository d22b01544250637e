//! The words of 2025-11-25 over HTTP: a session, and JSON answers.

use std::io;
use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::http::{Http, Response};
use crate::modern::answer;

/// A client with a session.
pub struct Session {
    http: Http,
    id: String,
}

impl Session {
    /// Opens a session at 2025-11-25.
    pub fn open(address: SocketAddr) -> Session {
        Session::try_open(address).unwrap_or_else(|error| panic!("no session: {error}"))
    }

    /// The same where the server may die meanwhile.
    pub fn try_open(address: SocketAddr) -> io::Result<Session> {
        let mut http = Http::new(address);
        let body =
            json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": initialize("2025-11-25") });
        let response = http.post(&[], &body.to_string())?;
        answer(&response.body).unwrap_or_else(|error| panic!("initialize was refused: {error}"));
        let id = response.header("mcp-session-id").expect("a session id").to_owned();
        let mut session = Session { http, id };
        let response =
            session.try_post(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))?;
        assert_eq!(response.status, 202, "{response:?}");
        Ok(session)
    }

    /// Leaves the connection; the session stays.
    pub fn reconnect(&mut self) {
        self.http.reconnect();
    }

    /// Posts a message and returns the answer as it came.
    pub fn post(&mut self, message: &Value) -> Response {
        self.try_post(message).unwrap_or_else(|error| panic!("no answer: {error}"))
    }

    /// The same where the server may die before it answers.
    pub fn try_post(&mut self, message: &Value) -> io::Result<Response> {
        let headers = [("Mcp-Session-Id", self.id.as_str()), ("MCP-Protocol-Version", "2025-11-25")];
        self.http.post(&headers, &message.to_string())
    }

    /// Sends a request and returns the answer as it came. The same question has the same bytes each time.
    pub fn ask(&mut self, method: &str, params: &Value) -> Response {
        self.post(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }))
    }

    /// Posts a message as a client that reads streams, and returns all that comes back, the answer last, and whether that
    /// was a stream. It must end soon.
    pub fn stream(&mut self, message: &Value) -> (bool, Vec<Value>) {
        let headers = [
            ("Accept", "text/event-stream"),
            ("Mcp-Session-Id", self.id.as_str()),
            ("MCP-Protocol-Version", "2025-11-25"),
        ];
        let response = self
            .http
            .post(&headers, &message.to_string())
            .unwrap_or_else(|error| panic!("no answer: {error}"));
        let parse = |text: &str| serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
        if response.header("content-type") != Some("text/event-stream") {
            return (false, vec![parse(&response.body)]);
        }
        let data = response.body.lines().filter_map(|line| line.strip_prefix("data: "));
        (true, data.filter(|data| !data.is_empty()).map(parse).collect())
    }

    /// Sends a request and returns the result or the error.
    pub fn call(&mut self, method: &str, params: &Value) -> Result<Value, Value> {
        answer(&self.ask(method, params).body)
    }

    /// Calls a tool as a task and returns the task's id.
    pub fn create(&mut self, tool: &str, arguments: Value) -> String {
        let params = json!({ "name": tool, "arguments": arguments, "task": {} });
        let created = self.call("tools/call", &params).unwrap_or_else(|error| panic!("{tool}: {error}"));
        created["task"]["taskId"].as_str().expect("an id").to_owned()
    }
}

/// The params of `initialize` of a client that can do everything.
pub fn initialize(version: &str) -> Value {
    json!({
        "protocolVersion": version,
        "capabilities": { "elicitation": {}, "sampling": {} },
        "clientInfo": { "name": "proof", "version": "1" },
    })
}
