//! Everything there is of some tasks.

use taskgate_task::{Event, IdempotencyKey, Status, Timestamp, Who};
use tokio_postgres::Row;

use super::row::{self, Cell};
use super::text;
use crate::StoreError;
use crate::store::code::Bodies;
use crate::store::code::Code;
use crate::store::{Kept, KeptSecret, KeptTask};

/// Reads a row of `task_dump.sql`.
pub(super) fn task(row: &Row) -> Result<Kept, StoreError> {
    let cell = |name| Cell { row, table: "task", name };
    let key = match cell("key").maybe(Cell::string)? {
        Some(key) => Some(IdempotencyKey {
            tool: cell("key_tool").string()?,
            key,
            digest: cell("key_digest").array()?,
        }),
        None => None,
    };
    Ok(Kept::Task(Box::new(KeptTask {
        task: row::task(row, Bodies::Read)?,
        work: cell("work").maybe(Cell::payload)?,
        key,
        events: events(cell("events"))?,
    })))
}

/// Reads a row of `secret_list.sql`.
pub(super) fn secret(row: &Row) -> Result<Kept, StoreError> {
    let cell = |name| Cell { row, table: "secret", name };
    Ok(Kept::Secret(KeptSecret { name: cell("name").string()?, value: cell("value").bytes()?.to_vec() }))
}

/// The columns of an event, in the order of `task_dump.sql`.
type Columns = (u64, Timestamp, i64, Option<i64>, i64, String);

fn events(cell: Cell<'_>) -> Result<Vec<Event>, StoreError> {
    let Some(all) = cell.maybe(Cell::payload)? else { return Ok(Vec::new()) };
    let all: Vec<Columns> = serde_json::from_str(all.as_str()).map_err(|error| cell.damaged(error))?;
    let events = all.into_iter().map(|(version, at, who, from, to, why)| {
        let from = match from {
            Some(from) => Some(Status::from_code(from)?),
            None => None,
        };
        let (who, to, why) = (Who::from_code(who)?, Status::from_code(to)?, text::read(&why)?);
        Some(Event { version, at, who, from, to, why })
    });
    events.collect::<Option<_>>().ok_or_else(|| cell.damaged("cannot be read"))
}
