//! A server of exactly one version, in this program. It holds whoever calls it to that version: what does not belong
//! there is noted as a fault.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use taskgate_client::transport::Inbound;
use taskgate_client::transport::memory::{self, FarEnd};
use taskgate_gateway::{UpstreamKind, UpstreamSpec};
use taskgate_task::Payload;
use taskgate_wire::{Id, Message};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;

use super::Version;
use crate::harness::soon;

const META: &str = "io.modelcontextprotocol/";

/// The server as the tests see it. Clones are the same one.
#[derive(Clone)]
pub struct Strict(Arc<Inner>);

struct Inner {
    version: Version,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    faults: Vec<String>,
    link: Option<mpsc::Sender<Inbound>>,
    numbers: u64,
    pending: HashMap<u64, oneshot::Sender<Value>>,
    running: HashMap<Id, JoinHandle<()>>,
    holding: usize,
    cancelled: usize,
    level: Option<String>,
    /// Whoever subscribed to the resource: requests of 2026-07-28, or one session (`None`).
    subscribed: Vec<Option<Id>>,
}

impl Strict {
    pub fn new(version: Version) -> Strict {
        Strict(Arc::new(Inner { version, state: Mutex::default(), changed: Notify::new() }))
    }

    pub fn spec(&self) -> UpstreamSpec {
        let server = self.clone();
        let connect = move || {
            let (link, far) = memory::pair(256);
            server.change(|state| state.link = Some(far.out.clone()));
            tokio::spawn(server.clone().serve(far));
            link
        };
        UpstreamSpec::new("strict", UpstreamKind::InProcess(Arc::new(connect)))
    }

    /// What callers did wrong so far.
    pub fn faults(&self) -> Vec<String> {
        std::mem::take(&mut self.0.state.lock().faults)
    }

    /// Waits until a call to `hold` has begun.
    pub async fn held(&self) {
        self.until("a call that holds", |state| state.holding > 0).await;
    }

    /// Waits until that call was cancelled.
    pub async fn cancelled(&self) {
        self.until("its cancellation", |state| std::mem::take(&mut state.cancelled) > 0).await;
    }

    /// Waits until somebody has subscribed to the resource, and changes it.
    pub async fn touch(&self) {
        self.until("a subscription", |state| !state.subscribed.is_empty()).await;
        let (link, subscribed) = {
            let state = self.0.state.lock();
            (state.link.clone().expect("a connection"), state.subscribed.clone())
        };
        for subscriber in subscribed {
            let mut params = json!({"uri": "matrix://a"});
            if let Some(id) = subscriber {
                params["_meta"] = json!({"io.modelcontextprotocol/subscriptionId": value(id.as_str())});
            }
            let _ = link.send(notification("notifications/resources/updated", &params)).await;
        }
    }

    /// Waits until nobody is subscribed any more.
    pub async fn unsubscribed(&self) {
        self.until("the end of the subscription", |state| state.subscribed.is_empty()).await;
    }

