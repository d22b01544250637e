use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::json;
use taskgate_detached::{Attempt, DetachedError, Environment, Seen, Spec, State, Supervisor};
use taskgate_engine::{Ending, NotStopped, Report, Runner, Work};
use taskgate_task::Payload;
use tokio::time::Instant;

use super::CommandTool;
use super::handover::Whereabouts;
use super::outcome::{self, Written};
use super::yard::{Hold, Yard};
use crate::policy::ToolPolicy;
use crate::random::random;
use crate::upstream::Request;

/// How much of each of stdout and stderr is kept, in bytes.
const OUTPUT_LIMIT: u64 = 256 << 10;
/// How long a command has between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(5);
/// Beyond the run limit, which is the engine's to enforce: the supervisor only does while there is no gateway.
const BEYOND: Duration = Duration::from_secs(1);
/// How often to look whether it has ended: soon at first, as many commands are short.
const FIRST_LOOK: Duration = Duration::from_millis(10);
const LATER_LOOK: Duration = Duration::from_millis(100);
/// How often to look what it has written.
const LOOK_AT_OUTPUT: Duration = Duration::from_millis(250);
/// How long to wait for the end of a command that is stopped, before it is tried again: its grace, and some time for the machine.
const STOPPING: Duration = Duration::from_secs(15);
/// The pause before work is taken up again that is at another node.
const NOT_HERE: Duration = Duration::from_secs(5);
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
            let made =
                if is_new { inner.make(&work, &mut hold, &report).await } else { inner.find(&hold).await };
            let followed = match made {
                Ok(attempt) => inner.follow(attempt, &report).await,
                Err(why) => Err(why),
            };
            hold.conclude(report);
            followed.unwrap_or_else(|why| outcome::lost(&why))
        })
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
                return Err(NotStopped("the command runs at another node".to_owned()));
            }
            let mut hold = inner.yard.hold(whereabouts.attempt);
            hold.may_be_let_go();
            let until = Instant::now() + STOPPING;
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
            let message = "The command runs at another node, which is not there at the moment.".to_owned();
            return Err(Ending::PutBack { pause: NOT_HERE, message });
        }
        let mut hold = self.yard.hold(whereabouts.attempt);
        hold.may_be_let_go();
        Ok((hold, false))
    }

    /// Makes the attempt and puts down where it is, before anything can run.
    async fn make(&self, work: &Work, hold: &mut Hold, report: &Report) -> Result<Attempt, String> {
        let stdin = Request::of(work)?.arguments()?;
        let spec = Spec {
            argv: self.tool.argv.clone(),
            cwd: self.tool.cwd.clone(),
            deadline_ms: Some(self.deadline()),
            grace_ms: u64::try_from(GRACE.as_millis()).unwrap_or(u64::MAX),
            output_limit: OUTPUT_LIMIT,
        };
        let (yard, name) = (self.yard.clone(), hold.name().to_owned());
        let made = blocking(move || Attempt::create(yard.work(), &name, spec, stdin.as_bytes())).await?;
        let whereabouts = Whereabouts { yard: self.yard.id().to_owned(), attempt: hold.name().to_owned() };
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

    /// When the command is stopped though there is no gateway, in milliseconds since the Unix epoch. Later than the
    /// engine would do it: a call that becomes a task has its run limit from then on.
    fn deadline(&self) -> i64 {
        use taskgate_engine::{Clock, SystemClock};
        let limit =
            self.policy.lifetime.run_limit.saturating_add(self.policy.inline_for).saturating_add(BEYOND);
        SystemClock.now().after(limit).as_millis()
    }

    /// Sees the attempt to its end, and begins it if nobody has.
    async fn follow(&self, attempt: Attempt, report: &Report) -> Result<Ending, String> {
        let mut supervisor: Option<Supervisor> = None;
        let mut progress = Progress::default();
        let mut pause = FIRST_LOOK;
        loop {
            // Asked before the state, which it may have changed with its last breath.
            let has_ended = supervisor.as_ref().is_some_and(Supervisor::has_ended);
            match attempt.state() {
                Ok(State::Ended(status)) => return Ok(outcome::ended(&status, &written(attempt).await?)),
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

/// What is told of a command's output while it runs.
#[derive(Default)]
struct Progress {
    looked: Option<Instant>,
    seen: Seen,
}

impl Progress {
    fn look(&mut self, attempt: &Attempt, report: &Report) {
        if self.looked.is_some_and(|at| at.elapsed() < LOOK_AT_OUTPUT) {
            return;
        }
        self.looked = Some(Instant::now());
        let seen = attempt.seen();
        if seen.bytes > self.seen.bytes {
            let mut raw = json!({ "progress": seen.bytes });
            if let Some(line) = &seen.line {
                raw["message"] = line.as_str().into();
            }
            report.progress(seen.line.clone(), Payload::from_value(&raw).unwrap_or_else(|_| Payload::null()));
            self.seen = seen;
        }
    }
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
