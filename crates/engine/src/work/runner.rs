use futures_util::future::BoxFuture;
use taskgate_task::{Outcome, Owner, Payload, Question, Round};

use super::Report;

/// Someone who does work: an upstream server, a command, a job API.
///
/// A runner sees a [`Report`] and nothing of the protocol its caller speaks, nor whether its work is a task yet.
pub trait Runner: Send + Sync + 'static {
    /// Does the work. **Dropping the future must stop the work**, wherever it is: that is how cancelling,
    /// limits and callers that went away reach the runner.
    fn run(&self, work: Work, report: Report) -> BoxFuture<'static, Ending>;
}

/// What is to be done.
#[derive(Debug, Clone)]
pub struct Work {
    /// The runner's own description of it.
    pub description: Payload,
    /// Whose it is.
    pub owner: Owner,
    /// Counts how often it was started from the beginning, from 1.
    pub attempt: u32,
    /// The answers an earlier call ended to wait for.
    pub round: Option<Round>,
}

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
}
