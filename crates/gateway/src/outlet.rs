use std::sync::Arc;

use taskgate_wire::Message;
use tokio::sync::mpsc;

use crate::backlog::{Backlog, Unread};

use crate::stream::EventStream;

/// Where messages to the other side are put: one request's stream, a session's general stream, or stdout.
#[derive(Debug, Clone)]
pub struct Outlet(Way);

#[derive(Debug, Clone)]
enum Way {
    Nowhere,
    /// Read by one reader, and gone with it.
    Queue(mpsc::UnboundedSender<Message>, Arc<Backlog>),
    /// Read by whoever is connected at the time.
    Stream(Arc<EventStream>),
}

impl Outlet {
    /// An outlet and its far end, whose reader may be that far behind.
    pub fn new(backlog: Backlog) -> (Outlet, Unread) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let backlog = Arc::new(backlog);
        (Outlet(Way::Queue(sender, backlog.clone())), Unread::new(receiver, backlog))
    }

    /// An outlet that leads nowhere, for what is answered at once.
    pub const fn nowhere() -> Outlet {
        Outlet(Way::Nowhere)
    }

    /// An outlet that leads to a stream of a session.
    pub fn to(stream: &Arc<EventStream>) -> Outlet {
        Outlet(Way::Stream(stream.clone()))
    }

    /// Puts a message on its way; `false` if nobody can ever get it.
    pub fn send(&self, message: Message) -> bool {
        match &self.0 {
            Way::Nowhere => false,
            Way::Queue(sender, backlog) => match backlog.takes(&message) {
                Some(true) => sender.send(message).is_ok(),
                Some(false) => true,
                None => false,
            },
            Way::Stream(stream) => stream.send(&message),
        }
    }

    /// Ends a stream; a queue ends with its last sender.
    pub fn finish(&self) {
        if let Way::Stream(stream) = &self.0 {
            stream.finish(None);
        }
    }

    /// Whether it is a stream of its own, with a beginning and an end.
    pub fn is_stream(&self) -> bool {
        matches!(self.0, Way::Stream(_))
    }

    /// Resolves when what was put on it can no longer be relied on: at once when its connection is gone before it was read
    /// to its end (`false`), and some time after that (`true`).
    pub async fn forgotten(&self) -> bool {
        match &self.0 {
            Way::Nowhere => false,
            Way::Queue(sender, _) => {
                sender.closed().await;
                false
            }
            Way::Stream(stream) => stream.forgotten().await,
        }
    }

    /// Whether nobody is at the other end, nor expected back soon.
    pub fn is_closed(&self) -> bool {
        match &self.0 {
            Way::Nowhere => true,
            Way::Queue(sender, _) => sender.is_closed(),
            Way::Stream(stream) => stream.is_closed(),
        }
    }

    /// Resolves when nobody is at the other end, nor expected back soon.
    pub async fn closed(&self) {
        match &self.0 {
            Way::Nowhere => {}
            Way::Queue(sender, _) => sender.closed().await,
            Way::Stream(stream) => stream.closed().await,
        }
    }

    /// Resolves when nobody will come back to the other end.
    pub async fn gone(&self) {
        match &self.0 {
            Way::Nowhere => {}
            Way::Queue(sender, _) => sender.closed().await,
            Way::Stream(stream) => stream.gone().await,
        }
    }
}
