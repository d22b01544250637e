use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use taskgate_task::{
    Change, Failure, Lifetime, MAX_STATE, Outcome, Payload, Question, Refusal, Step, Task, TaskId,
};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::{Answered, Ending, Report, died};
use crate::{Engine, EngineError, StoreError};

/// The attempts this process carries.
#[derive(Debug, Default)]
pub(crate) struct Executor {
    /// By locator, which is what other nodes tell.
    carried: Mutex<HashMap<i64, Arc<Carried>>>,
    /// The tasks that have ended and whose work is being stopped where it goes on.
    stopping: Mutex<HashSet<TaskId>>,
    inline: AtomicUsize,
    /// How many tasks were left to other nodes since upkeep last looked for work.
    pub(crate) passed_over: AtomicUsize,
    changed: Notify,
}

/// Says that a call runs that is no task, for as long as it exists.
pub(crate) struct Counted(Engine);

impl Counted {
    pub(crate) fn new(engine: &Engine) -> Self {
        engine.0.executor.inline.fetch_add(1, Ordering::AcqRel);
        Counted(engine.clone())
    }
}

/// Says that the work of a task that has ended is being stopped, for as long as it exists. A shutdown waits for it.
pub(crate) struct Stopping {
    engine: Engine,
    id: TaskId,
    _counted: Counted,
}

impl Drop for Stopping {
    fn drop(&mut self) {
        self.engine.0.executor.stopping.lock().remove(&self.id);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let executor = &self.0.0.executor;
        executor.inline.fetch_sub(1, Ordering::AcqRel);
        executor.changed.notify_waiters();
    }
}

/// One attempt in this process.
#[derive(Debug)]
struct Carried {
    id: TaskId,
    fence: u64,
    stop: Notify,
    answers: Mutex<Answers>,
    report: Report,
}

/// Answers on their way to the work. An answer can arrive before its question's key is known here, since
/// the question is visible to others from its commit on.
#[derive(Debug, Default)]
struct Answers {
    waiting: HashMap<String, oneshot::Sender<Answered>>,
    early: HashMap<String, Payload>,
}

/// Stops the attempt when dropped, unless it is to be kept, and cancels its task if the store has it: nobody knows of
/// it, and nobody works on it.
pub(crate) struct Attempt {
    engine: Engine,
    id: TaskId,
    kept: bool,
}

impl Attempt {
    pub(crate) fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if !self.kept {
            self.engine.0.executor.stop(&self.id);
            // The write is enqueued by the call, behind the creation.
            drop(self.engine.0.store.apply(self.id, Step::Cancel, self.engine.now()));
        }
    }
}

impl Executor {
    /// How many attempts are carried.
    pub(crate) fn len(&self) -> usize {
        self.carried.lock().len()
    }

    /// The tasks carried at the moment.
    pub(crate) fn ids(&self) -> Vec<(TaskId, u64)> {
        self.carried.lock().values().map(|carried| (carried.id, carried.fence)).collect()
    }

    /// Resolves when nothing is carried.
    pub(crate) async fn idle(&self) {
        self.until(|| self.len() == 0).await;
    }

    /// Resolves when nothing is carried and no call runs that is no task.
    pub(crate) async fn quiet(&self) {
        self.until(|| self.len() == 0 && self.inline.load(Ordering::Acquire) == 0).await;
    }

    async fn until(&self, is: impl Fn() -> bool) {
        loop {
            let changed = self.changed.notified();
            if is() {
                return;
            }
            changed.await;
        }
    }

    /// Those of `among` that are carried.
    pub(crate) fn among(&self, among: &[i64]) -> Vec<TaskId> {
        let carried = self.carried.lock();
        let carried = among.iter().filter_map(|locator| carried.get(locator));
        carried.map(|carried| carried.id).collect()
    }

    /// Whether the work of this task, which has ended, is being stopped.
    pub(crate) fn stops(&self, id: &TaskId) -> bool {
        self.stopping.lock().contains(id)
    }

