//! What can be asked of the file. Unless it says otherwise a function is one statement, and so sees one moment.

use rusqlite::{Connection, Row};
use taskgate_task::{Event, IdempotencyKey, NodeId, Owner, Payload, Task, TaskId, Timestamp};

use super::blob::{self, Blobs};
use super::failed;
use super::row::{self, Cell};
use crate::StoreError;
use crate::store::code::Bodies;
use crate::store::columns;
use crate::store::{Node, Page, Tally};

/// The row of `id`, and where the payloads lie that are not in it. The most frequent question of all.
pub(super) fn record(db: &Connection, id: TaskId) -> Result<Option<(Task, Blobs)>, StoreError> {
    let mut statement = db.prepare_cached(include_str!("queries/task_get.sql")).map_err(failed)?;
    let mut rows = statement.query([id.locator()]).map_err(failed)?;
    match rows.next().map_err(failed)? {
        Some(row) if id.has_secret(secret_in(row, 1)?) => {
            Ok(Some((row::task(row, Bodies::Read)?, row::blobs(row)?)))
        }
        _ => Ok(None),
    }
}

/// What was found.
pub(super) enum Found<T> {
    Whole(Option<T>),
    /// It is there, but longer than was asked for.
    Long,
}

impl<T> Found<T> {
    /// What was asked for at any length.
    pub(super) fn whole(self) -> Option<T> {
        match self {
            Found::Whole(found) => found,
            Found::Long => None,
        }
    }
}

/// The record of `id` with its outcome, if what is long in it is not longer than `most` bytes.
pub(super) fn get(db: &Connection, id: TaskId, most: u64) -> Result<Found<Task>, StoreError> {
    let Some((mut task, blobs)) = record(db, id)? else { return Ok(Found::Whole(None)) };
    if blobs.length(db)? > most {
        return Ok(Found::Long);
    }
    blobs.fill(db, &mut task)?;
    Ok(Found::Whole(Some(task)))
}

/// The description of the work of `id`, if it is still wanted, and not longer than `most` bytes.
pub(super) fn work(db: &Connection, id: TaskId, most: u64) -> Result<Found<Payload>, StoreError> {
    let mut statement = db.prepare_cached(include_str!("queries/task_work.sql")).map_err(failed)?;
    let mut rows = statement.query([id.locator()]).map_err(failed)?;
    let Some(row) = rows.next().map_err(failed)? else { return Ok(Found::Whole(None)) };
    if !id.has_secret(secret_in(row, 0)?) {
        return Ok(Found::Whole(None));
    }
    let cell = |index, name| Cell::of(row, index, "task", name);
    match cell(2, "work_blob").maybe(Cell::int)? {
        Some(key) if blob::length(db, key)? > most => Ok(Found::Long),
        Some(key) => Ok(Found::Whole(Some(blob::get(db, key)?))),
        None => Ok(Found::Whole(cell(1, "work").maybe(Cell::payload)?)),
    }
}

/// How much there is of the owner, or of all.
pub(super) fn tally(db: &Connection, owner: Option<&Owner>) -> Result<Tally, StoreError> {
    let sql = match owner {
        Some(_) => include_str!("queries/task_tally.sql"),
        None => include_str!("queries/task_tally_all.sql"),
    };
    let mut statement = db.prepare_cached(sql).map_err(failed)?;
    let mut rows = match owner {
        Some(owner) => statement.query([owner.as_str()]),
        None => statement.query([]),
    }
    .map_err(failed)?;
    let mut tally = Tally::default();
    while let Some(row) = rows.next().map_err(failed)? {
        let number = |index| row.get::<_, i64>(index).map_err(failed);
        tally.add(number(0)?, number(1)?, number(2)?)?;
    }
    Ok(tally)
}

/// One page of the owner's tasks after the locator `after`.
pub(super) fn list(
    db: &Connection,
    owner: &Owner,
    after: Option<i64>,
    limit: usize,
) -> Result<Page, StoreError> {
    let mut statement = db.prepare_cached(include_str!("queries/task_list.sql")).map_err(failed)?;
    // Locators are positive. One row more than asked for tells whether there is another page.
    let rows = (owner.as_str(), after.unwrap_or(0), columns::limit(limit.saturating_add(1)));
    let tasks = collect(statement.query(rows), |row| row::task(row, Bodies::Spared))?;
    Ok(Page::of(tasks, limit))
}

/// One page of everybody's tasks after the locator `after`.
pub(super) fn all(db: &Connection, after: Option<i64>, limit: usize) -> Result<Page, StoreError> {
    let mut statement = db.prepare_cached(include_str!("queries/task_all.sql")).map_err(failed)?;
    let rows = (after.unwrap_or(0), columns::limit(limit.saturating_add(1)));
    let tasks = collect(statement.query(rows), |row| row::task(row, Bodies::Spared))?;
    Ok(Page::of(tasks, limit))
}

