//! Where tasks are kept. One trait; every implementation passes the same conformance suite.

mod code;
mod columns;
pub mod conformance;
mod kept;
mod memory;
#[cfg(feature = "postgres")]
mod postgres;
mod sealed;
mod sqlite;
mod tally;
pub mod transfer;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use taskgate_task::{
    Change, Event, IdempotencyKey, NewTask, NodeId, Owner, Payload, Refusal, Step, Task, TaskId, Timestamp,
    Who,
};
use tokio::sync::mpsc;

use crate::{Clock, Feed, SystemClock};

pub use kept::{DUMP_SIZE, Kept, KeptSecret, KeptTask};
pub use memory::MemoryStore;
#[cfg(feature = "postgres")]
pub use postgres::{PostgresOptions, PostgresStore};
pub use sealed::{Key, KeyId, Resealed, SealedStore, is_encrypted, unlock};
pub use sqlite::{Findings, SqliteOptions, SqliteStore, Vacuumed};
pub use tally::Tally;

/// Why a store could not do what it was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The move is not legal; nothing was written. Not a fault.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// There is no such task.
    #[error("no such task")]
    NotFound,
    /// A task with this id exists already; the caller makes a new id and tries again.
    #[error("this id is taken")]
    IdTaken,
    /// The owner has a task with this idempotency key.
    #[error("the idempotency key is taken")]
    KeyTaken {
        /// That task.
        id: TaskId,
        /// Whether it was created for the same call, by the digest in the key.
        same: bool,
    },
    /// What a task is found by is longer than a store can look for.
    #[error("{0}")]
    TooLong(String),
    /// The store is encrypted with another key than those that were given, or with one where none was.
    #[error("{0}")]
    Keys(String),
    /// A value of a task cannot be decrypted: it was changed, comes from another place, or its key is not here.
    #[error("the {place} of {id:?} cannot be decrypted: {why}")]
    Undecipherable {
        /// Which task.
        id: TaskId,
        /// Which of its values, for people.
        place: &'static str,
        /// Why, without anything of the value.
        why: String,
    },
    /// The store itself failed: the disk is full, the file is damaged, the connection is gone.
    #[error("the store failed: {0}")]
    Failed(String),
}

/// A page of an owner's tasks, oldest first.
#[derive(Debug, Clone)]
pub struct Page {
    /// The records. As in every list, `null` stands for the outcomes' bodies and for checkpoints.
    pub tasks: Vec<Task>,
    /// Where the next page starts, if there is one: the locator of the last task of this page.
    pub next: Option<i64>,
}

/// A node as the store knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its id.
    pub id: NodeId,
    /// For people: where it runs.
    pub name: String,
    /// When it joined.
    pub joined_at: Timestamp,
    /// Until when it holds what it carries; renewed by its heartbeats.
    pub lease_until: Timestamp,
}

/// What other nodes did to a shared store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// The tasks at these locators have changed.
    Changed(Vec<i64>),
    /// Changes may have been missed.
    Gap,
}

/// What a store gives back: it may be there at once, or arrive over a network.
pub type Stored<T> = BoxFuture<'static, Result<T, StoreError>>;

