//! Between a call that is followed and whoever waits for it.

use std::collections::VecDeque;
use std::sync::OnceLock;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::watch;

use super::error::CallError;
use super::event::Event;
use super::handle::Handle;
use super::result::CallResult;

/// Events that may wait for a caller who is not looking. Beyond it the oldest ones that ask nothing are forgotten.
const WAITING: usize = 1024;

/// What a caller wants to become of its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Its result.
    Follow,
    /// Its end.
    Cancel,
    /// Nothing more of it.
    Leave,
}

/// What has become of the outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    /// It is not there, or nobody has taken it.
    No,
    /// The caller takes it, and waits until that is noted.
    Asked,
    /// That is noted.
    Noted,
}

/// What the two sides share.
#[derive(Debug)]
pub(super) struct Feed {
    contents: Mutex<Contents>,
    news: Notify,
    handle: OnceLock<Handle>,
    taken: watch::Sender<Taken>,
    pub(super) order: watch::Sender<Order>,
}

#[derive(Debug, Default)]
struct Contents {
    events: VecDeque<Event>,
    outcome: Option<Result<CallResult, CallError>>,
    is_over: bool,
}

impl Default for Feed {
    fn default() -> Self {
        Feed {
            contents: Mutex::default(),
            news: Notify::new(),
            handle: OnceLock::new(),
            taken: watch::Sender::new(Taken::No),
            order: watch::Sender::new(Order::Follow),
        }
    }
}

impl Feed {
    /// The way back to its task, once there is one.
    pub(super) fn handle(&self) -> Option<&Handle> {
        self.handle.get()
    }

    /// Notes the handle: from now on the call is a task.
    pub(super) fn keep(&self, handle: Handle) {
        // There is one task of a call.
        let _ = self.handle.set(handle);
    }

    /// Adds an event. A state that nobody has looked at gives way to a newer one.
    pub(super) fn push(&self, event: Event) {
        let old = {
            let mut contents = self.contents.lock();
            let is_state = matches!(event, Event::Status(_));
            let old = match contents.events.back() {
                Some(Event::Status(_)) if is_state => contents.events.pop_back(),
                _ if contents.events.len() >= WAITING => {
                    let idle = |event: &Event| !matches!(event, Event::Asked(_) | Event::Accepted(_));
                    let oldest = contents.events.iter().position(idle);
                    oldest.and_then(|oldest| contents.events.remove(oldest))
                }
                _ => None,
            };
            contents.events.push_back(event);
            old
        };
        // Dropping an event may refuse a question, which is not done under the lock.
        drop(old);
        self.news.notify_one();
    }

    /// The end of the call.
    pub(super) fn finish(&self, outcome: Result<CallResult, CallError>) {
        {
            let mut contents = self.contents.lock();
            if contents.is_over {
                return;
            }
            contents.is_over = true;
            contents.outcome = Some(outcome);
            contents.events.push_back(Event::Done);
        }
        self.news.notify_one();
    }

    /// The next event; `None` after the last. Cancel safe.
    pub(super) async fn next(&self) -> Option<Event> {
        loop {
            {
                let mut contents = self.contents.lock();
                if let Some(event) = contents.events.pop_front() {
                    return Some(event);
                }
                if contents.is_over {
                    return None;
                }
            }
            self.news.notified().await;
        }
    }

    /// The outcome, once; after it was noted that the caller has it, if that matters. Otherwise it is given out again, in another
    /// life of the program.
    pub(super) async fn take(&self) -> Option<Result<CallResult, CallError>> {
        let outcome = self.contents.lock().outcome.take()?;
        let is_first = self.taken.send_if_modified(|taken| {
            let is_first = *taken == Taken::No;
            if is_first {
                *taken = Taken::Asked;
            }
            is_first
        });
        if is_first {
            // It is this that is waited for, so it is there.
            let _ = self.taken.subscribe().wait_for(|taken| *taken == Taken::Noted).await;
        }
        Some(outcome)
    }

    /// Waits until the caller takes the outcome; false if it never will.
    pub(super) async fn is_taken(&self) -> bool {
        let (mut taken, mut order) = (self.taken.subscribe(), self.order.subscribe());
        tokio::select! {
            biased;
            asked = taken.wait_for(|taken| *taken != Taken::No) => asked.is_ok(),
            _ = order.wait_for(|order| *order == Order::Leave) => false,
        }
    }

    /// Notes that it is noted, or need not be.
    pub(super) fn noted(&self) {
        self.taken.send_replace(Taken::Noted);
    }
}
