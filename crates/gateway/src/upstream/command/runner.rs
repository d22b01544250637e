use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::json;
use taskgate_credentials::redact::redact;
use taskgate_detached::{Attempt, DetachedError, Environment, Seen, Spec, State, Supervisor};
use taskgate_engine::{Clock, Ending, NotStopped, Report, Runner, SystemClock, Work};
use taskgate_task::{Payload, Timestamp};
use tokio::time::Instant;

use super::handover::Whereabouts;
use super::outcome::{self, Written};
use super::pattern::{Pattern, Told};
use super::yard::{Hold, Yard};
use super::{CommandTool, Stdin};
use crate::policy::ToolPolicy;
use crate::random::random;
use crate::upstream::Request;
use crate::upstream::ending::refused;

/// Beyond the run limit, which is the engine's to enforce: the supervisor only does while there is no gateway.
const BEYOND: Duration = Duration::from_secs(1);
/// How often to look whether it has ended: soon at first, as many commands are short.
const FIRST_LOOK: Duration = Duration::from_millis(10);
const LATER_LOOK: Duration = Duration::from_millis(100);
/// How often to look what it has written.
const LOOK_AT_OUTPUT: Duration = Duration::from_millis(250);
/// How long to wait beyond its grace for the end of a command that is stopped, before it is tried again.
const STOPPING: Duration = Duration::from_secs(10);
/// How long after its deadline a command is surely over: its grace is ten minutes at most, and clocks differ.
const SURELY: Duration = Duration::from_secs(20 * 60);
/// The pause after the state could not be read, for want of descriptors for example.
const READ_AGAIN: Duration = Duration::from_secs(1);

/// Runs a command apart from this process, and takes up what an earlier process has begun.
#[derive(Clone)]
pub struct CommandRunner(Arc<Inner>);

struct Inner {
    tool: CommandTool,
    policy: ToolPolicy,
    yard: Arc<Yard>,
}

impl CommandRunner {
    /// For this command, treated like this.
    pub fn new(tool: CommandTool, policy: ToolPolicy, yard: Arc<Yard>) -> CommandRunner {
        CommandRunner(Arc::new(Inner { tool, policy, yard }))
    }
}

impl Runner for CommandRunner {
    fn run(&self, work: Work, report: Report) -> BoxFuture<'static, Ending> {
        let inner = self.0.clone();
        // It is held from here on, whether or not the future is ever polled.
        let held = inner.hold(&work);
        Box::pin(async move {
            let (mut hold, is_new) = match held {
                Ok(held) => held,
                Err(ending) => return ending,
            };
            let made = match is_new {
                true => match inner.accept(&work) {
                    Ok(call) => inner.make(call, &mut hold, &report).await,
                    Err(ending) => {
                        hold.forget();
                        return ending;
                    }
                },
                false => inner.find(&hold).await,
            };
            let followed = match made {
                Ok(attempt) => inner.follow(attempt, &report).await,
                Err(why) => Err(why),
            };
            hold.conclude(report);
            followed.unwrap_or_else(|why| outcome::lost(&why))
        })
    }

    fn reach(&self, work: &Work) -> Result<(), String> {
        match Whereabouts::of(work) {
            Ok(Some(whereabouts)) if !self.0.yard.is_home_of(&whereabouts) && !whereabouts.is_over() => {
                Err("The command runs at another node, which is not there at the moment.".to_owned())
            }
            _ => Ok(()),
        }
    }

    fn stop(&self, work: Work) -> BoxFuture<'static, Result<(), NotStopped>> {
        let inner = self.0.clone();
        Box::pin(async move {
            let whereabouts = match Whereabouts::of(&work) {
                Ok(Some(whereabouts)) => whereabouts,
                Ok(None) => return Ok(()),
                // It never will be readable. The command ends by itself, at its run limit at the latest.
                Err(error) => {
                    tracing::error!(error, "cannot stop a command");
                    return Ok(());
                }
            };
            if !inner.yard.is_home_of(&whereabouts) {
                if whereabouts.is_over() {
                    return Ok(());
                }
                return Err(NotStopped("the command runs at another node".to_owned()));
            }
            let mut hold = inner.yard.hold(whereabouts.attempt);
            hold.may_be_let_go();
            let until = Instant::now() + inner.tool.stop_grace + STOPPING;
            loop {
                let cleared = inner.yard.clear_one(hold.name()).await;
                if cleared.map_err(|error| NotStopped(error.to_string()))? {
                    hold.forget();
                    return Ok(());
                }
                if Instant::now() >= until {
                    return Err(NotStopped("the command has not ended yet".to_owned()));
                }
                tokio::time::sleep(LATER_LOOK).await;
            }
        })
    }
}