    async fn until(&self, what: &str, mut is: impl FnMut(&mut State) -> bool) {
        soon(what, async {
            loop {
                let changed = self.0.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                if is(&mut self.0.state.lock()) {
                    return;
                }
                changed.await;
            }
        })
        .await;
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.0.state.lock());
        self.0.changed.notify_waiters();
    }

    pub fn version(&self) -> Version {
        self.0.version
    }

    /// What belongs to no request is said here from now on.
    pub fn speak_on(&self, out: mpsc::Sender<Inbound>) {
        self.change(|state| state.link = Some(out));
    }

    pub fn fault(&self, what: String) {
        self.change(|state| state.faults.push(what));
    }

    fn modern(&self) -> bool {
        self.0.version == Version::V2026
    }

    pub async fn serve(self, far: FarEnd) {
        let FarEnd { mut inbox, out } = far;
        while let Some(message) = inbox.recv().await {
            match message {
                Message::Request { id, method, params } => {
                    let params = params.map_or_else(|| json!({}), |params| value(params.as_str()));
                    self.inspect(&method, &params);
                    let (server, answer_to) = (self.clone(), id.clone());
                    let (said, mine) = (out.clone(), out.clone());
                    let run = tokio::spawn(async move {
                        let call = Call { server: server.clone(), out: mine, id: answer_to.clone(), params };
                        if let Some(answer) = call.answer(&method).await {
                            server.0.state.lock().running.remove(&answer_to);
                            let _ = said.send(reply(answer_to, answer)).await;
                        }
                    });
                    self.change(|state| {
                        state.running.insert(id, run);
                    });
                }
                Message::Notification { method, params } => {
                    let params = params.map_or(Value::Null, |params| value(params.as_str()));
                    self.heard(&method, &params);
                }
                Message::Response { id, result } => self.settle(&id, value(result.as_str())),
                Message::Error { id: Some(id), .. } => self.settle(&id, json!({"refused": true})),
                Message::Error { id: None, .. } => {}
            }
        }
    }

    fn settle(&self, id: &Id, answer: Value) {
        let number = id.as_number().unwrap_or_default();
        if self.modern() {
            self.fault("a 2026-07-28 server asks nothing, but got an answer".to_owned());
        }
        if let Some(waiting) = self.0.state.lock().pending.remove(&number) {
            let _ = waiting.send(answer);
        }
    }

    pub fn heard(&self, method: &str, params: &Value) {
        match method {
            "notifications/cancelled" => {
                let id = serde_json::value::to_raw_value(&params["requestId"]).ok();
                let Some(id) = id.and_then(|raw| Id::from_raw(&raw)) else {
                    return self.fault(format!("no id to cancel: {params}"));
                };
                self.change(|state| {
                    let running = state.running.remove(&id);
                    let subscribers = state.subscribed.len();
                    state.subscribed.retain(|subscriber| subscriber.as_ref() != Some(&id));
                    if let Some(running) = running
                        && state.subscribed.len() == subscribers
                    {
                        running.abort();
                        state.holding = state.holding.saturating_sub(1);
                        state.cancelled += 1;
                    }
                });
            }
            "notifications/initialized" if !self.modern() => {}
            "notifications/roots/list_changed" | "notifications/progress" => {}
            other => self.fault(format!("a notification this version does not have: {other}")),
        }
    }

    /// What every request of a version must, and must not, carry.
    fn inspect(&self, method: &str, params: &Value) {
        let meta = &params["_meta"];
        let of_2026 = ["protocolVersion", "clientCapabilities", "clientInfo", "logLevel"];
        let has = |name: &&str| !meta[format!("{META}{name}")].is_null();
        let probe = matches!(method, "server/discover" | "initialize");
        if self.modern() {
            for name in ["protocolVersion", "clientCapabilities"].iter().filter(|name| !has(name)) {
                if method != "initialize" {
                    self.fault(format!("{method} without {name}"));
                }
            }
            if !["initialize"].contains(&method) && meta[format!("{META}protocolVersion")] != "2026-07-28" {
                self.fault(format!("{method} of version {}", meta[format!("{META}protocolVersion")]));
            }
        } else if !probe {
            for name in of_2026.iter().filter(|name| has(name)) {
                self.fault(format!("{method} with {name}"));
            }
        }
        let removed =
            ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"];
        let added = ["server/discover", "subscriptions/listen"];
        let wrong: &[&str] = if self.modern() { &removed[1..] } else { &added[1..] };
        if wrong.contains(&method) {
            self.fault(format!("{method} does not exist in {}", self.0.version.date()));
        }
    }
}

/// A request being answered.
struct Call {
    server: Strict,
    out: mpsc::Sender<Inbound>,
    id: Id,
    params: Value,
}

type Answer = Result<Value, Value>;

fn unknown(method: &str) -> Answer {
    Err(json!({"code": -32601, "message": format!("Method not found: {method}")}))
}

fn text(text: &str) -> Answer {
    Ok(json!({"content": [{"type": "text", "text": text}]}))
}

impl Call {
    async fn answer(&self, method: &str) -> Option<Answer> {
        let modern = self.server.modern();
        let answer = match method {
            "initialize" if !modern => Ok(json!({
                "protocolVersion": self.server.0.version.date(),
                "capabilities": self.capabilities(),
                "serverInfo": {"name": "strict", "version": "1"},
            })),
            "server/discover" if modern => Ok(json!({
                "supportedVersions": ["2026-07-28"],
                "capabilities": self.capabilities(),
                "ttlMs": 0, "cacheScope": "private",
            })),
            "ping" if !modern => Ok(json!({})),
            "logging/setLevel" if !modern => {
                let level = self.params["level"].as_str().map(ToOwned::to_owned);
                self.server.change(|state| state.level = level);
                Ok(json!({}))
            }
            "resources/subscribe" | "resources/unsubscribe" if !modern => {
                self.server.change(|state| {
                    state.subscribed.clear();
                    if method == "resources/subscribe" {
                        state.subscribed.push(None);
                    }
                });
                Ok(json!({}))
            }
            "subscriptions/listen" if modern => {
                self.listen().await;
                return None;
            }
            "tools/list" => Ok(json!({"tools": TOOLS.map(|name| {
                json!({"name": name, "inputSchema": {"type": "object"}, "x-unknown": {"kept": 1.0}})
            })})),
            "prompts/list" => Ok(json!({"prompts": [{"name": "greet", "x-unknown": [1e3]}]})),
            "prompts/get" => Ok(json!({"messages": [{"role": "user", "content":
                {"type": "text", "text": format!("Hello {}", self.params["arguments"]["who"].as_str().unwrap_or("?"))}}]})),
            "resources/list" => Ok(json!({"resources": [{"name": "a", "uri": "matrix://a"}]})),
            "resources/templates/list" => Ok(json!({"resourceTemplates": []})),
            "resources/read" => match self.params["uri"].as_str() {
                Some(uri @ "matrix://a") => Ok(json!({"contents": [{"uri": uri, "text": "A"}]})),
                other if modern => {
                    Err(json!({"code": -32602, "message": "Resource not found", "data": {"uri": other}}))
                }
                other => {
                    Err(json!({"code": -32002, "message": "Resource not found", "data": {"uri": other}}))
                }
            },
            "completion/complete" => Ok(json!({"completion": {"values": ["ada"], "hasMore": false}})),
            "tools/call" => self.tool().await?,
            other => unknown(other),
        };
        Some(answer.map(|mut result| {
            if modern && result.get("resultType").is_none() {
                result["resultType"] = json!("complete");
            }
            if modern && (method.ends_with("/list") || method == "resources/read") {
                result["ttlMs"] = json!(0);
                result["cacheScope"] = json!("private");
            }
            result
        }))
    }

