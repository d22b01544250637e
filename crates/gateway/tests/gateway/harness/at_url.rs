//! A server that speaks over a link in memory, at a URL: what it says arrives there in its own spelling.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use futures_util::stream;
use parking_lot::Mutex;
use taskgate_client::transport::{Inbound, Link};
use taskgate_gateway::{HttpServer, ServerUrl, UpstreamKind};
use taskgate_wire::{Id, Message};
use tokio::sync::mpsc;

const SESSION: &str = "mcp-session-id";

struct Bridge {
    to_server: mpsc::Sender<Message>,
    /// The streams of the requests under way, the oldest first.
    streams: Mutex<Vec<(Id, mpsc::Sender<Message>)>>,
    general: Mutex<General>,
}

/// The stream that belongs to no request, and what was said before it was there.
#[derive(Default)]
struct General {
    stream: Option<mpsc::Sender<Message>>,
    early: Vec<Message>,
}

/// Serves the other end of the link until the test is over. What belongs to a request goes on its stream, as its origin, its
/// answer or, of the rest, as whatever was asked last; what belongs to none goes on the general stream.
pub async fn at_url(link: Link) -> UpstreamKind {
    let Link { out, mut inbound, .. } = link;
    let bridge = Arc::new(Bridge { to_server: out, streams: Mutex::default(), general: Mutex::default() });
    let says = bridge.clone();
    tokio::spawn(async move {
        while let Some(said) = inbound.recv().await {
            let Inbound::Message { message, origin } = said else { continue };
            match says.stream_for(&message, origin) {
                Some(stream) => drop(stream.send(message).await),
                None => says.general.lock().early.push(message),
            }
        }
    });
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("bound"));
    let router = Router::new().route("/mcp", any(answer)).with_state(bridge);
    tokio::spawn(async move { axum::serve(listener, router).await });
    UpstreamKind::Http(HttpServer::new(ServerUrl::parse(&url).expect("a URL")))
}

impl Bridge {
    fn stream_for(&self, message: &Message, origin: Option<Id>) -> Option<mpsc::Sender<Message>> {
        let mut streams = self.streams.lock();
        let place = |id: &Id| streams.iter().position(|(known, _)| known == id);
        match (message, origin) {
            (Message::Response { id, .. } | Message::Error { id: Some(id), .. }, _) => {
                let place = place(id)?;
                Some(streams.remove(place).1)
            }
            (_, Some(origin)) => Some(streams[place(&origin)?].1.clone()),
            _ => streams
                .last()
                .map(|(_, stream)| stream.clone())
                .or_else(|| self.general.lock().stream.clone()),
        }
    }
}

async fn answer(State(bridge): State<Arc<Bridge>>, method: Method, body: Bytes) -> Response {
    let (out, said) = mpsc::channel(256);
    if method == Method::GET {
        let mut general = bridge.general.lock();
        general.early.drain(..).for_each(|early| out.try_send(early).expect("room"));
        general.stream = Some(out);
        return events(said);
    }
    if method != Method::POST {
        return StatusCode::NO_CONTENT.into_response();
    }
    let message = Message::parse(&body).expect("a message");
    let opens = matches!(&message, Message::Request { method, .. } if method == "initialize");
    let asked = match &message {
        Message::Request { id, .. } => Some(id.clone()),
        _ => None,
    };
    if let Some(id) = &asked {
        bridge.streams.lock().push((id.clone(), out));
    }
    bridge.to_server.send(message).await.expect("the server is there");
    if asked.is_none() {
        return StatusCode::ACCEPTED.into_response();
    }
    let mut response = events(said);
    if opens {
        response.headers_mut().insert(SESSION, "session".parse().expect("a header"));
    }
    response
}

/// A stream that ends when nobody has anything to say on it any more.
fn events(said: mpsc::Receiver<Message>) -> Response {
    let events = stream::unfold(said, |mut said| async {
        let message = said.recv().await?;
        Some((Ok::<_, Infallible>(format!("event: message\ndata: {}\n\n", message.to_text())), said))
    });
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(events)).into_response()
}
