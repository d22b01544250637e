use std::collections::HashSet;

use taskgate_task::{Carrier, Event, IdempotencyKey, Outcome, Payload, Status, Task};

use super::is_work_wanted;

/// How many bytes of payloads one answer of [`Store::dump`](super::Store::dump) holds before it ends. A single task may be longer.
pub const DUMP_SIZE: usize = 8 << 20;

/// One of the things that a store keeps, whole: what one store gives, another can take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    /// A secret of the store itself.
    Secret(KeptSecret),
    /// A task.
    Task(Box<KeptTask>),
}

/// A secret of a store: what was sealed with it opens only where it is.
#[derive(Clone, PartialEq, Eq)]
pub struct KeptSecret {
    /// What it is for.
    pub name: String,
    /// The secret, or what must be known of the store itself.
    pub value: Vec<u8>,
}

impl std::fmt::Debug for KeptSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeptSecret").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Everything there is of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptTask {
    /// The record.
    pub task: Task,
    /// The description of its work, while that can be wanted.
    pub work: Option<Payload>,
    /// Its idempotency key.
    pub key: Option<IdempotencyKey>,
    /// Its events, oldest first.
    pub events: Vec<Event>,
}

impl KeptTask {
    /// How many bytes its payloads have.
    pub fn weight(&self) -> usize {
        let body = self.task.outcome.as_ref().map(Outcome::body);
        [self.work.as_ref(), self.task.checkpoint.as_ref(), body]
            .into_iter()
            .flatten()
            .map(|p| p.as_str().len())
            .sum()
    }

    /// What cannot be so, whatever has happened to the task: where this finds anything, the store was damaged or something
    /// else than taskgate has written to it. Nothing of what it says is secret.
    pub fn flaws(&self) -> Vec<String> {
        let mut flaws = self.flaws_of_the_record();
        flaws.extend(self.flaws_of_the_events());
        flaws
    }

    fn flaws_of_the_record(&self) -> Vec<String> {
        let KeptTask { task, work, .. } = self;
        let has_ended = task.status.is_terminal();
        let has_result = matches!(task.outcome, Some(Outcome::Result { .. }));
        let has_error = matches!(task.outcome, Some(Outcome::Error { .. }));
        let asks = task.inputs.open().next().is_some();
        let status = task.status.as_str();
        let asked = task.inputs.all();
        let rounds = 1..=task.inputs.rounds();
        let keys: HashSet<&str> = asked.iter().map(|asked| asked.key.as_str()).collect();
        let checks = [
            (task.ended_at.is_some() != has_ended, format!("is {status}, which does not fit when it ended")),
            (
                has_result != (task.status == Status::Completed),
                format!("is {status}, which does not fit its result"),
            ),
            (
                (has_error || task.failure.is_some()) != (task.status == Status::Failed),
                format!("is {status}, which does not fit its error"),
            ),
            (task.outcome.is_some() && task.failure.is_some(), "ended in two ways".to_owned()),
            (
                asked.iter().any(|asked| !rounds.contains(&asked.round)),
                "has a question of a round that never was".to_owned(),
            ),
            (keys.len() != asked.len(), "has two questions under one key".to_owned()),
            (
                !has_ended && asks != (task.status == Status::InputRequired),
                format!("is {status}, which does not fit its questions"),
            ),
            (
                task.status == Status::Working && task.carrier == Carrier::Nobody,
                "is working, but nobody carries or will carry it".to_owned(),
            ),
            (is_work_wanted(task) && work.is_none(), "has lost the description of its work".to_owned()),
            (!is_work_wanted(task) && work.is_some(), "keeps a description of work that is over".to_owned()),
        ];
        checks.into_iter().filter_map(|(is_so, flaw)| is_so.then_some(flaw)).collect()
    }

    fn flaws_of_the_events(&self) -> Vec<String> {
        let mut flaws = Vec::new();
        let mut before: Option<&Event> = None;
        for event in &self.events {
            let number = event.version;
            match before {
                None if event.version != 1 || event.from.is_some() => {
                    flaws.push(format!("event {number} comes first, but is no creation"));
                }
                Some(before) if event.version <= before.version => {
                    flaws.push(format!("event {number} comes after event {}", before.version));
                }
                Some(before) if event.from != Some(before.to) => {
                    flaws.push(format!("event {number} does not begin where event {} ended", before.version));
                }
                _ => {}
            }
            before = Some(event);
        }
        let ends = self.events.iter().filter(|event| event.to.is_terminal()).count();
        if ends != usize::from(self.task.status.is_terminal()) {
            flaws.push(format!("is {}, but {ends} of its events are ends", self.task.status.as_str()));
        }
        match before {
            None => flaws.push("has no events".to_owned()),
            Some(last) if last.version > self.task.version => {
                flaws.push(format!("is at version {}, but has event {}", self.task.version, last.version));
            }
            Some(last) if last.to != self.task.status => {
                flaws.push(format!(
                    "is {}, but its last event says {}",
                    self.task.status.as_str(),
                    last.to.as_str()
                ));
            }
            Some(_) => {}
        }
        flaws
    }
}