/// Where tasks are kept.
///
/// Every write is one commit of the new record and its event, durable before the future resolves, and
/// published to [`Store::feed`] after that commit even if the caller has gone away. Dropping a returned future
/// does not take the write back. Writes to one task started from one thread, one after the other, are applied in that
/// order, even when the first one's future has not been polled yet: the write is enqueued when the method is called.
///
/// A store is *exclusive* if one process alone can have it open, and *shared* otherwise ([`Store::others`]).
pub trait Store: Send + Sync + 'static {
    /// Keeps a new task.
    fn create(&self, new: NewTask) -> Stored<Task>;

    /// Reads the record, makes the step with [`Task::step`], and writes what it led to, all in one transaction. Of a record
    /// that is deleted, what can be long is left out, as in lists.
    fn apply(&self, id: TaskId, step: Step, now: Timestamp) -> Stored<Change>;

    /// The record with its outcome. Does not look at owners or at time.
    fn get(&self, id: TaskId) -> Stored<Option<Task>>;

    /// The description of the work, as given at the creation; `None` once the task has ended and nothing of its work is
    /// left to be stopped, so that what a caller sent is not kept longer than it is of use.
    fn work(&self, id: TaskId) -> Stored<Option<Payload>>;

    /// The owner's task with this key and tool, and whether it was created for the same call.
    fn keyed(&self, owner: &Owner, key: &IdempotencyKey) -> Stored<Option<(TaskId, bool)>>;

    /// The owner's tasks after the locator `after`, oldest first, at most `limit`.
    fn list(&self, owner: &Owner, after: Option<i64>, limit: usize) -> Stored<Page>;

    /// The tasks of all owners after the locator `after`, oldest first, at most `limit`: for whoever runs the store.
    fn all(&self, after: Option<i64>, limit: usize) -> Stored<Page>;

    /// How much there is of this owner, or of all. Every task that it counts is looked at, so it is for whoever asks now and then.
    fn tally(&self, owner: Option<&Owner>) -> Stored<Tally>;

    /// Ids of tasks whose [`Task::due_at`] is at or before `now`, earliest first, at most `limit`.
    fn due(&self, now: Timestamp, limit: usize) -> Stored<Vec<TaskId>>;

    /// Records of tasks that nobody carries and that are ready to be begun at `now`, earliest first, at most `limit`. What
    /// can be long is left out, as in a [`Page`].
    fn ready(&self, now: Timestamp, limit: usize) -> Stored<Vec<Task>>;

    /// Records of tasks carried by a node that has not joined, has left or was buried; at most `limit`, as in a [`Page`].
    fn orphans(&self, limit: usize) -> Stored<Vec<Task>>;

    /// Records of tasks that this node carries, with locators above `after`, ascending, at most `limit`.
    fn carried(&self, node: NodeId, after: i64, limit: usize) -> Stored<Vec<Task>>;

    /// The version of each of these tasks that there is, in no order.
    fn versions(&self, ids: Vec<TaskId>) -> Stored<Vec<(TaskId, u64)>>;

    /// The events of a task, oldest first.
    fn events(&self, id: TaskId) -> Stored<Vec<Event>>;

    /// Everything there is of the tasks after the locator `after`, oldest first: at most `limit` tasks, and no more when
    /// these have [`DUMP_SIZE`] bytes. Without an `after` the store's secrets come first. No task means that there are no more.
    fn dump(&self, after: Option<i64>, limit: usize) -> Stored<Vec<Kept>>;

    /// Keeps what a store has dumped: all of it, or nothing if anything of it is taken. A secret takes the place of the one of
    /// its name. Nobody is told: it is no news.
    fn load(&self, kept: Vec<Kept>) -> Stored<()>;

    /// Writes the values of these tasks anew (messages, questions and answers, checkpoint, outcome, work), of each that is
    /// still at the same version, and says how many these were. It is no move of any task: nobody is told, and nothing
    /// else of it is written.
    fn rewrite(&self, kept: Vec<KeptTask>) -> Stored<usize>;

    /// What is kept under this name for the store itself: `fresh`, from now on, if there was nothing.
    fn keep(&self, name: &str, fresh: Vec<u8>) -> Stored<Vec<u8>>;

    /// A secret of this store, made on first use and kept for ever; `name` says what for.
    fn secret(&self, name: &str) -> Stored<[u8; 32]> {
        let wrong = format!("the secret {name} has the wrong length; is the store encrypted?");
        match fresh_secret() {
            Ok(fresh) => {
                let kept = self.keep(name, fresh.to_vec());
                Box::pin(async move { kept.await?.try_into().map_err(|_| StoreError::Failed(wrong)) })
            }
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    /// A node begins to carry work. In an exclusive store every node before it is dead.
    fn join(&self, node: Node) -> Stored<()>;

    /// A heartbeat: the node's lease lasts until then. `false` if it has been buried: it holds nothing any more.
    fn renew(&self, node: NodeId, until: Timestamp) -> Stored<bool>;

    /// A node carries nothing any more and goes.
    fn leave(&self, node: NodeId) -> Stored<()>;

    /// Declares a node dead, if its lease is over at `now`: what it carried is orphaned. `false` if it is not, or is gone.
    fn bury(&self, node: NodeId, now: Timestamp) -> Stored<bool>;

    /// The nodes that have joined.
    fn nodes(&self) -> Stored<Vec<Node>>;

    /// Where committed changes of this process are published. Whoever listens to [`Store::others`] publishes theirs.
    fn feed(&self) -> &Feed;

    /// What other nodes do, from now on. `None` if there can be no other node. It only makes things faster: what it
    /// does not tell is found by looking at [`Store::versions`].
    fn others(&self) -> Option<mpsc::UnboundedReceiver<Heard>> {
        None
    }

    /// The time that all nodes of this store share.
    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(SystemClock)
    }
}

/// How long an owner's name, a tool's and an idempotency key may be together, in bytes, of which U+0000 and U+001A count
/// twice: what an index of Postgres can hold. Every store draws the line there, so that what one takes another can take over.
pub const LONGEST_NAMES: usize = 2_500;

/// Refuses a task that could not be found again.
fn check_names(owner: &Owner, key: Option<&IdempotencyKey>) -> Result<(), StoreError> {
    let length = |name: &str| name.len() + name.bytes().filter(|byte| matches!(byte, 0 | 0x1a)).count();
    let key = key.map_or(0, |key| length(&key.tool) + length(&key.key));
    let all = length(owner.as_str()) + key;
    if all <= LONGEST_NAMES {
        return Ok(());
    }
    Err(StoreError::TooLong(format!(
        "the names of the owner and the tool and the idempotency key have {all} bytes together, more than the \
         {LONGEST_NAMES} that can be kept"
    )))
}

impl Page {
    /// A page of at most `limit` tasks, made of one more than that if there are more.
    fn of(mut tasks: Vec<Task>, limit: usize) -> Page {
        let more = tasks.len() > limit;
        tasks.truncate(limit);
        Page { next: if more { tasks.last().map(|task| task.id.locator()) } else { None }, tasks }
    }
}

/// The first event of a task, written with its record.
fn creation(task: &Task) -> Event {
    Event {
        version: task.version,
        at: task.created_at,
        who: Who::Requestor,
        from: None,
        to: task.status,
        why: "created".to_owned(),
    }
}

/// What a store keeps as a secret that it has not kept yet.
fn fresh_secret() -> Result<[u8; 32], StoreError> {
    let mut fresh = [0; 32];
    getrandom::fill(&mut fresh).map_err(|error| StoreError::Failed(error.to_string()))?;
    Ok(fresh)
}

/// Leaves out what can be long. Every store does so in its lists and when it deletes, so that none of its callers comes to
/// rely on it.
fn spare(task: &mut Task) {
    task.checkpoint = task.checkpoint.as_ref().map(|_| Payload::null());
    if let Some(outcome) = &mut task.outcome {
        *outcome.body_mut() = Payload::null();
    }
}

/// Whether the description of the work can still be wanted.
fn is_work_wanted(task: &Task) -> bool {
    !task.status.is_terminal() || task.carrier != taskgate_task::Carrier::Nobody
}
