//! Whoever tries ids is slowed down.
//!
//! An id has 128 random bits, so nobody finds one by trying. Somebody who tries is worth knowing of all the same, and should not cost
//! more than others. The answer stays the same to the byte; only its time tells that it was noticed.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use taskgate_task::Payload;
use tokio::time::Instant;

use super::{Limits, OwnerUse};
use crate::route::Caller;

/// How many answers may be held back at a time. What is beyond is answered at once: holding it would cost more than it is worth.
const MOST_DELAYED: usize = 1000;
/// The same of one owner.
const MOST_DELAYED_OF_OWNER: usize = 100;
/// How often it is logged, in seconds.
const LOG_EVERY: u64 = 60;

/// The answers that are held back.
pub struct Delays {
    waiting: AtomicUsize,
    began: Instant,
    logged_at: AtomicU64,
}

/// Gives a place of those that may be held back free again.
struct Held<'a>(&'a AtomicUsize, &'a AtomicUsize);

impl Limits {
    /// Says that the caller asked for a task that there is not, and holds the answer back if it does so too often.
    pub async fn unknown_id(&self, caller: &Caller) {
        self.numbers.unknown_ids.inc();
        let owner = self.of(caller);
        if owner.unknown.as_ref().is_none_or(|rate| rate.take().is_ok()) {
            return;
        }
        if self.delays.is_to_be_logged() {
            let who = caller.owner();
            tracing::warn!(owner = %who, "somebody asks for many tasks that there are not; the answers are held back");
        }
        if let Some(_held) = self.delays.hold(&owner) {
            self.numbers.delayed.inc();
            tokio::time::sleep(self.settings.unknown_ids_delay).await;
        }
    }
}

impl Delays {
    pub fn new() -> Self {
        Delays { waiting: AtomicUsize::new(0), began: Instant::now(), logged_at: AtomicU64::new(0) }
    }

    fn hold<'a>(&'a self, owner: &'a OwnerUse) -> Option<Held<'a>> {
        let enter = |count: &AtomicUsize, most| {
            count
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |now| (now < most).then_some(now + 1))
                .is_ok()
        };
        if !enter(&self.waiting, MOST_DELAYED) {
            return None;
        }
        if !enter(&owner.delayed, MOST_DELAYED_OF_OWNER) {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(Held(&self.waiting, &owner.delayed))
    }

    fn is_to_be_logged(&self) -> bool {
        let now = self.began.elapsed().as_secs() + LOG_EVERY;
        let due = |at| (now >= at + LOG_EVERY).then_some(now);
        self.logged_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, due).is_ok()
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
        self.1.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether an error is the one answer to unknown ids.
pub fn is_unknown(error: &Payload) -> bool {
    *error == taskgate_wire::RpcError::unknown_task().to_payload()
}
