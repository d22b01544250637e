//! Every question and order of the trait, as a statement.

use std::sync::Arc;

use taskgate_task::{
    Change, Event, IdempotencyKey, NewTask, NodeId, Owner, Payload, Step, Task, TaskId, Timestamp,
};
use tokio::sync::mpsc;
use tokio_postgres::Row;

use super::reader::Params;
use super::row::{self, Cell};
use super::text::kept;
use super::write::{self, Job};
use super::{PostgresStore, dump, listen, on};
use crate::store::code::Bodies;
use crate::store::columns;
use crate::store::{DUMP_SIZE, Heard, Kept, KeptTask, Node, Page, Store, StoreError, Stored, Tally};
use crate::{Clock, Feed};

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
        let params: Params = vec![
            Box::new(owner),
            Box::new(after.unwrap_or(0)),
            Box::new(columns::limit(limit.saturating_add(1))),
        ];
        self.read(include_str!("queries/task_list.sql"), params, move |rows| {
            Ok(Page::of(records(&rows)?, limit))
        })
    }

    fn tally(&self, owner: Option<&Owner>) -> Stored<Tally> {
        let (sql, params): (_, Params) = match owner {
            Some(owner) => {
                (include_str!("queries/task_tally.sql"), vec![Box::new(kept(owner.as_str()).into_owned())])
            }
            None => (include_str!("queries/task_tally_all.sql"), Vec::new()),
        };
        self.read(sql, params, |rows| {
            let mut tally = Tally::default();
            for row in &rows {
                let broken = |error: tokio_postgres::Error| StoreError::Failed(error.to_string());
                let status: i16 = row.try_get(0).map_err(broken)?;
                tally.add(status.into(), row.try_get(1).map_err(broken)?, row.try_get(2).map_err(broken)?)?;
            }
            Ok(tally)
        })
    }

    fn all(&self, after: Option<i64>, limit: usize) -> Stored<Page> {
        let params: Params =
            vec![Box::new(after.unwrap_or(0)), Box::new(columns::limit(limit.saturating_add(1)))];
        self.read(include_str!("queries/task_all.sql"), params, move |rows| {
            Ok(Page::of(records(&rows)?, limit))
        })
    }

    fn due(&self, now: Timestamp, limit: usize) -> Stored<Vec<TaskId>> {
        let params: Params = vec![Box::new(now.as_millis()), Box::new(columns::limit(limit))];
        self.read(include_str!("queries/task_due.sql"), params, |rows| rows.iter().map(row::id).collect())
    }

    fn ready(&self, now: Timestamp, limit: usize) -> Stored<Vec<Task>> {
        let params: Params = vec![Box::new(now.as_millis()), Box::new(columns::limit(limit))];
        self.read(include_str!("queries/task_ready.sql"), params, |rows| records(&rows))
    }

    fn orphans(&self, limit: usize) -> Stored<Vec<Task>> {
        let params: Params = vec![Box::new(columns::limit(limit))];
        self.read(include_str!("queries/task_orphans.sql"), params, |rows| records(&rows))
    }

    fn carried(&self, node: NodeId, after: i64, limit: usize) -> Stored<Vec<Task>> {
        let params: Params =
            vec![Box::new(node.as_number()), Box::new(after), Box::new(columns::limit(limit))];
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

    fn dump(&self, after: Option<i64>, limit: usize) -> Stored<Vec<Kept>> {
        let longest = i64::try_from(DUMP_SIZE).unwrap_or(i64::MAX);
        let params: Params =
            vec![Box::new(after.unwrap_or(0)), Box::new(columns::limit(limit)), Box::new(longest)];
        let tasks = self.read(include_str!("queries/task_dump.sql"), params, |rows| {
            rows.iter().map(dump::task).collect::<Result<Vec<_>, _>>()
        });
        if after.is_some() {
            return tasks;
        }
        let secrets = self.read(include_str!("queries/secret_list.sql"), Vec::new(), |rows| {
            rows.iter().map(dump::secret).collect::<Result<Vec<_>, _>>()
        });
        Box::pin(async move {
            let mut all = secrets.await?;
            all.extend(tasks.await?);
            Ok(all)
        })
    }

    fn load(&self, kept: Vec<Kept>) -> Stored<()> {
        let connector = self.0.connector.clone();
        Box::pin(on(&self.0.thread, async move { write::load(&connector, &kept).await }))
    }

    fn rewrite(&self, kept: Vec<KeptTask>) -> Stored<usize> {
        match write::rewritten(&kept) {
            Ok(params) => self.run(include_str!("queries/task_rewrite.sql"), params, |rows| Ok(rows.len())),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn keep(&self, name: &str, fresh: Vec<u8>) -> Stored<Vec<u8>> {
        let params: Params = vec![Box::new(kept(name).into_owned()), Box::new(fresh)];
        self.run(include_str!("queries/secret_keep.sql"), params, |rows| {
            let row = rows.first().ok_or_else(|| StoreError::Failed("a secret was not kept".to_owned()))?;
            Cell { row, table: "secret", name: "value" }.bytes().map(<[u8]>::to_vec)
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

fn has_secret(row: &Row, id: TaskId) -> Result<bool, StoreError> {
    Ok(id.has_secret(Cell { row, table: "task", name: "secret" }.bytes()?))
}

fn records(rows: &[Row]) -> Result<Vec<Task>, StoreError> {
    rows.iter().map(|row| row::task(row, Bodies::Spared)).collect()
}
