//! Which values of a task are encrypted on their way in, and decrypted on their way out.

use taskgate_task::{Change, NewTask, Order, Payload, Place, Step, Task, TaskId, Value};

use super::keys::{KeyRing, is_sealed};
use crate::StoreError;
use crate::store::KeptTask;

/// What stands in the place of a text that cannot be decrypted, where the record is of use without it.
const STAND_IN: &str = "(cannot be decrypted)";

/// Values as they went in, by what they became: nobody needs to decrypt what was encrypted a moment ago.
#[derive(Debug, Default)]
pub(super) struct Known {
    payloads: Vec<(Payload, Payload)>,
    texts: Vec<(String, String)>,
}

/// What is to be done about a value that cannot be decrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doubt {
    /// The record is of no use without it.
    Fails,
    /// It is left out, and the log says so: one value must not hide a list of tasks, nor keep a task from being ended.
    LeavesOut,
}

impl KeyRing {
    /// Encrypts what a task is made from.
    pub(super) fn seal_new(&self, new: &mut NewTask) -> Result<Known, StoreError> {
        let (id, mut known) = (new.id, Known::default());
        let mut seal = |place: Place<'_>, value: Value<'_>| self.seal(id, place, value, Some(&mut known));
        seal(Place::Work, Value::Payload(&mut new.work))?;
        if let Some(message) = &mut new.status_message {
            seal(Place::Message, Value::Text(message))?;
        }
        if let Some(checkpoint) = &mut new.checkpoint {
            seal(Place::Checkpoint, Value::Payload(checkpoint))?;
        }
        Ok(known)
    }

    /// Encrypts what a step brings.
    pub(super) fn seal_step(&self, id: TaskId, step: &mut Step) -> Result<Known, StoreError> {
        let mut known = Known::default();
        let mut seal = |place: Place<'_>, value: Value<'_>| self.seal(id, place, value, Some(&mut known));
        match step {
            Step::Report { message, .. }
            | Step::Fail { message, .. }
            | Step::Lose { message, .. }
            | Step::PutBack { message, .. }
            | Step::Order(Order::Fail { message }) => seal(Place::Message, Value::Text(message))?,
            Step::Checkpoint { state, .. } => seal(Place::Checkpoint, Value::Payload(state))?,
            Step::Ask { questions, resume, .. } => {
                for question in questions {
                    if let Some(params) = &mut question.params {
                        seal(Place::Question(&question.key), Value::Payload(params))?;
                    }
                }
                if let Some(state) = resume {
                    seal(Place::Resume, Value::Payload(state))?;
                }
            }
            Step::Answer { answers } => {
                for (key, answer) in answers {
                    seal(Place::Answer(key), Value::Payload(answer))?;
                }
            }
            Step::Finish { outcome, .. } => {
                if let Some(summary) = outcome.summary_mut() {
                    seal(Place::Message, Value::Text(summary))?;
                }
                seal(Place::Outcome, Value::Payload(outcome.body_mut()))?;
            }
            Step::Begin { .. }
            | Step::Withdraw { .. }
            | Step::Cancel
            | Step::Stopped { .. }
            | Step::Order(Order::Cancel | Order::Requeue | Order::Prune)
            | Step::Tick => {}
        }
        Ok(known)
    }

    /// Encrypts everything of a task that comes from another store.
    pub(super) fn seal_kept(&self, kept: &mut KeptTask) -> Result<(), StoreError> {
        let id = kept.task.id;
        if let Some(work) = &mut kept.work {
            self.seal(id, Place::Work, Value::Payload(work), None)?;
        }
        kept.task.visit_values(|place, value| self.seal(id, place, value, None))
    }

    /// Decrypts everything of a task.
    pub(super) fn open_kept(&self, kept: &mut KeptTask) -> Result<(), StoreError> {
        if let Some(work) = &mut kept.work {
            self.open_work(kept.task.id, work)?;
        }
        self.open_task(&mut kept.task, &Known::default(), Doubt::Fails)
    }

    /// Encrypts anew what another key has encrypted, or none. Whether there was anything.
    pub(super) fn renew_kept(&self, kept: &mut KeptTask) -> Result<Renewed, StoreError> {
        let (id, mut renewed) = (kept.task.id, Renewed::default());
        let mut renew = |place: Place<'_>, mut value: Value<'_>| {
            let is_plain = match &value {
                Value::Payload(payload) => match text_of(payload) {
                    Some(text) if self.is_current(text) => return Ok(()),
                    None if payload.as_str() == "null" => return Ok(()),
                    text => text.is_none(),
                },
                Value::Text(text) if self.is_current(text) => return Ok(()),
                Value::Text(text) => !is_sealed(text),
            };
            renewed = Renewed { any: true, plain: renewed.plain || is_plain };
            self.open_value(id, place, reborrow(&mut value), &Known::default())?;
            self.seal(id, place, value, None)
        };
        if let Some(work) = &mut kept.work {
            renew(Place::Work, Value::Payload(work))?;
        }
        kept.task.visit_values(renew)?;
        Ok(renewed)
    }

