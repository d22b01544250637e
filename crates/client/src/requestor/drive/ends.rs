//! How a task of 2025-11-25 has ended, by its state and by what `tasks/result` says.

use serde_json::value::RawValue;
use taskgate_task::Payload;
use taskgate_wire::hosted::{HostedStatus, HostedTask};
use taskgate_wire::{ErrorCode, RawObject};

use super::super::error::{CallError, RpcFailure};
use super::super::handle::Handle;
use super::final_result;

/// The end of a task that `tasks/result` answered.
///
/// One that failed is a failure also where the result does not say so; there are servers that have none to give and send an
/// empty one.
pub(super) fn with_result(task: Option<&HostedTask>, result: Payload) -> Result<Payload, CallError> {
    let result = final_result(result)?;
    let Some(task) = task.filter(|task| task.status == HostedStatus::Failed) else { return Ok(result) };
    match RawObject::parse(result.as_str()) {
        Ok(object) if object.get("content").is_none() => Err(failed(task, None)),
        Ok(mut object) if object.get("isError").is_none_or(|said| said.get() != "true") => {
            object.set("isError", RawValue::TRUE.to_owned());
            Ok(object.to_payload().unwrap_or_else(|_| result.clone()))
        }
        _ => Ok(result),
    }
}

/// The end of a task that `tasks/result` answered with an error: the task's own, or that there is no result any more, or that
/// of a server that has no such method and tells everything in `tasks/get`.
pub(super) fn without_result(
    task: Option<&HostedTask>,
    error: Payload,
    handle: &Handle,
) -> Result<Payload, CallError> {
    let error = RpcFailure::read(error);
    let Some(task) = task else {
        return Err(CallError::Failed { status: HostedStatus::Failed, message: None, error: Some(error) });
    };
    if is_missing(&error) {
        if let Some(result) = &task.result {
            return with_result(Some(task), result.clone());
        }
        if task.status == HostedStatus::Failed && (task.error.is_some() || task.message.is_some()) {
            return Err(failed(task, task.error.clone().map(RpcFailure::read)));
        }
    }
    let is_unknown = error.code == i64::from(ErrorCode::InvalidParams.number());
    if task.status == HostedStatus::Completed && is_unknown {
        return Err(CallError::Expired { handle: Box::new(handle.clone()) });
    }
    Err(failed(task, Some(error)))
}

/// Whether a server says that it has no such method.
pub(super) fn is_missing(error: &RpcFailure) -> bool {
    error.code == i64::from(ErrorCode::MethodNotFound.number())
}

fn failed(task: &HostedTask, error: Option<RpcFailure>) -> CallError {
    CallError::Failed { status: task.status.clone(), message: task.message.clone(), error }
}
