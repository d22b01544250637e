use std::sync::Arc;

use serde::Serialize;
use taskgate_task::Payload;
use taskgate_wire::{Id, Message, method};

use super::event::{CallEvent, CallFailure};
use super::mailbox::Mailbox;
use super::shared::Lifeline;
use super::table::{Entry, Kind};

/// A call that was sent.
///
/// Dropping it before it is done cancels it: the server is told once, with the id we gave the call, and a late answer
/// is ignored.
#[derive(Debug)]
pub struct PendingCall {
    line: Arc<Lifeline>,
    mailbox: Arc<Mailbox>,
    number: u64,
    id: Id,
    reason: Option<String>,
}

impl PendingCall {
    /// Enters a call into the table and sends it with the params made for its number.
    pub(super) fn start(
        line: &Arc<Lifeline>,
        name: &str,
        entry: Entry,
        params: impl FnOnce(u64) -> Result<Option<Payload>, CallFailure>,
    ) -> Self {
        let shared = &line.0;
        let mailbox = entry.mailbox.clone();
        let (number, closed) = {
            let mut table = shared.table.lock();
            (table.enter(entry), table.closed.clone())
        };
        let id = Id::number(number);
        let params = match closed {
            Some(reason) => Err(CallFailure::Closed(reason)),
            None => params(number),
        };
        match params {
            Ok(params) => {
                shared.outbox.send(Message::Request { id: id.clone(), method: name.to_owned(), params });
            }
            Err(failure) => {
                shared.take_out(number);
                mailbox.finish(Err(failure));
            }
        }
        PendingCall { line: line.clone(), mailbox, number, id, reason: None }
    }

    /// The id the server knows the call by. Its progress token is the same number.
    pub fn id(&self) -> &Id {
        &self.id
    }

    /// The next event. Cancel safe: an event is only taken when it is returned.
    ///
    /// A question that was withdrawn or has moved on to another call before it was taken is passed over.
    pub async fn next(&mut self) -> CallEvent {
        loop {
            match std::future::poll_fn(|context| self.mailbox.poll(context)).await {
                CallEvent::Question(question) if !question.reply.is_open() => {}
                event => return event,
            }
        }
    }

    /// Waits for the outcome. Questions are let go of, everything else is passed over.
    pub async fn outcome(mut self) -> Result<Payload, CallFailure> {
        self.done().await
    }

    /// The outcome, without giving up the call. Cancel safe.
    pub(super) async fn done(&mut self) -> Result<Payload, CallFailure> {
        loop {
            if let CallEvent::Done(outcome) = self.next().await {
                return outcome;
            }
        }
    }

    /// Cancels the call, if it is not done, and tells the server why.
    pub fn cancel(mut self, reason: impl Into<String>) {
        self.reason = Some(reason.into());
    }

    /// Lets go of the call without cancelling it. The answer is ignored.
    pub fn abandon(self) {
        self.line.0.take_out(self.number);
    }
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        let shared = &self.line.0;
        // Whoever takes the call out of the table decides its end: if the answer was first, there is nothing to cancel.
        let Some(entry) = shared.take_out(self.number) else { return };
        if entry.kind == Kind::Opening {
            return;
        }
        let params = Cancelled { request_id: &self.id, reason: self.reason.as_deref() };
        let params = Payload::from_value(&params).ok();
        shared.outbox.send(Message::Notification { method: method::CANCELLED.to_owned(), params });
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Cancelled<'a> {
    request_id: &'a Id,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}
