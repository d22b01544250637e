//! Columns become exact types. A value that cannot be one is damage, told by the name of its column.

use std::fmt::Display;
use std::time::Duration;

use rusqlite::Row;
use rusqlite::types::{FromSqlResult, ValueRef};
use taskgate_task::{
    Carrier, Event, GivenId, Inputs, Lifetime, NodeId, Owner, Payload, Task, TaskId, Timestamp,
};

use super::blob::Blobs;
use crate::StoreError;
use crate::store::Node;
use crate::store::code::{Bodies, Code, OutcomeKind};

/// Reads where the payloads of a record lie that are not in its row.
pub(super) fn blobs(row: &Row<'_>) -> Result<Blobs, StoreError> {
    let cell = |index| Cell::of(row, index, "task", TASK[index]);
    Ok(Blobs {
        checkpoint: cell(27).maybe(Cell::int)?,
        outcome: cell(28).maybe(Cell::int)?,
        work: cell(29).maybe(Cell::int)?,
    })
}

/// The columns every query for records selects, in this order.
pub(super) const TASK: [&str; 32] = [
    "locator",
    "secret",
    "owner",
    "runner",
    "class",
    "status",
    "version",
    "fence",
    "attempts",
    "created_at",
    "updated_at",
    "ended_at",
    "run_deadline",
    "idle_limit_ms",
    "retention_ms",
    "ttl_ms",
    "poll_interval_ms",
    "failure",
    "outcome_kind",
    "status_message",
    "summary",
    "inputs",
    "outcome",
    "carrier",
    "ready_at",
    "max_attempts",
    "checkpoint",
    "checkpoint_blob",
    "outcome_blob",
    "work_blob",
    "key_tool",
    "key",
];

/// The columns of an event.
pub(super) const EVENT: [&str; 7] = ["secret", "version", "at", "who", "from_status", "to_status", "why"];

/// Reads a record. Where a payload lies in a blob, `null` stands in its place.
pub(super) fn task(row: &Row<'_>, bodies: Bodies) -> Result<Task, StoreError> {
    let cell = |index| Cell::of(row, index, "task", TASK[index]);
    let mut task = Task {
        id: TaskId::from_parts(cell(0).int()?, cell(1).array()?),
        owner: Owner::named(cell(2).text()?),
        runner: cell(3).text()?.to_owned(),
        class: cell(4).code()?,
        status: cell(5).code()?,
        version: cell(6).count()?,
        fence: cell(7).count()?,
        carrier: Carrier::from_parts(cell(23).maybe(Cell::node)?, cell(24).maybe(Cell::time)?),
        attempts: cell(8).count()?,
        max_attempts: cell(25).count()?,
        checkpoint: match cell(27).is_null() {
            true => cell(26).maybe(Cell::payload)?,
            false => Some(Payload::null()),
        },
        created_at: cell(9).time()?,
        updated_at: cell(10).time()?,
        ended_at: cell(11).maybe(Cell::time)?,
        lifetime: Lifetime {
            run_deadline: cell(12).time()?,
            idle_limit: cell(13).maybe(Cell::span)?,
            retention: cell(14).span()?,
            ttl: cell(15).span()?,
        },
        poll_interval: cell(16).span()?,
        failure: cell(17).maybe(Cell::code)?,
        status_message: cell(19).maybe(Cell::string)?,
        inputs: cell(21).maybe(Cell::inputs)?.unwrap_or_default(),
        outcome: None,
        given_id: match (cell(30).maybe(Cell::text)?, cell(31).maybe(Cell::text)?) {
            (Some(tool), Some(key)) => GivenId::kept_as(tool, key),
            _ => None,
        },
    };
    if let Some(kind) = cell(18).maybe(Cell::code::<OutcomeKind>)? {
        let body = match bodies {
            Bodies::Read if cell(28).is_null() => cell(22).payload()?,
            Bodies::Read | Bodies::Spared => Payload::null(),
        };
        let summary = cell(20);
        let outcome = kind.outcome(body, summary.maybe(Cell::string)?);
        task.outcome = Some(outcome.ok_or_else(|| summary.damaged("is missing"))?);
    }
    Ok(task)
}

