//! Tasks in one SQLite file: one writer, a few readers, and checkpoints out of everybody's way.
//!
//! - `writer` commits whatever waits together, so that one `fsync` pays for many writes.
//! - `reader` answers on the calling thread; a lookup costs less than handing it to another thread would.
//! - `checkpoint` copies the write-ahead log back into the file, so that no commit has to.
//! - `file` sees to it that no other process has the same file open.

mod checkpoint;
mod code;
mod file;
mod open;
mod read;
mod reader;
mod row;
#[cfg(test)]
mod tests;
mod write;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use taskgate_task::{Change, Event, NewTask, Owner, Payload, Step, Task, TaskId, Timestamp};

use super::{Page, Store, StoreError};
use crate::Feed;

/// How a [`SqliteStore`] is opened.
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    /// The file. It is made, readable by its owner alone, if there is none; so is its directory.
    pub path: PathBuf,
    /// How many readers can work at the same time, each with about 1 MiB of cache. Opened as they are needed.
    pub readers: usize,
    /// How long a statement waits for a lock another connection holds (a backup, an administrator's shell)
    /// before it fails.
    pub busy_timeout: Duration,
}

impl SqliteOptions {
    /// The defaults for a store in the file `path`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        SqliteOptions { path: path.into(), readers: 4, busy_timeout: Duration::from_secs(10) }
    }
}

/// Tasks in one SQLite file, which this process alone may have open for writing.
///
/// Times and spans are kept in whole milliseconds. Clones share the store. When the last one is dropped, the waiting
/// writes are committed and the file is left without a write-ahead log.
#[derive(Debug, Clone)]
pub struct SqliteStore(Arc<Inner>);

/// Fields are dropped in this order: the file may be opened by others only when the writer is done with it.
#[derive(Debug)]
struct Inner {
    readers: Arc<reader::Readers>,
    writer: writer::Writer,
    feed: Feed,
    _file: file::StoreFile,
}

impl SqliteStore {
    /// Opens the store and brings its file up to this version's layout.
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`] if the store is open already, in this process or another, if the file belongs to another
    /// application or to a newer taskgate, or if it cannot be opened, read or written.
    pub fn open(options: SqliteOptions) -> Result<SqliteStore, StoreError> {
        let file = file::StoreFile::claim(&options.path)?;
        let connections = open::Connections::new(file.path(), options.busy_timeout);
        let feed = Feed::new();
        let commits = Arc::default();
        let readers = reader::Readers::new(connections.clone(), Arc::clone(&commits), options.readers);
        let readers = Arc::new(readers);
        let writer = writer::Writer::start(&connections, feed.clone(), commits, Arc::clone(&readers))?;
        Ok(SqliteStore(Arc::new(Inner { readers, writer, feed, _file: file })))
    }
}

impl Store for SqliteStore {
    fn create(&self, new: NewTask) -> BoxFuture<'static, Result<Task, StoreError>> {
        Box::pin(self.0.writer.send(write::Create(new)))
    }

    fn apply(
        &self,
        id: TaskId,
        step: Step,
        now: Timestamp,
    ) -> BoxFuture<'static, Result<Change, StoreError>> {
        Box::pin(self.0.writer.send(write::Apply { id, step, now }))
    }

    fn get(&self, id: TaskId) -> Result<Option<Task>, StoreError> {
        self.0.readers.with(|db| read::get(db, id))
    }

    fn work(&self, id: TaskId) -> Result<Option<Payload>, StoreError> {
        self.0.readers.with(|db| read::work(db, id))
    }

    fn list(&self, owner: &Owner, after: Option<i64>, limit: usize) -> Result<Page, StoreError> {
        self.0.readers.with(|db| read::list(db, owner, after, limit))
    }

    fn due(&self, now: Timestamp, limit: usize) -> Result<Vec<TaskId>, StoreError> {
        self.0.readers.with(|db| read::due(db, now, limit))
    }

    fn open(&self, after: i64, limit: usize) -> Result<Vec<Task>, StoreError> {
        self.0.readers.with(|db| read::open(db, after, limit))
    }

    fn events(&self, id: TaskId) -> Result<Vec<Event>, StoreError> {
        self.0.readers.with(|db| read::events(db, id))
    }

    fn secret(&self, name: &str) -> Result<[u8; 32], StoreError> {
        match self.0.readers.with(|db| read::secret(db, name))? {
            Some(kept) => Ok(kept),
            None => self.0.writer.send_and_wait(write::KeepSecret::new(name)?),
        }
    }

    fn feed(&self) -> &Feed {
        &self.0.feed
    }
}

/// What SQLite said, as the store's own error.
fn failed(error: rusqlite::Error) -> StoreError {
    StoreError::Failed(error.to_string())
}
