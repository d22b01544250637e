use rusqlite::{Statement, ToSql};
use taskgate_task::{Outcome, Payload, Task};

use crate::StoreError;
use crate::store::code::{Code, OutcomeKind};
use crate::store::columns::{self, count, millis};
use crate::store::sqlite::blob::Blobs;
use crate::store::sqlite::failed;

/// Binds the next parameters of a statement, one after the other.
pub(super) struct Binder<'a, 'db> {
    statement: &'a mut Statement<'db>,
    next: usize,
}

impl<'a, 'db> Binder<'a, 'db> {
    pub(super) fn new(statement: &'a mut Statement<'db>) -> Self {
        Binder { statement, next: 1 }
    }

    pub(super) fn bind(&mut self, value: impl ToSql) -> Result<(), StoreError> {
        self.statement.raw_bind_parameter(self.next, value).map_err(failed)?;
        self.next += 1;
        Ok(())
    }

    /// Binds ?1 to ?24: the locator and everything that can change in a task's life.
    pub(super) fn bind_state(&mut self, task: &Task, blobs: &Blobs) -> Result<(), StoreError> {
        self.bind(task.id.locator())?;
        self.bind(task.status.code())?;
        self.bind(count(task.version))?;
        self.bind(count(task.fence))?;
        self.bind(task.attempts)?;
        self.bind(task.updated_at.as_millis())?;
        self.bind(task.ended_at.map(|at| at.as_millis()))?;
        self.bind(task.due_at().as_millis())?;
        self.bind(task.lifetime.run_deadline.as_millis())?;
        self.bind(task.lifetime.idle_limit.map(millis))?;
        self.bind(millis(task.lifetime.retention))?;
        self.bind(millis(task.lifetime.ttl))?;
        self.bind(millis(task.poll_interval))?;
        self.bind(task.failure.map(Code::code))?;
        self.bind(task.outcome.as_ref().map(|outcome| OutcomeKind::of(outcome).code()))?;
        self.bind(&task.status_message)?;
        self.bind(task.outcome.as_ref().and_then(Outcome::summary))?;
        let unwritable = |error| StoreError::Failed(format!("the inputs cannot be written: {error}"));
        self.bind(columns::inputs(task).map_err(unwritable)?)?;
        let body = task.outcome.as_ref().map(Outcome::body);
        self.bind(in_row(body, blobs.outcome))?;
        self.bind(task.carrier.node().map(|node| node.as_number()))?;
        self.bind(task.carrier.ready_at().map(|at| at.as_millis()))?;
        self.bind(in_row(task.checkpoint.as_ref(), blobs.checkpoint))?;
        self.bind(blobs.outcome)?;
        self.bind(blobs.checkpoint)
    }
}

/// The payload's text, unless it lies in a blob.
pub(super) fn in_row(payload: Option<&Payload>, blob: Option<i64>) -> Option<&str> {
    payload.filter(|_| blob.is_none()).map(Payload::as_str)
}