    fn capabilities(&self) -> Value {
        json!({
            "tools": {}, "prompts": {}, "completions": {}, "logging": {},
            "resources": {"subscribe": true},
        })
    }

    async fn listen(&self) {
        let asked = &self.params["notifications"];
        let mine =
            asked["resourceSubscriptions"].as_array().is_some_and(|uris| uris.contains(&json!("matrix://a")));
        let params = json!({
            "_meta": {"io.modelcontextprotocol/subscriptionId": value(self.id.as_str())},
            "notifications": asked,
        });
        self.say("notifications/subscriptions/acknowledged", &params).await;
        if mine {
            self.server.change(|state| state.subscribed.push(Some(self.id.clone())));
        }
        std::future::pending::<()>().await;
    }

    async fn tool(&self) -> Option<Answer> {
        let token = &self.params["_meta"]["progressToken"];
        Some(match self.params["name"].as_str().unwrap_or_default() {
            "echo" => text(self.params["arguments"]["text"].as_str().unwrap_or("?")),
            "fail" => Err(json!({"code": -32050, "message": "No.", "data": {"why": [1.0, null]}})),
            "progress" => {
                for done in 1..3 {
                    let params = json!({"progressToken": token, "progress": done, "total": 2});
                    self.say("notifications/progress", &params).await;
                }
                text("done")
            }
            "log" => {
                let level = self.server.0.state.lock().level.clone();
                let asked = self.params["_meta"][format!("{META}logLevel")].as_str().map(ToOwned::to_owned);
                if level.or(asked).is_some_and(|level| level == "info") {
                    let params = json!({"level": "info", "logger": "strict", "data": {"said": 1.0}});
                    self.say("notifications/message", &params).await;
                }
                text("done")
            }
            "elicit" if self.server.0.version >= Version::V2025Jun => {
                self.ask(
                    "elicitation",
                    "elicitation/create",
                    json!({
                        "message": "Name?",
                        "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
                    }),
                )
                .await
            }
            "sample" => {
                self.ask(
                    "sampling",
                    "sampling/createMessage",
                    json!({
                        "messages": [{"role": "user", "content": {"type": "text", "text": "?"}}],
                        "maxTokens": 9,
                    }),
                )
                .await
            }
            "roots" => self.ask("roots", "roots/list", json!({})).await,
            "hold" => {
                self.server.change(|state| state.holding += 1);
                std::future::pending::<()>().await;
                return None;
            }
            other => Err(json!({"code": -32602, "message": format!("Unknown tool: {other}")})),
        })
    }

    /// Asks as the version asks, and answers the call with what was answered.
    async fn ask(&self, capability: &str, method: &str, params: Value) -> Answer {
        let answer = if self.server.modern() {
            if self.params["_meta"][format!("{META}clientCapabilities")][capability].is_null() {
                return text("refused");
            }
            match self.params["inputResponses"]["q"].clone() {
                Value::Null => {
                    return Ok(json!({
                        "resultType": "input_required", "requestState": "s",
                        "inputRequests": {"q": {"method": method, "params": params}},
                    }));
                }
                answer if self.params["requestState"] == "s" => answer,
                _ => {
                    self.server.fault("answers without the state".to_owned());
                    Value::Null
                }
            }
        } else {
            let (sender, answer) = oneshot::channel();
            let mut number = 0;
            self.server.change(|state| {
                state.numbers += 1;
                number = state.numbers;
                state.pending.insert(number, sender);
            });
            let params = Some(Payload::from_value(&params).expect("JSON"));
            let message = Message::Request { id: Id::number(number), method: method.to_owned(), params };
            // As over stdio: nothing says which call asks.
            let _ = self.out.send(message.into()).await;
            answer.await.unwrap_or(Value::Null)
        };
        if answer["refused"] == true {
            return text("refused");
        }
        text(&answer.to_string())
    }

    async fn say(&self, method: &str, params: &Value) {
        let _ = self.out.send(notification(method, params)).await;
    }
}

/// The tools of every version; `elicit` can be called only where the version has it.
const TOOLS: [&str; 8] = ["echo", "fail", "progress", "log", "elicit", "sample", "roots", "hold"];

fn notification(method: &str, params: &Value) -> Inbound {
    let params = Some(Payload::from_value(params).expect("JSON"));
    Message::Notification { method: method.to_owned(), params }.into()
}

fn reply(id: Id, answer: Answer) -> Inbound {
    match answer {
        Ok(result) => Message::Response { id, result: Payload::from_value(&result).expect("JSON") }.into(),
        Err(error) => {
            Message::Error { id: Some(id), error: Payload::from_value(&error).expect("JSON") }.into()
        }
    }
}

fn value(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}
