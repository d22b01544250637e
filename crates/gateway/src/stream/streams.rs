use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::event_id::EventId;
use super::{EventStream, OVERHEAD, Reader};
use crate::policy::StreamSettings;

/// The number of the general stream.
const GENERAL: u64 = 0;

/// The streams of a session that a client can come back to.
#[derive(Debug)]
pub struct Streams {
    tag: u32,
    limits: StreamSettings,
    /// The GET stream: the same one for the whole session, whoever is connected to it.
    general: Arc<EventStream>,
    kept: Mutex<Kept>,
    /// The bytes in all of them.
    held: AtomicUsize,
}

#[derive(Debug)]
struct Kept {
    next: u64,
    by_number: BTreeMap<u64, Arc<EventStream>>,
}

/// What a `Last-Event-ID` leads to.
#[derive(Debug)]
pub enum Resumed {
    /// The rest of the stream.
    Rest(Reader),
    /// The stream has ended and the client has all of it.
    Over,
    /// No stream of this session, or none that is still kept, has such an event.
    Unknown,
}

impl Streams {
    /// No streams but the general one. The tag stands in all ids.
    pub fn new(tag: u32, limits: StreamSettings) -> Arc<Streams> {
        Arc::new_cyclic(|home: &Weak<Streams>| Streams {
            tag,
            limits,
            general: Arc::new(EventStream::new(home.clone(), Some(GENERAL))),
            kept: Mutex::new(Kept { next: GENERAL + 1, by_number: BTreeMap::new() }),
            held: AtomicUsize::new(OVERHEAD),
        })
    }

    /// The general stream.
    pub fn general(&self) -> &Arc<EventStream> {
        &self.general
    }

    /// Connects a client to the general stream. It gets what nobody was sent before.
    pub fn connect_general(&self) -> Reader {
        self.general.connect(None)
    }

    /// Begins a stream with its first connection. It cannot be resumed before it is kept.
    pub fn open(self: &Arc<Self>) -> Reader {
        Arc::new(EventStream::new(Arc::downgrade(self), None)).connect(None)
    }

    /// Keeps a stream from now on, under a number of its own.
    pub fn keep(&self, stream: &Arc<EventStream>) {
        let mut kept = self.kept.lock();
        let number = kept.next;
        kept.next += 1;
        stream.state.lock().number = Some(number);
        kept.by_number.insert(number, stream.clone());
        drop(kept);
        self.grew(OVERHEAD);
        self.make_room();
    }

    /// Connects a client that comes back to the stream it was on, after the event it saw last. Where the events that
    /// followed are no longer all there, it gets those that are: the answer is worth more to it than an error.
    pub fn resume(&self, last_event_id: &str) -> Resumed {
        let Some(id) = EventId::parse(last_event_id).filter(|id| id.tag == self.tag) else {
            return Resumed::Unknown;
        };
        let kept = match id.stream {
            GENERAL => Some(self.general.clone()),
            number => self.kept.lock().by_number.get(&number).cloned(),
        };
        let Some(stream) = kept else { return Resumed::Unknown };
        let (last, ended) = {
            let state = stream.state.lock();
            (state.buffer.last(), state.ended.is_some())
        };
        match id.event {
            event if event > last => Resumed::Unknown,
            event if event == last && ended => Resumed::Over,
            event => Resumed::Rest(stream.connect(Some(event))),
        }
    }

    /// Whether a client is connected to any of them.
    pub fn any_connected(&self) -> bool {
        self.general.is_here() || self.kept.lock().by_number.values().any(|stream| stream.is_here())
    }

    /// Forgets streams that have ended and that nobody came back for in time.
    pub fn drop_expired(&self) {
        self.kept.lock().by_number.retain(|_, stream| !stream.is_expired(self.limits.replay_for));
    }

    pub(super) fn limits(&self) -> &StreamSettings {
        &self.limits
    }

    pub(super) fn event_id(&self, stream: Option<u64>, event: u64) -> EventId {
        EventId { tag: self.tag, stream: stream.unwrap_or(GENERAL), event, priming: None }
    }

    pub(super) fn grew(&self, bytes: usize) {
        self.held.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn shrank(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Forgets ended streams, the oldest first, while the session holds too much. Returns what is still too much.
    pub(super) fn make_room(&self) -> usize {
        let excess = || self.held.load(Ordering::Relaxed).saturating_sub(self.limits.session_replay);
        if excess() > 0 {
            let by_number = &mut self.kept.lock().by_number;
            while excess() > 0 {
                let oldest = by_number.iter().find(|(_, stream)| stream.is_left()).map(|(number, _)| *number);
                let Some(oldest) = oldest else { break };
                by_number.remove(&oldest);
            }
        }
        excess()
    }
}
