//! Every flow, with the test as the server, over memory and in paused time.

mod basics;
mod cancelling;
mod ends;
mod first;
mod hosting;
mod input;
#[cfg(feature = "ledger")]
mod ledger;
mod logs;
mod lost;
mod polling;
mod sessions;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use taskgate_task::Payload;
use taskgate_wire::{Id, Message};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::*;
use crate::transport::memory::{FarEnd, pair};
use crate::transport::{CloseCause, CloseReason, Inbound};

/// The pace of the tests: what the server says, without chance.
pub const EXACT: Pace = Pace { floor: Duration::from_millis(50), cap: Duration::from_secs(60), jitter: 0.0 };

/// Every connection that the client makes.
pub struct Script {
    connections: mpsc::UnboundedReceiver<FarEnd>,
    pub opened: Arc<AtomicUsize>,
    endpoint: Endpoint,
}

impl Script {
    pub fn new() -> Script {
        let (sender, connections) = mpsc::unbounded_channel();
        let opened = Arc::new(AtomicUsize::new(0));
        let count = opened.clone();
        let endpoint = Endpoint::memory("test", move || {
            let (link, far) = pair(64);
            count.fetch_add(1, Ordering::Relaxed);
            sender.send(far).expect("the test is there");
            link
        });
        Script { connections, opened, endpoint }
    }

    pub fn builder(&self) -> ClientBuilder {
        Client::builder(self.endpoint.clone()).pace(EXACT).deadline(Duration::from_secs(3600))
    }

    pub async fn next(&mut self) -> Server {
        let far = self.connections.recv().await.expect("a connection");
        Server { far, listen: None, told: Vec::new(), calls: 0, experimental: json!({}), logs: false }
    }

    /// A client and its server, in this version.
    pub async fn open(&mut self, builder: ClientBuilder, version: &str) -> (Client, Server) {
        let (client, server) = tokio::join!(builder.connect(), async {
            let mut server = self.next().await;
            server.open(version).await;
            server
        });
        (client.expect("connect"), server)
    }
}

/// A client with the usual options, and its server.
pub async fn open(version: &str) -> (Client, Server, Script) {
    let mut script = Script::new();
    let (client, server) = script.open(script.builder().answers(Answers::ELICITATION), version).await;
    (client, server, script)
}

pub const OLD: &str = "2025-11-25";
pub const NEW: &str = "2026-07-28";

/// The server's end of a connection.
pub struct Server {
    far: FarEnd,
    /// The subscription that is open.
    pub listen: Option<Id>,
    /// Notifications of the client.
    pub told: Vec<(String, Value)>,
    /// How often a tool was called.
    pub calls: u32,
    /// What it says beside the protocol.
    pub experimental: Value,
    /// Whether it says that it logs.
    pub logs: bool,
}

pub struct Request {
    pub id: Id,
    pub params: Value,
}

pub fn value(payload: &Payload) -> Value {
    serde_json::from_str(payload.as_str()).expect("JSON")
}

pub fn payload(value: &Value) -> Payload {
    Payload::from_value(value).expect("JSON")
}

impl Server {
    /// Opens the conversation in this version, as a server that hosts tasks if it can.
    pub async fn open(&mut self, version: &str) {
        let request = self.expect("server/discover").await;
        if version == NEW {
            let capabilities = json!({ "tools": {}, "experimental": self.experimental,
                "extensions": { "io.modelcontextprotocol/tasks": {} } });
            let said = json!({ "supportedVersions": [NEW], "capabilities": capabilities });
            return self.answer(&request, said).await;
        }
        self.fail(&request, -32601, "Method not found").await;
        self.initialize(version).await;
    }

    pub async fn initialize(&mut self, version: &str) {
        let request = self.expect("initialize").await;
        let tasks = json!({ "list": {}, "cancel": {}, "requests": { "tools": { "call": {} } } });
        let mut said = json!({ "protocolVersion": version, "capabilities": { "tools": { "listChanged": true } },
            "serverInfo": { "name": "s", "version": "1" } });
        if self.logs {
            said["capabilities"]["logging"] = json!({});
        }
        if version == OLD {
            said["capabilities"]["tasks"] = tasks;
            said["capabilities"]["experimental"] = self.experimental.clone();
        }
        self.answer(&request, said).await;
    }

    /// The next message, whatever it is; `None` if the client has gone.
    pub async fn message(&mut self) -> Option<Message> {
        self.far.inbox.recv().await
    }

    /// The next request, which must be this one. Notifications and subscriptions are taken note of on the way.
    pub async fn expect(&mut self, method: &str) -> Request {
        let (name, request) = self.request().await;
        assert_eq!(name, method, "{}", request.params);
        request
    }

    pub async fn request(&mut self) -> (String, Request) {
        loop {
            match self.message().await.expect("the client is there") {
                Message::Request { id, method, .. } if method == "subscriptions/listen" => {
                    self.listen = Some(id)
                }
                Message::Request { id, method, params } => {
                    self.calls += u32::from(method == "tools/call");
                    let params = params.as_ref().map_or(Value::Null, value);
                    if method == "tools/call" {
                        // Case 14.
                        assert!(params["_meta"]["progressToken"].is_number(), "{params}");
                    }
                    return (method, Request { id, params });
                }
                Message::Notification { method, params } => {
                    self.told.push((method, params.as_ref().map_or(Value::Null, value)));
                }
                other => panic!("not a request: {other:?}"),
            }
        }
    }

