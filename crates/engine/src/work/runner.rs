use futures_util::future::BoxFuture;
use taskgate_task::{Outcome, Owner, Payload, Question, Round};

use super::{Description, Report};

/// Someone who does work: an upstream server, a command, a job API.
///
/// A runner sees a [`Report`] and nothing of the protocol its caller speaks, nor whether its work is a task yet.
pub trait Runner: Send + Sync + 'static {
    /// Does the work, or goes on with it from `work.checkpoint`.
    ///
    /// **Dropping the future must stop the work**, wherever it is: that is how cancelling, limits and callers that went
    /// away reach the runner. Once a [`Report::checkpoint`] was made, dropping it only lets go of the work, since it may
    /// be dropped because this process ends; then it is [`Runner::stop`] that stops the work.
    fn run(&self, work: Work, report: Report) -> BoxFuture<'static, Ending>;

    /// Whether this process can get at work that was begun before. What goes on at one machine may be out of reach of another; it is
    /// left to a node that can get at it.
    ///
    /// # Errors
    ///
    /// Why not, for people.
    fn reach(&self, work: &Work) -> Result<(), String> {
        let _ = work;
        Ok(())
    }

    /// Stops work that has made a checkpoint and that nobody is running any more; its task has ended. It may be called
    /// again for work that is stopped already, by another process too.
    ///
    /// # Errors
    ///
    /// [`NotStopped`] if it must be tried again, by whomever.
    fn stop(&self, work: Work) -> BoxFuture<'static, Result<(), NotStopped>> {
        drop(work);
        Box::pin(std::future::ready(Ok(())))
    }
}

/// What is to be done.
#[derive(Debug, Clone)]
pub struct Work {
    /// The runner's own description of it.
    pub description: Description,
    /// Whose it is.
    pub owner: Owner,
    /// Counts how often it was started, from 1; anew after each checkpoint. A start after a shutdown does not count.
    pub attempt: u32,
    /// Whether it was begun before: nobody waits who could try again.
    pub is_taken_up: bool,
    /// What an earlier attempt has put down.
    pub checkpoint: Option<Payload>,
    /// The answers an earlier call ended to wait for.
    pub round: Option<Round>,
}

/// The work could not be stopped, or it is not known whether it was.
#[derive(Debug, Clone, thiserror::Error)]
#[error("not stopped: {0}")]
pub struct NotStopped(pub String);

/// How a run ended.
#[derive(Debug, Clone)]
pub enum Ending {
    /// It is done.
    Finished(Outcome),
    /// It ended its call to ask. Nothing runs until the answers are there; then it is run again with them.
    Asked {
        /// The questions; there may be none, then it only wants to be run again.
        questions: Vec<Question>,
        /// What the next run needs back.
        state: Payload,
        /// The whole answer as it came, for a caller who speaks the same language.
        raw: Payload,
    },
    /// What did the work died under it: its class decides what becomes of the task, as if this process had died.
    Lost {
        /// What happened, for people.
        message: String,
    },
    /// The work cannot be gone on with here; another node, or this one later, may.
    PutBack {
        /// How long nobody needs to try.
        pause: std::time::Duration,
        /// Why, for people.
        message: String,
    },
}
