//! Rows as columns: one array for each parameter, so that one statement writes all of them.

use std::borrow::Cow;

use taskgate_task::{Event, IdempotencyKey, Outcome, Payload, Task};
use tokio_postgres::types::ToSql;

use crate::StoreError;
use crate::store::code::{Code, OutcomeKind};
use crate::store::columns::{self, count, millis};
use crate::store::is_work_wanted;
use crate::store::postgres::text::kept;

/// Text that may hold any character.
type Text<'a> = Cow<'a, str>;

/// $1 to $22 of `task_create.sql` and `task_update.sql`: the locator and everything that can change in a task's life.
#[derive(Default)]
pub(super) struct State<'a> {
    locator: Vec<i64>,
    status: Vec<i16>,
    version: Vec<i64>,
    fence: Vec<i64>,
    attempts: Vec<i64>,
    updated_at: Vec<i64>,
    ended_at: Vec<Option<i64>>,
    due_at: Vec<i64>,
    run_deadline: Vec<i64>,
    idle_limit: Vec<Option<i64>>,
    retention: Vec<i64>,
    ttl: Vec<i64>,
    poll_interval: Vec<i64>,
    failure: Vec<Option<i16>>,
    outcome_kind: Vec<Option<i16>>,
    status_message: Vec<Option<Text<'a>>>,
    summary: Vec<Option<Text<'a>>>,
    inputs: Vec<Option<String>>,
    outcome: Vec<Option<&'a str>>,
    carrier: Vec<Option<i64>>,
    ready_at: Vec<Option<i64>>,
    checkpoint: Vec<Option<&'a str>>,
}

impl<'a> State<'a> {
    fn push(&mut self, task: &'a Task) -> Result<(), StoreError> {
        // Work can be parked without ever having asked anything.
        let unwritable = |error| StoreError::Failed(format!("the inputs cannot be written: {error}"));
        let inputs = columns::inputs(task).map_err(unwritable)?;
        let outcome = task.outcome.as_ref();
        self.locator.push(task.id.locator());
        self.status.push(code(task.status));
        self.version.push(count(task.version));
        self.fence.push(count(task.fence));
        self.attempts.push(task.attempts.into());
        self.updated_at.push(task.updated_at.as_millis());
        self.ended_at.push(task.ended_at.map(|at| at.as_millis()));
        self.due_at.push(task.due_at().as_millis());
        self.run_deadline.push(task.lifetime.run_deadline.as_millis());
        self.idle_limit.push(task.lifetime.idle_limit.map(millis));
        self.retention.push(millis(task.lifetime.retention));
        self.ttl.push(millis(task.lifetime.ttl));
        self.poll_interval.push(millis(task.poll_interval));
        self.failure.push(task.failure.map(code));
        self.outcome_kind.push(outcome.map(|outcome| code(OutcomeKind::of(outcome))));
        self.status_message.push(task.status_message.as_deref().map(kept));
        self.summary.push(outcome.and_then(Outcome::summary).map(kept));
        self.inputs.push(inputs);
        self.outcome.push(outcome.map(|outcome| outcome.body().as_str()));
        self.carrier.push(task.carrier.node().map(|node| node.as_number()));
        self.ready_at.push(task.carrier.ready_at().map(|at| at.as_millis()));
        self.checkpoint.push(task.checkpoint.as_ref().map(|state| state.as_str()));
        Ok(())
    }

    fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        vec![
            &self.locator,
            &self.status,
            &self.version,
            &self.fence,
            &self.attempts,
            &self.updated_at,
            &self.ended_at,
            &self.due_at,
            &self.run_deadline,
            &self.idle_limit,
            &self.retention,
            &self.ttl,
            &self.poll_interval,
            &self.failure,
            &self.outcome_kind,
            &self.status_message,
            &self.summary,
            &self.inputs,
            &self.outcome,
            &self.carrier,
            &self.ready_at,
            &self.checkpoint,
        ]
    }
}

/// The parameters of `task_update.sql`.
#[derive(Default)]
pub(super) struct Updates<'a> {
    state: State<'a>,
    is_work_wanted: Vec<bool>,
}