    /// The next answer of the client: a result, or an error.
    pub async fn response(&mut self) -> (Id, Result<Value, Value>) {
        loop {
            match self.message().await.expect("the client is there") {
                Message::Response { id, result } => return (id, Ok(value(&result))),
                Message::Error { id, error } => return (id.expect("an id"), Err(value(&error))),
                Message::Notification { .. } => {}
                other => panic!("not a response: {other:?}"),
            }
        }
    }

    /// Waits until the client says this.
    pub async fn hear(&mut self, method: &str) -> Value {
        loop {
            if let Some(place) = self.told.iter().position(|(name, _)| name == method) {
                return self.told.remove(place).1;
            }
            match self.message().await.expect("the client is there") {
                Message::Notification { method, params } => {
                    self.told.push((method, params.as_ref().map_or(Value::Null, value)));
                }
                Message::Request { id, method, .. } if method == "subscriptions/listen" => {
                    self.listen = Some(id)
                }
                other => panic!("not a notification: {other:?}"),
            }
        }
    }

    pub async fn say(&self, message: Message) {
        self.far.out.send(message.into()).await.expect("open");
    }

    pub async fn answer(&self, request: &Request, result: Value) {
        self.say(Message::Response { id: request.id.clone(), result: payload(&result) }).await;
    }

    pub async fn fail(&self, request: &Request, code: i64, message: &str) {
        self.fail_with(request, json!({ "code": code, "message": message })).await;
    }

    pub async fn fail_with(&self, request: &Request, error: Value) {
        let error = payload(&error);
        self.say(Message::Error { id: Some(request.id.clone()), error }).await;
    }

    pub async fn notify(&self, method: &str, params: Value) {
        self.say(Message::Notification { method: method.to_owned(), params: Some(payload(&params)) }).await;
    }

    /// Asks something during a request.
    pub async fn ask(&self, id: u64, method: &str, params: Value, origin: &Request) {
        let params = Some(payload(&params));
        let message = Message::Request { id: Id::number(id), method: method.to_owned(), params };
        let origin = Some(origin.id.clone());
        self.far.out.send(Inbound::Message { message, origin }).await.expect("open");
    }

    /// Tells the client of one of its requests that its answer was lost.
    pub async fn lose(&self, request: &Request, kind: crate::FailureKind) {
        let failure = crate::RequestFailure { kind, what: "lost".to_owned() };
        self.far.out.send(Inbound::Failed { id: request.id.clone(), failure }).await.expect("open");
    }

    /// Tells the client that this session is lost.
    pub async fn outdate(&self) {
        let reason = CloseReason::new(CloseCause::SessionLost("lost".to_owned()));
        self.far.out.send(Inbound::Stale(reason)).await.expect("open");
    }

    /// Ends the connection.
    pub async fn close(self) {
        let reason = CloseReason::new(CloseCause::Exited(1));
        self.far.out.send(Inbound::Closed(reason)).await.expect("open");
    }

    /// Answers `tools/list` with one tool that says this of tasks.
    pub async fn tools(&mut self, support: &str) {
        let request = self.expect("tools/list").await;
        let tool = json!({ "name": "t", "inputSchema": { "type": "object" }, "execution": { "taskSupport": support } });
        self.answer(&request, json!({ "tools": [tool] })).await;
    }

    /// Makes a task of a call, in the words of its generation.
    pub async fn accept(&self, request: &Request, version: &str, interval: u64) {
        let task = if version == OLD {
            json!({ "task": { "taskId": "T", "status": "working", "createdAt": "2026-01-01T00:00:00Z", "ttl": null, "pollInterval": interval } })
        } else {
            json!({ "resultType": "task", "taskId": "T", "status": "working", "pollIntervalMs": interval })
        };
        self.answer(request, task).await;
    }

    /// Answers `tasks/get`.
    pub async fn state(&mut self, status: &str, more: Value) -> Request {
        let request = self.expect("tasks/get").await;
        assert_eq!(request.params["taskId"], "T");
        let mut state = json!({ "taskId": "T", "status": status });
        state.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        self.answer(&request, state).await;
        request
    }

    /// Makes a task of the next call of `t`.
    pub async fn begin(&mut self, version: &str, interval: u64) -> Request {
        if version == OLD {
            self.tools("optional").await;
        }
        let request = self.expect("tools/call").await;
        assert_eq!(request.params["task"].is_object(), version == OLD, "{}", request.params);
        self.accept(&request, version, interval).await;
        request
    }

    /// Ends the task with a result, in the words of its generation.
    pub async fn complete(&mut self, version: &str) {
        if version == OLD {
            self.state("completed", json!({})).await;
            let request = self.expect("tasks/result").await;
            self.answer(&request, result("done")).await;
        } else {
            self.state("completed", json!({ "result": result("done") })).await;
        }
    }
}

/// A tool's result.
pub fn result(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}

pub fn form(message: &str) -> Value {
    json!({ "method": "elicitation/create", "params": { "message": message, "requestedSchema": { "type": "object" } } })
}

/// The events up to the end.
pub async fn events(call: &mut PendingCall) -> Vec<Event> {
    let mut events = Vec::new();
    while let Some(event) = call.next().await {
        events.push(event);
    }
    events
}

/// The next question.
pub async fn asked(call: &mut PendingCall) -> Input {
    loop {
        match call.next().await.expect("a question before the end") {
            Event::Asked(input) => return input,
            Event::Done => panic!("it is over"),
            _ => {}
        }
    }
}
