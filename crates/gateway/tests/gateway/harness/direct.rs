//! A client of sessions that hands its requests to the router itself: without sockets, so that the clock can be paused.

use std::collections::HashSet;
use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::http::{HeaderMap, Request};
use futures_util::StreamExt;
use serde_json::{Value, json};
use taskgate_gateway::{Gateway, Settings};
use tower::ServiceExt;

use super::{Board, builder, steps};

/// Longer than any test lets a stream be silent, in paused time.
pub const LONG: Duration = Duration::from_secs(1000);

/// The client.
#[derive(Clone)]
pub struct Direct {
    gateway: Gateway,
    /// The session's id.
    pub session: String,
}

/// A gateway in front of a board, for clients that need no sockets.
pub async fn gateway(board: &Board, settings: Settings) -> Gateway {
    builder(board).settings(settings).build().await.expect("gateway")
}

/// Waits until everybody has done what could be done: paused time goes on only then.
pub async fn settled() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// Hands one request to the gateway.
pub async fn send(gateway: &Gateway, verb: &str, headers: &[(&str, &str)], body: String) -> Reply {
    let mut request = Request::builder().method(verb).uri("/mcp");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Body::from(body)).expect("a request");
    let Ok(response) = gateway.router().oneshot(request).await;
    let (head, body) = response.into_parts();
    let body = body.into_data_stream();
    Reply {
        status: head.status.as_u16(),
        headers: head.headers,
        body,
        text: String::new(),
        last: String::new(),
    }
}

/// Sends `initialize`.
pub async fn initialize(gateway: &Gateway, version: &str) -> Reply {
    let params = json!({
        "protocolVersion": version,
        "capabilities": {"elicitation": {}, "sampling": {}, "roots": {}},
        "clientInfo": {"name": "test", "version": "1"},
    });
    let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    send(gateway, "POST", &[], body.to_string()).await
}

impl Direct {
    /// Opens a session.
    pub async fn open(gateway: &Gateway, version: &str) -> Direct {
        let opened = initialize(gateway, version).await;
        let session = opened.headers["mcp-session-id"].to_str().expect("an id").to_owned();
        assert_eq!(opened.json().await["result"]["protocolVersion"], version);
        Direct { gateway: gateway.clone(), session }
    }

    /// Posts a message.
    pub async fn post(&self, message: Value) -> Reply {
        send(&self.gateway, "POST", &[("Mcp-Session-Id", &self.session)], message.to_string()).await
    }

    /// Sends a request.
    pub async fn request(&self, id: u64, method: &str, params: Value) -> Reply {
        self.post(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await
    }

    /// Calls a tool that does these steps and is never a task; the progress token is the id.
    pub async fn call(&self, id: u64, what: Value) -> Reply {
        let params = json!({"name": "never", "arguments": steps(&what), "_meta": {"progressToken": id}});
        self.request(id, "tools/call", params).await
    }

    /// Answers a request of the server.
    pub async fn respond(&self, id: &Value, result: Value) {
        assert_eq!(self.post(json!({"jsonrpc": "2.0", "id": id, "result": result})).await.status, 202);
    }

    /// Opens the general stream.
    pub async fn general(&self) -> Reply {
        let headers = [("Mcp-Session-Id", self.session.as_str()), ("Accept", "text/event-stream")];
        send(&self.gateway, "GET", &headers, String::new()).await
    }

    /// Comes back to a stream after this event.
    pub async fn resume(&self, last: &str) -> Reply {
        let headers = [
            ("Mcp-Session-Id", self.session.as_str()),
            ("Accept", "text/event-stream"),
            ("Last-Event-ID", last),
        ];
        send(&self.gateway, "GET", &headers, String::new()).await
    }

    /// Ends the session.
    pub async fn end(&self) -> u16 {
        send(&self.gateway, "DELETE", &[("Mcp-Session-Id", &self.session)], String::new()).await.status
    }

    /// Whether the gateway knows the session: 404 is what everybody hears afterwards.
    pub async fn status(&self) -> u16 {
        self.request(1_000_000, "ping", json!({})).await.status
    }
}

/// A response whose body may still be coming. Dropping it breaks the connection.
pub struct Reply {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    body: BodyDataStream,
    text: String,
    /// The id of the last event.
    pub last: String,
}

impl Reply {
    /// Whether it is a stream of events.
    pub fn is_stream(&self) -> bool {
        self.headers.get("content-type").is_some_and(|kind| kind == "text/event-stream")
    }

    /// The body as JSON.
    pub async fn json(mut self) -> Value {
        while let Some(chunk) = self.body.next().await {
            self.text.push_str(std::str::from_utf8(&chunk.expect("a body")).expect("UTF-8"));
        }
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// The next event or comment as it stands on the stream; `None` when the connection has been closed.
    pub async fn block(&mut self) -> Option<String> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.text = rest;
                if let Some(id) = block.lines().find_map(|line| line.strip_prefix("id: ")) {
                    self.last = id.to_owned();
                }
                return Some(block);
            }
            let chunk = self.body.next().await?.expect("a body");
            self.text.push_str(std::str::from_utf8(&chunk).expect("UTF-8"));
        }
    }

    /// The next message; `None` when the connection has been closed. Comments come for ever, so this is what ends a wait.
    pub async fn message(&mut self) -> Option<Value> {
        let message = tokio::time::timeout(LONG, async {
            loop {
                let block = self.block().await?;
                let data = block.lines().find_map(|line| line.strip_prefix("data: "));
                if let Some(data) = data.filter(|data| !data.is_empty()) {
                    return Some(serde_json::from_str(data).expect("JSON"));
                }
            }
        });
        message.await.expect("neither a message nor the end of the stream")
    }

    /// All messages until the connection is closed.
    pub async fn rest(&mut self) -> Vec<Value> {
        let mut all = Vec::new();
        while let Some(message) = self.message().await {
            all.push(message);
        }
        all
    }
}

/// The progress that a message reports, or the text of the result it brings.
pub fn gist(message: &Value) -> Value {
    let progress = &message["params"]["progress"];
    if progress.is_null() { message["result"]["content"][0]["text"].clone() } else { progress.clone() }
}

/// The gists of many.
pub fn gists(messages: &[Value]) -> Value {
    messages.iter().map(gist).collect()
}

/// These steps report progress.
pub fn progress(numbers: impl IntoIterator<Item = u64>) -> Vec<Value> {
    numbers.into_iter().map(|n| json!({"progress": {"progress": n}})).collect()
}

/// The stream that the id of an event names.
pub fn stream_of(id: &str) -> &str {
    id.rsplit_once('-').expect("an id of ours").0
}

/// Fails if an id was seen before.
#[track_caller]
pub fn new(seen: &mut HashSet<String>, id: &str) {
    assert!(seen.insert(id.to_owned()), "{id} came twice");
}
