//! Columns become exact types. A value that cannot be one is damage, told by the name of its column.

use std::fmt::Display;
use std::time::Duration;

use taskgate_task::{
    Carrier, Event, GivenId, Inputs, Lifetime, NodeId, Owner, Payload, Task, TaskId, Timestamp,
};
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use super::text;
use crate::StoreError;
use crate::store::Node;
use crate::store::code::{Bodies, Code, OutcomeKind};

/// Reads a record.
pub(super) fn task(row: &Row, bodies: Bodies) -> Result<Task, StoreError> {
    let cell = |name| Cell { row, table: "task", name };
    let mut task = Task {
        id: id(row)?,
        owner: Owner::named(&cell("owner").string()?),
        runner: cell("runner").string()?,
        class: cell("class").code()?,
        status: cell("status").code()?,
        version: cell("version").count()?,
        fence: cell("fence").count()?,
        carrier: Carrier::from_parts(cell("carrier").maybe(Cell::node)?, cell("ready_at").maybe(Cell::time)?),
        attempts: cell("attempts").count()?,
        max_attempts: cell("max_attempts").count()?,
        checkpoint: cell("checkpoint").maybe(Cell::payload)?,
        created_at: cell("created_at").time()?,
        updated_at: cell("updated_at").time()?,
        ended_at: cell("ended_at").maybe(Cell::time)?,
        lifetime: Lifetime {
            run_deadline: cell("run_deadline").time()?,
            idle_limit: cell("idle_limit_ms").maybe(Cell::span)?,
            retention: cell("retention_ms").span()?,
            ttl: cell("ttl_ms").span()?,
        },
        poll_interval: cell("poll_interval_ms").span()?,
        failure: cell("failure").maybe(Cell::code)?,
        status_message: cell("status_message").maybe(Cell::string)?,
        inputs: cell("inputs").maybe(Cell::inputs)?.unwrap_or_default(),
        outcome: None,
        given_id: match (cell("key_tool").maybe(Cell::string)?, cell("key").maybe(Cell::string)?) {
            (Some(tool), Some(key)) => GivenId::kept_as(&tool, &key),
            _ => None,
        },
    };
    if let Some(kind) = cell("outcome_kind").maybe(Cell::code::<OutcomeKind>)? {
        let body = match bodies {
            Bodies::Read => cell("outcome").payload()?,
            Bodies::Spared => Payload::null(),
        };
        let summary = cell("summary");
        let outcome = kind.outcome(body, summary.maybe(Cell::string)?);
        task.outcome = Some(outcome.ok_or_else(|| summary.damaged("is missing"))?);
    }
    Ok(task)
}

/// Reads an id from its two halves.
pub(super) fn id(row: &Row) -> Result<TaskId, StoreError> {
    let cell = |name| Cell { row, table: "task", name };
    Ok(TaskId::from_parts(cell("locator").int()?, cell("secret").array()?))
}

/// Reads an event.
pub(super) fn event(row: &Row) -> Result<Event, StoreError> {
    let cell = |name| Cell { row, table: "event", name };
    Ok(Event {
        version: cell("version").count()?,
        at: cell("at").time()?,
        who: cell("who").code()?,
        from: cell("from_status").maybe(Cell::code)?,
        to: cell("to_status").code()?,
        why: cell("why").string()?,
    })
}

/// Reads a node.
pub(super) fn node(row: &Row) -> Result<Node, StoreError> {
    let cell = |name| Cell { row, table: "node", name };
    Ok(Node {
        id: cell("id").node()?,
        name: cell("name").string()?,
        joined_at: cell("joined_at").time()?,
        lease_until: cell("lease_until").time()?,
    })
}

/// One value of a row.
#[derive(Clone, Copy)]
pub(super) struct Cell<'r> {
    pub(super) row: &'r Row,
    pub(super) table: &'static str,
    pub(super) name: &'static str,
}

impl<'r> Cell<'r> {
    /// `read` unless the value is NULL.
    pub(super) fn maybe<T>(
        self,
        read: impl FnOnce(Self) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        let NotNull(there) = self.get::<NotNull>()?;
        if there { read(self).map(Some) } else { Ok(None) }
    }

    pub(super) fn int(self) -> Result<i64, StoreError> {
        self.get()
    }

    pub(super) fn string(self) -> Result<String, StoreError> {
        text::read(self.get()?).ok_or_else(|| self.damaged("holds an escape that stands for nothing"))
    }

    pub(super) fn bytes(self) -> Result<&'r [u8], StoreError> {
        self.get()
    }

    pub(super) fn array<const N: usize>(self) -> Result<[u8; N], StoreError> {
        self.bytes()?.try_into().map_err(|_| self.damaged("has the wrong length"))
    }

    pub(super) fn count<T: TryFrom<i64>>(self) -> Result<T, StoreError> {
        let number = self.int()?;
        T::try_from(number).map_err(|_| self.damaged(format_args!("cannot be {number}")))
    }

    pub(super) fn payload(self) -> Result<Payload, StoreError> {
        let raw = serde_json::from_str(self.get()?).map_err(|error| self.damaged(error))?;
        Ok(Payload::from_raw(raw))
    }

    fn time(self) -> Result<Timestamp, StoreError> {
        self.int().map(Timestamp::from_millis)
    }

    fn node(self) -> Result<NodeId, StoreError> {
        self.int().map(NodeId::from_number)
    }

    fn span(self) -> Result<Duration, StoreError> {
        self.count().map(Duration::from_millis)
    }

    fn code<T: Code>(self) -> Result<T, StoreError> {
        let code: i16 = self.get()?;
        T::from_code(code.into()).ok_or_else(|| self.damaged(format_args!("cannot be {code}")))
    }

    fn inputs(self) -> Result<Inputs, StoreError> {
        serde_json::from_str(self.get()?).map_err(|error| self.damaged(error))
    }

    fn get<T: FromSql<'r>>(self) -> Result<T, StoreError> {
        self.row.try_get(self.name).map_err(|error| self.damaged(super::fault::say(&error)))
    }

    pub(super) fn damaged(self, why: impl Display) -> StoreError {
        StoreError::Failed(format!("the database is damaged: {}.{} {why}", self.table, self.name))
    }
}

/// Whether a value of any type is there.
struct NotNull(bool);

impl<'r> FromSql<'r> for NotNull {
    fn from_sql(
        _: &tokio_postgres::types::Type,
        _: &'r [u8],
    ) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(NotNull(true))
    }

    fn from_sql_null(
        _: &tokio_postgres::types::Type,
    ) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(NotNull(false))
    }

    fn accepts(_: &tokio_postgres::types::Type) -> bool {
        true
    }
}
