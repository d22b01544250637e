//! Tasks in a Postgres database, which any number of nodes share.
//!
//! - `write` makes many writes in one transaction, in memory under row locks, and knows what became of each.
//! - `reader` answers questions through a pool of sessions.
//! - `notify` tells other nodes what was committed, `listen` hears of it.
//! - `clock` is the time of the database, by which nodes tell whether one of them is dead.
//! - `migrate` brings the schema up to date.

mod backoff;
mod clock;
mod connect;
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

use taskgate_task::{
    Change, Event, IdempotencyKey, NewTask, NodeId, Owner, Payload, Step, Task, TaskId, Timestamp,
};
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::Row;

use super::{Heard, Node, Page, Store, StoreError, Stored};
use crate::{Clock, Feed};
use connect::Connector;
use reader::{Params, Readers};
use row::{Bodies, Cell};
use text::kept;
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

impl Store for PostgresStore {
    fn create(&self, new: NewTask) -> Stored<Task> {
        self.write(new.id, Job::create(new, self.0.options.patience))
    }

    fn apply(&self, id: TaskId, step: Step, now: Timestamp) -> Stored<Change> {
        self.write(id, Job::apply(id, step, now, self.0.options.patience))
    }

    fn get(&self, id: TaskId) -> Stored<Option<Task>> {
        self.read(include_str!("queries/task_get.sql"), vec![Box::new(id.locator())], move |rows| match rows
            .first()
        {
            Some(row) if has_secret(row, id)? => row::task(row, Bodies::Read).map(Some),
            _ => Ok(None),
        })
    }

    fn work(&self, id: TaskId) -> Stored<Option<Payload>> {
        self.read(include_str!("queries/task_work.sql"), vec![Box::new(id.locator())], move |rows| match rows
            .first()
        {
            Some(row) if has_secret(row, id)? => {
                Cell { row, table: "task", name: "work" }.maybe(Cell::payload)
            }
            _ => Ok(None),
        })
    }

    fn keyed(&self, owner: &Owner, key: &IdempotencyKey) -> Stored<Option<(TaskId, bool)>> {
        let one = |text: &str| Box::new(vec![kept(text).into_owned()]);
        let params: Params = vec![one(owner.as_str()), one(&key.tool), one(&key.key)];
        let digest = key.digest;
        self.read(include_str!("queries/task_keyed.sql"), params, move |rows| {
            let Some(row) = rows.first() else { return Ok(None) };
            let same = Cell { row, table: "task", name: "key_digest" }.bytes()? == digest;
            Ok(Some((row::id(row)?, same)))
        })
    }

    fn list(&self, owner: &Owner, after: Option<i64>, limit: usize) -> Stored<Page> {
        // Locators are positive. One row more than asked for tells whether there is another page.
        let owner = kept(owner.as_str()).into_owned();
        let params: Params =
            vec![Box::new(owner), Box::new(after.unwrap_or(0)), Box::new(sql_limit(limit.saturating_add(1)))];
        self.read(include_str!("queries/task_list.sql"), params, move |rows| {
            let mut tasks = records(&rows)?;
            let more = tasks.len() > limit;
            tasks.truncate(limit);
            Ok(Page { next: if more { tasks.last().map(|task| task.id.locator()) } else { None }, tasks })
        })
    }

    fn due(&self, now: Timestamp, limit: usize) -> Stored<Vec<TaskId>> {
        let params: Params = vec![Box::new(now.as_millis()), Box::new(sql_limit(limit))];
        self.read(include_str!("queries/task_due.sql"), params, |rows| rows.iter().map(row::id).collect())
    }

    fn ready(&self, now: Timestamp, limit: usize) -> Stored<Vec<Task>> {
        let params: Params = vec![Box::new(now.as_millis()), Box::new(sql_limit(limit))];
        self.read(include_str!("queries/task_ready.sql"), params, |rows| records(&rows))
    }

    fn orphans(&self, limit: usize) -> Stored<Vec<Task>> {
        let params: Params = vec![Box::new(sql_limit(limit))];
        self.read(include_str!("queries/task_orphans.sql"), params, |rows| records(&rows))
    }

    fn carried(&self, node: NodeId, after: i64, limit: usize) -> Stored<Vec<Task>> {
        let params: Params = vec![Box::new(node.as_number()), Box::new(after), Box::new(sql_limit(limit))];
        self.read(include_str!("queries/task_carried.sql"), params, |rows| records(&rows))
    }