    /// Says so for as long as the returned value lives; `None` if it is being stopped already.
    pub(crate) fn stopping(engine: &Engine, id: TaskId) -> Option<Stopping> {
        let executor = &engine.0.executor;
        executor.stopping.lock().insert(id).then(|| Stopping {
            id,
            _counted: Counted::new(engine),
            engine: engine.clone(),
        })
    }

    /// Whether this attempt is carried.
    pub(crate) fn carries(&self, id: &TaskId, fence: u64) -> bool {
        self.find(id).is_some_and(|carried| carried.fence == fence)
    }

    /// Stops everything.
    pub(crate) fn stop_all(&self) {
        for carried in self.carried.lock().values() {
            carried.stop.notify_one();
        }
    }

    /// What another node has made of a task: stops its work if it has ended or is carried elsewhere now, and hands over
    /// the answers that were given there.
    pub(crate) fn heard(&self, task: &Task) {
        let Some(carried) = self.find(&task.id) else { return };
        if task.status.is_terminal() || task.fence > carried.fence {
            carried.stop.notify_one();
            return;
        }
        // Read before this attempt began, and late: it says nothing of it.
        if task.fence < carried.fence {
            return;
        }
        let mut answers = carried.answers.lock();
        if answers.waiting.is_empty() {
            return;
        }
        for asked in task.inputs.all() {
            if let Some(answer) = &asked.answer
                && let Some(reply) = answers.waiting.remove(&asked.key)
            {
                carried.report.alive();
                let _ = reply.send(Ok(answer.clone()));
            }
        }
    }

    fn find(&self, id: &TaskId) -> Option<Arc<Carried>> {
        self.carried.lock().get(&id.locator()).filter(|carried| carried.id == *id).cloned()
    }

    /// Stops the work of a task, if this process carries it.
    pub(crate) fn stop(&self, id: &TaskId) {
        if let Some(carried) = self.find(id) {
            carried.stop.notify_one();
        }
    }

    /// Hands answers to the work, if this process carries it.
    pub(crate) fn answer(&self, id: &TaskId, answered: Vec<(String, Payload)>) {
        let Some(carried) = self.find(id) else { return };
        // From here on silence is the work's own again.
        carried.report.alive();
        let mut answers = carried.answers.lock();
        for (key, answer) in answered {
            match answers.waiting.remove(&key) {
                Some(reply) => {
                    let _ = reply.send(Ok(answer));
                }
                None => {
                    answers.early.insert(key, answer);
                }
            }
        }
    }

    fn expect(&self, id: &TaskId, keys: Vec<String>, replies: Vec<oneshot::Sender<Answered>>) {
        let Some(carried) = self.find(id) else { return };
        let mut answers = carried.answers.lock();
        for (key, reply) in keys.into_iter().zip(replies) {
            match answers.early.remove(&key) {
                Some(answer) => {
                    let _ = reply.send(Ok(answer));
                }
                None => {
                    answers.waiting.insert(key, reply);
                }
            }
        }
    }

    /// The questions whose answers the work no longer waits for.
    fn taken_back(&self, id: &TaskId) -> Vec<String> {
        let Some(carried) = self.find(id) else { return Vec::new() };
        let answers = carried.answers.lock();
        let closed = answers.waiting.iter().filter(|(_, reply)| reply.is_closed());
        closed.map(|(key, _)| key.clone()).collect()
    }

    fn forget(&self, id: &TaskId, keys: &[String]) {
        let Some(carried) = self.find(id) else { return };
        // From here on silence is the work's own again.
        carried.report.alive();
        carried.answers.lock().waiting.retain(|key, _| !keys.contains(key));
    }

    fn enter(&self, id: TaskId, fence: u64, report: Report) -> Arc<Carried> {
        let carried = Arc::new(Carried { id, fence, stop: Notify::new(), answers: Mutex::default(), report });
        let older = self.carried.lock().insert(id.locator(), carried.clone());
        // Others have lost sight of it and nobody could find it here any more to stop it.
        if let Some(older) = older {
            older.stop.notify_one();
        }
        carried
    }

