use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use taskgate_task::Payload;

use super::event::TaskStatus;
use super::handle::Handle;
use crate::session::OpenError;

/// Why there is no connection to a server.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ConnectError {
    /// It could not be started, or this machine lacks something to reach it.
    #[error("{0}")]
    Start(String),
    /// It could not be spoken to.
    #[error("{0}")]
    Open(#[from] OpenError),
    /// It took longer than the deadline.
    #[error("there was no connection within {0:?}")]
    Deadline(Duration),
}

/// An error object of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RpcFailure {
    /// Its code; 0 if it has none.
    pub code: i64,
    /// Its message.
    pub message: String,
    /// The whole of it.
    pub raw: Payload,
}

impl RpcFailure {
    /// Reads an error object.
    pub(super) fn read(raw: Payload) -> RpcFailure {
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Shape {
            code: i64,
            message: String,
        }
        let Shape { code, message } = serde_json::from_str(raw.as_str()).unwrap_or_default();
        RpcFailure { code, message, raw }
    }
}

impl fmt::Display for RpcFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

/// Why a call has no result.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CallError {
    /// The server has no tool of that name.
    #[error("the server has no tool {tool:?}: {error}")]
    ToolNotFound {
        /// The name.
        tool: String,
        /// What the server said.
        error: RpcFailure,
    },
    /// The server answered with an error.
    #[error("the server answered with an error: {0}")]
    Rpc(RpcFailure),
    /// The task has failed and has no result.
    #[error("the task has failed: {}", said(.message.as_deref(), .error.as_ref()))]
    Failed {
        /// How it stands.
        status: TaskStatus,
        /// The server's line for people.
        message: Option<String>,
        /// The task's error.
        error: Option<RpcFailure>,
    },
    /// It was cancelled.
    #[error("the call was cancelled{}", .message.as_deref().map(|why| format!(": {why}")).unwrap_or_default())]
    Cancelled {
        /// The server's line for people.
        message: Option<String>,
    },
    /// The server does not know the task, or not any more.
    #[error("the server does not know the task {:?} of {:?}; it may have expired", .handle.task, .handle.tool)]
    Expired {
        /// The way that leads nowhere.
        handle: Box<Handle>,
    },
    /// It took longer than the deadline. A task goes on and can be resumed.
    #[error("the call took longer than {after:?}{}", goes_on(.handle.as_deref()))]
    Deadline {
        /// The task, if there is one.
        handle: Option<Box<Handle>>,
        /// The deadline.
        after: Duration,
    },
    /// The server cannot be reached, or not any more. A task may go on and can be resumed.
    #[error("the server cannot be reached: {why}{}", goes_on(.handle.as_deref()))]
    Unreachable {
        /// The task, if there is one.
        handle: Option<Box<Handle>>,
        /// What happened.
        why: String,
    },
    /// The call was sent and its answer is lost: the tool may have done its work or not. It is not called again.
    #[error("the tool may have run or not: {why}")]
    Uncertain {
        /// What happened.
        why: String,
    },
    /// The server's answer is not one that the protocol knows.
    #[error("the server's answer makes no sense: {0}")]
    InvalidResponse(String),
    /// The server, or what stands before it, did not take the request. Nothing was done.
    #[error("the request was not taken: {0}")]
    Refused(String),
    /// The server asked something that is not answered here.
    #[error("the server asked for input it did not get: {0}")]
    InputRefused(String),
    /// The server has no such thing.
    #[error("the server does not offer this: {0}")]
    Unsupported(String),
    /// The arguments, or an answer, cannot be sent as they are. Nothing was sent.
    #[error("this cannot be sent: {0}")]
    Params(String),
    /// The handle is one of another server.
    #[error("the handle is one of {theirs}, and this is {ours}")]
    WrongEndpoint {
        /// The handle's.
        theirs: String,
        /// This one's.
        ours: String,
    },
    /// The ledger could not be written, so the call was not made or is not followed.
    #[error("the ledger cannot be used: {0}")]
    Ledger(String),
    /// Nobody follows the call any more.
    #[error("the call is not followed any more")]
    Detached,
}

impl CallError {
    /// The task that may still go on.
    pub fn handle(&self) -> Option<&Handle> {
        match self {
            CallError::Deadline { handle, .. } | CallError::Unreachable { handle, .. } => handle.as_deref(),
            _ => None,
        }
    }
}

fn said(message: Option<&str>, error: Option<&RpcFailure>) -> String {
    match (error, message) {
        (Some(error), _) => error.to_string(),
        (None, Some(message)) => message.to_owned(),
        (None, None) => "the server does not say why".to_owned(),
    }
}

fn goes_on(handle: Option<&Handle>) -> &'static str {
    if handle.is_some() { "; its task may go on and can be resumed" } else { "" }
}