impl Inner {
    /// Holds the attempt of an earlier run, or a new one; says which it is.
    fn hold(&self, work: &Work) -> Result<(Hold, bool), Ending> {
        let lost = |why: String| outcome::lost(&why);
        let Some(whereabouts) = Whereabouts::of(work).map_err(lost)? else {
            let name = random().map_err(|error| lost(format!("no randomness: {error}")))?;
            return Ok((self.yard.hold(name), true));
        };
        if !self.yard.is_home_of(&whereabouts) {
            return Err(lost(
                "The work was interrupted: it was at another node, which did not come back.".to_owned(),
            ));
        }
        let mut hold = self.yard.hold(whereabouts.attempt);
        hold.may_be_let_go();
        Ok((hold, false))
    }

    /// What is to be run, if the command takes the call's arguments; if not, how the call ends. Nothing has been made of it
    /// yet.
    fn accept(&self, work: &Work) -> Result<Call, Ending> {
        let given = Request::of(work).and_then(|request| request.arguments());
        let given = given.map_err(|why| outcome::lost(&why))?;
        let argv = self.tool.accept(&given).map_err(|why| refused(&why))?;
        let stdin = match self.tool.stdin {
            Stdin::Arguments => given,
            Stdin::Nothing => String::new(),
        };
        Ok(Call { argv, stdin })
    }

    /// Makes the attempt and puts down where it is, before anything can run.
    async fn make(&self, call: Call, hold: &mut Hold, report: &Report) -> Result<Attempt, String> {
        let Call { argv, stdin } = call;
        let deadline = self.deadline();
        let spec = Spec {
            argv,
            cwd: self.tool.cwd.clone(),
            deadline_ms: Some(deadline.as_millis()),
            grace_ms: u64::try_from(self.tool.stop_grace.as_millis()).unwrap_or(u64::MAX),
            output_limit: u64::try_from(self.tool.output_limit).unwrap_or(u64::MAX),
        };
        let (yard, name) = (self.yard.clone(), hold.name().to_owned());
        let made = blocking(move || Attempt::create(yard.work(), &name, spec, stdin.as_bytes())).await?;
        let whereabouts = Whereabouts {
            yard: self.yard.id().to_owned(),
            attempt: hold.name().to_owned(),
            over_ms: Some(deadline.after(SURELY).as_millis()),
        };
        let state = whereabouts.to_payload().map_err(|error| error.to_string())?;
        report.checkpoint(state).await.map_err(|error| error.to_string())?;
        hold.may_be_let_go();
        Ok(made)
    }

    /// Opens the attempt of an earlier run.
    async fn find(&self, hold: &Hold) -> Result<Attempt, String> {
        let (yard, name) = (self.yard.clone(), hold.name().to_owned());
        let found = blocking(move || Attempt::open(yard.work(), &name)).await?;
        found.ok_or_else(|| {
            let work = self.yard.work().display();
            format!("The work was interrupted: {work} has nothing of its command {} any more.", hold.name())
        })
    }

    /// When the command is stopped though there is no gateway. Later than the engine would do it: a call that becomes a task
    /// has its run limit from then on.
    fn deadline(&self) -> Timestamp {
        let limit =
            self.policy.lifetime.run_limit.saturating_add(self.policy.inline_for).saturating_add(BEYOND);
        SystemClock.now().after(limit)
    }

