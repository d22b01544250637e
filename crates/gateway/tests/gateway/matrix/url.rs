//! The strict server as a URL: every request gets a stream of its own, and must say in its headers what it says in its
//! body.

use std::convert::Infallible;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use futures_util::stream;
use serde_json::json;
use taskgate_client::transport::Inbound;
use taskgate_client::transport::memory::pair;
use taskgate_gateway::{HttpServer, ServerUrl, UpstreamKind, UpstreamSpec};
use taskgate_wire::{Id, Message};
use tokio::sync::mpsc;

use super::Version;
use super::server::Strict;

const SESSION: &str = "mcp-session-id";

/// Serves it on a port of its own until the test is over.
pub async fn serve(strict: Strict) -> UpstreamSpec {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("bound"));
    let router = Router::new().route("/mcp", any(answer)).with_state(strict);
    tokio::spawn(async move { axum::serve(listener, router).await });
    UpstreamSpec::new("strict", UpstreamKind::Http(HttpServer::new(ServerUrl::parse(&url).expect("a URL"))))
}

async fn answer(State(strict): State<Strict>, method: Method, headers: HeaderMap, body: Bytes) -> Response {
    let modern = strict.version() == Version::V2026;
    if method != Method::POST {
        if modern {
            strict.fault(format!("{method} does not exist in 2026-07-28"));
            return StatusCode::METHOD_NOT_ALLOWED.into_response();
        }
        if headers.get(SESSION).is_none_or(|id| id != "s1") {
            strict.fault(format!("{method} without a session"));
        }
        if method == Method::DELETE {
            return StatusCode::NO_CONTENT.into_response();
        }
        let (out, said) = mpsc::channel(256);
        strict.speak_on(out);
        return events(Vec::new(), said, None);
    }
    let message = Message::parse(&body).expect("a message");
    let Message::Request { id, method, .. } = &message else {
        if !modern {
            in_session(&strict, &headers, "a message");
        }
        let (link, far) = pair(256);
        link.out.send(message).await.expect("open");
        // It takes what there is and ends.
        drop(link);
        strict.serve(far).await;
        return StatusCode::ACCEPTED.into_response();
    };
    let (id, method) = (id.clone(), method.clone());
    if modern {
        let said = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        if method != "initialize"
            && (said("mcp-protocol-version") != Some("2026-07-28") || said("mcp-method") != Some(&method))
        {
            strict.fault(format!("{method} without its headers: {headers:?}"));
        }
    } else if method == "server/discover" {
        let error = json!({"code": -32000, "message": "Bad Request: no session"});
        let body = json!({"jsonrpc": "2.0", "id": null, "error": error}).to_string();
        return (StatusCode::BAD_REQUEST, [(header::CONTENT_TYPE, "application/json")], body).into_response();
    } else if method != "initialize" {
        in_session(&strict, &headers, &method);
    }
    let (link, far) = pair(256);
    if method == "subscriptions/listen" {
        strict.speak_on(far.out.clone());
    }
    link.out.send(message).await.expect("open");
    tokio::spawn(strict.clone().serve(far));
    let left = modern.then(|| Left(strict.clone(), Some(id.clone())));
    let mut said = link.inbound;
    // What is answered at once needs no stream.
    let first = said.recv().await.expect("an answer");
    if let Some(text) = answer_of(&first) {
        left.into_iter().for_each(Left::answered);
        let mut response = ([(header::CONTENT_TYPE, "application/json")], text).into_response();
        if method == "initialize" {
            response.headers_mut().insert(SESSION, "s1".parse().expect("a header"));
        }
        return response;
    }
    events(vec![first], said, left)
}

fn in_session(strict: &Strict, headers: &HeaderMap, what: &str) {
    let says = |name: &str, want: &str| headers.get(name).is_some_and(|value| value == want);
    if !says(SESSION, "s1") || !says("mcp-protocol-version", strict.version().date()) {
        strict.fault(format!("{what} without its session: {headers:?}"));
    }
    if headers.contains_key("mcp-method") {
        strict.fault(format!("{what} with a header of 2026-07-28"));
    }
}

/// A stream that ends with the answer, if it is to a request.
fn events(first: Vec<Inbound>, said: mpsc::Receiver<Inbound>, left: Option<Left>) -> Response {
    let state = (first.into_iter(), said, left);
    let events = stream::unfold(Some(state), |state| async {
        let (mut first, mut said, left) = state?;
        let next = match first.next() {
            Some(first) => first,
            None => said.recv().await?,
        };
        let Inbound::Message { message, .. } = &next else { return None };
        let event = format!("event: message\ndata: {}\n\n", message.to_text());
        let rest = match (answer_of(&next), left) {
            (Some(_), left) => {
                left.into_iter().for_each(Left::answered);
                None
            }
            (None, left) => Some((first, said, left)),
        };
        Some((Ok::<_, Infallible>(event), rest))
    });
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(events)).into_response()
}

fn answer_of(said: &Inbound) -> Option<String> {
    match said {
        Inbound::Message {
            message: message @ (Message::Response { .. } | Message::Error { .. }), ..
        } => Some(message.to_text()),
        _ => None,
    }
}

/// Dropped before the answer, the stream was closed, which cancels the request (2026-07-28).
struct Left(Strict, Option<Id>);

impl Left {
    fn answered(mut self) {
        self.1 = None;
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        if let Some(id) = &self.1 {
            let id: serde_json::Value = serde_json::from_str(id.as_str()).expect("JSON");
            self.0.heard("notifications/cancelled", &json!({ "requestId": id }));
        }
    }
}
