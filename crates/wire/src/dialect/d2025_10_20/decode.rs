use std::time::Duration;

use crate::call::{Params, read_ttl, string};
use crate::dialect::d2025_11_25::cursor;
use crate::jsonrpc::RpcError;
use crate::method;
use crate::raw::read_object;

use super::shapes::AskedShape;

/// The longest id that a requestor may give a task, in bytes.
const LONGEST_ID: usize = 256;

/// A request about tasks.
#[derive(Debug, PartialEq, Eq)]
pub enum Call {
    /// `tasks/get`
    GetTask(TaskId),
    /// `tasks/result`
    TaskResult(TaskId),
    /// `tasks/list`, from after this locator
    ListTasks(Option<i64>),
    /// `tasks/delete`
    DeleteTask(TaskId),
}

/// The name of a task as a requestor has it: an id of its own, or one of ours.
pub type TaskId = String;

/// What `_meta` asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRequest {
    /// The id of the task, which is new.
    pub id: TaskId,
    /// How long its outcome is to be kept after its end; `None` leaves it to us.
    pub keep_alive: Option<Duration>,
}

/// Reads a request about tasks; `None` if it is none of this generation: it is one if it says so, as such requests must
/// by their metadata where they are about one task, or if the session has spoken like this before (`speaks`).
///
/// # Errors
///
/// -32602 for what such a request must not hold.
pub fn decode(name: &str, params: &Params<'_>, speaks: bool) -> Result<Option<Call>, RpcError> {
    if !name.starts_with("tasks/") || !speaks && params.meta().first_related_task.is_none() {
        return Ok(None);
    }
    let id = || params.task_id().map(|id| id.into_owned());
    Ok(match name {
        method::TASKS_GET => Some(Call::GetTask(id()?)),
        method::TASKS_RESULT => Some(Call::TaskResult(id()?)),
        method::TASKS_DELETE => Some(Call::DeleteTask(id()?)),
        method::TASKS_LIST => {
            Some(Call::ListTasks(params.cursor()?.map(|text| cursor::read(&text)).transpose()?))
        }
        _ => None,
    })
}

/// What a request's metadata asks for, if it asks for a task. A request that cannot be one ignores it.
///
/// # Errors
///
/// -32602 if what it asks for makes no sense.
pub fn asked(name: &str, params: &Params<'_>) -> Result<Option<TaskRequest>, RpcError> {
    if is_augmentable(name) { wanted(params) } else { Ok(None) }
}

/// The same of a request that can be a task, whatever its method.
///
/// # Errors
///
/// -32602 if what it asks for makes no sense.
pub fn wanted(params: &Params<'_>) -> Result<Option<TaskRequest>, RpcError> {
    let Some(raw) = params.meta().first_task else { return Ok(None) };
    let wrong =
        |what: String| RpcError::invalid_params(format!("Invalid params: _meta[\"{}\"]{what}", super::TASK));
    let shape: AskedShape = read_object(raw).map_err(|_| wrong(" must be an object".to_owned()))?;
    let id = string("taskId", shape.task_id).map_err(|_| wrong(".taskId must be a string".to_owned()))?;
    if id.is_empty() || id.len() > LONGEST_ID {
        return Err(wrong(format!(".taskId must have 1 to {LONGEST_ID} bytes")));
    }
    let keep_alive = shape.keep_alive.map_or(Ok(None), read_ttl);
    let keep_alive = keep_alive.map_err(|_| {
        wrong(".keepAlive must be a whole number of milliseconds, 0 or more, or null".to_owned())
    })?;
    Ok(Some(TaskRequest { id: id.into_owned(), keep_alive }))
}

/// Whether requests with this method can be tasks. "Receivers MAY choose which request types support tasks."
pub fn is_augmentable(name: &str) -> bool {
    matches!(name, method::TOOLS_CALL | method::RESOURCES_READ | method::PROMPTS_GET | method::COMPLETE)
}
