//! Sessions over HTTP, with the test as the server, byte for byte.

mod auth;
mod broken;
mod come_back;
mod discovery;
mod in_session;
mod stateless;

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Value, json};
use taskgate_task::Payload;
use taskgate_wire::Version;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::session::{
    CallEvent, CallFailure, CallOptions, Lane, OpenError, OpenOptions, PendingCall, Session,
};

pub(super) const MODERN: Lane = Lane::Modern(Version::V2026_07_28);
pub(super) const LEGACY: Lane = Lane::Legacy(Version::V2025_11_25);

/// A server whose every answer is written by the test.
pub(super) struct Script {
    listener: TcpListener,
}

/// One request and the connection it came by, which is for it alone.
pub(super) struct Exchange {
    pub method: String,
    pub path: String,
    pub headers: HashMap<String, String>,
    pub body: Value,
    stream: TcpStream,
}

pub(super) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("in time")
}

impl Script {
    pub async fn start() -> Script {
        Script { listener: TcpListener::bind(("127.0.0.1", 0)).await.expect("a port") }
    }

    pub fn url(&self) -> String {
        format!("http://{}/mcp?key=sesame", self.listener.local_addr().expect("bound"))
    }

    pub fn server(&self) -> HttpServer {
        HttpServer::new(ServerUrl::parse(&self.url()).expect("a URL"))
    }

    /// The next request, whatever it is.
    pub async fn next(&self) -> Exchange {
        let (stream, _) = soon(self.listener.accept()).await.expect("accept");
        soon(Exchange::read(stream)).await
    }

    /// The next request, which must be this one.
    pub async fn expect(&self, method: &str) -> Exchange {
        let exchange = self.next().await;
        assert_eq!(exchange.body["method"], method, "{} {}", exchange.method, exchange.body);
        exchange
    }

    /// Whether nothing arrives for a moment.
    pub async fn is_silent(&self) -> bool {
        tokio::time::timeout(Duration::from_millis(150), self.listener.accept()).await.is_err()
    }

    /// Opens a session of 2025-11-25 under the id `s1`; the general stream is not offered.
    pub async fn legacy(&self, server: &HttpServer) -> Session {
        let link = connect(server).expect("connect");
        let options = OpenOptions { prefer: Version::V2025_11_25, ..OpenOptions::new("test", "1") };
        let (session, ()) = tokio::join!(Session::open(link, options), async {
            self.initialize("s1").await;
            let general = self.next().await;
            assert_eq!(general.method, "GET");
            general.status("405 Method Not Allowed").await;
        });
        session.expect("open")
    }

    /// Answers `initialize` and what follows.
    pub async fn initialize(&self, id: &str) {
        let opening = self.expect("initialize").await;
        assert!(!opening.headers.contains_key("mcp-session-id"));
        assert!(!opening.headers.contains_key("mcp-protocol-version"));
        let result = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}});
        opening.answer_with(&format!("Mcp-Session-Id: {id}\r\n"), &result).await;
        let confirmed = self.expect("notifications/initialized").await;
        assert_eq!(confirmed.headers["mcp-session-id"], id);
        assert_eq!(confirmed.headers["mcp-protocol-version"], "2025-11-25");
        confirmed.status("202 Accepted").await;
    }

    /// Opens a conversation in 2026-07-28.
    pub async fn modern(&self, server: &HttpServer) -> Session {
        let link = connect(server).expect("connect");
        let (session, ()) = tokio::join!(Session::open(link, OpenOptions::new("test", "1")), async {
            let probe = self.expect("server/discover").await;
            assert_eq!(probe.headers["mcp-protocol-version"], "2026-07-28");
            assert_eq!(probe.headers["mcp-method"], "server/discover");
            probe.answer(&json!({"supportedVersions": ["2026-07-28"], "capabilities": {}})).await;
        });
        session.expect("open")
    }
}

