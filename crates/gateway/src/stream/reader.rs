use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use taskgate_wire::sse;
use tokio::time::Instant;

use super::event_id::EventId;
use super::{EventStream, LATE, Presence};

/// A client's connection to a stream. Dropping it says that the client is away; the stream goes on.
#[derive(Debug)]
pub struct Reader {
    stream: Arc<EventStream>,
    /// Which connection of the stream this is.
    connection: u64,
    /// The newest event that went out here, or that the client had before.
    place: u64,
}

impl Reader {
    pub(super) fn new(stream: Arc<EventStream>, connection: u64, place: u64) -> Reader {
        Reader { stream, connection, place }
    }

    /// The stream it reads.
    pub fn stream(&self) -> &Arc<EventStream> {
        &self.stream
    }

    /// Whether there is nothing to read now.
    pub fn is_empty(&self) -> bool {
        self.stream.state.lock().buffer.last() <= self.place
    }

    /// Resolves when there is something to read.
    pub async fn filled(&mut self) {
        poll_fn(|context| {
            let mut state = self.stream.state.lock();
            if state.buffer.last() > self.place {
                return Poll::Ready(());
            }
            state.waker = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// The next events as text; nothing more once the stream has ended, or another connection has taken its place.
    pub fn poll_text(&mut self, context: &mut Context<'_>) -> Poll<Option<String>> {
        let home = self.stream.home.upgrade();
        let mut state = self.stream.state.lock();
        let (Some(home), true) = (home, state.connection == self.connection) else {
            return Poll::Ready(None);
        };
        let mut text = String::new();
        for event in state.buffer.after(self.place) {
            let id = home.event_id(state.number, event.number).to_string();
            sse::push_numbered(&mut text, &id, &event.text);
        }
        self.place = state.buffer.last();
        if text.is_empty() {
            if state.ended.is_some() {
                state.was_read = true;
                return Poll::Ready(None);
            }
            state.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        state.buffer.all_sent();
        self.stream.fit(&mut state, &home, 0);
        Poll::Ready(Some(text))
    }

    /// A priming event for the present place.
    pub fn prime(&self, retry: Duration) -> String {
        let Some(home) = self.stream.home.upgrade() else { return String::new() };
        let mut state = self.stream.state.lock();
        let priming = Some(state.primed);
        state.primed += 1;
        let id = EventId { priming, ..home.event_id(state.number, self.place) };
        sse::priming(&id.to_string(), retry)
    }

    /// The client is sent away and expected back after `retry`. Returns what it is told.
    pub fn leave(&mut self, retry: Duration) -> String {
        let text = self.prime(retry);
        self.away(retry + LATE);
        text
    }

    fn away(&mut self, patience: Duration) {
        let mut state = self.stream.state.lock();
        if state.connection == self.connection && state.is_here() {
            state.presence = Presence::Away { since: Instant::now(), patience };
            state.waker = None;
            drop(state);
            self.stream.changed.notify_waiters();
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.away(Duration::ZERO);
    }
}