impl<'a> Updates<'a> {
    pub(super) fn push(&mut self, task: &'a Task) -> Result<(), StoreError> {
        self.state.push(task)?;
        self.is_work_wanted.push(is_work_wanted(task));
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.is_work_wanted.is_empty()
    }

    pub(super) fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        let mut params = self.state.params();
        params.push(&self.is_work_wanted);
        params
    }
}

/// The parameters of `task_create.sql`.
#[derive(Default)]
pub(super) struct Creates<'a> {
    state: State<'a>,
    secret: Vec<Vec<u8>>,
    owner: Vec<Text<'a>>,
    runner: Vec<Text<'a>>,
    class: Vec<i16>,
    created_at: Vec<i64>,
    work: Vec<Option<&'a str>>,
    max_attempts: Vec<i64>,
    key_tool: Vec<Option<Text<'a>>>,
    key: Vec<Option<Text<'a>>>,
    key_digest: Vec<Option<&'a [u8]>>,
}

impl<'a> Creates<'a> {
    /// The record as it now is, which may be further than at its creation.
    pub(super) fn push(
        &mut self,
        task: &'a Task,
        work: Option<&'a Payload>,
        key: Option<&'a IdempotencyKey>,
    ) -> Result<(), StoreError> {
        self.state.push(task)?;
        self.secret.push(task.id.secret().to_vec());
        self.owner.push(kept(task.owner.as_str()));
        self.runner.push(kept(&task.runner));
        self.class.push(code(task.class));
        self.created_at.push(task.created_at.as_millis());
        self.work.push(work.map(Payload::as_str));
        self.max_attempts.push(task.max_attempts.into());
        self.key_tool.push(key.map(|key| kept(&key.tool)));
        self.key.push(key.map(|key| kept(&key.key)));
        self.key_digest.push(key.map(|key| &key.digest[..]));
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.secret.is_empty()
    }

    pub(super) fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        let mut params = self.state.params();
        let more: [&(dyn ToSql + Sync); 10] = [
            &self.secret,
            &self.owner,
            &self.runner,
            &self.class,
            &self.created_at,
            &self.work,
            &self.max_attempts,
            &self.key_tool,
            &self.key,
            &self.key_digest,
        ];
        params.extend(more);
        params
    }
}

/// The parameters of `event_append.sql`.
#[derive(Default)]
pub(super) struct Events<'a> {
    task: Vec<i64>,
    version: Vec<i64>,
    at: Vec<i64>,
    who: Vec<i16>,
    from: Vec<Option<i16>>,
    to: Vec<i16>,
    why: Vec<Text<'a>>,
}

impl<'a> Events<'a> {
    pub(super) fn push(&mut self, locator: i64, event: &'a Event) {
        self.task.push(locator);
        self.version.push(count(event.version));
        self.at.push(event.at.as_millis());
        self.who.push(code(event.who));
        self.from.push(event.from.map(code));
        self.to.push(code(event.to));
        self.why.push(kept(&event.why));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.task.is_empty()
    }

    pub(super) fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        vec![&self.task, &self.version, &self.at, &self.who, &self.from, &self.to, &self.why]
    }
}

/// The parameters of `task_keyed.sql`.
#[derive(Default)]
pub(in crate::store::postgres) struct Keys<'a> {
    owner: Vec<Text<'a>>,
    tool: Vec<Text<'a>>,
    key: Vec<Text<'a>>,
}

impl<'a> Keys<'a> {
    pub(super) fn push(&mut self, owner: &'a str, key: &'a IdempotencyKey) {
        self.owner.push(kept(owner));
        self.tool.push(kept(&key.tool));
        self.key.push(kept(&key.key));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.key.is_empty()
    }

    pub(super) fn params(&self) -> [&(dyn ToSql + Sync); 3] {
        [&self.owner, &self.tool, &self.key]
    }
}

/// The codes are small numbers.
fn code(code: impl Code) -> i16 {
    i16::try_from(code.code()).unwrap_or(0)
}
