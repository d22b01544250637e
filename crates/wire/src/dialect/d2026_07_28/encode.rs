use taskgate_task::{InvalidPayload, Outcome, Payload, Status, Task};

use super::shapes::{AcknowledgedShape, Filter, InputRequests, SubscriptionMeta, TaskShape};
use crate::call::Listen;
use crate::dialect::{iso, millis, own_error};
use crate::jsonrpc::{Id, RpcError};
use crate::raw::RawObject;
use crate::reply::{Encoded, Reply};

/// Puts a reply into the extension's words.
pub fn encode(reply: Reply<'_>) -> Encoded {
    let shape = match reply {
        // A CreateTaskResult is flat and carries no outcome and no questions, even when it has them already.
        // What a host could tell its model at once has no field of its own here, so it is the status message.
        Reply::Created { task, immediate } => {
            let status_message = task.status_message.as_deref().or(immediate);
            TaskShape { result_type: Some("task"), status_message, ..bare(task) }
        }
        Reply::State(task) => TaskShape { result_type: Some("complete"), ..detailed(task) },
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
    let text = result.as_str();
    if text.starts_with(r#"{"resultType""#) {
        return Ok(result.clone());
    }
    if !text.starts_with('{') || crate::raw::RawObject::parse(text)?.get("resultType").is_some() {
        return Ok(result.clone());
    }
    let members = text[1..].trim_start();
    let comma = if members.starts_with('}') { "" } else { "," };
    Payload::parse(format!(r#"{{"resultType":"complete"{comma}{members}"#))
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
