use serde_json::json;
use taskgate_task::{Payload, TaskId};

use crate::call::{CallTool, Listen, Params};
use crate::jsonrpc::{ErrorCode, RpcError};
use crate::meta::{Capabilities, TASKS_EXTENSION};
use crate::method;

/// A request of 2026-07-28, as far as it is understood here.
#[derive(Debug)]
pub enum Call {
    /// `server/discover`
    Discover,
    /// `tools/list`
    ListTools,
    /// `tools/call`
    CallTool(CallTool),
    /// `tasks/get`
    GetTask(TaskId),
    /// `tasks/update`
    UpdateTask(TaskId, Vec<(String, Payload)>),
    /// `tasks/cancel`
    CancelTask(TaskId),
    /// `subscriptions/listen`
    Listen(Listen),
    /// Anything else this version has: passed on unchanged.
    Relay,
}

/// Reads a request. `declared` are the capabilities of this very request.
///
/// A caller that did not declare the extension gets -32021 for every `tasks/*` verb, before the id is
/// looked at (SEP-2663, Protocol Errors).
pub fn decode(method: &str, params: &Params<'_>, declared: Capabilities) -> Result<Call, RpcError> {
    let gate = || if declared.tasks_extension { Ok(()) } else { Err(missing_tasks_extension()) };
    Ok(match method {
        method::DISCOVER => Call::Discover,
        method::TOOLS_LIST => Call::ListTools,
        method::TOOLS_CALL => {
            Call::CallTool(CallTool { name: params.tool()?, task: None, answers: params.input_responses()? })
        }
        method::TASKS_GET => {
            gate()?;
            Call::GetTask(params.task()?)
        }
        method::TASKS_UPDATE => {
            gate()?;
            let id = params.task()?;
            let answers = params
                .input_responses()?
                .ok_or_else(|| RpcError::invalid_params("Invalid params: inputResponses is missing"))?;
            Call::UpdateTask(id, answers)
        }
        method::TASKS_CANCEL => {
            gate()?;
            Call::CancelTask(params.task()?)
        }
        method::LISTEN => {
            let listen = params.listen()?;
            if listen.task_ids.is_some() {
                gate()?;
            }
            Call::Listen(listen)
        }
        // `tasks/` belongs to the tasks feature; an upstream never sees it from here.
        _ if method.starts_with("tasks/") => return Err(RpcError::method_not_found(method)),
        // A notification with an id is no request. Some belong to one hop, and none is for a server that others use, too.
        _ if method.starts_with("notifications/") => return Err(RpcError::method_not_found(method)),
        // Verbs of other generations: gone here (2026-07-28 changelog).
        method::INITIALIZE | method::PING | method::SET_LEVEL | method::SUBSCRIBE | method::UNSUBSCRIBE => {
            return Err(RpcError::method_not_found(method));
        }
        _ => Call::Relay,
    })
}

/// -32021 that names the tasks extension.
pub fn missing_tasks_extension() -> RpcError {
    RpcError::new(
        ErrorCode::MissingRequiredClientCapability,
        "Missing required client capability: the request must declare the tasks extension",
    )
    .with_data(&json!({ "requiredCapabilities": { "extensions": { TASKS_EXTENSION: {} } } }))
}