    /// Sees the attempt to its end, and begins it if nobody has.
    async fn follow(&self, attempt: Attempt, report: &Report) -> Result<Ending, String> {
        let mut supervisor: Option<Supervisor> = None;
        let mut progress = Progress::new(self.tool.progress.as_ref());
        let mut pause = FIRST_LOOK;
        loop {
            // Asked before the state, which it may have changed with its last breath.
            let has_ended = supervisor.as_ref().is_some_and(Supervisor::has_ended);
            match attempt.state() {
                Ok(State::Ended(status)) => {
                    return Ok(outcome::ended(&self.tool, &status, &written(attempt).await?));
                }
                Ok(State::Interrupted(why)) => {
                    let left = attempt.clone();
                    if !blocking(move || left.end_leftovers()).await? {
                        tracing::warn!(dir = %attempt.dir().display(), "a process of a command cannot be killed");
                    }
                    return Ok(outcome::interrupted(why, &written(attempt).await?));
                }
                Ok(State::Waiting) if has_ended => {
                    let complaints = attempt.complaints();
                    return Err(format!("The command's supervisor did not begin it: {complaints}"));
                }
                Ok(State::Waiting) if supervisor.is_none() => supervisor = Some(self.start(&attempt).await?),
                Ok(State::Waiting | State::Running) => progress.look(&attempt, report),
                Err(error @ DetachedError::Damaged { .. }) => return Err(error.to_string()),
                Err(error) if error.is_missing() => {
                    return Err(format!("The work was interrupted: {error}"));
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot see where a command stands");
                    pause = READ_AGAIN;
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 3 / 2).min(LATER_LOOK);
        }
    }

    async fn start(&self, attempt: &Attempt) -> Result<Supervisor, String> {
        let environment = Environment { set: self.tool.env.clone(), clear: self.tool.clear_env };
        let (attempt, yard) = (attempt.clone(), self.yard.clone());
        blocking(move || attempt.start(yard.launcher(), &environment)).await
    }
}

/// What is run of a call.
struct Call {
    argv: Vec<String>,
    stdin: String,
}

/// What is told of a command's output while it runs.
struct Progress<'a> {
    pattern: Option<&'a Pattern>,
    looked: Option<Instant>,
    seen: Seen,
    /// How far it was at last. A caller is never told of less (2025-11-25, progress).
    reached: f64,
}

impl<'a> Progress<'a> {
    fn new(pattern: Option<&'a Pattern>) -> Self {
        Progress { pattern, looked: None, seen: Seen::default(), reached: f64::NEG_INFINITY }
    }

    fn look(&mut self, attempt: &Attempt, report: &Report) {
        if self.looked.is_some_and(|at| at.elapsed() < LOOK_AT_OUTPUT) {
            return;
        }
        self.looked = Some(Instant::now());
        let seen = attempt.seen();
        if seen.bytes > self.seen.bytes {
            let line = seen.line.as_deref().map(|line| redact(line).into_owned());
            match self.pattern {
                None => {
                    let raw = notification(json!(seen.bytes), None, line.as_deref());
                    report.progress(line, raw);
                }
                Some(pattern) => match line.and_then(|line| pattern.read(&line)) {
                    Some(told) => self.tell(told, report),
                    None => report.sign(),
                },
            }
            self.seen = seen;
        }
    }

    fn tell(&mut self, told: Told, report: &Report) {
        let Told { progress, total, message } = told;
        let words = message.clone().or_else(|| {
            let progress = progress?;
            Some(total.map_or_else(|| progress.to_string(), |total| format!("{progress}/{total}")))
        });
        // What has not grown is no progress, and its notification would be refused; the words are new all the same.
        let grown = progress.filter(|progress| *progress > self.reached);
        match grown {
            Some(progress) => {
                self.reached = progress;
                report.progress(words, notification(json!(progress), total, message.as_deref()));
            }
            None => report.go_on(words.unwrap_or_default()),
        }
    }
}

/// The params of a progress notification, but for its token.
fn notification(progress: serde_json::Value, total: Option<f64>, message: Option<&str>) -> Payload {
    let mut raw = json!({ "progress": progress });
    if let Some(total) = total {
        raw["total"] = total.into();
    }
    if let Some(message) = message {
        raw["message"] = message.into();
    }
    Payload::from_value(&raw).unwrap_or_else(|_| Payload::null())
}

/// Reads what is kept of its output.
async fn written(attempt: Attempt) -> Result<Written, String> {
    blocking(move || Ok(Written { stdout: attempt.stdout()?, stderr: attempt.stderr()? })).await
}

/// Does something with files, which may have to wait for a disk.
async fn blocking<T: Send + 'static>(
    what: impl FnOnce() -> Result<T, DetachedError> + Send + 'static,
) -> Result<T, String> {
    match tokio::task::spawn_blocking(what).await {
        Ok(done) => done.map_err(|error| error.to_string()),
        Err(error) => Err(format!("The gateway is shutting down: {error}")),
    }
}