impl Exchange {
    async fn read(mut stream: TcpStream) -> Exchange {
        let mut bytes = Vec::new();
        let end = loop {
            if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                break end;
            }
            assert!(stream.read_buf(&mut bytes).await.expect("read") > 0, "a whole head");
        };
        let head = String::from_utf8(bytes[..end].to_vec()).expect("text");
        let mut lines = head.split("\r\n");
        let mut first = lines.next().expect("a request line").split(' ').map(str::to_owned);
        let (method, path) = (first.next().expect("a method"), first.next().expect("a path"));
        let headers: HashMap<String, String> = lines
            .map(|line| line.split_once(": ").expect("a header"))
            .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
            .collect();
        let length = headers.get("content-length").map_or(0, |length| length.parse().expect("a length"));
        let mut body = bytes.split_off(end + 4);
        while body.len() < length {
            assert!(stream.read_buf(&mut body).await.expect("read") > 0, "a whole body");
        }
        let form = || Value::String(String::from_utf8_lossy(&body).into_owned());
        let body = serde_json::from_slice(&body).unwrap_or_else(|_| form());
        Exchange { method, path, headers, body, stream }
    }

    pub fn id(&self) -> Value {
        self.body["id"].clone()
    }

    pub async fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.expect("write");
    }

    /// A whole answer with these headers and this body.
    pub async fn respond(mut self, status: &str, headers: &str, body: &str) {
        let head = format!(
            "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n{headers}\r\n",
            body.len()
        );
        self.send(&format!("{head}{body}")).await;
        let _ = self.stream.shutdown().await;
    }

    pub async fn status(self, status: &str) {
        self.respond(status, "", "").await;
    }

    pub async fn answer(self, result: &Value) {
        self.answer_with("", result).await;
    }

    pub async fn answer_with(self, headers: &str, result: &Value) {
        let body = json!({"jsonrpc": "2.0", "id": self.id(), "result": result}).to_string();
        self.respond("200 OK", &format!("Content-Type: application/json; charset=utf-8\r\n{headers}"), &body)
            .await;
    }

    pub async fn fail(self, status: &str, error: &Value) {
        let body = json!({"jsonrpc": "2.0", "id": null, "error": error}).to_string();
        self.respond(status, "Content-Type: application/json\r\n", &body).await;
    }

    /// Begins a stream of events that ends with the connection.
    pub async fn stream(&mut self) {
        self.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/event-stream\r\n\r\n").await;
    }

    pub async fn event(&mut self, message: &Value) {
        self.send(&format!("data: {message}\n\n")).await;
    }

    pub async fn result(mut self, result: &Value) {
        let message = json!({"jsonrpc": "2.0", "id": self.id(), "result": result});
        self.event(&message).await;
    }

    /// Waits until the other side has let go of the connection.
    pub async fn gone(mut self) {
        let mut rest = Vec::new();
        // Whether it says goodbye or not.
        let _ = soon(self.stream.read_to_end(&mut rest)).await;
        assert!(rest.is_empty());
    }
}

pub(super) fn call(session: &Session, lane: Lane, name: &str) -> PendingCall {
    let params = json(&json!({"name": name, "arguments": {}}));
    session.call(lane, "tools/call", Some(params.as_raw()), CallOptions::default())
}

pub(super) fn json(value: &Value) -> Payload {
    Payload::from_value(value).expect("JSON")
}

/// How a call ended, as a JSON value, or why it has no result.
pub(super) async fn outcome(call: PendingCall) -> Result<Value, CallFailure> {
    let result = soon(call.outcome()).await?;
    Ok(serde_json::from_str(result.as_str()).expect("JSON"))
}

/// The failure of a call that the transport has no answer for.
pub(super) async fn failure(call: PendingCall) -> RequestFailure {
    match outcome(call).await {
        Err(CallFailure::Request(failure)) => {
            let text = failure.to_string();
            assert!(text.contains("http://127.0.0.1") && !text.contains("sesame"), "{text}");
            failure
        }
        other => panic!("no failure of the transport: {other:?}"),
    }
}
