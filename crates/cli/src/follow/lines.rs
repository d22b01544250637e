//! What programs read: an object of JSON a line.

use serde::Serialize;
use taskgate_client::{CallError, TaskState, TaskStatus};
use taskgate_gateway::Payload;

use super::broken;
use crate::display::json_line;
use crate::exit_code::Failure;
use crate::say::say;

/// One line. The last one of a call is `result`, `error`, `detached` or `needs_input`.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Line<'a> {
    /// The call is a task.
    Accepted {
        /// The way back.
        handle: String,
        /// The server's id for it.
        task_id: &'a str,
        /// The tool.
        tool: &'a str,
    },
    /// How the task stands.
    Status(State<'a>),
    /// How far the work is.
    Progress {
        /// The params of its notification: its numbers as the server wrote them.
        params: &'a Payload,
    },
    /// The server logs something.
    Log {
        /// The params of its notification.
        params: &'a Payload,
    },
    /// The server asks something.
    Asked {
        /// Under this key.
        key: &'a str,
        /// The method.
        method: &'a str,
        /// Its params.
        #[serde(skip_serializing_if = "Option::is_none")]
        params: Option<&'a Payload>,
    },
    /// The server has the answer.
    Answered {
        /// To the question with this key.
        key: &'a str,
    },
    /// Something is tried again.
    Retrying {
        /// What went wrong.
        why: &'a str,
        /// How often.
        attempt: u32,
        /// When it is tried again.
        wait_ms: u64,
    },
    /// It is not followed any more.
    Detached {
        /// The way back, if there is one.
        handle: Option<String>,
    },
    /// Somebody has to answer.
    NeedsInput {
        /// The question with this key.
        key: &'a str,
        /// Why it is not answered here.
        why: &'a str,
        /// The way back, if there is one.
        handle: Option<String>,
    },
    /// The result.
    Result {
        /// Whether the tool says that it failed.
        is_error: bool,
        /// All of it.
        result: &'a Payload,
    },
    /// There is no result.
    Error {
        /// In a word.
        kind: &'static str,
        /// For people.
        message: String,
        /// What the server said.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<&'a Payload>,
        /// The way back, if its task may go on.
        #[serde(skip_serializing_if = "Option::is_none")]
        handle: Option<String>,
    },
}

/// How a task stands.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct State<'a> {
    task_id: &'a str,
    status: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    status_message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_at: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_updated_at: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    poll_interval_ms: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    questions: Vec<Asked<'a>>,
}

#[derive(Debug, Serialize)]
struct Asked<'a> {
    key: &'a str,
    request: &'a Payload,
}

impl<'a> State<'a> {
    /// For programs.
    pub fn of(state: &'a TaskState) -> State<'a> {
        let millis = |duration: std::time::Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        State {
            task_id: &state.task,
            status: status(&state.status),
            status_message: state.message.as_deref(),
            created_at: state.created.as_deref(),
            last_updated_at: state.updated.as_deref(),
            ttl_ms: state.ttl.map(millis),
            poll_interval_ms: state.poll_interval.map(millis),
            questions: state.inputs.iter().map(|(key, request)| Asked { key, request }).collect(),
        }
    }
}

/// Prints it.
pub fn print(line: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(line).map_err(broken)?;
    say(format_args!("{}\n", json_line(&text)))
}

/// The word for a status.
pub fn status(status: &TaskStatus) -> &str {
    match status {
        TaskStatus::Working => "working",
        TaskStatus::InputRequired => "input_required",
        TaskStatus::Completed => "completed",
        TaskStatus::Failed => "failed",
        TaskStatus::Cancelled => "cancelled",
        TaskStatus::Unknown(word) => word,
    }
}

/// The word for an error.
pub fn kind(error: &CallError) -> &'static str {
    match error {
        CallError::ToolNotFound { .. } => "tool_not_found",
        CallError::Rpc(_) => "rpc",
        CallError::Failed { .. } => "failed",
        CallError::Cancelled { .. } => "cancelled",
        CallError::Expired { .. } => "expired",
        CallError::Deadline { .. } => "deadline",
        CallError::Unreachable { .. } => "unreachable",
        CallError::Uncertain { .. } => "uncertain",
        CallError::InvalidResponse(_) => "invalid_response",
        CallError::Refused(_) => "refused",
        CallError::InputRefused(_) => "input_refused",
        CallError::Unsupported(_) => "unsupported",
        CallError::Params(_) => "params",
        CallError::WrongEndpoint { .. } => "wrong_endpoint",
        CallError::Ledger(_) => "ledger",
        CallError::Detached => "detached",
    }
}

/// What the server said, where that is why.
pub fn error_object(error: &CallError) -> Option<&Payload> {
    match error {
        CallError::ToolNotFound { error, .. } | CallError::Rpc(error) => Some(&error.raw),
        CallError::Failed { error, .. } => error.as_ref().map(|error| &error.raw),
        _ => None,
    }
}
