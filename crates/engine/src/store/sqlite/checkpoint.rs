use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use rusqlite::{Connection, hooks::Wal};

use super::failed;
use super::open::Connections;
use super::reader::{Commits, Readers};
use crate::StoreError;

/// Pages of 4 KiB the log grows by between checkpoints: 4 MiB.
pub(super) const STEP: i32 = 1024;

/// Pages at which the log must be started over even if writes have to wait for that: 64 MiB.
const LIMIT: i32 = 16 * STEP;

/// How long after the last signal the rest of the log is copied too: with nothing left in it, lookups need not search it.
const QUIET: Duration = Duration::from_secs(1);

/// How long starting over may wait for readers. Writes wait as long.
const PATIENCE: Duration = Duration::from_millis(100);

/// The thread that copies the write-ahead log back into the file.
///
/// SQLite would do that inside the commit that finds the log too long, and that commit would take as long as the
/// log is. Here commits go on meanwhile. Under a steady load they add to the log faster than it can be seen to
/// be empty, so that it never starts over by itself; past [`LIMIT`] the thread closes the gate to commits for the
/// moment the rest takes. (It would ask for SQLite's own lock again and again and find a commit under way each time.)
#[derive(Debug)]
pub(super) struct Checkpointer {
    thread: JoinHandle<()>,
    gate: Arc<Mutex<()>>,
}

impl Checkpointer {
    /// Starts the thread and lets every commit on `writer` say how long the log is.
    pub(super) fn start(
        connections: &Connections,
        writer: &mut Connection,
        readers: Arc<Readers>,
        commits: Arc<Commits>,
    ) -> Result<Self, StoreError> {
        let db = connections.checkpointer(PATIENCE)?;
        let (signal, signals) = mpsc::sync_channel(1);
        let gate = Arc::new(Mutex::new(()));
        let thread = thread::Builder::new()
            .name("taskgate-checkpoint".to_owned())
            .spawn({
                let gate = Arc::clone(&gate);
                move || serve(&db, &signals, &Around { gate, readers, commits })
            })
            .map_err(|error| StoreError::Failed(format!("the checkpoints cannot be started: {error}")))?;
        writer.wal_hook(Some(watch(signal))).map_err(failed)?;
        Ok(Checkpointer { thread, gate })
    }

    /// What a commit passes through: it is held up while the log starts over.
    pub(super) fn gate(&self) -> MutexGuard<'_, ()> {
        self.gate.lock()
    }

    /// Ends the thread, empties the log and closes the writer's connection.
    pub(super) fn finish(self, mut writer: Connection) {
        // The hook holds the other end of the thread's signals.
        let unhooked = writer.wal_hook(None::<fn(&mut Wal, i32) -> rusqlite::Result<()>>);
        if let Err(error) = unhooked.and_then(|()| {
            let _ = self.thread.join();
            checkpoint(&writer, "PRAGMA wal_checkpoint(TRUNCATE)").map(drop)
        }) {
            tracing::warn!(%error, "the last checkpoint failed; the next start makes it");
        }
    }
}

/// Signals whenever the log has grown by [`STEP`] since the last signal.
fn watch(signal: SyncSender<()>) -> impl FnMut(&mut Wal, i32) -> rusqlite::Result<()> + Send + 'static {
    let mut signalled = 0;
    move |_, pages| {
        if pages < signalled {
            // The log has started over.
            signalled = 0;
        }
        // A signal that is already waiting will do for this growth too.
        if pages - signalled >= STEP && signal.try_send(()).is_ok() {
            signalled = pages;
        }
        Ok(())
    }
}

/// Whom a checkpoint has to mind.
pub(super) struct Around {
    pub(super) gate: Arc<Mutex<()>>,
    pub(super) readers: Arc<Readers>,
    pub(super) commits: Arc<Commits>,
}

fn serve(db: &Connection, signals: &Receiver<()>, around: &Around) {
    // Whether the log may hold what the file does not.
    let mut behind = false;
    loop {
        let signal = if behind { signals.recv_timeout(QUIET) } else { signals.recv().map_err(Into::into) };
        match signal {
            Ok(()) => behind = true,
            Err(RecvTimeoutError::Timeout) => behind = false,
            Err(RecvTimeoutError::Disconnected) => return,
        }
        around.readers.let_go();
        let relieved = checkpoint(db, "PRAGMA wal_checkpoint(PASSIVE)");
        // The passive one has done most of the copying, so that what comes now holds the writes back briefly.
        let relieved = match relieved {
            Ok(Checkpoint { pages, .. }) if pages > LIMIT => start_over(db, around),
            other => other,
        };
        match relieved {
            Ok(Checkpoint { held_up: true, pages }) => tracing::debug!(pages, "a checkpoint was held up"),
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "a checkpoint failed; the log grows until one succeeds"),
        }
    }
}

/// Has the next commit begin the log from its start, while no commit is let through.
pub(super) fn start_over(db: &Connection, around: &Around) -> rusqlite::Result<Checkpoint> {
    let _closed = around.gate.lock();
    // As during a commit no reader stands at a moment: without news it would not leave it while the gate is closed.
    around.commits.begin();
    around.readers.let_go();
    let done = checkpoint(db, "PRAGMA wal_checkpoint(RESTART)");
    around.commits.end();
    done
}

/// What came of a checkpoint.
#[derive(Debug)]
pub(super) struct Checkpoint {
    /// Whether a reader or a writer kept it from doing all it was to do. That is no error.
    pub(super) held_up: bool,
    /// The length of the log in pages.
    pages: i32,
}

fn checkpoint(db: &Connection, sql: &str) -> rusqlite::Result<Checkpoint> {
    db.query_row(sql, [], |row| Ok(Checkpoint { held_up: row.get(0)?, pages: row.get(1)? }))
}
