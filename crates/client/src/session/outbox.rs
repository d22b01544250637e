use std::collections::VecDeque;

use parking_lot::Mutex;
use taskgate_wire::Message;
use tokio::sync::mpsc::{self, error::TrySendError};

/// Our own small replies (pongs, refusals) are dropped when this much waits already: a server that asks without
/// ever reading must not fill our memory.
const REPLIES_WAITING: usize = 1024;

/// Sends messages in order without ever waiting. What the channel has no room for is kept here until the session's
/// task finds room.
#[derive(Debug)]
pub(super) struct Outbox(Mutex<Contents>);

#[derive(Debug)]
struct Contents {
    /// `None` once closed.
    channel: Option<mpsc::Sender<Message>>,
    waiting: VecDeque<Message>,
    attention: std::sync::Arc<tokio::sync::Notify>,
}

impl Outbox {
    pub(super) fn new(
        channel: mpsc::Sender<Message>,
        attention: std::sync::Arc<tokio::sync::Notify>,
    ) -> Self {
        Outbox(Mutex::new(Contents { channel: Some(channel), waiting: VecDeque::new(), attention }))
    }

    /// Sends a message; into the void, if closed.
    pub(super) fn send(&self, message: Message) {
        let mut contents = self.0.lock();
        let Some(channel) = &contents.channel else { return };
        if contents.waiting.is_empty() {
            match channel.try_send(message) {
                Ok(()) | Err(TrySendError::Closed(_)) => return,
                Err(TrySendError::Full(message)) => contents.waiting.push_back(message),
            }
            contents.attention.notify_one();
        } else {
            contents.waiting.push_back(message);
        }
    }

    /// Sends a reply that nobody on this side waits for.
    pub(super) fn reply(&self, message: Message) {
        if self.0.lock().waiting.len() < REPLIES_WAITING {
            self.send(message);
        }
    }

    /// Whether messages wait for room.
    pub(super) fn is_waiting(&self) -> bool {
        !self.0.lock().waiting.is_empty()
    }

    /// Sends the first waiting message into the room found.
    pub(super) fn send_waiting(&self, room: mpsc::Permit<'_, Message>) {
        // The lock is held while sending, so that nobody overtakes.
        let mut contents = self.0.lock();
        if let Some(message) = contents.waiting.pop_front() {
            room.send(message);
        }
    }

    /// Forgets what waits and lets the channel go.
    pub(super) fn close(&self) {
        let mut contents = self.0.lock();
        contents.channel = None;
        contents.waiting.clear();
    }
}
