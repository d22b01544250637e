use std::sync::atomic::Ordering;
use std::time::Duration;

use taskgate_task::{Carrier, Failure, Loss, Step, Task, TaskId};

use super::{Executor, NotStopped, Report, Runner, Work};
use crate::engine::entropy;
use crate::{Engine, EngineError, StoreError};

/// How long a node of a shared store leaves work to others whose runner it does not have: in a rolling upgrade not all
/// nodes have the same configuration.
const OTHERS_FIRST: Duration = Duration::from_secs(60);
/// How long a node leaves work to others that it cannot get at itself.
const IN_REACH_FIRST: Duration = Duration::from_secs(5);
/// The pause after all who had that time were out of reach.
const OUT_OF_REACH: Duration = Duration::from_secs(30);
/// The pause after work could not be stopped.
const STOP_AGAIN: Duration = Duration::from_secs(2);
/// How long after its run limit work that does not let itself be stopped is still looked for.
const STOP_FOR: Duration = Duration::from_secs(600);

impl Engine {
    /// Begins work that nobody carries as soon as it is ready, if it is to be begun at all.
    ///
    /// Should this process end before, upkeep finds it, here or on another node.
    pub(crate) fn begin_when_ready(&self, task: &Task) {
        let Carrier::Ready(at) = task.carrier else { return };
        if self.is_draining() {
            return;
        }
        let (engine, task) = (self.clone(), task.clone());
        // It outlives the request that led here, which may be dropped at any moment.
        tokio::spawn(async move {
            tokio::time::sleep(at.since(engine.now())).await;
            engine.begin(task).await;
        });
    }

    /// Takes up work that nobody carries: the next attempt, or the stopping of work whose task has ended. Of several nodes
    /// that try, one succeeds.
    ///
    /// A process that is shutting down begins nothing; the next one finds the task as it is.
    pub(crate) async fn begin(&self, task: Task) {
        if self.is_draining() || !self.holds_its_lease() {
            return;
        }
        let Some(runner) = self.runner(&task.runner) else { return self.without_runner(task).await };
        match self.try_begin(&task, runner.as_ref()).await {
            // Somebody else was first.
            Err(StoreError::Refused(_) | StoreError::NotFound) | Ok(()) => {}
            Err(error) => tracing::error!(task = ?task.id, %error, "cannot begin work; trying again"),
        }
    }

    async fn try_begin(&self, task: &Task, runner: &dyn Runner) -> Result<(), StoreError> {
        // Read first, so that nothing can fail between the beginning and the run.
        let work = self.work_of(task).await?;
        // There can be another machine only where there can be another node.
        if self.0.is_shared && task.checkpoint.is_some() {
            // Lists leave it out.
            let checkpoint = self.0.store.get(task.id).await?.ok_or(StoreError::NotFound)?.checkpoint;
            if let Err(message) = runner.reach(&Work { checkpoint, ..work.clone() }) {
                return self.out_of_reach(task, message).await;
            }
        }
        let change = self.0.store.apply(task.id, Step::Begin { node: self.node() }, self.now()).await?;
        let begun = change.task;
        if begun.status.is_terminal() {
            let engine = self.clone();
            tokio::spawn(async move { engine.stop_ended(begun).await });
            return Ok(());
        }
        let report = Report::task(self.clone(), begun.id, begun.fence);
        let work = Work {
            attempt: begun.attempts,
            round: change.round,
            checkpoint: begun.checkpoint.clone(),
            ..work
        };
        let run = runner.run(work, report.clone());
        self.carry(begun.id, begun.fence, begun.lifetime, run, report).keep();
        Ok(())
    }