/// Ids of tasks that are due.
pub(super) fn due(db: &Connection, now: Timestamp, limit: usize) -> Result<Vec<TaskId>, StoreError> {
    let mut statement = db.prepare_cached(include_str!("queries/task_due.sql")).map_err(failed)?;
    collect(statement.query((now.as_millis(), columns::limit(limit))), |row| {
        let cell = |index| Cell::of(row, index, "task", row::TASK[index]);
        Ok(TaskId::from_parts(cell(0).int()?, cell(1).array()?))
    })
}

/// Records of tasks that may be begun.
pub(super) fn ready(db: &Connection, now: Timestamp, limit: usize) -> Result<Vec<Task>, StoreError> {
    let mut statement = db.prepare_cached(include_str!("queries/task_ready.sql")).map_err(failed)?;
    collect(statement.query((now.as_millis(), columns::limit(limit))), |row| row::task(row, Bodies::Spared))
}

/// Records of tasks whose node is gone.
pub(super) fn orphans(db: &Connection, limit: usize) -> Result<Vec<Task>, StoreError> {
    let mut statement = db.prepare_cached(include_str!("queries/task_orphans.sql")).map_err(failed)?;
    collect(statement.query([columns::limit(limit)]), |row| row::task(row, Bodies::Spared))
}

/// Records of tasks that a node carries.
pub(super) fn carried(
    db: &Connection,
    node: NodeId,
    after: i64,
    limit: usize,
) -> Result<Vec<Task>, StoreError> {
    let mut statement = db.prepare_cached(include_str!("queries/task_carried.sql")).map_err(failed)?;
    let rows = (node.as_number(), after, columns::limit(limit));
    collect(statement.query(rows), |row| row::task(row, Bodies::Spared))
}

/// The versions of those of `ids` that there are. Each is found by itself; together they may be of several moments.
pub(super) fn versions(db: &Connection, ids: &[TaskId]) -> Result<Vec<(TaskId, u64)>, StoreError> {
    let mut statement = db.prepare_cached(include_str!("queries/task_version.sql")).map_err(failed)?;
    let mut versions = Vec::with_capacity(ids.len());
    for id in ids {
        let mut rows = statement.query([id.locator()]).map_err(failed)?;
        if let Some(row) = rows.next().map_err(failed)?
            && id.has_secret(secret_in(row, 0)?)
        {
            versions.push((*id, Cell::of(row, 1, "task", "version").count()?));
        }
    }
    Ok(versions)
}

/// The owner's task with this key, and whether it is for the same call.
pub(super) fn keyed(
    db: &Connection,
    owner: &Owner,
    key: &IdempotencyKey,
) -> Result<Option<(TaskId, bool)>, StoreError> {
    let mut statement = db.prepare_cached(include_str!("queries/task_keyed.sql")).map_err(failed)?;
    let mut rows = statement.query((owner.as_str(), &key.tool, &key.key)).map_err(failed)?;
    let Some(row) = rows.next().map_err(failed)? else { return Ok(None) };
    let cell = |index, name| Cell::of(row, index, "task", name);
    let id = TaskId::from_parts(cell(0, "locator").int()?, cell(1, "secret").array()?);
    Ok(Some((id, cell(2, "key_digest").bytes()? == key.digest)))
}

/// The nodes that have joined.
pub(super) fn nodes(db: &Connection) -> Result<Vec<Node>, StoreError> {
    let mut statement = db.prepare_cached(include_str!("queries/node_list.sql")).map_err(failed)?;
    collect(statement.query([]), row::node)
}

/// The events of `id`.
pub(super) fn events(db: &Connection, id: TaskId) -> Result<Vec<Event>, StoreError> {
    let mut statement = db.prepare_cached(include_str!("queries/task_events.sql")).map_err(failed)?;
    let events = collect(statement.query([id.locator()]), |row| {
        Ok(if id.has_secret(secret_in(row, 0)?) { Some(row::event(row)?) } else { None })
    })?;
    Ok(events.into_iter().flatten().collect())
}

/// The secret called `name`, if it has been made.
pub(super) fn secret(db: &Connection, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
    let mut statement = db.prepare_cached(include_str!("queries/secret_get.sql")).map_err(failed)?;
    let mut rows = statement.query([name]).map_err(failed)?;
    match rows.next().map_err(failed)? {
        Some(row) => Cell::of(row, 0, "secret", "value").bytes().map(|value| Some(value.to_vec())),
        None => Ok(None),
    }
}

fn secret_in<'r>(row: &'r Row<'r>, index: usize) -> Result<&'r [u8], StoreError> {
    Cell::of(row, index, "task", "secret").bytes()
}

pub(super) fn collect<T>(
    rows: rusqlite::Result<rusqlite::Rows<'_>>,
    read: impl Fn(&Row<'_>) -> Result<T, StoreError>,
) -> Result<Vec<T>, StoreError> {
    let mut rows = rows.map_err(failed)?;
    let mut all = Vec::new();
    while let Some(row) = rows.next().map_err(failed)? {
        all.push(read(row)?);
    }
    Ok(all)
}
