mod order;

use std::time::Duration;

use crate::{
    Carrier, Event, Failure, MAX_STATE, NodeId, Outcome, Payload, Question, Round, Status, Task, Timestamp,
    Who, WorkClass, pause_before,
};

pub use order::Order;

/// A move somebody wants to make.
#[derive(Debug, Clone)]
pub enum Step {
    /// A node takes up work that nobody carries: the next attempt, or the stopping of work whose task has ended.
    Begin {
        /// The node.
        node: NodeId,
    },
    /// The work says how it is getting on.
    Report {
        /// The attempt's fencing token.
        fence: u64,
        /// A line for people.
        message: String,
    },
    /// The work puts down what its next attempt needs.
    Checkpoint {
        /// The attempt's fencing token.
        fence: u64,
        /// It replaces what was put down before.
        state: Payload,
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
    /// The attempt ended without an outcome, and there will be no other.
    Fail {
        /// The attempt's fencing token.
        fence: u64,
        /// Why.
        failure: Failure,
        /// A line for people.
        message: String,
    },
    /// The attempt ended without an outcome: whoever carried it died or lets go. The class decides what becomes of the task.
    Lose {
        /// The attempt's fencing token. It is of no use from here on, so a carrier that is not dead after all is refused.
        fence: u64,
        /// Why, for people.
        message: String,
        /// How.
        loss: Loss,
    },
    /// This node cannot do the work; another one, or this one later, may.
    PutBack {
        /// The attempt's fencing token.
        fence: u64,
        /// How long nobody needs to try.
        pause: Duration,
        /// Why, for people.
        message: String,
    },
    /// The work of a task that has ended was stopped.
    Stopped {
        /// The fencing token of whoever stopped it.
        fence: u64,
    },
    /// An operator gives an order.
    Order(Order),
    /// Upkeep looks whether time alone moves the task.
    Tick,
}

/// How an attempt was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// Whoever carried it died. The next attempt waits a while, in case it was the work that was too much for it.
    Died {
        /// Spreads what was lost together; see [`pause_before`].
        jitter: u8,
    },
    /// Whoever carried it shuts down in good order. The next attempt begins at once and is not counted.
    ShutDown,
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
    /// What is to be kept for the work has so many bytes, which is too much.
    #[error(
        "{0} bytes are to be kept for the work, more than the {MAX_STATE} of a checkpoint or of all questions and answers"
    )]
    TooLong(usize),
    /// The work runs, waits, or must not be started yet.
    #[error("no attempt may begin now")]
    NotStartable,
    /// The work dies with its process, and must not be done twice.
    #[error("the work of this task cannot be begun a second time")]
    NotRepeatable,
}

