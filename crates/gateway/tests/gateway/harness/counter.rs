//! A server of 2025-11-25 over HTTP that remembers something in each session: how often it was counted, what was learned, who wants
//! to hear what. Tasks it keeps for whoever asks for them.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use futures_util::StreamExt;
use parking_lot::Mutex;
use serde_json::{Value, json};
use taskgate_gateway::{HttpServer, ServerUrl, UpstreamKind, UpstreamSpec};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};

use super::soon;

/// The server.
#[derive(Clone)]
pub struct Counter {
    pub addr: SocketAddr,
    known: Arc<Mutex<Known>>,
    gate: watch::Sender<bool>,
    news: watch::Sender<u64>,
    stop: Arc<Mutex<Option<oneshot::Sender<()>>>>,
}

#[derive(Default)]
struct Known {
    /// Whether requests bring their own metadata and there are no sessions.
    modern: bool,
    sessions: HashMap<String, Remembered>,
    opened: usize,
    ended: Vec<String>,
    tasks: usize,
    /// What was asked: the session, the method, and the tool or the task.
    asked: Vec<(String, String, String)>,
}

#[derive(Default)]
struct Remembered {
    count: u64,
    has_learned: bool,
    general: Option<mpsc::UnboundedSender<Value>>,
}

impl Counter {
    /// Starts one.
    pub async fn start() -> Counter {
        Counter::at(([127, 0, 0, 1], 0).into(), false).await.expect("a port")
    }

    /// Starts one of 2026-07-28, which has no sessions.
    pub async fn modern() -> Counter {
        Counter::at(([127, 0, 0, 1], 0).into(), true).await.expect("a port")
    }

    /// Starts one here, of 2026-07-28 or not, if nobody else is here.
    pub async fn at(addr: SocketAddr, modern: bool) -> Option<Counter> {
        let listener = TcpListener::bind(addr).await.ok()?;
        let addr = listener.local_addr().expect("an address");
        let known = Arc::new(Mutex::new(Known { modern, ..Known::default() }));
        let (gate, news) = (watch::Sender::new(false), watch::Sender::new(0));
        let (stop, stopped) = oneshot::channel::<()>();
        let stop = Arc::new(Mutex::new(Some(stop)));
        let counter = Counter { addr, known, gate, news, stop };
        let routes =
            Router::new().route("/mcp", post(message).get(general).delete(end)).with_state(counter.clone());
        tokio::spawn(async move {
            tokio::select! {
                ended = async { axum::serve(listener, routes).await } => ended,
                _ = stopped => Ok(()),
            }
        });
        Some(counter)
    }

    /// Lets nobody in any more.
    pub fn stop(&self) {
        drop(self.stop.lock().take());
    }

    /// As an upstream.
    pub fn spec(&self, name: &str) -> UpstreamSpec {
        let url = ServerUrl::parse(&format!("http://{}/mcp", self.addr)).expect("a URL");
        UpstreamSpec::new(name, UpstreamKind::Http(HttpServer::new(url)))
    }

    /// How many sessions there are.
    pub fn sessions(&self) -> usize {
        self.known.lock().sessions.len()
    }

    /// How many were opened in all.
    pub fn opened(&self) -> usize {
        self.known.lock().opened
    }

    /// The sessions that were ended, in order.
    pub fn ended(&self) -> Vec<String> {
        self.known.lock().ended.clone()
    }

    /// In which sessions something was asked, each once, in order.
    pub fn where_asked(&self, method: &str, about: &str) -> Vec<String> {
        let mut sessions: Vec<String> = Vec::new();
        for (session, asked, of) in &self.known.lock().asked {
            if asked == method && of == about && !sessions.contains(session) {
                sessions.push(session.clone());
            }
        }
        sessions
    }

    /// How often a task was asked about.
    pub fn times_asked(&self, method: &str, about: &str) -> usize {
        self.known.lock().asked.iter().filter(|(_, asked, of)| asked == method && of == about).count()
    }

    /// Waits until this is so.
    pub async fn until(&self, what: &str, is_so: impl Fn(&Counter) -> bool) {
        let mut news = self.news.subscribe();
        soon(what, async {
            while !is_so(self) {
                news.changed().await.expect("news");
            }
        })
        .await;
    }

    /// Lets what waits go on.
    pub fn open_gate(&self) {
        self.gate.send_replace(true);
    }

    /// Says something on the general stream of a session.
    pub fn say(&self, session: &str, method: &str, params: Value) {
        let known = self.known.lock();
        let general = known.sessions[session].general.as_ref().expect("a general stream");
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        general.send(message).expect("somebody listens");
    }

    fn note(&self, session: &str, method: &str, about: &str) {
        self.known.lock().asked.push((session.to_owned(), method.to_owned(), about.to_owned()));
        self.news.send_modify(|news| *news += 1);
    }
}

