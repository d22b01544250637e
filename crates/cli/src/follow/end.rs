use taskgate_client::{CallError, CallResult};

use super::lines::{self, Line};
use crate::display::{self, Output, indented, line};
use crate::exit_code::{ExitCode, Failure};
use crate::handle::Token;
use crate::say::say;

/// What came of a call that was followed.
#[derive(Debug)]
pub enum End {
    /// A result, maybe one that says that the tool failed.
    Result(CallResult),
    /// None, and why; the way to its task, if that may go on.
    Error(CallError, Option<Token>),
    /// It is not followed any more.
    Detached(Option<Token>),
    /// It waits for an answer that nobody here can give.
    NeedsInput {
        /// The way back to it.
        token: Option<Token>,
        /// The question.
        key: String,
        /// Why nobody can.
        why: String,
    },
    /// All that was open is answered.
    Answered,
}

impl End {
    /// Of an outcome.
    pub fn of(outcome: Result<CallResult, CallError>, token: Option<Token>) -> End {
        match outcome {
            Ok(result) => End::Result(result),
            Err(error) => {
                let token = if error.handle().is_some() { token } else { None };
                End::Error(error, token)
            }
        }
    }

    /// The code the program ends with.
    fn code(&self, was_asked_to_detach: bool) -> ExitCode {
        match self {
            End::Result(CallResult { is_error: false, .. }) | End::Answered => ExitCode::Success,
            End::Result(CallResult { is_error: true, .. }) => ExitCode::ToolError,
            End::Error(error, _) => code_of(error),
            End::Detached(_) if was_asked_to_detach => ExitCode::Success,
            End::Detached(_) => ExitCode::Detached,
            End::NeedsInput { .. } => ExitCode::NeedsInput,
        }
    }
}

/// The code for a call without a result.
pub fn code_of(error: &CallError) -> ExitCode {
    match error {
        CallError::Failed { .. } | CallError::Rpc(_) | CallError::ToolNotFound { .. } => ExitCode::Failed,
        CallError::Cancelled { .. } => ExitCode::Cancelled,
        CallError::Expired { .. } => ExitCode::NoTask,
        CallError::Deadline { .. } => ExitCode::Timeout,
        CallError::Unreachable { .. } => ExitCode::Unreachable,
        CallError::Uncertain { .. } => ExitCode::Uncertain,
        CallError::InputRefused(_) => ExitCode::NeedsInput,
        CallError::Params(_) => ExitCode::Invalid,
        _ => ExitCode::Failure,
    }
}

/// The failure for a request without an answer.
pub fn failure(error: &CallError) -> Failure {
    Failure::new(code_of(error), said(error))
}

/// What people are told of an error.
fn said(error: &CallError) -> String {
    match error {
        // How much of it was left for the call itself is nothing that was asked for.
        CallError::Deadline { handle: Some(_), .. } => {
            "the deadline is over; the task may go on, and its handle comes back to it".to_owned()
        }
        CallError::Deadline { handle: None, .. } => "the deadline is over".to_owned(),
        other => indented(&other.to_string()),
    }
}

/// How it ended, in a word or a few.
pub fn word(outcome: &Result<CallResult, CallError>) -> String {
    match outcome {
        Ok(CallResult { is_error: false, .. }) => "completed".to_owned(),
        Ok(_) => "completed: the tool reports an error".to_owned(),
        Err(error) => said(error),
    }
}

/// Whether nothing goes on that somebody could come back to.
pub fn are_over(ends: &[End]) -> bool {
    ends.iter().all(|end| match end {
        End::Result(_) | End::Error(_, None) | End::Detached(None) | End::NeedsInput { token: None, .. } => {
            true
        }
        End::Error(_, Some(_))
        | End::Detached(Some(_))
        | End::NeedsInput { token: Some(_), .. }
        | End::Answered => false,
    })
}

/// Prints what came of the calls. The first that did not go well decides how the program ends.
///
/// # Errors
///
/// That one, or if stdout cannot be written to.
pub fn conclude(ends: &[End], output: Output, was_asked_to_detach: bool) -> Result<(), Failure> {
    let mut first = Ok(());
    for end in ends {
        match output {
            Output::Json => say_json(end)?,
            Output::Text => say_text(end)?,
        }
        let code = end.code(was_asked_to_detach);
        if first.is_ok() && code != ExitCode::Success {
            first = Err(Failure::new(code, told(end)));
        }
    }
    first
}

fn say_json(end: &End) -> Result<(), Failure> {
    lines::print(&match end {
        End::Result(result) => Line::Result { is_error: result.is_error, result: &result.raw },
        End::Error(error, token) => Line::Error {
            kind: lines::kind(error),
            message: said(error),
            error: lines::error_object(error),
            handle: token.as_ref().map(Token::write),
        },
        End::Detached(token) => Line::Detached { handle: token.as_ref().map(Token::write) },
        End::NeedsInput { token, key, why } => {
            Line::NeedsInput { key, why, handle: token.as_ref().map(Token::write) }
        }
        End::Answered => return Ok(()),
    })
}

fn say_text(end: &End) -> Result<(), Failure> {
    match end {
        End::Result(result) => {
            let text = super::screen::result(result);
            // What reads a pipe or a file is given what the server said.
            let text = if display::is_terminal() { display::body(&text) } else { text };
            say(format_args!("{text}\n"))
        }
        End::Error(_, Some(token)) | End::Detached(Some(token)) => say(format_args!("{}\n", token.write())),
        End::NeedsInput { token: Some(token), .. } => say(format_args!("{}\n", token.write())),
        End::Error(_, None) | End::Detached(None) | End::NeedsInput { token: None, .. } | End::Answered => {
            Ok(())
        }
    }
}

/// What stderr says of an end that is none to be content with.
fn told(end: &End) -> String {
    match end {
        End::Result(_) => "the tool reports an error".to_owned(),
        End::Error(error, _) => said(error),
        End::Detached(Some(_)) => {
            "left; the task goes on, and `taskgate watch` with the printed handle comes back to it".to_owned()
        }
        End::Detached(None) => "left; the call had no task, so there is nothing to come back to".to_owned(),
        End::NeedsInput { key, why, .. } => {
            format!("the server asks something, under the key {:?}: {}", line(key), indented(why))
        }
        End::Answered => String::new(),
    }
}
