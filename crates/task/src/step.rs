use crate::{Event, Failure, Outcome, Payload, Question, Round, Status, Task, Timestamp, Who, WorkClass};

/// A move somebody wants to make.
#[derive(Debug, Clone)]
pub enum Step {
    /// A new attempt takes the work over (after a crash, or because a parked round is answered).
    Begin,
    /// The work says how it is getting on.
    Report {
        /// The attempt's fencing token.
        fence: u64,
        /// A line for people.
        message: String,
    },
    /// The work has questions; all of them become visible at once.
    Ask {
        /// The attempt's fencing token.
        fence: u64,
        /// The questions.
        questions: Vec<Question>,
        /// Set if the attempt ends here: what the next one needs back.
        resume: Option<Payload>,
    },
    /// The requestor answers.
    Answer {
        /// Answers by key.
        answers: Vec<(String, Payload)>,
    },
    /// The work no longer wants answers to some of its questions.
    Withdraw {
        /// The attempt's fencing token.
        fence: u64,
        /// Their keys; those that are not open are passed over.
        keys: Vec<String>,
    },
    /// The work ended.
    Finish {
        /// The attempt's fencing token.
        fence: u64,
        /// How.
        outcome: Outcome,
    },
    /// The requestor wants it to stop.
    Cancel,
    /// The attempt ended without an outcome.
    Fail {
        /// The attempt's fencing token.
        fence: u64,
        /// Why.
        failure: Failure,
        /// A line for people.
        message: String,
    },
    /// Upkeep looks whether time alone moves the task.
    Tick,
}

/// What a legal move leads to. A store writes `task` and `event` in one commit, or deletes the record.
#[derive(Debug, Clone)]
pub struct Change {
    /// The record afterwards.
    pub task: Task,
    /// The event to append; `None` when nothing moved that the audit trail keeps.
    pub event: Option<Event>,
    /// Whether the record must be written at all.
    pub write: bool,
    /// Whether the record and its events are to be deleted.
    pub delete: bool,
    /// The answers that were accepted, by key.
    pub answered: Vec<(String, Payload)>,
    /// The keys given to the questions of an [`Step::Ask`].
    pub asked: Vec<String>,
    /// How many answers had a key that is not open.
    pub ignored: usize,
    /// Whether a new attempt must be started now.
    pub start: bool,
    /// What a begun attempt continues from.
    pub round: Option<Round>,
}

/// Why a move is not made. None of these is a fault of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A terminal status is final; somebody else was first.
    #[error("the task is already {}", .0.as_str())]
    Terminal(Status),
    /// The attempt that wants to write is not the current one.
    #[error("another attempt carries this task now")]
    StaleFence,
    /// Time alone moves nothing yet.
    #[error("nothing is due")]
    NotDue,
    /// The work runs, or nothing says it may be started.
    #[error("no attempt may begin now")]
    NotStartable,
}