async fn message(State(counter): State<Counter>, headers: HeaderMap, body: String) -> Response {
    let message: Value = serde_json::from_str(&body).expect("JSON");
    let Some(id) = message.get("id").cloned() else { return StatusCode::ACCEPTED.into_response() };
    let method = message["method"].as_str().expect("a method").to_owned();
    let params = message["params"].clone();
    let modern = counter.known.lock().modern;
    let error = |code: i64, text: &str| {
        json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text}}).to_string()
    };
    let json = [("content-type", "application/json")];
    if method == "initialize" {
        let mut known = counter.known.lock();
        known.opened += 1;
        let name = format!("session-{}", known.opened);
        known.sessions.insert(name.clone(), Remembered::default());
        let said = json!({"protocolVersion": "2025-11-25", "serverInfo": {"name": "counter", "version": "1"},
            "capabilities": {"tools": {"listChanged": true}, "logging": {}, "resources": {"subscribe": true},
                "tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}}});
        let body = json!({"jsonrpc": "2.0", "id": id, "result": said}).to_string();
        return (json, [("mcp-session-id", name)], body).into_response();
    }
    let session = headers.get("mcp-session-id").map(|id| id.to_str().expect("text").to_owned());
    let session = match session {
        Some(session) if counter.known.lock().sessions.contains_key(&session) => session,
        Some(_) => return (StatusCode::NOT_FOUND, json, error(-32600, "session not found")).into_response(),
        None if modern => "none".to_owned(),
        None => return (StatusCode::BAD_REQUEST, json, error(-32601, "no session")).into_response(),
    };
    let about = [&params["name"], &params["taskId"], &params["level"], &params["uri"]];
    let about = about.iter().find_map(|about| about.as_str()).unwrap_or_default().to_owned();
    counter.note(&session, &method, &about);
    let result = match method.as_str() {
        "server/discover" => json!({"supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}}, "serverInfo": {"name": "counter", "version": "1"}}),
        "tools/list" => {
            let mut names = vec!["count", "learn", "hold", "work"];
            let learned = counter.known.lock().sessions.get(&session).is_some_and(|known| known.has_learned);
            names.extend(learned.then_some("learned"));
            let tools: Vec<Value> = names
                .into_iter()
                .map(|name| {
                    let mut tool = json!({"name": name, "inputSchema": {"type": "object"}});
                    if name == "work" {
                        tool["execution"] = json!({"taskSupport": "optional"});
                    }
                    tool
                })
                .collect();
            json!({ "tools": tools })
        }
        "tools/call" if about == "work" && params.get("task").is_some() => {
            let mut known = counter.known.lock();
            known.tasks += 1;
            json!({"task": task(&format!("task-{}", known.tasks), "working")})
        }
        "tools/call" => text(&call(&counter, &session, &about).await),
        "tasks/get" => {
            let status = if *counter.gate.borrow() { "completed" } else { "working" };
            task(&about, status)
        }
        "tasks/result" => text(&format!("result of {about}")),
        "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe" | "tasks/cancel" => json!({}),
        _ => return (json, error(-32601, "Method not found")).into_response(),
    };
    let mut result = result;
    if modern {
        result["resultType"] = json!("complete");
    }
    (json, json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()).into_response()
}

async fn call(counter: &Counter, session: &str, tool: &str) -> String {
    match tool {
        "hold" => {
            let mut gate = counter.gate.subscribe();
            gate.wait_for(|open| *open).await.expect("a gate");
            "held".to_owned()
        }
        "learn" => {
            let mut known = counter.known.lock();
            known.sessions.get_mut(session).expect("a session").has_learned = true;
            "learned".to_owned()
        }
        _ => {
            let mut known = counter.known.lock();
            let remembered = known.sessions.entry(session.to_owned()).or_default();
            remembered.count += 1;
            remembered.count.to_string()
        }
    }
}

fn text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

fn task(id: &str, status: &str) -> Value {
    json!({"taskId": id, "status": status, "createdAt": "2026-01-01T00:00:00Z",
        "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttl": null, "pollInterval": 20})
}

async fn general(State(counter): State<Counter>, headers: HeaderMap) -> Response {
    let session = headers["mcp-session-id"].to_str().expect("text").to_owned();
    let (say, said) = mpsc::unbounded_channel::<Value>();
    match counter.known.lock().sessions.get_mut(&session) {
        Some(known) => known.general = Some(say),
        None => return StatusCode::NOT_FOUND.into_response(),
    }
    counter.news.send_modify(|news| *news += 1);
    let said = futures_util::stream::unfold(said, async |mut said| Some((said.recv().await?, said)));
    Sse::new(said.map(|message| Ok::<_, Infallible>(Event::default().data(message.to_string()))))
        .into_response()
}

async fn end(State(counter): State<Counter>, headers: HeaderMap) -> StatusCode {
    let session = headers["mcp-session-id"].to_str().expect("text").to_owned();
    let mut known = counter.known.lock();
    known.sessions.remove(&session);
    known.ended.push(session);
    drop(known);
    counter.news.send_modify(|news| *news += 1);
    StatusCode::OK
}
