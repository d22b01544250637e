use std::sync::Arc;

use parking_lot::Mutex;
use taskgate_task::Payload;
use tokio::sync::{Notify, broadcast, mpsc, watch};

use super::attribution::Put;
use super::event::{CallEvent, CallFailure, Question, TaskRequest};
use super::mailbox::Mailbox;
use super::notifications::{Heard, Notifications};
use super::outbox::Outbox;
use super::question::QuestionReply;
use super::table::{Entry, Table};
use crate::transport::stdio::ProcessControl;
use crate::transport::{CloseCause, CloseReason, Link};

/// Notifications that may wait for a slow listener.
const HEARD_WAITING: usize = 1024;

/// What the handles of a session and its task have in common.
///
/// Locks are never held while an event is dropped: an event may hold a question, and a dropped question is refused,
/// which takes the same locks.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) table: Mutex<Table>,
    pub(super) outbox: Outbox,
    /// Wakes the session's task: messages wait for room, or the session was closed.
    pub(super) attention: Arc<Notify>,
    pub(super) closed: watch::Sender<Option<CloseReason>>,
    /// Why new calls should be made elsewhere, once that is so.
    pub(super) stale: watch::Sender<Option<CloseReason>>,
    pub(super) control: Option<ProcessControl>,
    pub(super) farewell: Option<watch::Receiver<()>>,
    /// Who answers what the server asks about tasks that are hosted for it.
    pub(super) host: Mutex<Option<mpsc::UnboundedSender<TaskRequest>>>,
    /// Taken away at the end, so that listeners notice it.
    heard: Mutex<Option<broadcast::Sender<Heard>>>,
    /// What was heard before anybody listened.
    first: Mutex<Option<broadcast::Receiver<Heard>>>,
}

impl Shared {
    pub(super) fn new(link: &Link) -> Self {
        let attention = Arc::new(Notify::new());
        let (heard, first) = broadcast::channel(HEARD_WAITING);
        Shared {
            table: Mutex::default(),
            outbox: Outbox::new(link.out.clone(), attention.clone()),
            attention,
            closed: watch::Sender::new(None),
            stale: watch::Sender::new(None),
            control: link.control.clone(),
            farewell: link.farewell.clone(),
            host: Mutex::default(),
            heard: Mutex::new(Some(heard)),
            first: Mutex::new(Some(first)),
        }
    }

    /// Ends everything, once.
    pub(super) fn close(&self, reason: CloseReason) {
        let (entries, reason) = {
            let mut table = self.table.lock();
            let entries = table.close(reason);
            (entries, table.closed.clone().unwrap_or_else(|| CloseReason::new(CloseCause::PeerClosed)))
        };
        self.outbox.close();
        for entry in entries {
            entry.mailbox.finish(Err(CallFailure::Closed(reason.clone())));
        }
        *self.heard.lock() = None;
        *self.host.lock() = None;
        self.outdate(reason.clone());
        self.closed.send_if_modified(|closed| {
            let first = closed.is_none();
            closed.get_or_insert(reason);
            first
        });
        self.attention.notify_one();
    }

    /// Notes, once, that new calls should be made elsewhere.
    pub(super) fn outdate(&self, reason: CloseReason) {
        self.stale.send_if_modified(|stale| {
            let first = stale.is_none();
            stale.get_or_insert(reason);
            first
        });
    }

    /// Whether the connection has ended.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.borrow().is_some()
    }

    /// Passes a notification to whoever listens.
    pub(super) fn hear(&self, method: String, params: Option<Payload>) {
        if let Some(heard) = &*self.heard.lock() {
            // An error means that nobody listens.
            let _ = heard.send(Heard::Notification { method, params });
        }
    }

    /// A stream of notifications. The first one starts with what was heard since the session was opened.
    pub(super) fn listen(&self) -> Notifications {
        if let Some(first) = self.first.lock().take() {
            return Notifications(first);
        }
        Notifications(match &*self.heard.lock() {
            Some(heard) => heard.subscribe(),
            None => broadcast::channel(1).1,
        })
    }

    /// Takes a call out of the table; whoever gets it decides how it ends. Its questions that may be another call's are
    /// put to that one.
    pub(super) fn take_out(self: &Arc<Self>, number: u64) -> Option<Entry> {
        let (entry, moved) = self.table.lock().remove(number)?;
        moved.into_iter().for_each(|put| self.put(put));
        Some(entry)
    }

    /// Puts a question to its call.
    pub(super) fn put(self: &Arc<Self>, put: Put) {
        let Put { mailbox, id, serial, method, params } = put;
        let reply = QuestionReply::new(Arc::downgrade(self), id.clone(), serial);
        mailbox.push(CallEvent::Question(Question { id, method, params, reply }));
    }

    /// The mailbox of a call in flight.
    pub(super) fn mailbox(&self, number: u64) -> Option<Arc<Mailbox>> {
        self.table.lock().get(number).map(|entry| entry.mailbox.clone())
    }
}

/// Closes the session when the last handle that can use it is gone.
#[derive(Debug)]
pub(super) struct Lifeline(pub(super) Arc<Shared>);

impl Drop for Lifeline {
    fn drop(&mut self) {
        self.0.close(CloseReason::new(CloseCause::Requested));
    }
}
