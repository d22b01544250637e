use std::borrow::Cow;
use std::io::{BufRead, Read};
use std::time::Duration;

use taskgate_task::{
    Carrier, Event, IdempotencyKey, Inputs, Lifetime, NodeId, Outcome, Owner, Payload, Task, TaskId,
    WorkClass,
};

use super::line::{KeyLine, Line, OutcomeLine, TaskLine, from_hex};
use super::{Carried, FORMAT, TransferError};
use crate::store::{Kept, KeptSecret, KeptTask};

/// Reads an export, line by line. It may come from anywhere: what it says is believed only where it fits together.
pub(super) struct Reader<R> {
    input: R,
    longest: usize,
    line: u64,
    text: Vec<u8>,
    last: Option<TaskId>,
    carried: Carried,
}

impl<R: BufRead> Reader<R> {
    pub(super) fn begin(input: R, longest: usize) -> Result<Self, TransferError> {
        let mut reader =
            Reader { input, longest, line: 0, text: Vec::new(), last: None, carried: Carried::default() };
        let found = reader.advance()?;
        match serde_json::from_slice(&reader.text) {
            Ok(Line::TaskgateExport(FORMAT)) if found => Ok(reader),
            Ok(Line::TaskgateExport(other)) => Err(TransferError::Version(other)),
            _ => Err(TransferError::NotAnExport),
        }
    }

    /// The number of the line read last.
    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// What has been read.
    pub(super) fn carried(&self) -> Carried {
        self.carried
    }

    /// The next thing, until the last line has said that this was all.
    pub(super) fn next(&mut self) -> Result<Option<Kept>, TransferError> {
        if !self.advance()? {
            return Err(TransferError::CutOff(self.line));
        }
        // The text is taken, so that a long one is not kept until the next.
        let text = std::mem::take(&mut self.text);
        let Some(text) = text.strip_suffix(b"\n") else { return Err(TransferError::CutOff(self.line - 1)) };
        let line = serde_json::from_slice(text);
        match line.map_err(|error| self.malformed(format!("cannot be read: {}", place(&error))))? {
            Line::TaskgateExport(_) => Err(self.malformed("begins another export".to_owned())),
            Line::Secret(secret) => {
                let value = from_hex(&secret.value);
                let value = value.ok_or_else(|| self.malformed("has a secret that is none".to_owned()))?;
                self.carried.secrets += 1;
                Ok(Some(Kept::Secret(KeptSecret { name: secret.name.into_owned(), value })))
            }
            Line::Task(line) => {
                let kept = task(*line).map_err(|what| self.malformed(what))?;
                self.check(&kept).map_err(|what| self.malformed(what))?;
                (self.last, self.carried.tasks) = (Some(kept.task.id), self.carried.tasks + 1);
                Ok(Some(Kept::Task(Box::new(kept))))
            }
            Line::End(expected) if expected != self.carried => Err(self.malformed(format!(
                "says that there were {} tasks and {} secrets, but there were {} and {}",
                expected.tasks, expected.secrets, self.carried.tasks, self.carried.secrets
            ))),
            Line::End(_) if self.advance()? => {
                Err(self.malformed("comes after the export's last line".to_owned()))
            }
            Line::End(_) => Ok(None),
        }
    }

    /// The order makes sure that no task comes twice.
    fn check(&self, kept: &KeptTask) -> Result<(), String> {
        let id = kept.task.id;
        if let Some(last) = self.last.filter(|last| last.locator() >= id.locator()) {
            return Err(format!(
                "has {id:?}, which does not come after {last:?}: tasks stand in order, and once"
            ));
        }
        match kept.flaws().first() {
            Some(flaw) => Err(format!("has {id:?}, which {flaw}")),
            None => Ok(()),
        }
    }

