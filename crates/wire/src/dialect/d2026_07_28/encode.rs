use taskgate_task::{InvalidPayload, Outcome, Payload, Status, Task};

use super::shapes::{AcknowledgedShape, Filter, InputRequests, SubscriptionMeta, TaskShape};
use crate::call::Listen;
use crate::dialect::{iso, millis, own_error};
use crate::jsonrpc::{Id, RpcError};
use crate::raw::RawObject;
use crate::reply::{Encoded, Reply};

/// From how many bytes on a result is copied once and no more. For shorter ones that would cost more than it saves.
const LONG: usize = 64 << 10;

/// Puts a reply into the extension's words.
pub fn encode(reply: Reply<'_>) -> Encoded {
    let shape = match reply {
        // A CreateTaskResult is flat and carries no outcome and no questions, even when it has them already.
        // What a host could tell its model at once has no field of its own here, so it is the status message.
        Reply::Created { task, immediate } => {
            let status_message = task.status_message.as_deref().or(immediate);
            TaskShape { result_type: Some("task"), status_message, ..bare(task) }
        }
        Reply::State(task) => match &task.outcome {
            Some(Outcome::Result { body, .. }) if body.as_str().len() > LONG => return long(task, body),
            _ => TaskShape { result_type: Some("complete"), ..detailed(task) },
        },
        Reply::Cancelled(_) | Reply::Acknowledged => {
            return Ok(literal(r#"{"resultType":"complete"}"#));
        }
        // tasks/result and tasks/list do not exist here; routing never asks for them.
        Reply::Outcome(_) => return Err(RpcError::method_not_found("tasks/result").to_payload()),
        Reply::Page { .. } => return Err(RpcError::method_not_found("tasks/list").to_payload()),
    };
    payload(&shape)
}

/// `notifications/tasks`: the params, a complete task as `tasks/get` would have answered at this moment.
pub fn notification(task: &Task, subscription: &Id) -> Encoded {
    payload(&TaskShape { meta: Some(SubscriptionMeta { subscription }), ..detailed(task) })
}

/// `notifications/subscriptions/acknowledged`: the params, with the part of the filter that is honoured.
pub fn acknowledged(subscription: &Id, granted: &Listen) -> Encoded {
    let mut others = RawObject::default();
    granted.others.iter().for_each(|(name, value)| others.push(name.clone(), value.as_raw().to_owned()));
    payload(&AcknowledgedShape {
        meta: SubscriptionMeta { subscription },
        notifications: Filter {
            tools_list_changed: granted.tools_list_changed,
            prompts_list_changed: granted.prompts_list_changed,
            resources_list_changed: granted.resources_list_changed,
            resource_subscriptions: &granted.resource_subscriptions,
            task_ids: granted.task_ids.as_deref(),
            others,
        },
    })
}

/// Gives a result of an earlier generation the `resultType` that 2026-07-28 demands; others stay as they are.
///
/// The member is put in front as text, so nothing else of the result is touched.
pub fn with_result_type(result: &Payload) -> Result<Payload, InvalidPayload> {
    match missing_result_type(result)? {
        "" => Ok(result.clone()),
        type_and_comma => {
            let members = result.as_str()[1..].trim_start();
            Payload::parse(format!("{{{type_and_comma}{members}"))
        }
    }
}

/// What is to be put behind the opening brace of a result; nothing if it has its type, or is no object.
fn missing_result_type(result: &Payload) -> Result<&'static str, InvalidPayload> {
    let text = result.as_str();
    if !text.starts_with('{') || text.starts_with(r#"{"resultType""#) {
        return Ok("");
    }
    if RawObject::parse(text)?.get("resultType").is_some() {
        return Ok("");
    }
    let is_empty = text[1..].trim_start().starts_with('}');
    Ok(if is_empty { r#""resultType":"complete""# } else { r#""resultType":"complete","# })
}

/// A task with a long result: the same words, with the result copied into its place.
fn long(task: &Task, result: &Payload) -> Encoded {
    let shape = TaskShape { result_type: Some("complete"), ..bare(task) };
    let failed = |error: InvalidPayload| RpcError::internal(error.to_string()).to_payload();
    let head = serde_json::to_string(&shape).map_err(|error| failed(error.into()))?;
    // A result that cannot be read any more is passed on as it is kept.
    let type_and_comma = missing_result_type(result).unwrap_or_default();
    let head = head.strip_suffix('}').unwrap_or(&head);
    let mut text = String::with_capacity(head.len() + result.as_str().len() + 64);
    text.push_str(head);
    text.push_str(r#","result":"#);
    match type_and_comma {
        "" => text.push_str(result.as_str()),
        type_and_comma => {
            text.push('{');
            text.push_str(type_and_comma);
            text.push_str(result.as_str()[1..].trim_start());
        }
    }
    text.push('}');
    Payload::parse(text).map_err(failed)
}

fn bare(task: &Task) -> TaskShape<'_> {
    TaskShape {
        result_type: None,
        task_id: task.id.to_string(),
        status: task.status.as_str(),
        status_message: task.status_message.as_deref(),
        created_at: iso(task.created_at),
        last_updated_at: iso(task.updated_at),
        ttl_ms: millis(task.lifetime.ttl),
        poll_interval_ms: millis(task.poll_interval),
        input_requests: None,
        result: None,
        error: None,
        meta: None,
    }
}

fn detailed(task: &Task) -> TaskShape<'_> {
    let mut shape = bare(task);
    match task.status {
        Status::Working | Status::Cancelled => {}
        Status::InputRequired => shape.input_requests = Some(InputRequests(&task.inputs)),
        Status::Completed | Status::Failed => match &task.outcome {
            // A result that cannot be read any more is passed on as it is kept.
            Some(Outcome::Result { body, .. }) => {
                shape.result = Some(with_result_type(body).unwrap_or_else(|_| body.clone()));
            }
            Some(Outcome::Error { body, .. }) => shape.error = Some(body.clone()),
            None => shape.error = Some(own_error(task)),
        },
    }
    shape
}

fn payload<T: serde::Serialize>(shape: &T) -> Encoded {
    Payload::from_value(shape).map_err(|error| RpcError::internal(error.to_string()).to_payload())
}

fn literal(text: &str) -> Payload {
    Payload::parse(text.to_owned()).unwrap_or_else(|_| Payload::null())
}
