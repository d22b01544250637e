//! Payloads that are too long for a row lie in a table of their own.

use rusqlite::{Connection, Params};
use taskgate_task::{Outcome, Payload, Task, TaskId};

use super::failed;
use super::row::{self, Cell};
use crate::StoreError;
use crate::store::is_work_wanted;

/// The longest payload that a row holds, in bytes.
///
/// Every change of a task writes its row again. Up to here that is four pages of the log, which is less than the
/// commit's wait for the disk; a blob would cost each creation, reading and deletion a search of its own. Rows of an older
/// layout may hold longer ones.
const LONGEST_IN_ROW: usize = 16 * 1024;

/// The keys of those payloads of a task that lie in blobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Blobs {
    pub(super) checkpoint: Option<i64>,
    pub(super) outcome: Option<i64>,
    pub(super) work: Option<i64>,
}

impl Blobs {
    /// Reads what a record has in blobs into it.
    pub(super) fn fill(&self, db: &Connection, task: &mut Task) -> Result<(), StoreError> {
        if let Some(key) = self.checkpoint {
            task.checkpoint = Some(get(db, key)?);
        }
        if let (Some(key), Some(outcome)) = (self.outcome, &mut task.outcome) {
            *outcome.body_mut() = get(db, key)?;
        }
        Ok(())
    }

    /// How long what [`Blobs::fill`] would read is.
    pub(super) fn length(&self, db: &Connection) -> Result<u64, StoreError> {
        [self.checkpoint, self.outcome]
            .into_iter()
            .flatten()
            .try_fold(0, |sum, key| Ok(sum + length(db, key)?))
    }

    /// Keeps what is too long for the row of a task that is new here.
    pub(super) fn keep(db: &Connection, task: &Task, work: Option<&Payload>) -> Result<Blobs, StoreError> {
        Ok(Blobs {
            checkpoint: place(db, task.id, None, None, task.checkpoint.as_ref())?,
            outcome: place(db, task.id, None, None, task.outcome.as_ref().map(Outcome::body))?,
            work: place(db, task.id, None, None, work)?,
        })
    }

    /// Follows a change of the record. What has not changed is not written again.
    pub(super) fn follow(&self, db: &Connection, before: &Task, after: &Task) -> Result<Blobs, StoreError> {
        let (id, body) = (after.id, |task: &Task| task.outcome.as_ref().map(Outcome::body).cloned());
        let work = match self.work {
            Some(key) if !is_work_wanted(after) => {
                delete(db, key)?;
                None
            }
            kept => kept,
        };
        Ok(Blobs {
            checkpoint: place(
                db,
                id,
                self.checkpoint,
                before.checkpoint.as_ref(),
                after.checkpoint.as_ref(),
            )?,
            outcome: place(db, id, self.outcome, body(before).as_ref(), body(after).as_ref())?,
            work,
        })
    }

    /// Deletes them with their task.
    pub(super) fn delete(&self, db: &Connection) -> Result<(), StoreError> {
        [self.checkpoint, self.outcome, self.work].into_iter().flatten().try_for_each(|key| delete(db, key))
    }
}

/// The payload at this key.
pub(super) fn get(db: &Connection, key: i64) -> Result<Payload, StoreError> {
    find(db, include_str!("queries/blob_get.sql"), key, |cell| cell.payload())
}

/// How long it is, without reading it.
pub(super) fn length(db: &Connection, key: i64) -> Result<u64, StoreError> {
    find(db, include_str!("queries/blob_length.sql"), key, |cell| cell.count())
}

fn find<T>(
    db: &Connection,
    sql: &str,
    key: i64,
    read: impl FnOnce(Cell<'_>) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let mut statement = db.prepare_cached(sql).map_err(failed)?;
    let mut rows = statement.query([key]).map_err(failed)?;
    match rows.next().map_err(failed)? {
        Some(row) => read(Cell::of(row, 0, "blob", "body")),
        None => Err(row::damaged("blob", "key", format_args!("{key} is missing"))),
    }
}

/// Puts a payload where it belongs: the key of its blob, or none if it belongs in the row.
fn place(
    db: &Connection,
    task: TaskId,
    held: Option<i64>,
    before: Option<&Payload>,
    after: Option<&Payload>,
) -> Result<Option<i64>, StoreError> {
    let long = after.filter(|payload| payload.as_str().len() > LONGEST_IN_ROW);
    match (held, long) {
        (None, None) => Ok(None),
        (Some(key), None) => delete(db, key).map(|()| None),
        (None, Some(payload)) => {
            run(db, include_str!("queries/blob_keep.sql"), (task.locator(), payload.as_str()))?;
            Ok(Some(db.last_insert_rowid()))
        }
        (Some(key), Some(payload)) => {
            if before != Some(payload) {
                run(db, include_str!("queries/blob_replace.sql"), (key, payload.as_str()))?;
            }
            Ok(Some(key))
        }
    }
}

fn delete(db: &Connection, key: i64) -> Result<(), StoreError> {
    run(db, include_str!("queries/blob_delete.sql"), [key])
}

fn run(db: &Connection, sql: &str, params: impl Params) -> Result<(), StoreError> {
    db.prepare_cached(sql).and_then(|mut statement| statement.execute(params)).map(drop).map_err(failed)
}
