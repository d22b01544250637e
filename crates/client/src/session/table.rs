use std::collections::HashMap;
use std::sync::Arc;

use taskgate_task::Payload;
use taskgate_wire::Id;
use tokio::time::Instant;

use super::attribution::Asked;
use super::mailbox::Mailbox;
use crate::transport::CloseReason;

/// What is in flight.
#[derive(Debug, Default)]
pub(super) struct Table {
    last: u64,
    pub(super) calls: HashMap<u64, Entry>,
    pub(super) questions: HashMap<Id, Asked>,
    /// When a question was last refused because calls of several callers were in flight.
    pub(super) ambiguous_at: Option<Instant>,
    /// Set once the connection has ended; nothing enters afterwards.
    pub(super) closed: Option<CloseReason>,
}

/// A call in flight.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) kind: Kind,
    pub(super) owner: Option<String>,
    /// The task whose result the call waits for (2025-11-25), or which it is (2025-10-20): its questions name it.
    pub(super) task: Option<String>,
    /// What the caller's client can do, if it said so.
    pub(super) capabilities: Option<Payload>,
}

impl Entry {
    /// A call of which nothing more is known.
    pub(super) fn new(kind: Kind) -> Entry {
        Entry { mailbox: Arc::default(), kind, owner: None, task: None, capabilities: None }
    }
}

/// What a call is, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Questions and log messages can belong to it.
    Plain,
    /// Waits for the result of a task. Questions of that task name it (2025-11-25), so one that names none is only
    /// its if nothing else could be meant.
    Waiting,
    /// Bookkeeping, during which nothing is asked.
    Quiet,
    /// Part of opening the session. Never cancelled: `initialize` must not be, and a server that awaits it may end
    /// at the sight of any other notification.
    Opening,
    /// A subscription, which only gets what names it.
    Listen,
}

impl Table {
    /// Makes room for a call and returns its number.
    pub(super) fn enter(&mut self, entry: Entry) -> u64 {
        let number = self.next_number();
        self.calls.insert(number, entry);
        number
    }

    /// Counts what enters: the greater number came later.
    pub(super) fn next_number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// A call in flight.
    pub(super) fn get(&self, number: u64) -> Option<&Entry> {
        self.calls.get(&number)
    }

    /// Takes everything out for good.
    pub(super) fn close(&mut self, reason: CloseReason) -> Vec<Entry> {
        self.closed.get_or_insert(reason);
        self.questions.clear();
        self.calls.drain().map(|(_, entry)| entry).collect()
    }

    /// The call that a log message belongs to: the only one in flight, or the newest if all are the same caller's. Which of
    /// a caller's calls it came by matters little to it; that it is not somebody else's matters.
    pub(super) fn logging(&self) -> Option<&Entry> {
        let plain = || self.calls.iter().filter(|(_, entry)| entry.kind == Kind::Plain);
        let (_, newest) = plain().max_by_key(|(number, _)| **number)?;
        let only = plain().nth(1).is_none();
        let same = newest.owner.is_some() && plain().all(|(_, entry)| entry.owner == newest.owner);
        (only || same).then_some(newest)
    }
}
