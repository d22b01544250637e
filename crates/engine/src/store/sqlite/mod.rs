//! Tasks in one SQLite file: one writer, a few readers, and checkpoints out of everybody's way.
//!
//! - `writer` commits whatever waits together, so that one `fsync` pays for many writes.
//! - `reader` answers on the calling thread; a lookup costs less than handing it to another thread would.
//! - `checkpoint` copies the write-ahead log back into the file, so that no commit has to.
//! - `file` sees to it that no other process has the same file open.

mod blob;
mod care;
mod checkpoint;
mod dump;
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

use futures_util::future::ready;
use rusqlite::Connection;
use taskgate_task::{
    Change, Event, IdempotencyKey, NewTask, NodeId, Owner, Payload, Step, Task, TaskId, Timestamp,
};
use tokio::runtime::Handle;

pub use self::care::{Findings, Vacuumed};
use self::read::Found;
use super::{Kept, KeptTask, Node, Page, Store, StoreError, Stored, Tally};
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

impl SqliteStore {
    /// Reads on the calling thread, now.
    fn read<T: Send + 'static>(&self, read: impl FnOnce(&Connection) -> Result<T, StoreError>) -> Stored<T> {
        Box::pin(ready(self.0.readers.with(read)))
    }

    /// Reads on the calling thread what is short, and on a thread that may wait what turns out to be long: every megabyte
    /// takes a millisecond or more, in which the calling thread could serve others.
    fn find<T: Send + 'static>(
        &self,
        read: impl Fn(&Connection, u64) -> Result<Found<T>, StoreError> + Send + 'static,
    ) -> Stored<Option<T>> {
        let found = match (self.0.readers.with(|db| read(db, LONG)), Handle::try_current()) {
            (Ok(Found::Long), Ok(runtime)) => {
                let store = self.clone();
                // Asked anew, since a record and its payloads must be of one moment.
                let reading = runtime.spawn_blocking(move || store.0.readers.with(|db| read(db, u64::MAX)));
                return Box::pin(async move {
                    let found =
                        reading.await.map_err(|error| StoreError::Failed(format!("reading ended: {error}")));
                    found.flatten().map(Found::whole)
                });
            }
            (Ok(Found::Long), Err(_)) => self.0.readers.with(|db| read(db, u64::MAX)),
            (found, _) => found,
        };
        Box::pin(ready(found.map(Found::whole)))
    }

    fn write<W: write::Write>(&self, write: W) -> Stored<W::Written> {
        Box::pin(self.0.writer.send(write))
    }
}

impl Store for SqliteStore {
    fn create(&self, new: NewTask) -> Stored<Task> {
        self.write(write::Create(new))
    }

    fn apply(&self, id: TaskId, step: Step, now: Timestamp) -> Stored<Change> {
        self.write(write::Apply { id, step, now })
    }

    fn get(&self, id: TaskId) -> Stored<Option<Task>> {
        self.find(move |db, most| read::get(db, id, most))
    }

    fn work(&self, id: TaskId) -> Stored<Option<Payload>> {
        self.find(move |db, most| read::work(db, id, most))
    }

    fn keyed(&self, owner: &Owner, key: &IdempotencyKey) -> Stored<Option<(TaskId, bool)>> {
        self.read(|db| read::keyed(db, owner, key))
    }

    fn list(&self, owner: &Owner, after: Option<i64>, limit: usize) -> Stored<Page> {
        self.read(|db| read::list(db, owner, after, limit))
    }

    fn all(&self, after: Option<i64>, limit: usize) -> Stored<Page> {
        self.read(|db| read::all(db, after, limit))
    }

    fn tally(&self, owner: Option<&Owner>) -> Stored<Tally> {
        let owner = owner.cloned();
        self.read(move |db| read::tally(db, owner.as_ref()))
    }

    fn due(&self, now: Timestamp, limit: usize) -> Stored<Vec<TaskId>> {
        self.read(|db| read::due(db, now, limit))
    }

    fn ready(&self, now: Timestamp, limit: usize) -> Stored<Vec<Task>> {
        self.read(|db| read::ready(db, now, limit))
    }

    fn orphans(&self, limit: usize) -> Stored<Vec<Task>> {
        self.read(|db| read::orphans(db, limit))
    }

    fn carried(&self, node: NodeId, after: i64, limit: usize) -> Stored<Vec<Task>> {
        self.read(|db| read::carried(db, node, after, limit))
    }

    fn versions(&self, ids: Vec<TaskId>) -> Stored<Vec<(TaskId, u64)>> {
        self.read(|db| read::versions(db, &ids))
    }

    fn events(&self, id: TaskId) -> Stored<Vec<Event>> {
        self.read(|db| read::events(db, id))
    }

    fn dump(&self, after: Option<i64>, limit: usize) -> Stored<Vec<Kept>> {
        self.read(|db| dump::dump(db, after, limit))
    }

    fn load(&self, kept: Vec<Kept>) -> Stored<()> {
        self.write(write::Load(kept))
    }

    fn rewrite(&self, kept: Vec<KeptTask>) -> Stored<usize> {
        self.write(write::Rewrite(kept))
    }

    fn keep(&self, name: &str, fresh: Vec<u8>) -> Stored<Vec<u8>> {
        match self.0.readers.with(|db| read::secret(db, name)) {
            Ok(Some(kept)) => Box::pin(ready(Ok(kept))),
            Ok(None) => self.write(write::KeepSecret { name: name.to_owned(), fresh }),
            Err(error) => Box::pin(ready(Err(error))),
        }
    }

    fn join(&self, node: Node) -> Stored<()> {
        self.write(write::Join(node))
    }

    fn renew(&self, node: NodeId, until: Timestamp) -> Stored<bool> {
        self.write(write::Renew { node, until })
    }

    fn leave(&self, node: NodeId) -> Stored<()> {
        self.write(write::Leave(node))
    }

    fn bury(&self, node: NodeId, now: Timestamp) -> Stored<bool> {
        self.write(write::Bury { node, now })
    }

    fn nodes(&self) -> Stored<Vec<Node>> {
        self.read(read::nodes)
    }

    fn feed(&self) -> &Feed {
        &self.0.feed
    }
}

/// From how many bytes on a payload is not read on the thread that asks for it.
const LONG: u64 = 1 << 20;

/// What SQLite said, as the store's own error.
fn failed(error: rusqlite::Error) -> StoreError {
    StoreError::Failed(error.to_string())
}