impl Task {
    /// Makes `step` at `now`: the one place that says which moves are legal.
    pub fn step(&self, step: Step, now: Timestamp) -> Result<Change, Refusal> {
        let mut change = Change {
            task: self.clone(),
            event: None,
            write: true,
            delete: false,
            answered: Vec::new(),
            asked: Vec::new(),
            ignored: 0,
            start: false,
            round: None,
        };
        if self.status.is_terminal() {
            return match step {
                Step::Tick if now >= self.due_at() => {
                    change.delete = true;
                    Ok(change)
                }
                Step::Tick => Err(Refusal::NotDue),
                // Late answers are acknowledged like unknown keys (SEP-2663, "SHOULD ignore").
                Step::Answer { answers } => {
                    change.ignored = answers.len();
                    change.write = false;
                    Ok(change)
                }
                _ => Err(Refusal::Terminal(self.status)),
            };
        }
        match step {
            Step::Begin => self.begin(&mut change, now)?,
            Step::Report { fence, message } => {
                self.check(fence)?;
                let task = &mut change.task;
                task.status_message = Some(message);
                task.updated_at = now.max(task.updated_at);
                task.version += 1;
            }
            Step::Ask { fence, questions, resume } => {
                self.check(fence)?;
                let why = format!("{} asked", questions.len());
                change.asked = change.task.inputs.ask(questions, resume, now);
                change.task.status_message = None;
                let nothing = change.task.inputs.open().next().is_none();
                // A round without questions only wants to be called again.
                let to = if nothing { Status::Working } else { Status::InputRequired };
                change.start = nothing && change.task.inputs.is_parked();
                change.moved(self, to, Who::Runner, now, why);
            }
            Step::Answer { answers } => {
                let (taken, ignored) = change.task.inputs.answer(answers);
                change.ignored = ignored;
                if taken.is_empty() {
                    change.write = false;
                    return Ok(change);
                }
                let why = format!("{} answered", taken.len());
                change.answered = taken;
                let all = change.task.inputs.open().next().is_none();
                let to = if all { Status::Working } else { Status::InputRequired };
                change.start = all && change.task.inputs.is_parked();
                change.moved(self, to, Who::Requestor, now, why);
            }
            Step::Withdraw { fence, keys } => {
                self.check(fence)?;
                if self.inputs.is_parked() {
                    // The attempt ended to ask: it is not there to take anything back.
                    return Err(Refusal::StaleFence);
                }
                let closed = change.task.inputs.close(|key| keys.iter().any(|withdrawn| withdrawn == key));
                if closed == 0 {
                    change.write = false;
                    return Ok(change);
                }
                let none = change.task.inputs.open().next().is_none();
                let to = if none { Status::Working } else { Status::InputRequired };
                change.moved(self, to, Who::Runner, now, format!("{closed} withdrawn"));
            }
            Step::Finish { fence, outcome } => {
                self.check(fence)?;
                let (to, why) = match &outcome {
                    Outcome::Result { is_error: false, .. } => (Status::Completed, "result"),
                    Outcome::Result { is_error: true, .. } => (Status::Completed, "result says error"),
                    Outcome::Error { .. } => (Status::Failed, "error"),
                };
                change.task.status_message = match &outcome {
                    Outcome::Result { is_error: true, summary, .. } => {
                        Some(summary.clone().unwrap_or_else(|| "The tool reported an error.".to_owned()))
                    }
                    Outcome::Result { summary, .. } => summary.clone(),
                    Outcome::Error { summary, .. } => Some(summary.clone()),
                };
                change.task.outcome = Some(outcome);
                change.end(self, to, Who::Runner, now, why.to_owned());
            }
            Step::Cancel => {
                change.task.status_message = Some("The task was cancelled by request.".to_owned());
                change.end(self, Status::Cancelled, Who::Requestor, now, "cancelled by request".to_owned());
            }
            Step::Fail { fence, failure, message } => {
                self.check(fence)?;
                change.fail(self, failure, message, now);
            }
            Step::Tick => self.tick(&mut change, now)?,
        }
        Ok(change)
    }

    fn check(&self, fence: u64) -> Result<(), Refusal> {
        if fence == self.fence { Ok(()) } else { Err(Refusal::StaleFence) }
    }

    fn begin(&self, change: &mut Change, now: Timestamp) -> Result<(), Refusal> {
        let task = &mut change.task;
        let why = if self.inputs.is_parked() {
            change.round = Some(self.inputs.round().ok_or(Refusal::NotStartable)?);
            // From here on the answers are used up: should this attempt die too, its class decides.
            task.inputs.unpark();
            "carried on with the answers"
        } else if self.class == WorkClass::Repeatable {
            task.attempts += 1;
            // The questions of a dead attempt have nobody left to answer to.
            task.inputs.unpark();
            task.inputs.close(|_| true);
            "started again"
        } else {
            return Err(Refusal::NotStartable);
        };
        task.fence += 1;
        change.moved(self, Status::Working, Who::Receiver, now, why.to_owned());
        Ok(())
    }

    fn tick(&self, change: &mut Change, now: Timestamp) -> Result<(), Refusal> {
        if now >= self.lifetime.run_deadline {
            let limit = self.lifetime.run_deadline.since(self.created_at);
            let message = format!("The work was stopped at its run limit of {} s.", limit.as_secs_f64());
            change.fail(self, Failure::RunLimit, message, now);
            return Ok(());
        }
        if now < self.due_at() {
            return Err(Refusal::NotDue);
        }
        let task = &mut change.task;
        task.lifetime.ttl = self.lifetime.grown(self.created_at, now);
        task.updated_at = now.max(task.updated_at);
        task.version += 1;
        Ok(())
    }
}

impl Change {
    fn moved(&mut self, before: &Task, to: Status, who: Who, now: Timestamp, why: String) {
        let task = &mut self.task;
        task.status = to;
        task.updated_at = now.max(before.updated_at);
        task.version = before.version + 1;
        self.event = Some(Event { version: task.version, at: now, who, from: Some(before.status), to, why });
    }

    fn end(&mut self, before: &Task, to: Status, who: Who, now: Timestamp, why: String) {
        self.moved(before, to, who, now, why);
        let task = &mut self.task;
        let ended = task.updated_at;
        task.ended_at = Some(ended);
        task.lifetime.ttl = ended.since(task.created_at).saturating_add(task.lifetime.retention);
        task.inputs.unpark();
    }

    fn fail(&mut self, before: &Task, failure: Failure, message: String, now: Timestamp) {
        self.task.status_message = Some(message);
        self.task.failure = Some(failure);
        self.end(before, Status::Failed, Who::Receiver, now, failure.as_str().to_owned());
    }
}

#[cfg(test)]
mod tests;
