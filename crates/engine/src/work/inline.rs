use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use taskgate_task::{Lifetime, LifetimePolicy, NewTask, Outcome, Owner, Payload, Round, Task, WorkClass};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{AnswerTo, Counted, Description, Ending, Report, Runner, Work};
use crate::{Engine, EngineError};

/// What is needed to start work and, should it come to that, to make a task of it.
#[derive(Clone)]
pub struct Launch {
    /// Whose it is.
    pub owner: Owner,
    /// The runner's name.
    pub runner: String,
    /// The runner.
    pub with: Arc<dyn Runner>,
    /// What is to be done.
    pub work: Description,
    /// What happens after a crash.
    pub class: WorkClass,
    /// How often the work may be started, if it may be started again at all.
    pub max_attempts: u32,
    /// What lifetimes are allowed.
    pub lifetime: LifetimePolicy,
    /// How often the requestor should look.
    pub poll_interval: Duration,
    /// What stands as its status message until the work says something.
    pub immediate: Option<String>,
    /// Why its work does not begin at once, if it must wait for its turn: its status message until then.
    pub queued: Option<String>,
}

/// A call that runs and is not a task yet.
///
/// Whoever holds it drives it. Dropping it stops the work: nobody could fetch the result any more.
pub struct InlineCall {
    engine: Engine,
    launch: Launch,
    report: Report,
    events: mpsc::UnboundedReceiver<InlineEvent>,
    run: BoxFuture<'static, Ending>,
    counted: Counted,
    let_go: LetGo,
    started: Instant,
    waits_for_caller: bool,
    /// What the work said last of its progress.
    said: Option<String>,
    /// What it has asked and nobody has answered: the task that it becomes asks it.
    unanswered: Vec<AnswerTo>,
}

/// Stops work that goes on elsewhere when the call that began it is given up: nobody could find it again.
struct LetGo {
    with: Arc<dyn Runner>,
    work: Work,
    report: Report,
}

impl LetGo {
    /// Stops what was put down to go on elsewhere, if anything was.
    fn stop(&self, checkpoint: Option<Payload>) {
        if let Some(checkpoint) = checkpoint
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let stopping = self.with.stop(Work { checkpoint: Some(checkpoint), ..self.work.clone() });
            runtime.spawn(async move {
                if let Err(error) = stopping.await {
                    tracing::warn!(%error, "the work of a call that was given up may go on");
                }
            });
        }
    }
}

impl Drop for LetGo {
    fn drop(&mut self) {
        self.stop(self.report.put_down());
    }
}

/// What happens during such a call.
#[derive(Debug)]
pub enum InlineEvent {
    /// The work is alive.
    Progress {
        /// A line for people.
        message: Option<String>,
        /// The notification as it came.
        raw: Payload,
    },
    /// The work logged something.
    Log(Payload),
    /// The work asks and goes on running.
    Asked(Vec<AnswerTo>),
    /// The run ended.
    Ended(Ending),
}

impl Launch {
    /// What the first run is given.
    pub(crate) fn first(&self, round: Option<Round>) -> Work {
        Work {
            description: self.work.clone(),
            owner: self.owner.clone(),
            attempt: 1,
            is_taken_up: round.is_some(),
            checkpoint: None,
            round,
        }
    }

    /// The task of this work, carried by this node from now on.
    pub(crate) fn task(&self, engine: &Engine, ttl: Option<Duration>) -> Result<NewTask, EngineError> {
        if !engine.holds_its_lease() {
            return Err(EngineError::OutOfTouch);
        }
        let now = engine.now();
        Ok(NewTask {
            id: engine.fresh_id()?,
            owner: self.owner.clone(),
            runner: self.runner.clone(),
            work: self.work.text().clone(),
            class: self.class,
            max_attempts: self.max_attempts,
            node: engine.node(),
            key: None,
            lifetime: Lifetime::grant(&self.lifetime, ttl, now),
            poll_interval: self.poll_interval,
            status_message: self.queued.clone().or_else(|| self.immediate.clone()),
            checkpoint: None,
            created_at: now,
        })
    }
}

impl Engine {
    /// Starts work at once, without a task. `round` carries on work that had ended its call to ask.
    pub fn start(&self, launch: Launch, round: Option<Round>) -> Result<InlineCall, EngineError> {
        if self.is_draining() {
            return Err(EngineError::Draining);
        }
        let (sender, events) = mpsc::unbounded_channel();
        let report = Report::inline(sender);
        let work = launch.first(round);
        let run = launch.with.run(work.clone(), report.clone());
        let counted = Counted::new(self);
        let let_go = LetGo { with: launch.with.clone(), work, report: report.clone() };
        Ok(InlineCall {
            engine: self.clone(),
            launch,
            report,
            events,
            run,
            counted,
            let_go,
            started: Instant::now(),
            waits_for_caller: false,
            said: None,
            unanswered: Vec::new(),
        })
    }
}

