//! A client of one version on one transport, which answers whatever it is asked.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::Version;
use crate::harness::pipe::modern_meta;
use crate::harness::{Modern, Old, Pipe, Server, soon};

/// How a client and the gateway are connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    Http,
    Stdio,
}

/// What came of a request.
#[derive(Debug)]
pub struct Talk {
    /// The response or error.
    pub answer: Value,
    /// Notifications that came on its way.
    pub notes: Vec<Value>,
}

impl Talk {
    /// The notification with this method, if it came.
    pub fn note(&self, method: &str) -> Option<&Value> {
        self.notes.iter().find(|note| note["method"] == method)
    }

    /// The first text of the result.
    pub fn text(&self) -> &str {
        self.answer["result"]["content"][0]["text"].as_str().unwrap_or_default()
    }
}

/// The client.
pub struct Client {
    version: Version,
    link: Link,
}

enum Link {
    Session(Old, General),
    Stateless(Modern),
    Pipe(Box<Pipe>),
}

/// A request that waits for ever, and how to give it up.
pub enum Held {
    Posted(JoinHandle<()>),
    Id(Value),
}

impl Client {
    pub async fn connect(version: Version, wire: Wire, server: &Server) -> Client {
        let modern = version == Version::V2026;
        let link = match wire {
            Wire::Http if modern => Link::Stateless(Modern::with(server, capabilities(version))),
            Wire::Http => {
                let old = Old::with(server, version.date(), capabilities(version)).await;
                assert_eq!(old.initialized["protocolVersion"], version.date());
                let general = General::open(&old).await;
                Link::Session(old, general)
            }
            Wire::Stdio => {
                let mut pipe = Pipe::start(&server.gateway);
                if !modern {
                    let answer = pipe.initialize(version.date(), capabilities(version)).await;
                    assert_eq!(answer.result()["protocolVersion"], version.date());
                }
                Link::Pipe(Box::new(pipe))
            }
        };
        Client { version, link }
    }

    fn modern(&self) -> bool {
        self.version == Version::V2026
    }

    /// Makes a request and sees it through, whatever is asked meanwhile.
    pub async fn ask(&mut self, method: &str, params: Value) -> Talk {
        soon(method, self.see_through(method, params)).await
    }

    async fn see_through(&mut self, method: &str, mut params: Value) -> Talk {
        let mut notes = Vec::new();
        loop {
            let mut answer = self.once(method, params.clone(), &mut notes).await;
            if answer["result"]["resultType"] != "input_required" {
                if let Link::Session(_, general) = &self.link {
                    notes.extend(general.take());
                }
                return Talk { answer, notes };
            }
            let result = answer["result"].take();
            let asked = result["inputRequests"].as_object().cloned().unwrap_or_default();
            params["inputResponses"] = asked.iter().map(|(key, asked)| (key.clone(), say(asked))).collect();
            if let Some(state) = result.get("requestState") {
                params["requestState"] = state.clone();
            }
        }
    }

    async fn once(&mut self, method: &str, mut params: Value, notes: &mut Vec<Value>) -> Value {
        let modern = self.modern();
        match &mut self.link {
            Link::Session(old, _) => {
                let mut response = old.begin(method, params).await;
                if !response.is_stream() {
                    return response.answer().await.json;
                }
                loop {
                    let event = response.event().await.expect("an answer");
                    let message: Value = serde_json::from_str(&event).expect("JSON");
                    match (message.get("method"), message.get("id")) {
                        (None, _) => return message,
                        (Some(_), Some(id)) => old.respond(id, say(&message)).await,
                        (Some(_), None) => notes.push(message),
                    }
                }
            }
            Link::Stateless(modern) => {
                let answer = modern.ask(method, params).await;
                notes.extend(answer.before);
                answer.json
            }
            Link::Pipe(pipe) => {
                if modern {
                    let mut meta = modern_meta(capabilities(Version::V2026));
                    for (name, value) in params["_meta"].as_object().into_iter().flatten() {
                        meta[name] = value.clone();
                    }
                    params["_meta"] = meta;
                }
                let id = pipe.begin(method, params).await;
                loop {
                    let line = pipe.line().await.expect("a line");
                    let message: Value = serde_json::from_str(&line).expect("JSON");
                    match (message.get("method"), message.get("id")) {
                        (None, Some(answered)) if *answered == id => return message,
                        (None, _) => panic!("an answer to something else: {message}"),
                        (Some(_), Some(asked)) => pipe.respond(asked, say(&message)).await,
                        (Some(_), None) => notes.push(message),
                    }
                }
            }
        }
    }

    /// Begins a call that waits for ever.
    pub async fn hold(&mut self) -> Held {
        let params = json!({"name": "hold", "arguments": {}});
        match &mut self.link {
            Link::Session(old, _) => {
                let (old, id) = (old.clone(), json!("held"));
                let message = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
                tokio::spawn(async move { drop(old.post(&message).await.text().await) });
                Held::Id(id)
            }
            Link::Stateless(modern) => {
                let modern = modern.clone();
                Held::Posted(tokio::spawn(async move { drop(modern.ask("tools/call", params).await) }))
            }
            Link::Pipe(pipe) => {
                let mut params = params;
                if self.version == Version::V2026 {
                    params["_meta"] = modern_meta(capabilities(Version::V2026));
                }
                Held::Id(json!(pipe.begin("tools/call", params).await))
            }
        }
    }

