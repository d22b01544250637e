//! The words of 2026-07-28: every request brings everything itself.

use std::io;
use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::TASKS_EXTENSION;
use crate::http::{Http, Response};

/// The version spoken here.
pub const VERSION: &str = "2026-07-28";

/// What a client declares that can do everything, tasks included.
pub fn capabilities() -> Value {
    json!({ "elicitation": { "form": {} }, "sampling": {}, "extensions": { TASKS_EXTENSION: {} } })
}

/// A request with these capabilities in its `_meta`.
pub fn request(id: Value, method: &str, mut params: Value, capabilities: &Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientInfo": { "name": "proof", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    });
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

/// A client over HTTP.
pub struct Modern {
    http: Http,
}

impl Modern {
    /// Of this server.
    pub fn new(address: SocketAddr) -> Modern {
        Modern { http: Http::new(address) }
    }

    /// Sends a request and returns the answer as it came. The same question has the same bytes each time.
    pub fn ask(&mut self, method: &str, params: Value) -> io::Result<Response> {
        let name = ["name", "taskId"].iter().find_map(|key| params[*key].as_str()).map(str::to_owned);
        let body = request(json!(1), method, params, &capabilities()).to_string();
        let mut headers = vec![("MCP-Protocol-Version", VERSION), ("Mcp-Method", method)];
        headers.extend(name.as_deref().map(|name| ("Mcp-Name", name)));
        self.http.post(&headers, &body)
    }

    /// Sends a request that must be answered, and returns the result or the error.
    pub fn call(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let response =
            self.ask(method, params).unwrap_or_else(|error| panic!("{method} got no answer: {error}"));
        answer(&response.body)
    }

    /// Calls a tool that becomes a task; `None` if the server was gone before the handle was here.
    pub fn create(&mut self, tool: &str, arguments: Value) -> Option<String> {
        let response = self.ask("tools/call", json!({ "name": tool, "arguments": arguments })).ok()?;
        let created = answer(&response.body).unwrap_or_else(|error| panic!("{tool} was refused: {error}"));
        assert_eq!(created["resultType"], "task", "{created}");
        Some(created["taskId"].as_str().expect("an id").to_owned())
    }

    /// `tasks/get`.
    #[track_caller]
    pub fn get(&mut self, id: &str) -> Value {
        self.call("tasks/get", json!({ "taskId": id }))
            .unwrap_or_else(|error| panic!("{id} is lost: {error}"))
    }

    /// Polls until the task has this status.
    #[track_caller]
    pub fn until(&mut self, id: &str, status: &str) -> Value {
        crate::wait::until(&format!("{status} of {id}"), || {
            let task = self.get(id);
            (task["status"] == status).then_some(task)
        })
    }
}

/// Takes an answer apart.
pub fn answer(text: &str) -> Result<Value, Value> {
    let mut message: Value =
        serde_json::from_str(text).unwrap_or_else(|error| panic!("not a message: {error}: {text}"));
    match message.get_mut("result") {
        Some(result) => Ok(result.take()),
        None => Err(message["error"].take()),
    }
}
