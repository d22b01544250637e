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
#[derive(Default)]
pub struct Tasks {
    open: AtomicU64,
    stored: AtomicU64,
    bytes: AtomicU64,
    /// Made here since they were counted, and how long what was sent for them is.
    made: AtomicU64,
    made_bytes: AtomicU64,
    /// Calls that may become tasks.
    pending: AtomicU64,
    counted: tokio::sync::Mutex<Option<Counted>>,
}

#[derive(Clone, Copy)]
struct Counted {
    at: Instant,
    again_at: Instant,
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
        let refused = match self.count(store, owner, is_shared).await {
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
        match self.counted.try_lock() {
            Ok(counted) => counted.is_some_and(|counted| !is_shared || counted.at.elapsed() < BELIEVED),
            // Being counted at the moment.
            Err(_) => false,
        }
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

    /// Counts what there is, unless that was just done.
    async fn count(
        &self,
        store: &dyn Store,
        owner: Option<&Owner>,
        is_shared: bool,
    ) -> Result<(), StoreError> {
        let mut counted = self.counted.lock().await;
        let now = Instant::now();
        if counted
            .is_some_and(|counted| now < counted.again_at && (!is_shared || counted.at.elapsed() < BELIEVED))
        {
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
        let at = Instant::now();
        *counted = Some(Counted { at, again_at: at + PAUSE.max((at - now) * SHARE) });
        Ok(())
    }
}
