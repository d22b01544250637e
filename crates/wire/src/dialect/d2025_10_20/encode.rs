use std::borrow::Cow;
use std::time::Duration;

use taskgate_task::{InvalidPayload, Outcome, Payload, Status, Task};

use super::RELATED_TASK;
use super::shapes::{AboutShape, MetaShape, PageShape, RelatedShape, TaskShape};
use crate::dialect::d2025_11_25::{cursor, without_result_type};
use crate::dialect::millis;
use crate::jsonrpc::RpcError;
use crate::meta;
use crate::own_task::OwnTask;
use crate::reply::Encoded;

/// What a task is called: by the id its requestor has given it, else by ours.
pub fn name_of(task: &Task) -> Cow<'_, str> {
    match &task.given_id {
        Some(given) => (&*given.id).into(),
        None => task.id.to_string().into(),
    }
}

/// Where a task stands.
pub fn state(task: &Task) -> Encoded {
    let name = name_of(task);
    payload(&TaskShape { meta: Some(about(&name).meta), ..shape(task, &name) })
}

/// What the request itself was, or will be, answered, once the task is completed; an error before, and for any other end.
pub fn outcome(task: &Task) -> Encoded {
    match &task.outcome {
        Some(Outcome::Result { body, .. }) if task.status == Status::Completed => {
            related(body, &name_of(task)).map_err(|error| RpcError::internal(error.to_string()).to_payload())
        }
        _ => {
            let status = status(task);
            let message = format!("Cannot retrieve the result: the task is {status}, not completed");
            Err(RpcError::invalid_params(message).to_payload())
        }
    }
}

/// A page of `tasks/list`.
pub fn page(tasks: &[Task], next: Option<i64>) -> Encoded {
    let names: Vec<_> = tasks.iter().map(name_of).collect();
    payload(&PageShape {
        tasks: tasks.iter().zip(&names).map(|(task, name)| shape(task, name)).collect(),
        next_cursor: next.map(cursor::write),
    })
}

/// Where a task stands that a client hosts. `error` is what is told of one that failed.
pub fn own(task: &OwnTask, keep_alive: Duration, error: Option<&str>) -> Encoded {
    payload(&TaskShape { meta: Some(about(&task.id).meta), ..own_shape(task, keep_alive, error) })
}

/// All of these tasks.
pub fn own_list<'a>(tasks: impl Iterator<Item = (&'a OwnTask, Duration)>) -> Encoded {
    let tasks = tasks.map(|(task, keep_alive)| own_shape(task, keep_alive, task.message.as_deref()));
    payload(&PageShape { tasks: tasks.collect(), next_cursor: None })
}

fn own_shape<'a>(task: &'a OwnTask, keep_alive: Duration, error: Option<&'a str>) -> TaskShape<'a> {
    TaskShape {
        task_id: &task.id,
        status: task.status.as_str(),
        keep_alive: millis(keep_alive),
        poll_frequency: millis(task.poll_interval),
        error: error.filter(|_| task.status == Status::Failed),
        meta: None,
    }
}

/// The answer to `tasks/delete`.
pub fn deleted(name: &str) -> Encoded {
    payload(&about(name))
}

/// `notifications/tasks/created`: the params.
pub fn created(name: &str) -> Encoded {
    payload(&about(name))
}

/// A message's params or result with the task that it belongs to.
pub fn related(message: &Payload, name: &str) -> Result<Payload, InvalidPayload> {
    let message = without_result_type(message)?;
    meta::edit(Some(&message), |meta| {
        meta.set(RELATED_TASK, serde_json::value::to_raw_value(&RelatedShape { task_id: name })?);
        Ok(())
    })
}

fn about(name: &str) -> AboutShape<'_> {
    AboutShape { meta: MetaShape { related: RelatedShape { task_id: name } } }
}

fn shape<'a>(task: &'a Task, name: &'a str) -> TaskShape<'a> {
    TaskShape {
        task_id: name,
        status: status(task),
        keep_alive: millis(task.lifetime.retention),
        poll_frequency: millis(task.poll_interval),
        error: match (task.status, &task.outcome) {
            (Status::Failed, Some(Outcome::Error { summary, .. })) => Some(summary),
            (Status::Failed, _) => {
                Some(task.status_message.as_deref().unwrap_or("The task did not complete."))
            }
            (Status::Working | Status::InputRequired | Status::Completed | Status::Cancelled, _) => None,
        },
        meta: None,
    }
}

/// "Tasks MUST begin in the `submitted` status", and never come back to it: that is what a task is about whose work nothing has
/// been heard so far. A tool's own error is a result, and leaves the task completed. `unknown` is never said.
fn status(task: &Task) -> &'static str {
    match task.status {
        Status::Working if task.version == 1 => "submitted",
        status => status.as_str(),
    }
}

fn payload<T: serde::Serialize>(shape: &T) -> Encoded {
    Payload::from_value(shape).map_err(|error| RpcError::internal(error.to_string()).to_payload())
}