    fn versions(&self, ids: Vec<TaskId>) -> Stored<Vec<(TaskId, u64)>> {
        let locators: Vec<i64> = ids.iter().map(|id| id.locator()).collect();
        self.read(include_str!("queries/task_versions.sql"), vec![Box::new(locators)], move |rows| {
            let mut found = std::collections::HashMap::with_capacity(rows.len());
            for row in &rows {
                let version = Cell { row, table: "task", name: "version" }.count()?;
                found.insert(row::id(row)?, version);
            }
            Ok(ids.into_iter().filter_map(|id| Some((id, *found.get(&id)?))).collect())
        })
    }

    fn events(&self, id: TaskId) -> Stored<Vec<Event>> {
        self.read(include_str!("queries/task_events.sql"), vec![Box::new(id.locator())], move |rows| {
            let mut events = Vec::with_capacity(rows.len());
            for row in &rows {
                let secret = Cell { row, table: "task", name: "secret" }.maybe(Cell::bytes)?;
                if secret.is_some_and(|secret| id.has_secret(secret)) {
                    events.push(row::event(row)?);
                }
            }
            Ok(events)
        })
    }

    fn secret(&self, name: &str) -> Stored<[u8; 32]> {
        let mut fresh = [0; 32];
        if let Err(error) = getrandom::fill(&mut fresh) {
            return Box::pin(std::future::ready(Err(StoreError::Failed(error.to_string()))));
        }
        let params: Params = vec![Box::new(kept(name).into_owned()), Box::new(fresh.to_vec())];
        self.run(include_str!("queries/secret_keep.sql"), params, |rows| {
            let row = rows.first().ok_or_else(|| StoreError::Failed("a secret was not kept".to_owned()))?;
            Cell { row, table: "secret", name: "value" }.array()
        })
    }

    fn join(&self, node: Node) -> Stored<()> {
        let params: Params = vec![
            Box::new(node.id.as_number()),
            Box::new(kept(&node.name).into_owned()),
            Box::new(node.joined_at.as_millis()),
            Box::new(node.lease_until.as_millis()),
        ];
        self.run(include_str!("queries/node_join.sql"), params, |_| Ok(()))
    }

    fn renew(&self, node: NodeId, until: Timestamp) -> Stored<bool> {
        let params: Params = vec![Box::new(node.as_number()), Box::new(until.as_millis())];
        self.run(include_str!("queries/node_renew.sql"), params, |rows| Ok(!rows.is_empty()))
    }

    fn leave(&self, node: NodeId) -> Stored<()> {
        let params: Params = vec![Box::new(node.as_number())];
        self.run(include_str!("queries/node_leave.sql"), params, |_| Ok(()))
    }

    fn bury(&self, node: NodeId, now: Timestamp) -> Stored<bool> {
        let params: Params = vec![Box::new(node.as_number()), Box::new(now.as_millis())];
        self.run(include_str!("queries/node_bury.sql"), params, |rows| Ok(!rows.is_empty()))
    }

    fn nodes(&self) -> Stored<Vec<Node>> {
        self.read(include_str!("queries/node_list.sql"), Vec::new(), |rows| {
            rows.iter().map(row::node).collect()
        })
    }

    fn feed(&self) -> &Feed {
        &self.0.feed
    }

    fn others(&self) -> Option<mpsc::UnboundedReceiver<Heard>> {
        let (heard, is_first) = self.0.listeners.add();
        if is_first {
            let listener = listen::Listener {
                connector: self.0.connector.clone(),
                channel: self.0.options.schema.clone(),
                teller: self.0.teller.clone(),
                listeners: self.0.listeners.clone(),
            };
            self.0.thread.handle().spawn(listener.serve());
        }
        Some(heard)
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(self.0.clock.clone())
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

fn has_secret(row: &Row, id: TaskId) -> Result<bool, StoreError> {
    Ok(id.has_secret(Cell { row, table: "task", name: "secret" }.bytes()?))
}

fn records(rows: &[Row]) -> Result<Vec<Task>, StoreError> {
    rows.iter().map(|row| row::task(row, Bodies::Spared)).collect()
}

/// A limit beyond the database's numbers becomes its largest.
fn sql_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
