//! Sessions over a connection in memory, with the test as the server.

mod attribution;
mod calls;
mod moving;
mod opening;

use serde_json::Value;
use taskgate_task::Payload;
use taskgate_wire::{Id, Message, Version};

use super::*;
use crate::transport::Inbound;
use crate::transport::memory::{FarEnd, pair};

pub(super) const MODERN: Lane = Lane::Modern(Version::V2026_07_28);
pub(super) const LEGACY: Lane = Lane::Legacy(Version::V2025_11_25);

pub(super) fn json(text: &str) -> Payload {
    Payload::parse(text.to_owned()).expect("JSON")
}

pub(super) fn value(payload: &Payload) -> Value {
    serde_json::from_str(payload.as_str()).expect("JSON")
}

/// The server's side of a test.
pub(super) struct Server(pub FarEnd);

impl Server {
    /// The next message from the client.
    pub async fn next(&mut self) -> Message {
        let message = tokio::time::timeout(std::time::Duration::from_secs(10), self.0.inbox.recv()).await;
        message.expect("in time").expect("a message")
    }

    /// The next message, which must be a request.
    pub async fn request(&mut self) -> (Id, String, Value) {
        match self.next().await {
            Message::Request { id, method, params } => {
                (id, method, params.map_or(Value::Null, |p| value(&p)))
            }
            other => panic!("not a request: {other:?}"),
        }
    }

    /// Whether there is nothing more to read.
    pub fn is_silent(&mut self) -> bool {
        self.0.inbox.try_recv().is_err()
    }

    pub async fn say(&self, message: Message) {
        self.0.out.send(message.into()).await.expect("open");
    }

    pub async fn notify(&self, method: &str, params: &str) {
        self.say(Message::Notification { method: method.to_owned(), params: Some(json(params)) }).await;
    }

    pub async fn answer(&self, id: &Id, result: &str) {
        self.say(Message::Response { id: id.clone(), result: json(result) }).await;
    }

    pub async fn fail(&self, id: &Id, error: &str) {
        self.say(Message::Error { id: Some(id.clone()), error: json(error) }).await;
    }

    pub async fn ask(&self, id: u64, method: &str, params: &str, origin: Option<&Id>) {
        let message =
            Message::Request { id: Id::number(id), method: method.to_owned(), params: Some(json(params)) };
        self.0.out.send(Inbound::Message { message, origin: origin.cloned() }).await.expect("open");
    }
}

/// A session opened with `initialize`, over a connection that holds `capacity` messages.
pub(super) async fn legacy(capacity: usize) -> (Session, Server) {
    let (link, far) = pair(capacity);
    let mut server = Server(far);
    let options = OpenOptions { prefer: Version::V2025_11_25, ..OpenOptions::new("test", "1") };
    let (session, ()) = tokio::join!(Session::open(link, options), async {
        let (id, method, _) = server.request().await;
        assert_eq!(method, "initialize");
        server.answer(&id, r#"{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}"#).await;
        assert!(matches!(server.next().await, Message::Notification { .. }));
    });
    (session.expect("open"), server)
}

pub(super) fn call(session: &Session, owner: Option<&str>) -> PendingCall {
    let options = CallOptions { owner: owner.map(str::to_owned), ..CallOptions::default() };
    session.call(LEGACY, "tools/call", Some(json(r#"{"name":"t"}"#).as_raw()), options)
}
