//! A gateway with two callers and a server behind it, all within this process and at a time that stands still.

use std::cell::RefCell;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Request};
use serde_json::{Value, json};
use taskgate_client::transport::{Inbound, memory};
use taskgate_gateway::access::{AccessConfig, Resource, Rights, StaticToken, TokenHash};
use taskgate_gateway::{Gateway, Settings, ToolPolicy, UpstreamKind, UpstreamSpec};
use taskgate_task::Payload;
use taskgate_wire::{Message, header};
use tower::ServiceExt;

/// What the tasks of one caller hold, and nobody else may see.
pub const MARK: &str = "what only ann may see";

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// The session, if one was opened.
    pub session: Option<String>,
    /// The body, as far as it came while nobody waited.
    pub text: String,
}

impl Answer {
    /// The messages in it, whether it is a stream or not.
    pub fn messages(&self) -> Vec<Value> {
        match serde_json::from_str(&self.text) {
            Ok(Value::Array(several)) => several,
            Ok(one) => vec![one],
            Err(_) => {
                let data = self.text.lines().filter_map(|line| line.strip_prefix("data: "));
                data.filter(|data| !data.is_empty()).map(|data| serde_json::from_str(data).unwrap()).collect()
            }
        }
    }
}

/// Two gateways that nothing but what they are asked tells apart, with a clock that goes on only when everybody waits.
struct Pair {
    runtime: tokio::runtime::Runtime,
    gateways: [Gateway; 2],
    uses: usize,
}

thread_local! {
    static PAIR: RefCell<Option<Pair>> = const { RefCell::new(None) };
}

/// After how many uses there are two new ones. Making them takes long, and what has been asked before should matter little.
const USES: usize = 300;

/// Does something with two gateways.
pub fn run<F: Future<Output = ()>>(what: impl FnOnce(Gateway, Gateway) -> F) {
    let known = PAIR.take().filter(|pair| pair.uses < USES);
    let mut pair = known.unwrap_or_else(|| {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let gateways = runtime.block_on(async { [gateway().await, gateway().await] });
        Pair { runtime, gateways, uses: 0 }
    });
    let [one, other] = pair.gateways.clone();
    pair.runtime.block_on(what(one, other));
    pair.uses += 1;
    PAIR.set(Some(pair));
}

/// A gateway. Its server has the tools `echo`, `always`, which is a task and never ends, and `mirrored`, whose arguments go into
/// headers.
async fn gateway() -> Gateway {
    let tokens = ["ann", "bob"].map(|name| StaticToken {
        name: name.to_owned(),
        hash: TokenHash::of(name),
        scopes: Vec::new(),
    });
    let auth = AccessConfig {
        resource: Resource::parse("https://gate.example/mcp").unwrap(),
        issuers: Vec::new(),
        tokens: tokens.into(),
        certificates: None,
        proxy: None,
        rights: Rights::default(),
        reach: Default::default(),
    };
    let settings = Settings { auth: Some(auth), max_message: 100_000, ..Settings::default() };
    let server = UpstreamKind::InProcess(Arc::new(|| {
        let (link, far) = memory::pair(64);
        tokio::spawn(serve(far));
        link
    }));
    let upstream = UpstreamSpec::new("upstream", server);
    let builder = Gateway::builder().add(upstream).tool("always", ToolPolicy::always()).settings(settings);
    builder.build().await.unwrap()
}

async fn serve(mut far: memory::FarEnd) {
    while let Some(message) = far.inbox.recv().await {
        let Message::Request { id, method, params } = message else { continue };
        let given =
            params.map_or(Value::Null, |params| serde_json::from_str(params.as_str()).unwrap_or_default());
        let result = match method.as_str() {
            "initialize" => json!({
                "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
                "serverInfo": { "name": "x", "version": "1" },
            }),
            "tools/list" => json!({ "tools": [
                { "name": "echo", "inputSchema": { "type": "object" } },
                { "name": "always", "inputSchema": { "type": "object" } },
                { "name": "mirrored", "inputSchema": { "type": "object", "properties": {
                    "where": { "type": "string", "x-mcp-header": "Where" },
                    "count": { "type": "integer", "x-mcp-header": "Count" },
                } } },
            ] }),
            "tools/call" if given["name"] == "always" => continue,
            "tools/call" => {
                json!({ "content": [{ "type": "text", "text": given["arguments"].to_string() }] })
            }
            _ => {
                let error =
                    Payload::from_value(&json!({ "code": -32601, "message": "no such method" })).unwrap();
                let _ = far.out.send(Inbound::from(Message::Error { id: Some(id), error })).await;
                continue;
            }
        };
        let result = Payload::from_value(&result).unwrap();
        if far.out.send(Inbound::from(Message::Response { id, result })).await.is_err() {
            return;
        }
    }
}

/// Sends a request. Names and values that no header can have are left out.
pub async fn send(gateway: &Gateway, verb: &str, headers: &[(String, Vec<u8>)], body: Vec<u8>) -> Answer {
    let mut request = Request::builder().method(verb).uri("/mcp").body(Body::from(body)).unwrap();
    for (name, value) in headers {
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_bytes(value)) {
            request.headers_mut().append(name, value);
        }
    }
    let Ok(response) = gateway.router().oneshot(request).await;
    let status = response.status().as_u16();
    let session = response.headers().get("mcp-session-id").map(|id| id.to_str().unwrap().to_owned());
    let mut text = Vec::new();
    let mut body = response.into_body();
    // A stream may have no end; what is not there when everybody waits will not come.
    let patience = std::time::Duration::from_millis(2);
    while let Ok(Some(Ok(frame))) = tokio::time::timeout(patience, frame(&mut body)).await {
        text.extend_from_slice(&frame.into_data().unwrap_or_default());
    }
    Answer { status, session, text: String::from_utf8(text).unwrap() }
}

async fn frame(body: &mut Body) -> Option<Result<http_body::Frame<axum::body::Bytes>, axum::Error>> {
    std::future::poll_fn(|context| http_body::Body::poll_frame(std::pin::Pin::new(body), context)).await
}

/// The headers and the body of a request of 2026-07-28.
pub fn modern(who: &str, method: &str, mut params: Value) -> (Vec<(String, Vec<u8>)>, Value) {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "x", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": { "extensions": { "io.modelcontextprotocol/tasks": {} } },
    });
    let mut headers = vec![
        ("authorization".to_owned(), format!("Bearer {who}").into_bytes()),
        ("mcp-protocol-version".to_owned(), b"2026-07-28".to_vec()),
        ("mcp-method".to_owned(), method.into()),
    ];
    if let Some(name) = params["name"].as_str().or(params["taskId"].as_str()) {
        headers.push(("mcp-name".to_owned(), header::encode(name).as_bytes().to_vec()));
    }
    (headers, json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }))
}

/// Makes such a request, which must be answered with a result.
pub async fn ask(gateway: &Gateway, who: &str, method: &str, params: Value) -> Value {
    let (headers, body) = modern(who, method, params);
    let answer = send(gateway, "POST", &headers, body.to_string().into_bytes()).await;
    let mut messages = answer.messages();
    let last = messages.pop().unwrap_or_default();
    assert!(last["result"].is_object(), "{answer:?}");
    last["result"].clone()
}
