use serde::{Deserialize, Serialize};

use crate::Payload;

/// How the work ended, in the words of whoever did it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The work gave a result. `is_error` tells a tool's own failure (`isError: true`) from a success.
    Result {
        /// The result, exactly as the work gave it.
        body: Payload,
        /// Whether the result itself says that the tool failed.
        is_error: bool,
        /// A line for people, shown as the task's status message when the result is an error.
        summary: Option<String>,
    },
    /// The request as such failed: the JSON-RPC error object, exactly as it came.
    Error {
        /// The error object: `{code, message, data?}`.
        body: Payload,
        /// Its message, for the task's status message.
        summary: String,
    },
}

impl Outcome {
    /// The result or the error object.
    pub fn body(&self) -> &Payload {
        match self {
            Outcome::Result { body, .. } | Outcome::Error { body, .. } => body,
        }
    }

    /// The line for people, if there is one; an error always has one.
    pub fn summary(&self) -> Option<&str> {
        match self {
            Outcome::Result { summary, .. } => summary.as_deref(),
            Outcome::Error { summary, .. } => Some(summary),
        }
    }

    /// The same as [`Outcome::summary`], to be replaced.
    pub fn summary_mut(&mut self) -> Option<&mut String> {
        match self {
            Outcome::Result { summary, .. } => summary.as_mut(),
            Outcome::Error { summary, .. } => Some(summary),
        }
    }

    /// The same as [`Outcome::body`], to be replaced.
    pub fn body_mut(&mut self) -> &mut Payload {
        match self {
            Outcome::Result { body, .. } | Outcome::Error { body, .. } => body,
        }
    }
}

/// Why taskgate itself ended a task, when no outcome came from the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// The run limit passed.
    RunLimit,
    /// The work was silent for longer than its idle limit.
    IdleLimit,
    /// The process that carried the work ended before the work did.
    Interrupted,
    /// The work cannot be carried on because nothing here knows how: its upstream or tool is gone from the configuration.
    NoRunner,
}

impl Failure {
    /// The word that stands in events and in the error's `data.reason`.
    pub fn as_str(self) -> &'static str {
        match self {
            Failure::RunLimit => "run_limit",
            Failure::IdleLimit => "idle_limit",
            Failure::Interrupted => "interrupted",
            Failure::NoRunner => "no_runner",
        }
    }
}