/// Reads an event.
pub(super) fn event(row: &Row<'_>) -> Result<Event, StoreError> {
    let cell = |index| Cell::of(row, index, "event", EVENT[index]);
    Ok(Event {
        version: cell(1).count()?,
        at: cell(2).time()?,
        who: cell(3).code()?,
        from: cell(4).maybe(Cell::code)?,
        to: cell(5).code()?,
        why: cell(6).string()?,
    })
}

/// Reads a node.
pub(super) fn node(row: &Row<'_>) -> Result<Node, StoreError> {
    let cell = |index, name| Cell::of(row, index, "node", name);
    Ok(Node {
        id: cell(0, "id").node()?,
        name: cell(1, "name").string()?,
        joined_at: cell(2, "joined_at").time()?,
        lease_until: cell(3, "lease_until").time()?,
    })
}

/// One value of a row, and where it stands.
#[derive(Clone, Copy)]
pub(super) struct Cell<'r> {
    value: ValueRef<'r>,
    table: &'static str,
    name: &'static str,
}

impl<'r> Cell<'r> {
    /// The value at `index`, which the schema calls `table.name`.
    pub(super) fn of(row: &'r Row<'_>, index: usize, table: &'static str, name: &'static str) -> Self {
        // A column that the query does not have is as good as empty, which is told where a value is needed.
        Cell { value: row.get_ref(index).unwrap_or(ValueRef::Null), table, name }
    }

    /// `read` unless the value is NULL.
    pub(super) fn maybe<T>(
        self,
        read: impl FnOnce(Self) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        if self.is_null() { Ok(None) } else { read(self).map(Some) }
    }

    fn is_null(self) -> bool {
        matches!(self.value, ValueRef::Null)
    }

    pub(super) fn int(self) -> Result<i64, StoreError> {
        self.typed(self.value.as_i64())
    }

    pub(super) fn text(self) -> Result<&'r str, StoreError> {
        self.typed(self.value.as_str())
    }

    pub(super) fn string(self) -> Result<String, StoreError> {
        self.text().map(str::to_owned)
    }

    pub(super) fn bytes(self) -> Result<&'r [u8], StoreError> {
        self.typed(self.value.as_blob())
    }

    pub(super) fn array<const N: usize>(self) -> Result<[u8; N], StoreError> {
        self.bytes()?.try_into().map_err(|_| self.damaged("has the wrong length"))
    }

    pub(super) fn count<T: TryFrom<i64>>(self) -> Result<T, StoreError> {
        let number = self.int()?;
        T::try_from(number).map_err(|_| self.damaged(format_args!("cannot be {number}")))
    }

    pub(super) fn time(self) -> Result<Timestamp, StoreError> {
        self.int().map(Timestamp::from_millis)
    }

    pub(super) fn node(self) -> Result<NodeId, StoreError> {
        self.int().map(NodeId::from_number)
    }

    pub(super) fn span(self) -> Result<Duration, StoreError> {
        self.count().map(Duration::from_millis)
    }

    pub(super) fn code<T: Code>(self) -> Result<T, StoreError> {
        let code = self.int()?;
        T::from_code(code).ok_or_else(|| self.damaged(format_args!("cannot be {code}")))
    }

    pub(super) fn payload(self) -> Result<Payload, StoreError> {
        let raw = serde_json::from_str(self.text()?).map_err(|error| self.damaged(error))?;
        Ok(Payload::from_raw(raw))
    }

    fn inputs(self) -> Result<Inputs, StoreError> {
        serde_json::from_str(self.text()?).map_err(|error| self.damaged(error))
    }

    fn typed<T>(self, value: FromSqlResult<T>) -> Result<T, StoreError> {
        value.map_err(|error| self.damaged(error))
    }

    fn damaged(self, why: impl Display) -> StoreError {
        damaged(self.table, self.name, why)
    }
}

/// The file holds what it cannot hold.
pub(super) fn damaged(table: &str, column: &str, why: impl Display) -> StoreError {
    StoreError::Failed(format!("the file is damaged: {table}.{column} {why}"))
}
