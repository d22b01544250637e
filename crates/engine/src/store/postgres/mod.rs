//! Tasks in a Postgres database, which any number of nodes share.
//!
//! - `asking` says each question and order as a statement.
//! - `write` makes many writes in one transaction, in memory under row locks, and knows what became of each.
//! - `reader` answers questions through a pool of sessions.
//! - `notify` tells other nodes what was committed, `listen` hears of it.
//! - `clock` is the time of the database, by which nodes tell whether one of them is dead.
//! - `migrate` brings the schema up to date.

mod asking;
mod backoff;
mod clock;
mod connect;
mod dump;
mod fault;
mod listen;
mod migrate;
mod notify;
mod options;
mod reader;
mod row;
#[cfg(test)]
pub(super) mod tests;
mod text;
mod threads;
mod tls;
mod url;
mod write;

use std::future::Future;
use std::sync::Arc;

use taskgate_task::TaskId;
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::Row;

use super::{StoreError, Stored};
use crate::Feed;
use connect::Connector;
use reader::{Params, Readers};
use threads::{Tasks, Thread};
use write::{Job, Lane};

pub use options::PostgresOptions;

/// Tasks in one schema of a Postgres database, which any number of nodes share.
///
/// Times and spans are kept in whole milliseconds. Clones share the store and its connections. When the last one is
/// dropped, the waiting writes are committed, which takes no longer than their patience and what the server may take for one of them.
///
/// A write that fails says whether it is known to have left nothing. While the database is away that is certain, except
/// for a write whose commit was under way when the connection ended: the database is asked what became of it as soon as it answers
/// again, and only if that takes longer than the patience, or the server no longer knows, the error says so.
/// A standby that takes the place of a server without all that had been acknowledged there knows nothing of it.
#[derive(Debug, Clone)]
pub struct PostgresStore(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    options: PostgresOptions,
    connector: Connector,
    readers: Readers,
    /// One queue for each lane, and a last one for what is about no task.
    lanes: Vec<mpsc::UnboundedSender<Job>>,
    feed: Feed,
    clock: clock::DatabaseClock,
    teller: notify::Teller,
    listeners: listen::Listeners,
    thread: Thread,
    /// Lets the thread end once the tasks have.
    end: Option<(oneshot::Sender<Tasks>, Tasks)>,
}

impl PostgresStore {
    /// Connects, and brings the schema up to this version's layout.
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`] if the URL or the schema's name cannot be used, if the database cannot be reached or its
    /// server is too old, if the schema belongs to another application or to a newer taskgate, or if its tables cannot
    /// be made. No error holds the password.
    pub async fn connect(options: PostgresOptions) -> Result<PostgresStore, StoreError> {
        let connector = Connector::new(&options)?;
        let readers = Readers::new(&connector, &options)?;
        let mut teller = [0; 8];
        getrandom::fill(&mut teller).map_err(|error| StoreError::Failed(error.to_string()))?;
        let teller = format!("{:016x}", u64::from_be_bytes(teller));
        let (end, ended) = oneshot::channel();
        let thread = Thread::start(ended)?;

        let feed = Feed::new();
        let (news, told) = mpsc::unbounded_channel();
        let (mut lanes, mut serving) = (Vec::new(), Vec::new());
        for _ in 0..options.lanes.max(1) + 1 {
            let (jobs, lane) = Lane::new(connector.clone(), feed.clone(), news.clone(), options.patience);
            lanes.push(jobs);
            serving.push(lane);
        }
        let notifier = notify::Notifier {
            connector: connector.clone(),
            channel: options.schema.clone(),
            teller: teller.clone(),
            news: told,
        };
        let opening = {
            let (connector, readers, schema) = (connector.clone(), readers.clone(), options.schema.clone());
            async move {
                let client = connector.connect().await.map_err(|why| connector.unreachable(&why))?;
                migrate::migrate(&client, &schema).await?;
                let clock = clock::DatabaseClock::start(&readers).await?;
                tokio::spawn(clock.clone().keep(readers));
                let lanes = serving.into_iter().map(|lane| tokio::spawn(lane.serve())).collect();
                Ok((clock, Tasks { lanes, notifier: tokio::spawn(notifier.serve()) }))
            }
        };
        let (clock, tasks) = on(&thread, opening).await?;
        let listeners = listen::Listeners::default();
        let end = Some((end, tasks));
        Ok(PostgresStore(Arc::new(Inner {
            options,
            connector,
            readers,
            lanes,
            feed,
            clock,
            teller,
            listeners,
            thread,
            end,
        })))
    }

    /// Asks, from now on, and makes something of the rows.
    fn read<T: Send + 'static>(
        &self,
        sql: &'static str,
        params: Params,
        make: impl FnOnce(Vec<Row>) -> Result<T, StoreError> + Send + 'static,
    ) -> Stored<T> {
        let readers = self.0.readers.clone();
        let rows = on(&self.0.thread, async move { readers.query(sql, params).await });
        Box::pin(async move { make(rows.await?) })
    }

    /// Runs a statement that is about no task, and makes something of the rows.
    fn run<T: Send + 'static>(
        &self,
        sql: &'static str,
        params: Params,
        make: impl FnOnce(Vec<Row>) -> Result<T, StoreError> + Send + 'static,
    ) -> Stored<T> {
        let (job, rows) = Job::run(sql, params, self.0.options.patience);
        self.send(self.0.lanes.len() - 1, job);
        Box::pin(async move { make(rows.await.map_err(|_| closed())??) })
    }

    fn write<T: Send + 'static>(&self, id: TaskId, (job, written): (Job, write::Written<T>)) -> Stored<T> {
        let lanes = self.0.lanes.len() as u64 - 1;
        // Locators end in random bits.
        self.send((id.locator() as u64 % lanes) as usize, job);
        Box::pin(async move { written.await.map_err(|_| closed())? })
    }

    /// If the lane is gone, so is the job, and whoever waits for it hears so.
    fn send(&self, lane: usize, job: Job) {
        if let Some(lane) = self.0.lanes.get(lane) {
            let _ = lane.send(job);
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.lanes.clear();
        if let Some((end, tasks)) = self.end.take() {
            let _ = end.send(tasks);
        }
        self.thread.join();
    }
}

/// Runs it on the store's own thread, from now on; the future only waits for it.
fn on<T: Send + 'static, F: Future<Output = Result<T, StoreError>> + Send + 'static>(
    thread: &Thread,
    future: F,
) -> impl Future<Output = Result<T, StoreError>> + Send + use<T, F> {
    let running = thread.handle().spawn(future);
    async move { running.await.unwrap_or_else(|_| Err(closed())) }
}

fn closed() -> StoreError {
    StoreError::Failed("the store is closed".to_owned())
}
