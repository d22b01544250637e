//! HTTP/1.1 by hand: every header is the test's own, and streams are read as they come.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use taskgate_gateway::Gateway;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::{Answer, logs, soon};

/// A gateway that serves HTTP on a port of its own.
#[derive(Clone)]
pub struct Server {
    /// Where.
    pub addr: SocketAddr,
    /// The gateway.
    pub gateway: Gateway,
    stop: Arc<Mutex<Option<oneshot::Sender<()>>>>,
    task: Arc<Mutex<Option<JoinHandle<std::io::Result<()>>>>>,
}

impl Server {
    /// Serves a gateway.
    pub async fn start(gateway: Gateway) -> Server {
        logs::watch();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let addr = listener.local_addr().expect("an address");
        let (stop, stopped) = oneshot::channel();
        let served = gateway.clone();
        let task = tokio::spawn(async move {
            served
                .serve_http(listener, async {
                    let _ = stopped.await;
                })
                .await
        });
        let (stop, task) = (Arc::new(Mutex::new(Some(stop))), Arc::new(Mutex::new(Some(task))));
        Server { addr, gateway, stop, task }
    }

    /// Begins the shutdown.
    pub fn stop(&self) {
        drop(self.stop.lock().take());
    }

    /// Waits for the end of the shutdown.
    pub async fn stopped(&self) {
        let task = self.task.lock().take().expect("stopped once");
        soon("the end of the shutdown", task).await.expect("no panic").expect("served");
    }
}

/// A response whose body may still be coming.
pub struct Response {
    /// The status.
    pub status: u16,
    /// The headers, with names in lower case.
    pub headers: Vec<(String, String)>,
    body: Body,
}

struct Body {
    reader: BufReader<TcpStream>,
    left: Left,
    text: Vec<u8>,
}

enum Left {
    Bytes(usize),
    Chunks,
    UntilClosed,
}

/// Sends a request on a connection of its own and reads the head of the response.
pub async fn send(addr: SocketAddr, verb: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
    let stream = TcpStream::connect(addr).await.expect("connected");
    send_on(stream, verb, headers, body).await
}

/// The same to another path than the endpoint's.
pub async fn send_to(addr: SocketAddr, verb: &str, path: &str, body: &[u8]) -> Response {
    let stream = TcpStream::connect(addr).await.expect("connected");
    send_all(stream, verb, path, &[], body).await
}

/// The same on this connection.
pub async fn send_on(stream: TcpStream, verb: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
    send_all(stream, verb, "/mcp", headers, body).await
}

async fn send_all(
    mut stream: TcpStream,
    verb: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Response {
    stream.set_nodelay(true).expect("nodelay");
    let mut head = format!("{verb} {path} HTTP/1.1\r\n");
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        head.push_str("Host: 127.0.0.1\r\n");
    }
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if verb == "POST" {
        head.push_str(&format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len()));
    }
    head.push_str("\r\n");
    let bytes = [head.as_bytes(), body].concat();
    // A server that has read enough may answer and close before everything is sent.
    let _ = stream.write_all(&bytes).await;
    read_head(stream).await
}

/// Reads the head of a response.
pub async fn read_head(stream: TcpStream) -> Response {
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        let read = soon("a response", reader.read_line(&mut line)).await.expect("a line");
        assert!(read > 0, "the connection was closed before a response: {lines:?}");
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        lines.push(line.to_owned());
    }
    let status = lines[0].split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let headers: Vec<(String, String)> = lines[1..]
        .iter()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let find = |name: &str| headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    let left = match (find("content-length"), find("transfer-encoding")) {
        (Some(length), _) => Left::Bytes(length.parse().expect("a length")),
        (None, Some(_)) => Left::Chunks,
        (None, None) => Left::UntilClosed,
    };
    Response { status, headers, body: Body { reader, left, text: Vec::new() } }
}

impl Response {
    /// A header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Whether the body is a stream of events.
    pub fn is_stream(&self) -> bool {
        self.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream"))
    }

    /// The whole body.
    pub async fn text(mut self) -> String {
        let mut text = std::mem::take(&mut self.body.text);
        while let Some(chunk) = self.body.chunk().await {
            text.extend(chunk);
        }
        String::from_utf8(text).expect("UTF-8")
    }

    /// The next message of a stream; `None` when it has ended.
    pub async fn event(&mut self) -> Option<String> {
        soon("an event", self.next_event()).await
    }

    /// The next message, however long it takes. Priming events have no data and are passed over.
    pub async fn next_event(&mut self) -> Option<String> {
        loop {
            let text = &self.body.text;
            if let Some(end) = text.windows(2).position(|two| two == b"\n\n") {
                let event: Vec<u8> = self.body.text.drain(..end + 2).collect();
                let event = String::from_utf8(event).expect("UTF-8");
                let mut data = event.lines().filter_map(|line| line.strip_prefix("data: "));
                if let Some(data) = data.next().filter(|data| !data.is_empty()) {
                    return Some(data.to_owned());
                }
                continue;
            }
            let chunk = self.body.chunk().await?;
            self.body.text.extend(chunk);
        }
    }

    /// The answer to the request: the whole body, or the response at the end of a stream.
    pub async fn answer(mut self) -> Answer {
        let status = self.status;
        if !self.is_stream() {
            let raw = self.text().await;
            let json = if raw.is_empty() { Value::Null } else { parse(&raw) };
            return Answer { status, raw, json, before: Vec::new() };
        }
        let mut before = Vec::new();
        loop {
            let raw = self.event().await.unwrap_or_else(|| panic!("no answer on the stream: {before:?}"));
            let json = parse(&raw);
            if json.get("method").is_none() {
                return Answer { status, raw, json, before };
            }
            before.push(json);
        }
    }

    /// The connection, when the body was read to its end.
    pub async fn drained(mut self) -> TcpStream {
        while self.body.chunk().await.is_some() {}
        self.body.reader.into_inner()
    }
}

fn parse(raw: &str) -> Value {
    serde_json::from_str(raw).unwrap_or_else(|error| panic!("{error}: {}", &raw[..raw.len().min(300)]))
}

impl Body {
    async fn chunk(&mut self) -> Option<Vec<u8>> {
        match self.left {
            Left::Bytes(0) => None,
            Left::Bytes(length) => {
                let mut bytes = vec![0; length];
                soon("a body", self.reader.read_exact(&mut bytes)).await.expect("a body");
                self.left = Left::Bytes(0);
                Some(bytes)
            }
            Left::Chunks => {
                let mut size = String::new();
                // A connection that breaks off ends the stream.
                if self.reader.read_line(&mut size).await.ok()? == 0 {
                    return None;
                }
                let size = usize::from_str_radix(size.trim(), 16).expect("a size");
                let mut bytes = vec![0; size + 2];
                self.reader.read_exact(&mut bytes).await.ok()?;
                bytes.truncate(size);
                if size == 0 {
                    self.left = Left::Bytes(0);
                    return None;
                }
                Some(bytes)
            }
            Left::UntilClosed => {
                let mut bytes = Vec::new();
                self.reader.read_to_end(&mut bytes).await.ok()?;
                self.left = Left::Bytes(0);
                Some(bytes)
            }
        }
    }
}
