use taskgate_task::{InvalidPayload, Outcome, Payload, Status, Task};

use super::shapes::{CreatedShape, MetaShape, PageShape, RelatedShape, TaskShape};
use crate::dialect::{iso, millis, own_error};
use crate::jsonrpc::RpcError;
use crate::meta::{self, RELATED_TASK};
use crate::raw::RawObject;
use crate::reply::{Encoded, Reply};

/// Puts a reply into the words of 2025-11-25.
pub fn encode(reply: Reply<'_>) -> Encoded {
    match reply {
        Reply::Created { task, immediate } => payload(&CreatedShape {
            task: shape(task),
            meta: MetaShape { related: RelatedShape { task_id: task.id.to_string() }, immediate },
        }),
        Reply::State(task) | Reply::Cancelled(task) => payload(&shape(task)),
        Reply::Outcome(task) => outcome(task),
        Reply::Page { tasks, next } => payload(&PageShape {
            tasks: tasks.iter().map(shape).collect(),
            next_cursor: next.map(super::cursor::write),
        }),
        Reply::Acknowledged => Ok(Payload::parse("{}".to_owned()).unwrap_or_else(|_| Payload::null())),
    }
}

/// `notifications/tasks/status`: the params. It carries no related-task metadata ("SHOULD NOT").
pub fn notification(task: &Task) -> Encoded {
    payload(&shape(task))
}

/// Takes away the `resultType` of 2026-07-28, which older readers may refuse.
pub fn without_result_type(result: &Payload) -> Result<Payload, InvalidPayload> {
    let mut object = RawObject::parse(result.as_str())?;
    if object.get("resultType").map(|raw| raw.get()) != Some("\"complete\"") {
        return Ok(result.clone());
    }
    object.remove("resultType");
    object.to_payload()
}

/// What the call itself would have been answered, plus the related task.
fn outcome(task: &Task) -> Encoded {
    match &task.outcome {
        Some(Outcome::Result { body, .. }) => {
            related(body, task).map_err(|error| RpcError::internal(error.to_string()).to_payload())
        }
        Some(Outcome::Error { body, .. }) => Err(body.clone()),
        None => Err(own_error(task)),
    }
}

fn related(body: &Payload, task: &Task) -> Result<Payload, InvalidPayload> {
    let body = without_result_type(body)?;
    meta::edit(Some(&body), |meta| {
        let related = RelatedShape { task_id: task.id.to_string() };
        meta.set(RELATED_TASK, serde_json::value::to_raw_value(&related)?);
        Ok(())
    })
}

fn shape(task: &Task) -> TaskShape<'_> {
    TaskShape {
        task_id: task.id.to_string(),
        status: match (task.status, &task.outcome) {
            // "For tool calls specifically, this includes cases where the tool call result has isError set to true."
            (Status::Completed, Some(Outcome::Result { is_error: true, .. })) => Status::Failed.as_str(),
            (status, _) => status.as_str(),
        },
        status_message: task.status_message.as_deref(),
        created_at: iso(task.created_at),
        last_updated_at: iso(task.updated_at),
        ttl: millis(task.lifetime.ttl),
        poll_interval: millis(task.poll_interval),
    }
}

fn payload<T: serde::Serialize>(shape: &T) -> Encoded {
    Payload::from_value(shape).map_err(|error| RpcError::internal(error.to_string()).to_payload())
}
