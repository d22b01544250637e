use std::sync::Arc;
use std::time::Duration;

use taskgate_task::{Change, NewTask, Step, Task, TaskId, Timestamp};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_postgres::Row;

use crate::store::postgres::reader::Params;
use crate::{Feed, News, StoreError};

/// Who waits for a write; nobody once it has been told.
type Reply<T> = Option<oneshot::Sender<Result<T, StoreError>>>;

/// What the caller waits with.
pub(in crate::store::postgres) type Written<T> = oneshot::Receiver<Result<T, StoreError>>;

/// A write on its way.
pub(in crate::store::postgres) struct Job {
    pub(super) what: What,
    /// When it has waited long enough for a connection.
    pub(super) until: Instant,
}

pub(super) enum What {
    /// Keeps a new task.
    Create { new: Box<NewTask>, reply: Reply<Task> },
    /// Makes a step.
    Apply { id: TaskId, step: Step, now: Timestamp, reply: Reply<Change> },
    /// Runs a statement that is about no task.
    Run { sql: &'static str, params: Params, reply: Reply<Vec<Row>> },
}

/// What a write led to.
pub(super) enum Done {
    Created(Box<Task>),
    Changed(Box<Change>),
    Ran(Vec<Row>),
}

impl Job {
    pub(in crate::store::postgres) fn create(new: NewTask, patience: Duration) -> (Job, Written<Task>) {
        Job::new(patience, |reply| What::Create { new: Box::new(new), reply })
    }

    pub(in crate::store::postgres) fn apply(
        id: TaskId,
        step: Step,
        now: Timestamp,
        patience: Duration,
    ) -> (Job, Written<Change>) {
        Job::new(patience, |reply| What::Apply { id, step, now, reply })
    }

    pub(in crate::store::postgres) fn run(
        sql: &'static str,
        params: Params,
        patience: Duration,
    ) -> (Job, Written<Vec<Row>>) {
        Job::new(patience, |reply| What::Run { sql, params, reply })
    }

    fn new<T>(patience: Duration, what: impl FnOnce(Reply<T>) -> What) -> (Job, Written<T>) {
        let (reply, written) = oneshot::channel();
        (Job { what: what(Some(reply)), until: Instant::now() + patience }, written)
    }

    /// The task it is about.
    pub(super) fn task(&self) -> Option<TaskId> {
        match &self.what {
            What::Create { new, .. } => Some(new.id),
            What::Apply { id, .. } => Some(*id),
            What::Run { .. } => None,
        }
    }

    /// About how many bytes it writes, where these are many.
    pub(super) fn weight(&self) -> usize {
        match &self.what {
            What::Create { new, .. } => new.work.as_str().len(),
            What::Apply { step, .. } => match step {
                Step::Finish { outcome, .. } => match outcome {
                    taskgate_task::Outcome::Result { body, .. }
                    | taskgate_task::Outcome::Error { body, .. } => body.as_str().len(),
                },
                Step::Checkpoint { state, .. } => state.as_str().len(),
                Step::Answer { answers } => answers.iter().map(|(_, answer)| answer.as_str().len()).sum(),
                Step::Ask { questions, resume, .. } => {
                    let params =
                        questions.iter().filter_map(|question| question.params.as_ref()).chain(resume);
                    params.map(|params| params.as_str().len()).sum()
                }
                _ => 0,
            },
            What::Run { .. } => 0,
        }
    }

    /// Tells the caller that it failed.
    pub(super) fn fail(&mut self, error: StoreError) {
        match &mut self.what {
            What::Create { reply, .. } => answer(reply, Err(error)),
            What::Apply { reply, .. } => answer(reply, Err(error)),
            What::Run { reply, .. } => answer(reply, Err(error)),
        }
    }

    /// Tells the followers what was committed, then the caller, who may have gone away. Says whether there was news.
    pub(super) fn tell(&mut self, done: Result<Done, StoreError>, feed: &Feed) -> bool {
        let is_news = match &done {
            Ok(Done::Created(task)) => publish(feed, task),
            Ok(Done::Changed(change)) if change.delete => {
                feed.publish(&News::Deleted(change.task.id));
                true
            }
            Ok(Done::Changed(change)) if change.write => publish(feed, &change.task),
            _ => false,
        };
        match (&mut self.what, done) {
            (What::Create { reply, .. }, Ok(Done::Created(task))) => answer(reply, Ok(*task)),
            (What::Apply { reply, .. }, Ok(Done::Changed(change))) => answer(reply, Ok(*change)),
            (What::Run { reply, .. }, Ok(Done::Ran(rows))) => answer(reply, Ok(rows)),
            (_, Err(error)) => self.fail(error),
            // A plan makes of each write what it asks for.
            (_, Ok(_)) => self.fail(StoreError::Failed("a write was taken for another".to_owned())),
        }
        is_news
    }
}

fn publish(feed: &Feed, task: &Task) -> bool {
    if feed.is_followed(&task.id) {
        feed.publish(&News::Changed(Arc::new(task.clone())));
    }
    true
}

fn answer<T>(reply: &mut Reply<T>, answer: Result<T, StoreError>) {
    if let Some(reply) = reply.take() {
        drop(reply.send(answer));
    }
}
