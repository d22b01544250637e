use std::future::Future;
use std::slice;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::checkpoint::Checkpointer;
use super::failed;
use super::open::Connections;
use super::reader::{Commits, Readers};
use super::write::Write;
use crate::{Feed, StoreError};

/// The most writes in one commit: enough that the `fsync` is shared by many, few enough that the first of
/// them does not wait long for the last.
const MOST: usize = 512;

/// The thread that owns the only connection that writes.
///
/// Whatever waits when it comes around is committed together. The queue is unbounded; callers are bounded by the
/// requests that wait for them.
#[derive(Debug)]
pub(super) struct Writer {
    jobs: Option<Sender<Box<dyn Job>>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Opens the file for writing and starts the thread.
    pub(super) fn start(
        connections: &Connections,
        feed: Feed,
        commits: Arc<Commits>,
        readers: Arc<Readers>,
    ) -> Result<Writer, StoreError> {
        let mut db = connections.writer()?;
        let checkpointer = Checkpointer::start(connections, &mut db, readers, Arc::clone(&commits))?;
        let (jobs, queue) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("taskgate-writer".to_owned())
            .spawn(move || {
                serve(&db, &queue, &checkpointer, &feed, &commits);
                checkpointer.finish(db);
            })
            .map_err(|error| StoreError::Failed(format!("the writer cannot be started: {error}")))?;
        Ok(Writer { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Enqueues the write, now; the future only waits for it.
    pub(super) fn send<W: Write>(
        &self,
        write: W,
    ) -> impl Future<Output = Result<W::Written, StoreError>> + Send + use<W> {
        let (reply, written) = oneshot::channel();
        self.enqueue(write, reply);
        async move { written.await.unwrap_or_else(|_| Err(closed())) }
    }

    fn enqueue<W: Write>(&self, write: W, reply: oneshot::Sender<Result<W::Written, StoreError>>) {
        if let Some(jobs) = &self.jobs {
            // If the writer is gone, so is the reply in here, and its other end says so.
            let _ = jobs.send(Box::new(Waiting { write, outcome: Err(closed()), reply }));
        }
    }
}

impl Drop for Writer {
    /// Lets the thread commit what waits and make the last checkpoint.
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn closed() -> StoreError {
    StoreError::Failed("the store is closed".to_owned())
}

/// A write on its way through the writer.
trait Job: Send {
    /// Runs the write inside the open transaction; an error means that it must be rolled back.
    fn run(&mut self, db: &Connection) -> Result<(), StoreError>;

    /// Nothing of this write was kept.
    fn fail(&mut self, error: StoreError);

    /// Tells the followers what was committed, then the caller, who may have gone away.
    fn tell(self: Box<Self>, feed: &Feed);
}

struct Waiting<W: Write> {
    write: W,
    outcome: Result<W::Written, StoreError>,
    reply: oneshot::Sender<Result<W::Written, StoreError>>,
}

impl<W: Write> Job for Waiting<W> {
    fn run(&mut self, db: &Connection) -> Result<(), StoreError> {
        self.outcome = self.write.run(db);
        match &self.outcome {
            Err(error @ StoreError::Failed(_)) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    fn fail(&mut self, error: StoreError) {
        self.outcome = Err(error);
    }

    fn tell(self: Box<Self>, feed: &Feed) {
        if let Ok(written) = &self.outcome {
            W::publish(written, feed);
        }
        drop(self.reply.send(self.outcome));
    }
}

fn serve(
    db: &Connection,
    queue: &Receiver<Box<dyn Job>>,
    checkpointer: &Checkpointer,
    feed: &Feed,
    commits: &Commits,
) {
    let mut batch = Vec::with_capacity(MOST);
    while let Ok(first) = queue.recv() {
        batch.push(first);
        batch.extend(queue.try_iter().take(MOST - 1));
        let gate = checkpointer.gate();
        commits.begin();
        if let Err(error) = commit(db, &mut batch) {
            separate(db, &mut batch, error);
        }
        commits.end();
        drop(gate);
        for job in batch.drain(..) {
            job.tell(feed);
        }
    }
}

/// Runs all of them in one transaction, or leaves no trace of any.
fn commit(db: &Connection, batch: &mut [Box<dyn Job>]) -> Result<(), StoreError> {
    let done = statement(db, "BEGIN IMMEDIATE")
        .and_then(|()| batch.iter_mut().try_for_each(|job| job.run(db)))
        .and_then(|()| statement(db, "COMMIT"));
    // SQLite ends the transaction itself after some errors, such as a full disk.
    if let Err(error) = &done
        && !db.is_autocommit()
        && let Err(stuck) = statement(db, "ROLLBACK")
    {
        tracing::error!(%error, %stuck, "a failed transaction could not be rolled back");
    }
    done
}

/// After a failure every write gets a transaction of its own, so that only the guilty ones fail.
fn separate(db: &Connection, batch: &mut [Box<dyn Job>], error: StoreError) {
    tracing::warn!(%error, writes = batch.len(), "a commit failed");
    if let [only] = batch {
        return only.fail(error);
    }
    for job in batch {
        if let Err(error) = commit(db, slice::from_mut(job)) {
            job.fail(error);
        }
    }
}

fn statement(db: &Connection, sql: &str) -> Result<(), StoreError> {
    db.prepare_cached(sql).and_then(|mut statement| statement.execute([])).map_err(failed)?;
    Ok(())
}