    /// Gives up a call as this version and transport do: by closing its stream or by saying so.
    pub async fn cancel(&mut self, held: Held) {
        let id = match held {
            Held::Posted(posted) => {
                posted.abort();
                return;
            }
            Held::Id(id) => id,
        };
        let message =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
        match &mut self.link {
            Link::Session(old, _) => assert_eq!(old.post(&message).await.status, 202),
            Link::Stateless(_) => unreachable!("a posted request is given up by closing it"),
            Link::Pipe(pipe) => pipe.write(format!("{message}\n").as_bytes()).await,
        }
    }

    /// Subscribes to the resource, has it changed by `touch`, and returns the notification of that.
    pub async fn subscribed(&mut self, touch: impl Future<Output = ()>) -> Value {
        let updated = "notifications/resources/updated";
        let filter = json!({"notifications": {"resourceSubscriptions": ["matrix://a"]}});
        match &mut self.link {
            Link::Session(old, general) => {
                let answer = old.ask("resources/subscribe", json!({"uri": "matrix://a"})).await;
                assert_eq!(answer.json["result"], json!({}), "{}", answer.raw);
                touch.await;
                let note = general.next(updated).await;
                let answer = old.ask("resources/unsubscribe", json!({"uri": "matrix://a"})).await;
                assert_eq!(answer.json["result"], json!({}), "{}", answer.raw);
                note
            }
            Link::Stateless(modern) => {
                let mut stream = modern.open("subscriptions/listen", filter).await;
                let first = stream.event().await.expect("an acknowledgement");
                assert!(first.contains("notifications/subscriptions/acknowledged"), "{first}");
                touch.await;
                serde_json::from_str(&stream.event().await.expect("a notification")).expect("JSON")
            }
            Link::Pipe(pipe) if self.version == Version::V2026 => {
                let mut params = filter;
                params["_meta"] = modern_meta(capabilities(Version::V2026));
                let id = pipe.begin("subscriptions/listen", params).await;
                pipe.find(|message| message["method"] == "notifications/subscriptions/acknowledged").await;
                touch.await;
                let note = pipe.find(|message| message["method"] == updated).await;
                let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
                pipe.write(format!("{cancel}\n").as_bytes()).await;
                note
            }
            Link::Pipe(pipe) => {
                let answer = pipe.ask("resources/subscribe", json!({"uri": "matrix://a"})).await;
                assert_eq!(answer.json["result"], json!({}), "{}", answer.raw);
                touch.await;
                let note = pipe.find(|message| message["method"] == updated).await;
                let answer = pipe.ask("resources/unsubscribe", json!({"uri": "matrix://a"})).await;
                assert_eq!(answer.json["result"], json!({}), "{}", answer.raw);
                note
            }
        }
    }
}

/// What a client of a version can declare.
fn capabilities(version: Version) -> Value {
    let mut all = json!({"sampling": {}, "roots": {}});
    if version >= Version::V2025Jun {
        all["elicitation"] = json!({});
    }
    all
}

/// What this client says when it is asked.
fn say(asked: &Value) -> Value {
    match asked["method"].as_str().unwrap_or_default() {
        "elicitation/create" => json!({"action": "accept", "content": {"name": "Ada"}}),
        "sampling/createMessage" => {
            json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "said"}})
        }
        "roots/list" => json!({"roots": [{"uri": "file:///r"}]}),
        "ping" => json!({}),
        other => panic!("asked for {other}"),
    }
}

/// A session's general stream, read all the time.
struct General {
    notes: Arc<(Mutex<VecDeque<Value>>, Notify)>,
    reader: JoinHandle<()>,
}

impl General {
    async fn open(old: &Old) -> General {
        let mut stream = old.stream().await;
        assert_eq!(stream.status, 200);
        let notes: Arc<(Mutex<VecDeque<Value>>, Notify)> = Arc::default();
        let (kept, old) = (notes.clone(), old.clone());
        let reader = tokio::spawn(async move {
            while let Some(event) = stream.next_event().await {
                let Ok(message) = serde_json::from_str::<Value>(&event) else { continue };
                match message.get("id") {
                    Some(id) => old.respond(id, say(&message)).await,
                    None => {
                        kept.0.lock().push_back(message);
                        kept.1.notify_one();
                    }
                }
            }
        });
        General { notes, reader }
    }

    fn take(&self) -> Vec<Value> {
        self.notes.0.lock().drain(..).collect()
    }

    async fn next(&self, method: &str) -> Value {
        soon(method, async {
            loop {
                let changed = self.notes.1.notified();
                if let Some(note) = self.take().into_iter().find(|note| note["method"] == method) {
                    return note;
                }
                changed.await;
            }
        })
        .await
    }
}

impl Drop for General {
    fn drop(&mut self) {
        self.reader.abort();
    }
}