    /// Decrypts a record.
    pub(super) fn open_task(&self, task: &mut Task, known: &Known, doubt: Doubt) -> Result<(), StoreError> {
        let id = task.id;
        task.visit_values(|place, mut value| {
            match (self.open_value(id, place, reborrow(&mut value), known), doubt) {
                (Err(error), Doubt::LeavesOut) => {
                    tracing::error!(task = ?id, %error, "a value is left out");
                    match value {
                        Value::Payload(payload) => *payload = Payload::null(),
                        Value::Text(text) => STAND_IN.clone_into(text),
                    }
                    Ok(())
                }
                (opened, _) => opened,
            }
        })
    }

    /// Decrypts the description of the work.
    pub(super) fn open_work(&self, id: TaskId, work: &mut Payload) -> Result<(), StoreError> {
        self.open_value(id, Place::Work, Value::Payload(work), &Known::default())
    }

    /// Decrypts what a step has led to.
    pub(super) fn open_change(
        &self,
        change: &mut Change,
        known: &Known,
        doubt: Doubt,
    ) -> Result<(), StoreError> {
        let id = change.task.id;
        if let Some(round) = &mut change.round {
            self.open_value(id, Place::Resume, Value::Payload(&mut round.state), known)?;
            // A round has its answers in the order of its questions, under names that may not be the task's keys.
            let inputs = &change.task.inputs;
            let current = inputs.all().iter().filter(|asked| asked.round == inputs.rounds());
            for (asked, (_, answer)) in current.zip(&mut round.answers) {
                self.open_value(id, Place::Answer(&asked.key), Value::Payload(answer), known)?;
            }
        }
        for (key, answer) in &mut change.answered {
            self.open_value(id, Place::Answer(key), Value::Payload(answer), known)?;
        }
        self.open_task(&mut change.task, known, doubt)
    }

    fn seal(
        &self,
        id: TaskId,
        place: Place<'_>,
        value: Value<'_>,
        known: Option<&mut Known>,
    ) -> Result<(), StoreError> {
        let close = |plain: &str| {
            self.close(plain.as_bytes(), &bound_to(id, place)).map_err(|error| {
                StoreError::Failed(format!("the {} of {id:?} cannot be encrypted: {error}", place.word()))
            })
        };
        match value {
            // It stands for what is not there, too.
            Value::Payload(payload) if payload.as_str() == "null" => {}
            Value::Payload(payload) => {
                // Nothing in it needs to be escaped.
                let sealed = Payload::parse(format!("\"{}\"", close(payload.as_str())?))
                    .map_err(|error| StoreError::Failed(error.to_string()))?;
                let plain = std::mem::replace(payload, sealed.clone());
                if let Some(known) = known {
                    known.payloads.push((sealed, plain));
                }
            }
            Value::Text(text) => {
                let sealed = close(text)?;
                let plain = std::mem::replace(text, sealed);
                if let Some(known) = known {
                    known.texts.push((text.clone(), plain));
                }
            }
        }
        Ok(())
    }

    /// Decrypts a value. What is not encrypted was there before there was a key, or is in taskgate's own words.
    fn open_value(
        &self,
        id: TaskId,
        place: Place<'_>,
        value: Value<'_>,
        known: &Known,
    ) -> Result<(), StoreError> {
        let open = |text: &str| {
            let opened = self.open(text, &bound_to(id, place)).and_then(|plain| {
                String::from_utf8(plain).map_err(|_| "what was encrypted is no text".to_owned())
            });
            opened.map_err(|why| StoreError::Undecipherable { id, place: place.word(), why })
        };
        match value {
            Value::Payload(payload) => {
                if let Some((_, plain)) = known.payloads.iter().find(|(sealed, _)| sealed == payload) {
                    *payload = plain.clone();
                } else if let Some(text) = text_of(payload) {
                    *payload = Payload::parse(open(text)?).map_err(|error| StoreError::Undecipherable {
                        id,
                        place: place.word(),
                        why: format!("what was encrypted is {error}"),
                    })?;
                }
            }
            Value::Text(text) => {
                if let Some((_, plain)) = known.texts.iter().find(|(sealed, _)| sealed == text) {
                    text.clone_from(plain);
                } else if is_sealed(text) {
                    *text = open(text)?;
                }
            }
        }
        Ok(())
    }
}

/// What was encrypted anew.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Renewed {
    /// Whether anything was.
    pub(super) any: bool,
    /// Whether anything of it had not been encrypted at all.
    pub(super) plain: bool,
}

fn reborrow<'a>(value: &'a mut Value<'_>) -> Value<'a> {
    match value {
        Value::Payload(payload) => Value::Payload(payload),
        Value::Text(text) => Value::Text(text),
    }
}

/// The text of an encrypted payload.
fn text_of(payload: &Payload) -> Option<&str> {
    // Nothing in it needs to be escaped.
    let text = payload.as_str().strip_prefix('"')?.strip_suffix('"')?;
    is_sealed(text).then_some(text)
}

/// A value opens at its place in its task only.
fn bound_to(id: TaskId, place: Place<'_>) -> Vec<u8> {
    let (locator, secret) = (id.locator().to_be_bytes(), id.secret());
    [b"task\0", &locator[..], &secret, place.word().as_bytes(), b"\0", place.name().as_bytes()].concat()
}
