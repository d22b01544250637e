//! Everything there is of some tasks.

use rusqlite::{Connection, Row};
use taskgate_task::IdempotencyKey;

use super::blob;
use super::failed;
use super::read::{self, collect};
use super::row::{self, Cell};
use crate::StoreError;
use crate::store::code::Bodies;
use crate::store::columns;
use crate::store::{DUMP_SIZE, Kept, KeptSecret, KeptTask};

/// Some tasks, and the secrets before the first ones, as they are at one moment.
pub(super) fn dump(db: &Connection, after: Option<i64>, limit: usize) -> Result<Vec<Kept>, StoreError> {
    // The connection may stand at a moment already, and then stays there.
    db.execute_batch("SAVEPOINT dump").map_err(failed)?;
    let dumped = dump_now(db, after, limit);
    db.execute_batch("RELEASE dump").map_err(failed)?;
    dumped
}

fn dump_now(db: &Connection, after: Option<i64>, limit: usize) -> Result<Vec<Kept>, StoreError> {
    let mut all = if after.is_none() { secrets(db)? } else { Vec::new() };
    let mut statement = db.prepare_cached(include_str!("queries/task_dump.sql")).map_err(failed)?;
    let mut rows = statement.query((after.unwrap_or(0), columns::limit(limit))).map_err(failed)?;
    let mut weight = 0;
    while weight < DUMP_SIZE
        && let Some(row) = rows.next().map_err(failed)?
    {
        let kept = task(db, row)?;
        weight += kept.weight();
        all.push(Kept::Task(Box::new(kept)));
    }
    Ok(all)
}

/// Reads a row of `task_dump.sql` and what belongs to it.
pub(super) fn task(db: &Connection, row: &Row<'_>) -> Result<KeptTask, StoreError> {
    let cell = |index, name| Cell::of(row, index, "task", name);
    let (mut task, blobs) = (row::task(row, Bodies::Read)?, row::blobs(row)?);
    blobs.fill(db, &mut task)?;
    let work = match blobs.work {
        Some(key) => Some(blob::get(db, key)?),
        None => cell(32, "work").maybe(Cell::payload)?,
    };
    let key = match cell(31, "key").maybe(Cell::string)? {
        Some(key) => Some(IdempotencyKey {
            tool: cell(30, "key_tool").string()?,
            key,
            digest: cell(33, "key_digest").array()?,
        }),
        None => None,
    };
    let events = read::events(db, task.id)?;
    Ok(KeptTask { task, work, key, events })
}

fn secrets(db: &Connection) -> Result<Vec<Kept>, StoreError> {
    let mut statement = db.prepare_cached(include_str!("queries/secret_list.sql")).map_err(failed)?;
    collect(statement.query([]), |row| {
        let cell = |index, name| Cell::of(row, index, "secret", name);
        Ok(Kept::Secret(KeptSecret {
            name: cell(0, "name").string()?,
            value: cell(1, "value").bytes()?.to_vec(),
        }))
    })
}
