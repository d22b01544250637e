use std::borrow::Cow;
use std::io::Write;
use std::time::Duration;

use taskgate_task::{Event, IdempotencyKey, Outcome};

use super::line::{EventLine, KeyLine, Line, OutcomeLine, SecretLine, TaskLine, to_hex};
use super::{Carried, FORMAT, TransferError};
use crate::store::code::OutcomeKind;
use crate::store::{Kept, KeptTask, columns};

/// Writes an export, line by line.
pub(super) struct Writer<W> {
    out: W,
    carried: Carried,
}

impl<W: Write> Writer<W> {
    pub(super) fn begin(out: W) -> Result<Self, TransferError> {
        let mut writer = Writer { out, carried: Carried::default() };
        writer.line(&Line::TaskgateExport(FORMAT))?;
        Ok(writer)
    }

    pub(super) fn add(&mut self, kept: &Kept) -> Result<(), TransferError> {
        match kept {
            Kept::Secret(secret) => {
                self.carried.secrets += 1;
                let (name, value) = (Cow::from(secret.name.as_str()), to_hex(&secret.value));
                self.line(&Line::Secret(SecretLine { name, value }))
            }
            Kept::Task(kept) => {
                self.carried.tasks += 1;
                self.line(&Line::Task(Box::new(task(kept)?)))
            }
        }
    }

    pub(super) fn finish(mut self) -> Result<Carried, TransferError> {
        self.line(&Line::End(self.carried))?;
        self.out.flush().map_err(TransferError::Write)?;
        Ok(self.carried)
    }

    /// Payloads go out without another copy of them being made.
    fn line(&mut self, line: &Line<'_>) -> Result<(), TransferError> {
        let written = serde_json::to_writer(&mut self.out, line).map_err(Into::into);
        written.and_then(|()| self.out.write_all(b"\n")).map_err(TransferError::Write)
    }
}

fn task(kept: &KeptTask) -> Result<TaskLine<'_>, TransferError> {
    let KeptTask { task, work, key, events } = kept;
    let inputs = columns::inputs(task).map_err(|error| TransferError::Write(error.into()))?;
    Ok(TaskLine {
        id: task.id.to_string(),
        owner: task.owner.as_str().into(),
        runner: task.runner.as_str().into(),
        class: task.class.as_str().into(),
        status: task.status,
        version: task.version,
        fence: task.fence,
        node: task.carrier.node().map(|node| node.as_number()),
        ready_at: task.carrier.ready_at(),
        attempts: task.attempts,
        max_attempts: task.max_attempts,
        created_at: task.created_at,
        updated_at: task.updated_at,
        ended_at: task.ended_at,
        run_deadline: task.lifetime.run_deadline,
        idle_limit_ms: task.lifetime.idle_limit.map(millis),
        retention_ms: millis(task.lifetime.retention),
        ttl_ms: millis(task.lifetime.ttl),
        poll_interval_ms: millis(task.poll_interval),
        status_message: task.status_message.as_deref().map(Cow::from),
        failure: task.failure,
        key: key.as_ref().map(idempotency_key),
        events: events.iter().map(event).collect(),
        inputs,
        checkpoint: task.checkpoint.as_ref().map(|state| state.as_str().into()),
        outcome: task.outcome.as_ref().map(outcome),
        work: work.as_ref().map(|work| work.as_str().into()),
    })
}

fn idempotency_key(key: &IdempotencyKey) -> KeyLine<'_> {
    KeyLine { tool: key.tool.as_str().into(), key: key.key.as_str().into(), digest: to_hex(&key.digest) }
}

fn outcome(outcome: &Outcome) -> OutcomeLine<'_> {
    OutcomeLine {
        kind: OutcomeKind::of(outcome),
        summary: outcome.summary().map(Cow::from),
        body: outcome.body().as_str().into(),
    }
}

fn event(event: &Event) -> EventLine<'_> {
    EventLine {
        version: event.version,
        at: event.at,
        who: event.who,
        from: event.from,
        to: event.to,
        why: event.why.as_str().into(),
    }
}

/// What is longer than any store can say is as good as for ever.
fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
