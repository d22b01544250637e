//! A store that keeps what requestors and the work put into it encrypted, whatever store lies beneath.
//!
//! Values are encrypted before a write is handed on, and decrypted after a read: the store beneath sees JSON strings and texts
//! that nobody can read without the key. What tasks are found by (ids, owners, runners, times, statuses, idempotency keys and
//! digests) stays as it is, and so do the names of methods and keys of questions, and events.
//!
//! - `keys` is the form of an encrypted value, and who can open it.
//! - `values` says what is encrypted, and which place each value is bound to.
//! - `unlock` holds the keys against those that the store wants.
//! - `reseal` encrypts anew what another key has encrypted, or none.

mod keys;
mod reseal;
#[cfg(test)]
mod tests;
mod unlock;
mod values;

use std::sync::Arc;

use taskgate_task::{
    Change, Event, IdempotencyKey, NewTask, NodeId, Owner, Payload, Step, Task, TaskId, Timestamp,
};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use self::keys::KeyRing;
use self::values::{Doubt, Known};
use super::{Heard, Kept, KeptSecret, KeptTask, Node, Page, Store, StoreError, Stored, Tally};
use crate::{Clock, Feed, News};

pub use keys::{Key, KeyId};
pub use reseal::Resealed;
pub(super) use unlock::{check_given, is_of_a_key};
pub use unlock::{is_encrypted, unlock};

/// A store whose values are encrypted (XChaCha20-Poly1305) in the store beneath it. Clones share both.
///
/// A value that was changed, or put in the place of another one, does not open: what needs it fails with
/// [`StoreError::Undecipherable`]; lists leave it out, and orders are carried out without it.
#[derive(Clone)]
pub struct SealedStore {
    beneath: Arc<dyn Store>,
    keys: Arc<KeyRing>,
    feed: Feed,
}

impl std::fmt::Debug for SealedStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SealedStore").field("keys", &self.keys).finish_non_exhaustive()
    }
}

/// From how many bytes on values are decrypted on a thread that may take its time.
const LONG: usize = 1 << 20;

impl SealedStore {
    fn over(beneath: Arc<dyn Store>, keys: Arc<KeyRing>) -> SealedStore {
        let feed = Feed::new();
        let ring = Arc::clone(&keys);
        beneath.feed().pass_on(&feed, move |news| match news {
            News::Changed(task) => {
                let mut task = Task::clone(&task);
                // What is left out is in the log; whoever needs it reads the record.
                let _ = ring.open_task(&mut task, &Known::default(), Doubt::LeavesOut);
                News::Changed(Arc::new(task))
            }
            News::Deleted(id) => News::Deleted(id),
        });
        SealedStore { beneath, keys, feed }
    }

    /// Decrypts what was read, elsewhere if it is long.
    fn opened<T: Send + 'static>(
        &self,
        read: Stored<T>,
        weight: impl FnOnce(&T) -> usize + Send + 'static,
        open: impl FnOnce(&KeyRing, &mut T) -> Result<(), StoreError> + Send + 'static,
    ) -> Stored<T> {
        let keys = Arc::clone(&self.keys);
        Box::pin(async move {
            let mut read = read.await?;
            match Handle::try_current() {
                Ok(runtime) if weight(&read) > LONG => {
                    let opening = runtime.spawn_blocking(move || open(&keys, &mut read).map(|()| read));
                    opening.await.map_err(|error| StoreError::Failed(format!("decrypting ended: {error}")))?
                }
                _ => open(&keys, &mut read).map(|()| read),
            }
        })
    }

    /// Decrypts records that are looked at and not passed on.
    fn listed(&self, read: Stored<Vec<Task>>) -> Stored<Vec<Task>> {
        self.opened(
            read,
            |_| 0,
            |keys, tasks| {
                tasks
                    .iter_mut()
                    .try_for_each(|task| keys.open_task(task, &Known::default(), Doubt::LeavesOut))
            },
        )
    }

    fn page(&self, read: Stored<Page>) -> Stored<Page> {
        self.opened(
            read,
            |_| 0,
            |keys, page| {
                let mut tasks = page.tasks.iter_mut();
                tasks.try_for_each(|task| keys.open_task(task, &Known::default(), Doubt::LeavesOut))
            },
        )
    }
}

fn fails<T: Send + 'static>(error: StoreError) -> Stored<T> {
    Box::pin(std::future::ready(Err(error)))
}

/// How long what can be long in a record is.
fn weight(task: &Task) -> usize {
    let long = [task.checkpoint.as_ref(), task.outcome.as_ref().map(taskgate_task::Outcome::body)];
    long.into_iter().flatten().map(|payload| payload.as_str().len()).sum::<usize>() + task.inputs.weight()
}

impl Store for SealedStore {
    fn create(&self, mut new: NewTask) -> Stored<Task> {
        match self.keys.seal_new(&mut new) {
            Ok(known) => self.opened(
                self.beneath.create(new),
                |_| 0,
                move |keys, task| keys.open_task(task, &known, Doubt::LeavesOut),
            ),
            Err(error) => fails(error),
        }
    }

    fn apply(&self, id: TaskId, mut step: Step, now: Timestamp) -> Stored<Change> {
        // An attempt cannot go on from what it cannot read. Whatever else happens to a task can happen all the same.
        let doubt = if matches!(step, Step::Begin { .. }) { Doubt::Fails } else { Doubt::LeavesOut };
        match self.keys.seal_step(id, &mut step) {
            Ok(known) => self.opened(
                self.beneath.apply(id, step, now),
                |change| weight(&change.task),
                move |keys, change| keys.open_change(change, &known, doubt),
            ),
            Err(error) => fails(error),
        }
    }