    /// Leaves the table, unless a newer attempt has taken the place.
    fn leave(&self, id: TaskId, carried: &Arc<Carried>) {
        let mut table = self.carried.lock();
        if table.get(&id.locator()).is_some_and(|current| Arc::ptr_eq(current, carried)) {
            table.remove(&id.locator());
        }
        drop(table);
        self.changed.notify_waiters();
    }
}

impl Engine {
    /// Carries a run to its end in the background. The run is stopped by cancel, expiry and its limits.
    pub(crate) fn carry(
        &self,
        id: TaskId,
        fence: u64,
        lifetime: Lifetime,
        run: BoxFuture<'static, Ending>,
        report: Report,
    ) -> Attempt {
        let carried = self.0.executor.enter(id, fence, report.clone());
        let engine = self.clone();
        tokio::spawn(async move {
            let leave = Leave { engine: &engine, id, carried: &carried };
            match engine.watch_over(&carried, fence, lifetime, run, report).await {
                Some(step) => engine.write_end(id, fence, step, leave).await,
                None => engine.was_stopped(id, fence).await,
            }
        });
        Attempt { engine: self.clone(), id, kept: false }
    }

    /// Runs until the work ends, is stopped, or passes a limit. Returns the step to write, if any.
    async fn watch_over(
        &self,
        carried: &Carried,
        fence: u64,
        lifetime: Lifetime,
        mut run: BoxFuture<'static, Ending>,
        report: Report,
    ) -> Option<Step> {
        let left = lifetime.run_deadline.since(self.now());
        let run_limit = tokio::time::sleep(left.min(LONGEST_SLEEP));
        tokio::pin!(run_limit);
        loop {
            let idle_at = lifetime.idle_limit.map(|limit| report.last_sign() + limit);
            tokio::select! {
                ending = &mut run => return Some(match ending {
                    Ending::Finished(outcome) => {
                        Step::Finish { fence, outcome: within(self.0.settings.max_result, outcome) }
                    }
                    Ending::Asked { questions, state, .. } => Step::Ask { fence, questions, resume: Some(state) },
                    Ending::Lost { message } => Step::Lose { fence, message, loss: died() },
                    Ending::PutBack { pause, message } => Step::PutBack { fence, pause, message },
                }),
                () = carried.stop.notified() => return None,
                () = &mut run_limit => {
                    if lifetime.run_deadline > self.now() {
                        run_limit.as_mut().reset(Instant::now() + LONGEST_SLEEP);
                        continue;
                    }
                    return Some(Step::Tick);
                }
                () = sleep_until(idle_at), if idle_at.is_some() => {
                    if idle_at.is_some_and(|at| report.last_sign() + lifetime.idle_limit.unwrap_or_default() > at) {
                        continue;
                    }
                    // Waiting for the requestor, or for what the work itself waits for, is not silence of the work.
                    if report.waits() || !carried.answers.lock().waiting.is_empty() {
                        report.alive();
                        continue;
                    }
                    let limit = lifetime.idle_limit.unwrap_or_default();
                    let message = format!("The work was stopped: silent for {} s.", limit.as_secs_f64());
                    return Some(Step::Fail { fence, failure: Failure::IdleLimit, message });
                }
            }
        }
    }

    /// The run is over and has no say any more, because somebody else has moved the task. If it has ended, work that goes on elsewhere is stopped
    /// there too.
    async fn was_stopped(&self, id: TaskId, fence: u64) {
        match self.0.store.get(id).await {
            Ok(Some(task))
                if task.status.is_terminal() && task.fence == fence && task.carrier.node().is_some() =>
            {
                self.stop_ended(task).await;
            }
            Ok(_) => {}
            // It is found again as the work of a dead node, when this one has gone.
            Err(error) => {
                tracing::warn!(task = ?id, %error, "cannot see whether stopped work goes on elsewhere")
            }
        }
    }

    /// Writes how an attempt ended.
    async fn write_end(&self, id: TaskId, fence: u64, step: Step, leave: Leave<'_>) {
        let Some(change) = self.insist(id, step).await else { return self.was_stopped(id, fence).await };
        drop(leave);
        self.begin_when_ready(&change.task);
        if change.task.status.is_terminal() && change.task.carrier.node().is_some() {
            self.stop_ended(change.task).await;
        }
    }

