use std::collections::HashMap;
use std::sync::Arc;

use taskgate_wire::Id;

use super::mailbox::Mailbox;
use crate::transport::CloseReason;

/// Questions that may be open at a time. A server with more than these is not asking people.
const QUESTIONS: usize = 1024;

/// What is in flight.
#[derive(Debug, Default)]
pub(super) struct Table {
    last: u64,
    calls: HashMap<u64, Entry>,
    questions: HashMap<Id, Asked>,
    /// Set once the connection has ended; nothing enters afterwards.
    pub(super) closed: Option<CloseReason>,
}

/// A call in flight.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) kind: Kind,
    pub(super) owner: Option<String>,
    /// The task whose result the call waits for (2025-11-25): its questions name it.
    pub(super) task: Option<String>,
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

#[derive(Debug)]
struct Asked {
    call: u64,
    serial: u64,
}

/// Why a question cannot be given to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unattributed {
    /// No call it could belong to is in flight.
    NoCall,
    /// Several are.
    Ambiguous,
    /// The server asks without end.
    TooMany,
}

impl Table {
    /// Makes room for a call and returns its number.
    pub(super) fn enter(&mut self, entry: Entry) -> u64 {
        self.last += 1;
        self.calls.insert(self.last, entry);
        self.last
    }

    /// A call in flight.
    pub(super) fn get(&self, number: u64) -> Option<&Entry> {
        self.calls.get(&number)
    }

    /// Takes a call out; whoever gets it decides how it ends.
    pub(super) fn remove(&mut self, number: u64) -> Option<Entry> {
        self.calls.remove(&number)
    }

    /// Takes everything out for good.
    pub(super) fn close(&mut self, reason: CloseReason) -> Vec<Entry> {
        self.closed.get_or_insert(reason);
        self.questions.clear();
        self.calls.drain().map(|(_, entry)| entry).collect()
    }

    /// The call a question belongs to.
    ///
    /// Asking the wrong person is worse than asking nobody, so the answer is only given where there is no doubt: the
    /// transport knows, the question names the task whose result a call waits for, a single call is in flight, or
    /// all calls in flight have the same owner.
    pub(super) fn attribute(&self, origin: Option<u64>, task: Option<&str>) -> Result<u64, Unattributed> {
        if self.questions.len() >= QUESTIONS {
            return Err(Unattributed::TooMany);
        }
        if let Some(number) = origin {
            return if self.calls.contains_key(&number) { Ok(number) } else { Err(Unattributed::NoCall) };
        }
        if let Some(task) = task {
            let waiting = self.calls.iter().filter(|(_, entry)| entry.task.as_deref() == Some(task));
            return waiting.map(|(number, _)| *number).max().ok_or(Unattributed::NoCall);
        }
        match self.guess(Kind::Plain) {
            Err(Unattributed::NoCall) => self.guess(Kind::Waiting),
            found => found,
        }
    }

    /// The only call of a kind, or the newest one if they all have the same owner.
    fn guess(&self, kind: Kind) -> Result<u64, Unattributed> {
        let calls = || self.calls.iter().filter(|(_, entry)| entry.kind == kind);
        let (newest, entry) = calls().max_by_key(|(number, _)| **number).ok_or(Unattributed::NoCall)?;
        let alone = calls().nth(1).is_none();
        if alone || (entry.owner.is_some() && calls().all(|(_, other)| other.owner == entry.owner)) {
            Ok(*newest)
        } else {
            Err(Unattributed::Ambiguous)
        }
    }

    /// The call in flight, if it is the only one that log messages could belong to.
    pub(super) fn only(&self) -> Option<&Entry> {
        let mut plain = self.calls.values().filter(|entry| entry.kind == Kind::Plain);
        plain.next().filter(|_| plain.next().is_none())
    }

    /// Notes a question of the server and returns the number its reply has to show.
    pub(super) fn open_question(&mut self, id: Id, call: u64) -> u64 {
        self.last += 1;
        self.questions.insert(id, Asked { call, serial: self.last });
        self.last
    }

    /// Ends a question with its reply; false if it was withdrawn.
    pub(super) fn close_question(&mut self, id: &Id, serial: u64) -> bool {
        if self.questions.get(id).is_some_and(|asked| asked.serial == serial) {
            self.questions.remove(id);
            return true;
        }
        false
    }

    /// Takes a question back and returns its call, if there was such a question.
    pub(super) fn withdraw_question(&mut self, id: &Id) -> Option<u64> {
        self.questions.remove(id).map(|asked| asked.call)
    }
}