    fn get(&self, id: TaskId) -> Stored<Option<Task>> {
        self.opened(
            self.beneath.get(id),
            |task| task.as_ref().map_or(0, weight),
            |keys, task| match task {
                Some(task) => keys.open_task(task, &Known::default(), Doubt::Fails),
                None => Ok(()),
            },
        )
    }

    fn work(&self, id: TaskId) -> Stored<Option<Payload>> {
        self.opened(
            self.beneath.work(id),
            |work| work.as_ref().map_or(0, |work| work.as_str().len()),
            move |keys, work| match work {
                Some(work) => keys.open_work(id, work),
                None => Ok(()),
            },
        )
    }

    fn keyed(&self, owner: &Owner, key: &IdempotencyKey) -> Stored<Option<(TaskId, bool)>> {
        self.beneath.keyed(owner, key)
    }

    fn list(&self, owner: &Owner, after: Option<i64>, limit: usize) -> Stored<Page> {
        self.page(self.beneath.list(owner, after, limit))
    }

    fn all(&self, after: Option<i64>, limit: usize) -> Stored<Page> {
        self.page(self.beneath.all(after, limit))
    }

    /// How much is kept, and so of encrypted values how long they have become.
    fn tally(&self, owner: Option<&Owner>) -> Stored<Tally> {
        self.beneath.tally(owner)
    }

    fn due(&self, now: Timestamp, limit: usize) -> Stored<Vec<TaskId>> {
        self.beneath.due(now, limit)
    }

    fn ready(&self, now: Timestamp, limit: usize) -> Stored<Vec<Task>> {
        self.listed(self.beneath.ready(now, limit))
    }

    fn orphans(&self, limit: usize) -> Stored<Vec<Task>> {
        self.listed(self.beneath.orphans(limit))
    }

    fn carried(&self, node: NodeId, after: i64, limit: usize) -> Stored<Vec<Task>> {
        self.listed(self.beneath.carried(node, after, limit))
    }

    fn versions(&self, ids: Vec<TaskId>) -> Stored<Vec<(TaskId, u64)>> {
        self.beneath.versions(ids)
    }

    fn events(&self, id: TaskId) -> Stored<Vec<Event>> {
        self.beneath.events(id)
    }

    /// What it gives is decrypted, and without what the store keeps of its keys.
    fn dump(&self, after: Option<i64>, limit: usize) -> Stored<Vec<Kept>> {
        self.opened(
            self.beneath.dump(after, limit),
            |all| all.iter().map(|kept| if let Kept::Task(kept) = kept { kept.weight() } else { 0 }).sum(),
            |keys, all| {
                all.retain(|kept| !matches!(kept, Kept::Secret(secret) if unlock::is_of_a_key(&secret.name)));
                all.iter_mut().try_for_each(|kept| match kept {
                    Kept::Secret(KeptSecret { name, value }) => {
                        *value = unlock::open_secret(keys, name, value)?;
                        Ok(())
                    }
                    Kept::Task(kept) => keys.open_kept(kept),
                })
            },
        )
    }

    fn load(&self, mut all: Vec<Kept>) -> Stored<()> {
        let sealed = all.iter_mut().try_for_each(|kept| match kept {
            Kept::Secret(secret) if unlock::is_of_a_key(&secret.name) => Err(StoreError::Keys(
                "what is encrypted already, with keys of its own, is not encrypted again".to_owned(),
            )),
            Kept::Secret(KeptSecret { name, value }) => {
                *value = unlock::seal_secret(&self.keys, name, value)?;
                Ok(())
            }
            Kept::Task(kept) => self.keys.seal_kept(kept),
        });
        match sealed {
            Ok(()) => self.beneath.load(all),
            Err(error) => fails(error),
        }
    }

    fn rewrite(&self, mut kept: Vec<KeptTask>) -> Stored<usize> {
        match kept.iter_mut().try_for_each(|kept| self.keys.seal_kept(kept)) {
            Ok(()) => self.beneath.rewrite(kept),
            Err(error) => fails(error),
        }
    }

    fn keep(&self, name: &str, fresh: Vec<u8>) -> Stored<Vec<u8>> {
        let name = name.to_owned();
        match unlock::seal_secret(&self.keys, &name, &fresh) {
            Ok(sealed) => self.opened(
                self.beneath.keep(&name, sealed),
                |_| 0,
                move |keys, value| {
                    *value = unlock::open_secret(keys, &name, value)?;
                    Ok(())
                },
            ),
            Err(error) => fails(error),
        }
    }

    fn join(&self, node: Node) -> Stored<()> {
        self.beneath.join(node)
    }

    fn renew(&self, node: NodeId, until: Timestamp) -> Stored<bool> {
        self.beneath.renew(node, until)
    }

    fn leave(&self, node: NodeId) -> Stored<()> {
        self.beneath.leave(node)
    }

    fn bury(&self, node: NodeId, now: Timestamp) -> Stored<bool> {
        self.beneath.bury(node, now)
    }

    fn nodes(&self) -> Stored<Vec<Node>> {
        self.beneath.nodes()
    }

    fn feed(&self) -> &Feed {
        &self.feed
    }

    fn others(&self) -> Option<mpsc::UnboundedReceiver<Heard>> {
        self.beneath.others()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.beneath.clock()
    }
}
