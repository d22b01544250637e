//! Where tasks are kept. One trait, few methods; every implementation passes the same conformance suite.

pub mod conformance;
mod memory;
mod sqlite;

use futures_util::future::BoxFuture;
use taskgate_task::{Change, Event, NewTask, Owner, Payload, Refusal, Step, Task, TaskId, Timestamp, Who};

use crate::Feed;

pub use memory::MemoryStore;
pub use sqlite::{SqliteOptions, SqliteStore};

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
    /// The store itself failed: the disk is full, the file is damaged, the connection is gone.
    #[error("the store failed: {0}")]
    Failed(String),
}

/// A page of an owner's tasks, oldest first.
#[derive(Debug, Clone)]
pub struct Page {
    /// The records, without their outcomes' bodies where the store can spare reading them.
    pub tasks: Vec<Task>,
    /// Where the next page starts, if there is one: the locator of the last task of this page.
    pub next: Option<i64>,
}

/// Where tasks are kept.
///
/// Every write is one commit of the new record and its event, durable before the future resolves, and
/// published to [`Store::feed`] after that commit even if the caller has gone away. Dropping a returned future
/// does not take the write back. Writes started from one thread, one after the other, are applied in that order,
/// even when the first one's future has not been polled yet: the write is enqueued when the method is called.
pub trait Store: Send + Sync + 'static {
    /// Keeps a new task.
    fn create(&self, new: NewTask) -> BoxFuture<'static, Result<Task, StoreError>>;

    /// Reads the record, makes the step with [`Task::step`], and writes what it led to, all in one transaction.
    fn apply(&self, id: TaskId, step: Step, now: Timestamp)
    -> BoxFuture<'static, Result<Change, StoreError>>;

    /// The record with its outcome. Does not look at owners or at time.
    fn get(&self, id: TaskId) -> Result<Option<Task>, StoreError>;

    /// The description of the work, as given at the creation; `None` once the task has ended, so that what a caller
    /// sent is not kept longer than it is of use.
    fn work(&self, id: TaskId) -> Result<Option<Payload>, StoreError>;

    /// The owner's tasks after the locator `after`, oldest first, at most `limit`.
    fn list(&self, owner: &Owner, after: Option<i64>, limit: usize) -> Result<Page, StoreError>;

    /// Ids of tasks whose [`Task::due_at`] is at or before `now`, earliest first, at most `limit`.
    fn due(&self, now: Timestamp, limit: usize) -> Result<Vec<TaskId>, StoreError>;

    /// Records of tasks that are not terminal, with locators above `after`, ascending, at most `limit`.
    fn open(&self, after: i64, limit: usize) -> Result<Vec<Task>, StoreError>;

    /// The events of a task, oldest first.
    fn events(&self, id: TaskId) -> Result<Vec<Event>, StoreError>;

    /// A secret of this store, made on first use and kept for ever; `name` says what for.
    fn secret(&self, name: &str) -> Result<[u8; 32], StoreError>;

    /// Where committed changes are published.
    fn feed(&self) -> &Feed;
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
