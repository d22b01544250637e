//! What carries messages: child processes, HTTP and channels within this process.

mod close;
pub mod http;
pub mod memory;
pub mod stdio;

use taskgate_wire::{Id, Malformed, Message};
use tokio::sync::{mpsc, watch};

pub use close::{CloseCause, CloseReason};

/// One end of a connection that carries JSON-RPC messages both ways.
///
/// Dropping it closes the connection; a process at the other end is stopped.
#[derive(Debug)]
pub struct Link {
    /// Where our messages go.
    pub out: mpsc::Sender<Message>,
    /// What arrives.
    pub inbound: mpsc::Receiver<Inbound>,
    /// The process at the other end, if there is one.
    pub control: Option<stdio::ProcessControl>,
    /// Ends when the last word to the other end has been said, where that takes a while after the link is dropped.
    pub farewell: Option<watch::Receiver<()>>,
    /// The session as its server calls it, where it may be called something.
    pub named: Option<http::Named>,
}

/// Something that arrived.
#[derive(Debug)]
pub enum Inbound {
    /// A message.
    Message {
        /// The message.
        message: Message,
        /// For a request of the server: the id of our request it was made during, where the transport knows.
        origin: Option<Id>,
    },
    /// Bytes that are no message. They were skipped and the connection goes on: many servers print banners.
    Malformed(Malformed),
    /// A request of ours has no answer and will get none; the connection goes on.
    Failed {
        /// The request's id.
        id: Id,
        /// Why.
        failure: http::RequestFailure,
    },
    /// New requests should be made on another connection. Those under way go on.
    Stale(CloseReason),
    /// The connection has ended. Nothing follows.
    Closed(CloseReason),
}

/// The number of one of our requests, however the server spells it: some return ids as strings or floats.
pub(crate) fn number(spelled: &str) -> Option<u64> {
    let bare = spelled.trim_matches('"');
    bare.parse().ok().or_else(|| bare.strip_suffix(".0")?.parse().ok())
}

impl From<Message> for Inbound {
    fn from(message: Message) -> Self {
        Inbound::Message { message, origin: None }
    }
}
