//! A job API that is strict about what it is asked and does what the tests tell it to: refuse, lose an answer, take its time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, Method, Response};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::eventually;

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Heard {
    pub method: Method,
    /// The path and the query, as they were sent.
    pub path: String,
    pub headers: HeaderMap,
    pub body: String,
}

impl Heard {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The body, which must be JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// The method and the parts of the path.
    pub fn line(&self) -> (&str, Vec<&str>) {
        (self.method.as_str(), self.path.split('/').skip(1).collect())
    }
}

/// What an API answers.
pub type Reply = (u16, Value);

/// An API: what it answers, and what it then is. Anything it does not expect is an `Err`.
pub trait Api: Send + 'static {
    /// A short name of what is asked, for twists.
    fn kind(&self, heard: &Heard) -> &'static str;
    fn answer(&mut self, heard: &Heard) -> Result<Reply, String>;
}

/// Something that goes wrong with the next request of a kind.
#[derive(Debug, Clone)]
pub enum Twist {
    /// It is refused, and nothing is done.
    Refuse(u16, &'static str),
    /// It is refused with a header, and nothing is done.
    RefuseWith(u16, &'static str, &'static str),
    /// It is done, and the answer is lost.
    Lose,
    /// It is done, and answered when the API is let go on.
    Hold,
    /// It is not done before the API is let go on.
    Delay,
}

/// A running API.
pub struct JobApi<A> {
    pub base: String,
    state: Arc<Mutex<State<A>>>,
    gate: watch::Sender<bool>,
}

struct State<A> {
    api: A,
    heard: Vec<Heard>,
    wrong: Vec<String>,
    twists: BTreeMap<&'static str, VecDeque<Twist>>,
}

impl<A: Api> JobApi<A> {
    pub async fn start(api: A) -> JobApi<A> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a socket");
        let base = format!("http://{}", listener.local_addr().expect("an address"));
        let state = State { api, heard: Vec::new(), wrong: Vec::new(), twists: BTreeMap::new() };
        let state = Arc::new(Mutex::new(state));
        let gate = watch::Sender::new(false);
        let (shared, opened) = (state.clone(), gate.subscribe());
        let app = Router::new().fallback(move |request: Request| {
            let (state, opened) = (shared.clone(), opened.clone());
            async move { answer(&state, opened, request).await }
        });
        tokio::spawn(async move { axum::serve(listener, app).await });
        JobApi { base, state, gate }
    }

    /// The next request of this kind has this twist.
    pub fn twist(&self, kind: &'static str, twist: Twist) {
        self.state.lock().twists.entry(kind).or_default().push_back(twist);
    }

    /// Lets everything go on that is held.
    pub fn open(&self) {
        self.gate.send_replace(true);
    }

    /// Looks at the API, or changes it.
    pub fn with<T>(&self, what: impl FnOnce(&mut A) -> T) -> T {
        what(&mut self.state.lock().api)
    }

    /// Waits until something holds of the API.
    pub async fn until<T>(&self, what: &str, mut is: impl FnMut(&mut A) -> Option<T>) -> T {
        eventually(what, || std::future::ready(self.with(&mut is))).await
    }

    /// The requests of a kind.
    pub fn heard(&self, kind: &str) -> Vec<Heard> {
        let state = self.state.lock();
        state.heard.iter().filter(|heard| state.api.kind(heard) == kind).cloned().collect()
    }

    /// Waits until so many requests of a kind have come.
    pub async fn heard_times(&self, kind: &str, times: usize) {
        eventually(&format!("{times} times {kind}"), || {
            std::future::ready((self.heard(kind).len() >= times).then_some(()))
        })
        .await;
    }

    /// Nothing was asked that the API does not know.
    #[track_caller]
    pub fn is_content(&self) {
        let state = self.state.lock();
        assert!(state.wrong.is_empty(), "{:#?}", state.wrong);
        let left: usize = state.twists.values().map(VecDeque::len).sum();
        assert_eq!(left, 0, "not everything was asked: {:?}", state.twists);
    }
}

async fn answer<A: Api>(
    state: &Mutex<State<A>>,
    mut opened: watch::Receiver<bool>,
    request: Request,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, 1 << 20).await.expect("a body");
    let heard = Heard {
        method: parts.method,
        path: parts.uri.to_string(),
        headers: parts.headers,
        body: String::from_utf8(body.to_vec()).expect("text"),
    };
    let twist = {
        let mut state = state.lock();
        state.heard.push(heard.clone());
        let kind = state.api.kind(&heard);
        state.twists.get_mut(kind).and_then(VecDeque::pop_front)
    };
    match twist {
        Some(Twist::Refuse(code, text)) => return response(code, None, Body::from(text)),
        Some(Twist::RefuseWith(code, name, value)) => {
            return response(code, Some((name, value)), Body::empty());
        }
        Some(Twist::Delay) => {
            let _ = opened.wait_for(|open| *open).await;
        }
        _ => {}
    }
    let (code, body) = {
        let mut state = state.lock();
        match state.api.answer(&heard) {
            Ok(reply) => reply,
            Err(why) => {
                state.wrong.push(format!("{why}: {heard:?}"));
                (418, json!(why))
            }
        }
    };
    let body = match body {
        Value::Null => String::new(),
        Value::String(text) => text,
        other => other.to_string(),
    };
    match twist {
        Some(Twist::Lose) => {
            let broken =
                futures_util::stream::once(async { Err::<String, _>(std::io::Error::other("lost")) });
            response(code, None, Body::from_stream(broken))
        }
        Some(Twist::Hold) => {
            let _ = opened.wait_for(|open| *open).await;
            response(code, None, Body::from(body))
        }
        _ => response(code, None, Body::from(body)),
    }
}

fn response(code: u16, header: Option<(&str, &str)>, body: Body) -> Response<Body> {
    let mut response = Response::builder().status(code);
    if let Some((name, value)) = header {
        response = response.header(name, value);
    }
    response.body(body).expect("a response")
}
