//! Which call a question of the server belongs to.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use taskgate_task::Payload;
use taskgate_wire::{Capabilities, Id};
use tokio::time::Instant;

use super::mailbox::Mailbox;
use super::table::{Entry, Kind, Table};

/// Questions that may be open at a time. A server with more than these is not asking people.
const QUESTIONS: usize = 1024;

/// An open question.
#[derive(Debug)]
pub(super) struct Asked {
    call: u64,
    serial: u64,
    /// Set if other calls may have asked it.
    guess: Option<Guess>,
    /// Whether it names a task (2025-11-25). Such a question outlives the call it came by: whoever waits for the task next is
    /// asked it again.
    of_task: bool,
}

/// What is needed to put a question to another call.
#[derive(Debug)]
struct Guess {
    /// Calls with a greater number were made later and cannot have asked it.
    before: u64,
    method: String,
    params: Option<Payload>,
    /// The calls it was put to.
    tried: Vec<u64>,
}

/// A question on its way to a call.
#[derive(Debug)]
pub(super) struct Put {
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) id: Id,
    /// What a reply has to show. It changes when the question moves on, so that no two calls answer it.
    pub(super) serial: u64,
    pub(super) method: String,
    pub(super) params: Option<Payload>,
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

/// What becomes of a question that a call lets go of.
#[derive(Debug)]
pub(super) enum LetGo {
    /// Another call may have asked it.
    MovedOn(Put),
    /// Nobody is left to ask: it is to be refused.
    Closed,
    /// It was answered or withdrawn, is another call's by now, or stays open at the server.
    Over,
}

impl Table {
    /// Notes a question of the server for the call it belongs to.
    ///
    /// Asking the wrong person is worse than asking nobody, so it is only given where there is no doubt whom to ask: the
    /// transport knows the call, the question names the task whose result a call waits for, a single call is in
    /// flight, or all calls in flight have the same owner. In the last case the call is a guess, and questions are
    /// spread over the calls. That the guess may be wrong harms little: the answer goes to the question, not to the call.
    ///
    /// Of several owners' calls none is ever chosen, not even where all but one already wait for the answer to a question. A
    /// server may ask twice at a time, and the second question of a call that waits would be shown to whoever
    /// happens to be the only one who does not: its text would be read by somebody it is not meant for, and, worse, what that one
    /// answers would steer another one's call. Anybody could bring that about by keeping a call in flight. That a call
    /// waits makes it less likely that it asks, which decides among the calls of one owner (`best`), and nothing more. What
    /// can be done for those who are refused is to let go of calls whose callers do not come back: `ambiguous_at` is for
    /// whoever holds such calls.
    pub(super) fn ask(
        &mut self,
        id: Id,
        method: String,
        params: Option<Payload>,
        origin: Option<u64>,
        task: Option<&str>,
    ) -> Result<Put, Unattributed> {
        if self.questions.len() >= QUESTIONS {
            return Err(Unattributed::TooMany);
        }
        let attributed = self.attribute(&method, params.as_ref(), origin, task);
        if attributed == Err(Unattributed::Ambiguous) {
            self.ambiguous_at = Some(Instant::now());
        }
        let (call, certain) = attributed?;
        let mailbox = self.get(call).map(|entry| entry.mailbox.clone()).ok_or(Unattributed::NoCall)?;
        let serial = self.next_number();
        let guess = (!certain).then(|| Guess {
            before: serial,
            method: method.clone(),
            params: params.clone(),
            tried: vec![call],
        });
        self.questions.insert(id.clone(), Asked { call, serial, guess, of_task: task.is_some() });
        Ok(Put { mailbox, id, serial, method, params })
    }

    /// The call, and whether that is certain.
    fn attribute(
        &self,
        method: &str,
        params: Option<&Payload>,
        origin: Option<u64>,
        task: Option<&str>,
    ) -> Result<(u64, bool), Unattributed> {
        if let Some(number) = origin {
            return self.get(number).map(|_| (number, true)).ok_or(Unattributed::NoCall);
        }
        if let Some(task) = task {
            let waiting = self.calls.iter().filter(|(_, entry)| entry.task.as_deref() == Some(task));
            return waiting.map(|(number, _)| (*number, true)).max().ok_or(Unattributed::NoCall);
        }
        match self.guess(method, params, Kind::Plain) {
            Err(Unattributed::NoCall) => self.guess(method, params, Kind::Waiting),
            found => found,
        }
    }

