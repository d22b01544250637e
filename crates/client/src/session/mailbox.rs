use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use taskgate_task::Payload;

use super::event::{CallEvent, CallFailure};

/// Events that may wait for a caller who is not looking. Beyond it the oldest one that asks nothing is forgotten:
/// a chatty server must not fill our memory, and its newest progress says more than its oldest.
const WAITING: usize = 1024;

/// Where the events of one call wait for its caller.
///
/// It is made for calls that have one event, the outcome: that costs one lock on each side and no allocation.
#[derive(Debug, Default)]
pub(super) struct Mailbox(Mutex<Contents>);

#[derive(Debug, Default)]
struct Contents {
    events: VecDeque<CallEvent>,
    outcome: Option<Result<Payload, CallFailure>>,
    over: bool,
    waker: Option<Waker>,
}

impl Mailbox {
    /// Adds an event. After the outcome nothing is added.
    pub(super) fn push(&self, event: CallEvent) {
        let mut contents = self.0.lock();
        if contents.over {
            // Dropping a question refuses it, which takes locks of its own.
            drop(contents);
            drop(event);
            return;
        }
        if contents.events.len() >= WAITING {
            let old = contents.events.iter().position(|event| {
                matches!(event, CallEvent::Progress(_) | CallEvent::Log(_) | CallEvent::Notification { .. })
            });
            // Questions stay: their number is limited where they are noted.
            drop(old.and_then(|old| contents.events.remove(old)));
        }
        contents.events.push_back(event);
        wake(contents);
    }

    /// Adds the outcome, unless there is one.
    pub(super) fn finish(&self, outcome: Result<Payload, CallFailure>) {
        let mut contents = self.0.lock();
        if !contents.over {
            contents.over = true;
            contents.outcome = Some(outcome);
            wake(contents);
        }
    }

    /// Takes the next event.
    pub(super) fn poll(&self, context: &mut Context<'_>) -> Poll<CallEvent> {
        let mut contents = self.0.lock();
        if let Some(event) = contents.events.pop_front() {
            return Poll::Ready(event);
        }
        if let Some(outcome) = contents.outcome.take() {
            return Poll::Ready(CallEvent::Done(outcome));
        }
        if contents.over {
            return Poll::Ready(CallEvent::Done(Err(CallFailure::Taken)));
        }
        match &mut contents.waker {
            Some(waker) => waker.clone_from(context.waker()),
            waker => *waker = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}

fn wake(mut contents: parking_lot::MutexGuard<'_, Contents>) {
    let waker = contents.waker.take();
    // The woken task may run on another core at once and would find the lock taken.
    drop(contents);
    if let Some(waker) = waker {
        waker.wake();
    }
}