impl InlineCall {
    /// What happens next. Nothing is lost if the future is dropped and called again, until `Ended` was returned.
    pub async fn next(&mut self) -> InlineEvent {
        loop {
            let limits = &self.launch.lifetime;
            let run_at = self.started + limits.run_limit.min(LONGEST_LIMIT);
            let idle_limit = limits.idle_limit.filter(|_| !self.waits_for_caller);
            let idle_at = idle_limit.map(|limit| self.report.last_sign() + limit);
            let stop_at = idle_at.map_or(run_at, |idle_at| idle_at.min(run_at));
            tokio::select! {
                biased;
                Some(event) = self.events.recv() => {
                    if let InlineEvent::Progress { message: Some(message), .. } = &event {
                        self.said = Some(message.clone());
                    }
                    return event;
                }
                ending = &mut self.run => {
                    // What the work said in the same moment comes before its end.
                    let Ok(event) = self.events.try_recv() else {
                        // What was only lost sight of may go on elsewhere, and is stopped there.
                        if !matches!(ending, Ending::Lost { .. }) {
                            self.report.is_over();
                        }
                        return InlineEvent::Ended(ending);
                    };
                    self.run = Box::pin(std::future::ready(ending));
                    return event;
                }
                () = tokio::time::sleep_until(stop_at) => {
                    let now = Instant::now();
                    if now >= run_at {
                        return stopped("at its run limit", limits.run_limit);
                    }
                    if let Some(limit) = idle_limit
                        && now >= self.report.last_sign() + limit
                    {
                        return stopped("after being silent for", limit);
                    }
                }
            }
        }
    }

    /// What a host may tell its model at once, should the call become a task: as its launch has it, or else as the work does.
    pub fn immediate(&self) -> Option<String> {
        self.launch.immediate.clone().or_else(|| self.report.said_at_once())
    }

    /// Says whether the call waits for its caller at the moment: that is no silence of the work.
    pub fn waits_for_caller(&mut self, waits: bool) {
        self.report.alive();
        self.waits_for_caller = waits;
    }

    /// Takes back questions of running work that nobody has answered. The call must become a task, which asks them.
    pub fn ask_later(&mut self, questions: impl IntoIterator<Item = AnswerTo>) {
        self.unanswered.extend(questions);
    }

    /// Takes back the end of a run that was to be followed by another one, such as one that ended to ask. The call must become
    /// a task, which goes on from there.
    pub fn end_later(&mut self, ending: Ending) {
        self.run = Box::pin(std::future::ready(ending));
    }

    /// Makes a task of the running work. The future resolves when the task is durable; until then no
    /// handle may leave. The work goes on meanwhile: its writes queue up behind the creation.
    ///
    /// If the task cannot be kept, the work is stopped.
    pub async fn become_task(self, ttl: Option<Duration>) -> Result<Task, EngineError> {
        let immediate = self.immediate();
        let InlineCall { engine, launch, report, mut events, run, counted, let_go, unanswered, said, .. } =
            self;
        let mut status_message = report.waits_for_its_turn().or(said).or(immediate);
        let mut asked = Vec::new();
        if !unanswered.is_empty() {
            asked.push(unanswered);
        }
        while let Ok(event) = events.try_recv() {
            match event {
                InlineEvent::Progress { message, .. } => status_message = message.or(status_message),
                InlineEvent::Asked(questions) => asked.push(questions),
                InlineEvent::Log(_) | InlineEvent::Ended(_) => {}
            }
        }
        let new = NewTask { status_message, ..launch.task(&engine, ttl)? };
        let (id, lifetime) = (new.id, new.lifetime);
        let (created, checkpoint) = report.becomes(engine.clone(), id, |checkpoint| {
            let created = engine.0.store.create(NewTask { checkpoint: checkpoint.clone(), ..new });
            (created, checkpoint)
        });
        let attempt = engine.carry(id, 1, lifetime, run, report);
        drop(counted);
        for questions in asked {
            let (questions, replies) = questions.into_iter().map(|a| (a.question, a.reply)).unzip();
            let engine = engine.clone();
            // Not awaited here: the creation is not committed yet, and this write queues up behind it.
            tokio::spawn(async move { engine.ask(id, 1, questions, replies).await });
        }
        match created.await {
            Ok(task) => {
                attempt.keep();
                Ok(task)
            }
            Err(error) => {
                let_go.stop(checkpoint);
                Err(error.into())
            }
        }
    }
}

/// Timers reach about two years; no call lives longer than this.
const LONGEST_LIMIT: Duration = Duration::from_secs(365 * 24 * 3600);

/// The end of a call that passed a limit. Dropping the call stops its work.
fn stopped(why: &str, limit: Duration) -> InlineEvent {
    let summary = format!("The work was stopped {why} {} s.", limit.as_secs_f64());
    let error = serde_json::json!({ "code": -32603, "message": summary });
    let body = Payload::from_value(&error).unwrap_or_else(|_| Payload::null());
    InlineEvent::Ended(Ending::Finished(Outcome::Error { body, summary }))
}

impl std::fmt::Debug for InlineCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InlineCall").field("runner", &self.launch.runner).finish_non_exhaustive()
    }
}
