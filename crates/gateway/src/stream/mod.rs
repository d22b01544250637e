//! SSE streams of sessions over HTTP: they outlive their connections, so that a client can come back for the rest
//! (2025-11-25, transports, "Resumability and Redelivery"; SEP-1699).

mod buffer;
mod event_id;
mod reader;
mod streams;

pub use reader::Reader;
pub use streams::{Resumed, Streams};

use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::Duration;

use parking_lot::Mutex;
use taskgate_wire::Message;
use tokio::sync::Notify;
use tokio::time::Instant;

use buffer::{Buffer, Room};

/// What a stream costs besides its events, roughly.
const OVERHEAD: usize = 512;

/// How many times the usual bytes may wait for a client that is connected but reads slowly.
const SLOW: usize = 16;

/// How much longer than it was told to wait a client may take to come back after we closed its connection.
const LATE: Duration = Duration::from_secs(5);

/// One stream of a session. A message on it is a message on no other.
#[derive(Debug)]
pub struct EventStream {
    home: Weak<Streams>,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    buffer: Buffer,
    /// Its number in the session; `None` as long as the client knows no id to resume it by.
    number: Option<u64>,
    presence: Presence,
    /// Which connection is the current one: the newest. Older ones end.
    connection: u64,
    /// How many priming events there were.
    primed: u64,
    ended: Option<Instant>,
    /// Whether a connection has taken all of it, its end included.
    was_read: bool,
    waker: Option<Waker>,
}

/// Whether the client is connected.
#[derive(Debug, Clone, Copy)]
enum Presence {
    Here,
    /// It is not, but within `patience` it is expected back.
    Away {
        since: Instant,
        patience: Duration,
    },
}

impl State {
    fn is_here(&self) -> bool {
        matches!(self.presence, Presence::Here)
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// From when on the client counts as gone if it does not come back; `None` while it is there.
    fn gone_at(&self, wait: impl Fn(Duration) -> Duration) -> Option<Instant> {
        match self.presence {
            _ if self.ended.is_some() => self.ended,
            Presence::Here => None,
            Presence::Away { since, .. } if self.number.is_none() => Some(since),
            Presence::Away { since, patience } => Some(since + wait(patience)),
        }
    }
}

impl EventStream {
    fn new(home: Weak<Streams>, number: Option<u64>) -> EventStream {
        let state = State {
            buffer: Buffer::default(),
            number,
            presence: Presence::Away { since: Instant::now(), patience: Duration::ZERO },
            connection: 0,
            primed: 0,
            ended: None,
            was_read: false,
            waker: None,
        };
        EventStream { home, state: Mutex::new(state), changed: Notify::new() }
    }

    /// Puts a message on it; `false` if nobody can ever read it.
    pub fn send(&self, message: &Message) -> bool {
        self.put(Some(message), false)
    }

    /// Puts the last message on it, if there is one, and ends it.
    pub fn finish(&self, last: Option<&Message>) {
        self.put(last, true);
        self.changed.notify_waiters();
    }

    fn put(&self, message: Option<&Message>, is_last: bool) -> bool {
        let home = self.home.upgrade();
        {
            let mut state = self.state.lock();
            if state.ended.is_some() || (state.number.is_none() && !state.is_here()) {
                return false;
            }
            let size = message.map_or(0, |message| state.buffer.push(message));
            if is_last {
                state.ended = Some(Instant::now());
            }
            state.wake();
            if let Some(home) = &home {
                home.grew(size);
                self.fit(&mut state, home, 0);
            }
        }
        // Not under the lock: whoever makes room looks at all streams.
        if let Some(home) = home {
            let excess = home.make_room();
            if excess > 0 {
                self.fit(&mut self.state.lock(), &home, excess);
            }
        }
        true
    }

    /// Keeps within the limits, and gives up so many bytes more if that is possible without losing what is on its way.
    fn fit(&self, state: &mut State, home: &Streams, excess: usize) {
        let limits = home.limits();
        let bytes = limits.replay_size.min(state.buffer.bytes().saturating_sub(excess));
        let room = Room {
            events: limits.replay_events,
            bytes,
            unsent_events: limits.replay_events,
            unsent_bytes: bytes,
        };
        let before = state.buffer.bytes();
        state.buffer.fit(if state.is_here() {
            Room { unsent_events: usize::MAX, unsent_bytes: limits.replay_size.saturating_mul(SLOW), ..room }
        } else {
            room
        });
        home.shrank(before - state.buffer.bytes());
    }

    /// Whether nobody is connected, nor expected back soon.
    pub fn is_closed(&self) -> bool {
        let at = self.state.lock().gone_at(|patience| patience);
        at.is_some_and(|at| at <= Instant::now())
    }

    /// Resolves when nobody is connected, nor expected back soon.
    pub async fn closed(&self) {
        self.until_gone(|patience| patience).await;
    }

    /// Resolves when the client has been away for so long that it no longer counts on the stream, or when the stream ends.
    pub async fn gone(&self) {
        let wait = self.home.upgrade().map_or(Duration::ZERO, |home| home.limits().replay_for);
        self.until_gone(|_| wait).await;
    }

    /// Resolves when what was put on it can no longer be relied on: as soon as its connection is gone before it was read to its
    /// end (`false`), and after the time in which a client may come back if it was (`true`).
    pub async fn forgotten(&self) -> bool {
        let wait = self.home.upgrade().map_or(Duration::ZERO, |home| home.limits().replay_for);
        self.until(|state| match state.presence {
            Presence::Here => None,
            Presence::Away { since, .. } if state.was_read => Some(since + wait),
            Presence::Away { since, patience } => Some(since + patience),
        })
        .await;
        self.state.lock().was_read
    }

    async fn until_gone(&self, wait: impl Fn(Duration) -> Duration) {
        self.until(|state| state.gone_at(&wait)).await;
    }

    /// Resolves when this time has come, which may change with the state.
    async fn until(&self, time: impl Fn(&State) -> Option<Instant>) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let at = time(&self.state.lock());
            if at.is_some_and(|at| at <= Instant::now()) {
                return;
            }
            tokio::select! {
                () = &mut changed => {}
                () = taskgate_engine::sleep_until(at) => {}
            }
        }
    }

    fn is_here(&self) -> bool {
        self.state.lock().is_here()
    }

    /// Whether it has ended, and nobody is reading the rest of it.
    fn is_left(&self) -> bool {
        let state = self.state.lock();
        state.ended.is_some() && !state.is_here()
    }

    /// Whether it has ended, and nobody came for the rest of it for so long.
    fn is_expired(&self, after: Duration) -> bool {
        let state = self.state.lock();
        match (state.ended, state.presence) {
            (Some(ended), Presence::Away { since, .. }) => ended.max(since).elapsed() >= after,
            _ => false,
        }
    }

    /// Connects a client after this event, or after all that were sent. An older connection ends.
    fn connect(self: &Arc<Self>, after: Option<u64>) -> Reader {
        let mut state = self.state.lock();
        state.connection += 1;
        state.presence = Presence::Here;
        state.wake();
        let reader = Reader::new(self.clone(), state.connection, after.unwrap_or(state.buffer.sent()));
        drop(state);
        self.changed.notify_waiters();
        reader
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        if let Some(home) = self.home.upgrade() {
            let state = self.state.get_mut();
            home.shrank(state.buffer.bytes() + if state.number.is_some() { OVERHEAD } else { 0 });
        }
    }
}