/// The pause before the first repetition of work that asked nothing and only wants to be called again; it grows with
/// each round, since such work may go on so until its run limit, but not at full speed.
const ASKED_NOTHING: Duration = Duration::from_millis(50);
const ASKED_NOTHING_AT_MOST: Duration = Duration::from_secs(10);

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
            round: None,
        };
        if self.status.is_terminal() {
            self.step_after_end(&mut change, step, now)?;
        } else {
            self.step_before_end(&mut change, step, now)?;
        }
        Ok(change)
    }

    fn step_before_end(&self, change: &mut Change, step: Step, now: Timestamp) -> Result<(), Refusal> {
        match step {
            Step::Begin { node } => self.begin(change, node, now)?,
            Step::Report { fence, message } => {
                self.check(fence)?;
                let task = &mut change.task;
                task.status_message = Some(message);
                task.updated_at = now.max(task.updated_at);
                task.version += 1;
            }
            Step::Checkpoint { fence, state } => {
                self.check(fence)?;
                fits(state.as_str().len())?;
                let task = &mut change.task;
                task.checkpoint = Some(state);
                // It has come further than any attempt before, so it is not the one that may be the last.
                task.attempts = 1;
                task.version += 1;
            }
            Step::Ask { fence, questions, resume } => {
                self.check(fence)?;
                self.ask(change, questions, resume, now);
                fits(change.task.inputs.weight())?;
            }
            Step::Answer { answers } => {
                let (taken, ignored) = change.task.inputs.answer(answers);
                change.ignored = ignored;
                if taken.is_empty() {
                    change.write = false;
                    return Ok(());
                }
                fits(change.task.inputs.weight())?;
                let why = format!("{} answered", taken.len());
                change.answered = taken;
                let all = change.task.inputs.open().next().is_none();
                if all && change.task.inputs.is_parked() {
                    change.task.carrier = Carrier::Ready(now);
                }
                change.moved(self, open_or_working(all), Who::Requestor, now, why);
            }
            Step::Withdraw { fence, keys } => {
                self.check(fence)?;
                let closed = change.task.inputs.close(|key| keys.iter().any(|withdrawn| withdrawn == key));
                if closed == 0 {
                    change.write = false;
                    return Ok(());
                }
                let none = change.task.inputs.open().next().is_none();
                change.moved(self, open_or_working(none), Who::Runner, now, format!("{closed} withdrawn"));
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
                // The work itself says that it is over: there is nothing left to stop.
                change.task.checkpoint = None;
                change.end(self, to, Who::Runner, now, why.to_owned());
            }
            Step::Cancel => {
                change.task.status_message = Some("The task was cancelled by request.".to_owned());
                change.end(self, Status::Cancelled, Who::Requestor, now, "cancelled by request".to_owned());
            }
            Step::Fail { fence, failure, message } => {
                if fence != self.fence {
                    return Err(Refusal::StaleFence);
                }
                change.fail(self, failure, message, now);
            }
            Step::Lose { fence, message, loss } => {
                self.check(fence)?;
                self.lose(change, message, loss, now);
            }
            Step::PutBack { fence, pause, message } => {
                self.check(fence)?;
                let task = &mut change.task;
                task.status_message = Some(message);
                task.carrier = Carrier::Ready(now.after(pause));
                // Nothing was done, so it does not count.
                task.attempts = self.attempts.saturating_sub(u32::from(self.class != WorkClass::External));
                task.inputs.close(|_| true);
                change.moved(self, Status::Working, Who::Receiver, now, "put back".to_owned());
            }
            Step::Stopped { .. } => return Err(Refusal::StaleFence),
            Step::Order(order) => self.order(change, order, now)?,
            Step::Tick => self.tick(change, now)?,
        }
        Ok(())
    }

    /// A terminal status is final. What may still move is who stops the work, and the deletion.
    fn step_after_end(&self, change: &mut Change, step: Step, now: Timestamp) -> Result<(), Refusal> {
        let task = &mut change.task;
        match step {
            Step::Tick if now >= self.due_at() => {
                change.delete = true;
                return Ok(());
            }
            Step::Tick => return Err(Refusal::NotDue),
            Step::Order(order) => return self.order_after_end(change, &order),
            // Late answers are acknowledged like unknown keys (SEP-2663, "SHOULD ignore").
            Step::Answer { answers } => {
                change.ignored = answers.len();
                change.write = false;
                return Ok(());
            }
            Step::Begin { node } if self.carrier.ready_at().is_some_and(|at| at <= now) => {
                task.carrier = Carrier::Node(node);
                task.fence += 1;
            }
            Step::Lose { fence, .. } if self.check(fence).is_ok() => {
                task.carrier = Carrier::Ready(now);
                task.fence += 1;
            }
            Step::PutBack { fence, pause, .. } if self.check(fence).is_ok() => {
                task.carrier = Carrier::Ready(now.after(pause));
            }
            Step::Stopped { fence } if self.check(fence).is_ok() => {
                task.carrier = Carrier::Nobody;
                task.checkpoint = None;
            }
            _ => return Err(Refusal::Terminal(self.status)),
        }
        task.version += 1;
        Ok(())
    }

    /// Whether the attempt under this token is the current one and under way.
    fn check(&self, fence: u64) -> Result<(), Refusal> {
        if fence == self.fence && self.carrier.node().is_some() { Ok(()) } else { Err(Refusal::StaleFence) }
    }

    fn begin(&self, change: &mut Change, node: NodeId, now: Timestamp) -> Result<(), Refusal> {
        if self.carrier.ready_at().is_none_or(|at| at > now) {
            return Err(Refusal::NotStartable);
        }
        let task = &mut change.task;
        let why = if self.inputs.is_parked() {
            change.round = Some(self.inputs.round().ok_or(Refusal::NotStartable)?);
            // From here on the answers are used up: should this attempt die too, its class decides.
            task.inputs.unpark();
            "carried on with the answers"
        } else {
            match self.class {
                WorkClass::External => "taken up again",
                WorkClass::Live | WorkClass::Repeatable | WorkClass::Resumable => {
                    task.attempts += 1;
                    if self.checkpoint.is_some() { "carried on from its checkpoint" } else { "started again" }
                }
            }
        };
        task.fence += 1;
        task.carrier = Carrier::Node(node);
        change.moved(self, self.status, Who::Receiver, now, why.to_owned());
        Ok(())
    }

    fn ask(&self, change: &mut Change, questions: Vec<Question>, resume: Option<Payload>, now: Timestamp) {
        let why = format!("{} asked", questions.len());
        let parks = resume.is_some();
        change.asked = change.task.inputs.ask(questions, resume, now);
        change.task.status_message = None;
        let nothing = change.task.inputs.open().next().is_none();
        if parks {
            let pause = (ASKED_NOTHING * change.task.inputs.rounds()).min(ASKED_NOTHING_AT_MOST);
            change.task.carrier = if nothing { Carrier::Ready(now.after(pause)) } else { Carrier::Nobody };
        }
        // A round without questions only wants to be called again.
        change.moved(self, open_or_working(nothing), Who::Runner, now, why);
    }

    fn lose(&self, change: &mut Change, message: String, loss: Loss, now: Timestamp) {
        let mut pause = Duration::ZERO;
        match (self.class, loss) {
            (WorkClass::Live, _) => return change.fail(self, Failure::Interrupted, message, now),
            (WorkClass::External, _) => {}
            (WorkClass::Repeatable | WorkClass::Resumable, Loss::ShutDown) => {
                change.task.attempts = self.attempts.saturating_sub(1);
            }
            (WorkClass::Repeatable | WorkClass::Resumable, Loss::Died { jitter }) => {
                if self.attempts >= self.max_attempts {
                    let message = format!("The work was interrupted {} times.", self.attempts);
                    return change.fail(self, Failure::Interrupted, message, now);
                }
                pause = pause_before(self.attempts + 1, jitter);
            }
        }
        let task = &mut change.task;
        task.carrier = Carrier::Ready(now.after(pause));
        task.fence += 1;
        // The questions of a dead attempt have nobody left to answer to.
        task.inputs.close(|_| true);
        task.status_message = Some(message);
        // The message may hold words of others; what stands in the events does not.
        let why = match loss {
            Loss::Died { .. } => "interrupted",
            Loss::ShutDown => "let go at a shutdown",
        };
        change.moved(self, Status::Working, Who::Receiver, now, why.to_owned());
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

/// Whether so many bytes can be kept for the work.
fn fits(length: usize) -> Result<(), Refusal> {
    if length > MAX_STATE { Err(Refusal::TooLong(length)) } else { Ok(()) }
}

fn open_or_working(nothing_open: bool) -> Status {
    if nothing_open { Status::Working } else { Status::InputRequired }
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
        // Work that has put down where it goes on does so until somebody stops it there.
        task.carrier = match (&task.checkpoint, before.carrier) {
            (None, _) => Carrier::Nobody,
            (Some(_), Carrier::Node(node)) => Carrier::Node(node),
            (Some(_), Carrier::Ready(_) | Carrier::Nobody) => Carrier::Ready(now),
        };
    }

    fn fail(&mut self, before: &Task, failure: Failure, message: String, now: Timestamp) {
        self.task.status_message = Some(message);
        self.task.failure = Some(failure);
        self.end(before, Status::Failed, Who::Receiver, now, failure.as_str().to_owned());
    }
}

#[cfg(test)]
mod tests;