    /// The only call of a kind, or one of them if they all have the same owner.
    fn guess(&self, method: &str, params: Option<&Payload>, kind: Kind) -> Result<(u64, bool), Unattributed> {
        let calls = || self.calls.iter().filter(|(_, entry)| entry.kind == kind);
        let (first, entry) = calls().next().ok_or(Unattributed::NoCall)?;
        if calls().nth(1).is_none() {
            return Ok((*first, true));
        }
        if entry.owner.is_none() || calls().any(|(_, other)| other.owner != entry.owner) {
            return Err(Unattributed::Ambiguous);
        }
        self.best(method, params, calls()).map(|call| (call, false)).ok_or(Unattributed::NoCall)
    }

    /// Of these calls one whose client can be asked this, with the fewest open questions, the newest of them. A call
    /// that waits for an answer seldom asks again meanwhile, so each call of several that ask gets a question.
    fn best<'a>(
        &self,
        method: &str,
        params: Option<&Payload>,
        calls: impl Iterator<Item = (&'a u64, &'a Entry)>,
    ) -> Option<u64> {
        let mut open: HashMap<u64, usize> = HashMap::new();
        for asked in self.questions.values() {
            *open.entry(asked.call).or_default() += 1;
        }
        let rank = |(number, entry): &(&u64, &Entry)| {
            let open = open.get(*number).copied().unwrap_or_default();
            (can_be_asked(entry, method, params), Reverse(open), **number)
        };
        calls.max_by_key(rank).map(|(number, _)| *number)
    }

    /// Takes a call out; whoever gets it decides how it ends. Open questions that another call may have asked move on:
    /// they are returned, to be put to that one.
    pub(super) fn remove(&mut self, number: u64) -> Option<(Entry, Vec<Put>)> {
        let entry = self.calls.remove(&number)?;
        let mut its: Vec<_> = self.questions.iter().filter(|(_, asked)| asked.call == number).collect();
        its.sort_unstable_by_key(|(_, asked)| asked.serial);
        let its: Vec<Id> = its.into_iter().map(|(id, _)| id.clone()).collect();
        let moved = its.into_iter().filter_map(|id| self.move_on(id, entry.kind, entry.owner.as_deref()));
        let moved = moved.collect();
        Some((entry, moved))
    }

    /// Gives a question to another call of the same kind and owner that may have asked it and was not tried yet.
    fn move_on(&mut self, id: Id, kind: Kind, owner: Option<&str>) -> Option<Put> {
        let guess = self.questions.get(&id)?.guess.as_ref()?;
        let candidates = self.calls.iter().filter(|(number, entry)| {
            let fits = entry.kind == kind && entry.owner.as_deref() == owner;
            fits && **number < guess.before && !guess.tried.contains(*number)
        });
        let call = self.best(&guess.method, guess.params.as_ref(), candidates)?;
        let mailbox = self.calls.get(&call)?.mailbox.clone();
        let serial = self.next_number();
        let asked = self.questions.get_mut(&id)?;
        (asked.call, asked.serial) = (call, serial);
        let guess = asked.guess.as_mut()?;
        guess.tried.push(call);
        Some(Put { mailbox, id, serial, method: guess.method.clone(), params: guess.params.clone() })
    }

    /// Whether a reply with this serial still answers the question.
    pub(super) fn is_open(&self, id: &Id, serial: u64) -> bool {
        self.questions.get(id).is_some_and(|asked| asked.serial == serial)
    }

    /// Ends a question with its reply; false if it was withdrawn or has moved on.
    pub(super) fn close_question(&mut self, id: &Id, serial: u64) -> bool {
        self.is_open(id, serial) && self.questions.remove(id).is_some()
    }

    /// A call lets go of a question without an answer.
    pub(super) fn let_go(&mut self, id: &Id, serial: u64) -> LetGo {
        let Some(asked) = self.questions.get(id).filter(|asked| asked.serial == serial) else {
            return LetGo::Over;
        };
        if asked.of_task {
            self.questions.remove(id);
            return LetGo::Over;
        }
        // A call that is gone found nobody to give its questions to.
        let holder = self.calls.get(&asked.call).map(|entry| (entry.kind, entry.owner.clone()));
        let moved = holder.and_then(|(kind, owner)| self.move_on(id.clone(), kind, owner.as_deref()));
        if moved.is_none() {
            self.questions.remove(id);
        }
        moved.map_or(LetGo::Closed, LetGo::MovedOn)
    }

    /// Takes a question back and returns its call, if there was such a question.
    pub(super) fn withdraw_question(&mut self, id: &Id) -> Option<u64> {
        self.questions.remove(id).map(|asked| asked.call)
    }
}

/// Whether the call's client declared what the question needs. What is not known does not count against it.
fn can_be_asked(entry: &Entry, method: &str, params: Option<&Payload>) -> bool {
    let declared = entry.capabilities.as_ref().and_then(|raw| Capabilities::parse(raw.as_raw()));
    declared.is_none_or(|declared| declared.allow(method, params).is_ok())
}