    /// Leaves work to a node that can get at it. If none takes it up for some time, whoever looks at the task is told why. It is put back
    /// for longer than the others need to come first, so that it is in nobody's way.
    async fn out_of_reach(&self, task: &Task, message: String) -> Result<(), StoreError> {
        if self.ready_for(task) < IN_REACH_FIRST {
            self.0.executor.passed_over.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        let begun = self.0.store.apply(task.id, Step::Begin { node: self.node() }, self.now()).await?.task;
        let back = Step::PutBack { fence: begun.fence, pause: OUT_OF_REACH, message };
        self.0.store.apply(task.id, back, self.now()).await.map(drop)
    }

    /// How long the task has been there to be begun.
    fn ready_for(&self, task: &Task) -> Duration {
        task.carrier.ready_at().map(|at| self.now().since(at)).unwrap_or_default()
    }

    async fn work_of(&self, task: &Task) -> Result<Work, StoreError> {
        let description = self.0.store.work(task.id).await?.ok_or(StoreError::NotFound)?;
        Ok(Work {
            description: description.into(),
            owner: task.owner.clone(),
            attempt: task.attempts,
            is_taken_up: true,
            checkpoint: task.checkpoint.clone(),
            round: None,
        })
    }

    /// Stops work that goes on although its task has ended, as the node that has taken this up.
    pub(crate) async fn stop_ended(&self, task: Task) {
        let Some(_stopping) = Executor::stopping(self, task.id) else { return };
        let (id, fence) = (task.id, task.fence);
        let stopped = match (self.runner(&task.runner), self.work_of(&task).await) {
            (Some(runner), Ok(work)) => runner.stop(work).await,
            (None, _) => {
                tracing::warn!(task = ?id, runner = task.runner, "nothing here knows how to stop this work");
                Ok(())
            }
            (_, Err(error)) => Err(NotStopped(error.to_string())),
        };
        let step = match stopped {
            Ok(()) => Step::Stopped { fence },
            // Nobody grants work more time than its run limit, wherever it is.
            Err(error) if self.now() >= task.lifetime.run_deadline.after(STOP_FOR) => {
                tracing::error!(task = ?id, %error, "giving up stopping work: it is past its run limit");
                Step::Stopped { fence }
            }
            Err(error) => {
                tracing::warn!(task = ?id, %error, "trying again");
                Step::PutBack { fence, pause: STOP_AGAIN, message: error.to_string() }
            }
        };
        if let Some(change) = self.insist(id, step).await {
            self.begin_when_ready(&change.task);
        }
    }

    /// No runner of that name is here. Whether there will be one elsewhere, time tells.
    async fn without_runner(&self, task: Task) {
        if self.0.is_shared && self.ready_for(&task) < OTHERS_FIRST {
            return;
        }
        if task.status.is_terminal() {
            match self.0.store.apply(task.id, Step::Begin { node: self.node() }, self.now()).await {
                Ok(change) => self.stop_ended(change.task).await,
                Err(error) => tracing::debug!(task = ?task.id, %error, "somebody else stops this work"),
            }
            return;
        }
        let message = format!("No runner named {:?} is configured any more.", task.runner);
        let fail = Step::Fail { fence: task.fence, failure: Failure::NoRunner, message };
        if let Err(error) = self.0.store.apply(task.id, fail, self.now()).await {
            tracing::warn!(task = ?task.id, %error, "could not settle a task");
        }
    }

    /// The attempt is over without an outcome; the class of the work decides what becomes of its task.
    pub(crate) async fn lose(&self, id: TaskId, fence: u64, loss: Loss) -> Result<(), EngineError> {
        let message = match loss {
            Loss::Died { .. } => "The work was interrupted: the process that carried it ended.",
            Loss::ShutDown => "The work was interrupted: the gateway was shut down.",
        };
        let lose = Step::Lose { fence, message: message.to_owned(), loss };
        match self.0.store.apply(id, lose, self.now()).await {
            Ok(change) => self.begin_when_ready(&change.task),
            // It has ended meanwhile, or somebody else has taken it over.
            Err(StoreError::Refused(_) | StoreError::NotFound) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

/// A loss that spreads what comes after it. Without randomness there is no spread, and that is all.
pub(crate) fn died() -> Loss {
    Loss::Died { jitter: entropy().map(|[byte]| byte).unwrap_or_default() }
}
