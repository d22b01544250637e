use taskgate_task::TaskId;

use crate::call::{CallTool, Params};
use crate::jsonrpc::RpcError;
use crate::method;

/// A request in a session up to 2025-11-25, as far as it is understood here.
#[derive(Debug)]
pub enum Call {
    /// `initialize`
    Initialize,
    /// `ping`
    Ping,
    /// `tools/list`
    ListTools,
    /// `tools/call`
    CallTool(CallTool),
    /// `tasks/get`
    GetTask(TaskId),
    /// `tasks/result`
    TaskResult(TaskId),
    /// `tasks/list`, from after this locator
    ListTasks(Option<i64>),
    /// `tasks/cancel`
    CancelTask(TaskId),
    /// Anything else: passed on unchanged.
    Relay,
}

/// Reads a request. `tasks` says whether the session's version has tasks at all.
pub fn decode(method: &str, params: &Params<'_>, tasks: bool) -> Result<Call, RpcError> {
    Ok(match method {
        method::INITIALIZE => Call::Initialize,
        method::PING => Call::Ping,
        method::TOOLS_LIST => Call::ListTools,
        method::TOOLS_CALL => Call::CallTool(CallTool {
            name: params.tool()?,
            task: if tasks { params.task_request()? } else { None },
            answers: None,
        }),
        method::TASKS_GET if tasks => Call::GetTask(params.task()?),
        method::TASKS_RESULT if tasks => Call::TaskResult(params.task()?),
        method::TASKS_LIST if tasks => {
            Call::ListTasks(params.cursor()?.map(|text| cursor::read(&text)).transpose()?)
        }
        method::TASKS_CANCEL if tasks => Call::CancelTask(params.task()?),
        // `tasks/` belongs to the tasks feature; an upstream never sees it from here.
        _ if method.starts_with("tasks/") || method == method::DISCOVER || method == method::LISTEN => {
            return Err(RpcError::method_not_found(method));
        }
        // A notification with an id is no request. Some belong to one hop, and none is for a server that others use, too.
        _ if method.starts_with("notifications/") => return Err(RpcError::method_not_found(method)),
        _ => Call::Relay,
    })
}

/// The cursor of `tasks/list`: opaque to the caller, a place in the owner's list to us.
pub mod cursor {
    use super::RpcError;

    /// Writes a cursor.
    pub fn write(locator: i64) -> String {
        format!("after-{locator:016x}")
    }

    /// Reads a cursor; a foreign one is -32602.
    pub fn read(text: &str) -> Result<i64, RpcError> {
        text.strip_prefix("after-")
            .filter(|digits| digits.len() == 16)
            .and_then(|digits| i64::from_str_radix(digits, 16).ok())
            .filter(|locator| *locator >= 0)
            .ok_or_else(|| RpcError::invalid_params("Unknown cursor"))
    }
}
