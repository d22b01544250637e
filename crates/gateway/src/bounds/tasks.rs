//! How many tasks there may be, and how much they may hold.
//!
//! What there is stands in the store, which several nodes may share. Counting it costs a look at every task, so what was last counted is
//! kept, and what this node has made since is added. Only when that reaches a limit is it counted again: far below a limit nothing is
//! ever counted, and close to it, no more often than the counting is worth. What other nodes have made since is not known before
//! then, so that several nodes together can exceed a limit for a moment.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use taskgate_engine::{Store, StoreError, Tally};
use taskgate_task::Owner;
use tokio::time::Instant;

use super::{Limit, LimitSettings, Refusal};

/// How long what was counted on a shared store is believed.
const BELIEVED: Duration = Duration::from_secs(5);
/// The shortest time between two countings.
const PAUSE: Duration = Duration::from_millis(100);
/// At most one part in so many of the time goes by with counting.
const SHARE: u32 = 20;

/// The tasks of an owner, or all.
pub struct Tasks {
    open: AtomicU64,
    stored: AtomicU64,
    bytes: AtomicU64,
    /// Made here since they were counted, and how long what was sent for them is.
    made: AtomicU64,
    made_bytes: AtomicU64,
    /// Calls that may become tasks.
    pending: AtomicU64,
    began: Instant,
    /// When they were counted, in milliseconds since then and one more; 0 if they never were.
    counted_at: AtomicU64,
    /// Held by whoever counts: not before when it is to be done again.
    counting: tokio::sync::Mutex<Instant>,
}

/// What is allowed of it.
pub struct Most {
    open: (Limit, Option<usize>),
    stored: (Limit, Option<usize>),
    bytes: (Limit, Option<usize>),
}

impl Most {
    /// As many as there may be.
    pub const ANY: Most = Most {
        open: (Limit::OpenTasks, None),
        stored: (Limit::StoredTasks, None),
        bytes: (Limit::StoredSize, None),
    };

    /// In all.
    pub fn in_all(settings: &LimitSettings) -> Most {
        Most {
            open: (Limit::OpenTasks, settings.open_tasks),
            stored: (Limit::StoredTasks, settings.stored_tasks),
            bytes: (Limit::StoredSize, settings.stored_size),
        }
    }

    /// Of one owner.
    pub fn of_owner(settings: &LimitSettings) -> Most {
        Most {
            open: (Limit::OwnerOpenTasks, settings.owner_open_tasks),
            stored: (Limit::OwnerStoredTasks, settings.owner_stored_tasks),
            bytes: (Limit::OwnerStoredSize, settings.owner_stored_size),
        }
    }

    fn is_none(&self) -> bool {
        self.open.1.is_none() && self.stored.1.is_none() && self.bytes.1.is_none()
    }
}

impl Tasks {
    pub fn new() -> Self {
        let began = Instant::now();
        let [open, stored, bytes, made, made_bytes, pending, counted_at] = Default::default();
        let counting = tokio::sync::Mutex::new(began);
        Tasks { open, stored, bytes, made, made_bytes, pending, began, counted_at, counting }
    }

    /// Takes a place for a call that may become a task. `owner` says whose these are.
    pub async fn enter(
        &self,
        store: &dyn Store,
        owner: Option<&Owner>,
        most: &Most,
        is_shared: bool,
    ) -> Result<(), Refusal> {
        self.pending.fetch_add(1, Ordering::Relaxed);
        if most.is_none() || self.is_known(is_shared) && self.over(most).is_none() {
            return Ok(());
        }
        let refused = match self.count(store, owner, most, is_shared).await {
            Ok(()) => self.over(most),
            Err(error) => {
                // Whoever cannot count cannot keep a task either, and then says so.
                tracing::warn!(%error, "the tasks could not be counted");
                None
            }
        };
        match refused {
            Some(refusal) => {
                self.leave(None);
                Err(refusal)
            }
            None => Ok(()),
        }
    }

    /// The call has ended, or has become a task for which so many bytes were sent.
    pub fn leave(&self, made: Option<u64>) {
        if let Some(bytes) = made {
            self.made.fetch_add(1, Ordering::Relaxed);
            self.made_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        self.pending.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether what was counted can be believed.
    fn is_known(&self, is_shared: bool) -> bool {
        match self.counted_at.load(Ordering::Relaxed) {
            0 => false,
            at => !is_shared || self.now().saturating_sub(at) < BELIEVED.as_millis() as u64,
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
    }

    /// The limit that what there is exceeds, the places that are taken included.
    fn over(&self, most: &Most) -> Option<Refusal> {
        let [open, stored, bytes, made, made_bytes, pending] =
            [&self.open, &self.stored, &self.bytes, &self.made, &self.made_bytes, &self.pending]
                .map(|count| count.load(Ordering::Relaxed));
        let exceeds = |(limit, most): (Limit, Option<usize>), is: u64| {
            most.filter(|most| is > *most as u64).map(|most| Refusal::new(limit, most))
        };
        let coming = made + pending;
        exceeds(most.open, open + coming)
            .or_else(|| exceeds(most.stored, stored + coming))
            .or_else(|| exceeds(most.bytes, bytes + made_bytes))
    }

    /// Counts what there is, unless somebody else just did.
    async fn count(
        &self,
        store: &dyn Store,
        owner: Option<&Owner>,
        most: &Most,
        is_shared: bool,
    ) -> Result<(), StoreError> {
        let mut not_before = self.counting.lock().await;
        let began = Instant::now();
        if self.is_known(is_shared) && (self.over(most).is_none() || began < *not_before) {
            return Ok(());
        }
        // What is made meanwhile may be in the count or not; counted twice it is until the next time.
        let [made, made_bytes] = [&self.made, &self.made_bytes].map(|count| count.load(Ordering::Relaxed));
        let tally: Tally = store.tally(owner).await?;
        self.open.store(tally.open(), Ordering::Relaxed);
        self.stored.store(tally.stored(), Ordering::Relaxed);
        self.bytes.store(tally.bytes, Ordering::Relaxed);
        self.made.fetch_sub(made, Ordering::Relaxed);
        self.made_bytes.fetch_sub(made_bytes, Ordering::Relaxed);
        self.counted_at.store(self.now(), Ordering::Relaxed);
        *not_before = Instant::now() + PAUSE.max(began.elapsed() * SHARE);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taskgate_engine::MemoryStore;

    fn most(open: usize) -> Most {
        Most::of_owner(&LimitSettings { owner_open_tasks: Some(open), ..LimitSettings::default() })
    }

    /// Far below its limit nothing is counted but once, and at it no more often than the counting is worth.
    #[tokio::test(start_paused = true)]
    async fn what_is_counted_is_believed_until_it_comes_near_the_limit() {
        let (tasks, store, owner) = (Tasks::new(), MemoryStore::new(), Owner::local());
        let enter = async || tasks.enter(&store, Some(&owner), &most(3), false).await;
        for _ in 0..3 {
            enter().await.expect("room");
            // The store does not have it: it has ended and is gone, which only counting can tell.
            tasks.leave(Some(10));
        }
        let refused = enter().await.expect_err("as far as is known there are three");
        assert_eq!(refused, Refusal::new(Limit::OwnerOpenTasks, 3));
        tokio::time::advance(PAUSE).await;
        enter().await.expect("counted again");
        enter().await.expect("room");
        enter().await.expect("room");
        enter().await.expect_err("three calls may become tasks");
        tasks.leave(None);
        enter().await.expect("one has ended");
    }
}