    /// Reads a line with its end; `false` if there is none.
    fn advance(&mut self) -> Result<bool, TransferError> {
        self.text.clear();
        let most = u64::try_from(self.longest).unwrap_or(u64::MAX).saturating_add(1);
        let read = (&mut self.input).take(most).read_until(b'\n', &mut self.text);
        if read.map_err(TransferError::Read)? == 0 {
            return Ok(false);
        }
        self.line += 1;
        if self.text.len() > self.longest && self.text.last() != Some(&b'\n') {
            return Err(TransferError::TooLong { line: self.line, longest: self.longest });
        }
        Ok(true)
    }

    fn malformed(&self, what: String) -> TransferError {
        TransferError::Malformed { line: self.line, what }
    }
}

/// Where in the line and what, without the line's own words: they may be secret.
fn place(error: &serde_json::Error) -> String {
    let kind = match error.classify() {
        serde_json::error::Category::Io => "it could not be read",
        serde_json::error::Category::Syntax => "it is not JSON",
        serde_json::error::Category::Data => "it is not what belongs there",
        serde_json::error::Category::Eof => "it breaks off",
    };
    format!("{kind} (at byte {})", error.column())
}

fn task(line: TaskLine<'_>) -> Result<KeptTask, String> {
    let no = |what: &'static str| move || format!("has no valid {what}");
    let wrong = |what: &'static str| move |_| format!("has no valid {what}");
    let payload = |text: Cow<'_, str>, what| Payload::parse(text.into_owned()).map_err(wrong(what));
    let inputs = line.inputs.map(|text| serde_json::from_str(&text).map_err(|_| no("inputs")()));
    let checkpoint = line.checkpoint.map(|text| payload(text, "checkpoint")).transpose()?;
    if line.node.is_some() && line.ready_at.is_some() {
        return Err("is carried, and waits to be carried".to_owned());
    }
    let task = Task {
        id: TaskId::parse(&line.id).ok().filter(|id| id.locator() > 0).ok_or_else(no("id"))?,
        owner: Owner::named(&line.owner),
        runner: line.runner.into_owned(),
        class: WorkClass::from_word(&line.class).ok_or_else(no("class"))?,
        status: line.status,
        status_message: line.status_message.map(Cow::into_owned),
        created_at: line.created_at,
        updated_at: line.updated_at,
        ended_at: line.ended_at,
        lifetime: Lifetime {
            run_deadline: line.run_deadline,
            idle_limit: line.idle_limit_ms.map(Duration::from_millis),
            retention: Duration::from_millis(line.retention_ms),
            ttl: Duration::from_millis(line.ttl_ms),
        },
        poll_interval: Duration::from_millis(line.poll_interval_ms),
        version: line.version,
        fence: line.fence,
        carrier: Carrier::from_parts(line.node.map(NodeId::from_number), line.ready_at),
        attempts: line.attempts,
        max_attempts: line.max_attempts,
        checkpoint,
        inputs: inputs.transpose()?.unwrap_or_else(Inputs::default),
        outcome: line.outcome.map(outcome).transpose()?,
        failure: line.failure,
        given_id: None,
    };
    let events = line.events.into_iter().map(|event| Event {
        version: event.version,
        at: event.at,
        who: event.who,
        from: event.from,
        to: event.to,
        why: event.why.into_owned(),
    });
    let key = line.key.map(key).transpose()?;
    Ok(KeptTask {
        task: Task { given_id: key.as_ref().and_then(IdempotencyKey::given_id), ..task },
        work: line.work.map(|text| payload(text, "work")).transpose()?,
        key,
        events: events.collect(),
    })
}

fn key(line: KeyLine<'_>) -> Result<IdempotencyKey, String> {
    let digest = from_hex(&line.digest).and_then(|digest| digest.try_into().ok());
    let digest = digest.ok_or_else(|| "has no valid digest".to_owned())?;
    Ok(IdempotencyKey { tool: line.tool.into_owned(), key: line.key.into_owned(), digest })
}

fn outcome(line: OutcomeLine<'_>) -> Result<Outcome, String> {
    let body = Payload::parse(line.body.into_owned()).map_err(|_| "has no valid outcome".to_owned())?;
    let summary = line.summary.map(Cow::into_owned);
    line.kind.outcome(body, summary).ok_or_else(|| "has an error without its summary".to_owned())
}