    /// Makes a step of the work for as long as it takes: what it says exists nowhere else. `None` if it is refused. Questions
    /// that are too long to be kept end the work, which waits for them.
    pub(crate) async fn insist(&self, id: TaskId, mut step: Step) -> Option<Change> {
        let mut pause = Duration::from_millis(50);
        loop {
            match self.0.store.apply(id, step.clone(), self.now()).await {
                Ok(change) => return Some(change),
                Err(StoreError::Failed(reason)) => {
                    tracing::error!(task = ?id, %reason, "cannot store what became of an attempt; trying again");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(Duration::from_secs(5));
                }
                Err(StoreError::Refused(refusal @ Refusal::TooLong(_)))
                    if matches!(step, Step::Ask { .. }) =>
                {
                    if let Step::Ask { fence, .. } = step {
                        let summary = format!("The questions cannot be asked: {refusal}");
                        let data = serde_json::json!({ "reason": "max_state", "limit": MAX_STATE });
                        step = Step::Finish { fence, outcome: unkept(summary, &data) };
                    }
                }
                Err(other) => {
                    // Somebody else was first: a cancel, an expiry, a newer attempt. That is no fault.
                    tracing::debug!(task = ?id, %other, "late end of an attempt");
                    return None;
                }
            }
        }
    }

    /// Questions of running work: commits them, then waits for their answers on behalf of the work.
    pub(crate) async fn ask(
        &self,
        id: TaskId,
        fence: u64,
        questions: Vec<Question>,
        replies: Vec<oneshot::Sender<Answered>>,
    ) -> Result<(), EngineError> {
        let step = Step::Ask { fence, questions, resume: None };
        let change = self.0.store.apply(id, step, self.now()).await?;
        self.0.executor.expect(&id, change.asked, replies);
        // From its commit on others could answer: what they did before the work waited for it was heard in vain.
        if self.0.is_shared
            && let Ok(Some(task)) = self.0.store.get(id).await
        {
            self.0.executor.heard(&task);
        }
        // A question of a call that has become a task may have been taken back before it was the task's.
        self.take_back(id, fence).await
    }

    /// Closes the questions of running work that it no longer wants answers to.
    pub(crate) async fn take_back(&self, id: TaskId, fence: u64) -> Result<(), EngineError> {
        let keys = self.0.executor.taken_back(&id);
        if keys.is_empty() {
            return Ok(());
        }
        self.0.store.apply(id, Step::Withdraw { fence, keys: keys.clone() }, self.now()).await?;
        self.0.executor.forget(&id, &keys);
        Ok(())
    }
}

/// The outcome as it is kept: one that is too long becomes an error that says so.
fn within(max_result: usize, outcome: Outcome) -> Outcome {
    let length = outcome.body().as_str().len();
    if length <= max_result {
        return outcome;
    }
    let summary = format!("The result has {length} bytes, more than max_result ({max_result} bytes).");
    // Nothing becomes shorter by waiting.
    let data = serde_json::json!({
        "reason": "max_result", "limit": "max_result", "value": max_result, "retryAfterMs": null, "length": length,
    });
    unkept(summary, &data)
}

/// The error in place of what cannot be kept.
fn unkept(summary: String, data: &serde_json::Value) -> Outcome {
    let error = serde_json::json!({ "code": -32603, "message": summary, "data": data });
    let body = Payload::from_value(&error).unwrap_or_else(|_| Payload::null());
    Outcome::Error { body, summary }
}

/// Timers reach about two years; longer limits are waited for in pieces.
const LONGEST_SLEEP: Duration = Duration::from_secs(30 * 24 * 3600);

/// Sleeps until then; without a moment, for ever.
pub async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

struct Leave<'a> {
    engine: &'a Engine,
    id: TaskId,
    carried: &'a Arc<Carried>,
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.engine.0.executor.leave(self.id, self.carried);
    }
}
