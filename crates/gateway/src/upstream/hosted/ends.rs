//! What the end of an upstream's task means as the end of our call.

use serde_json::value::RawValue;
use taskgate_engine::Ending;
use taskgate_task::{Outcome, Payload};
use taskgate_wire::hosted::{self, HostedStatus, HostedTask};
use taskgate_wire::{Dialect, RawObject, meta};

use super::super::catalog::is_method_not_found;
use super::super::ending::{ended, failed, failed_with, message_of, short};

/// The end of a task of 2025-11-25 with what `tasks/result` gave.
///
/// One that failed is an error to everybody, also where the result does not say so; there are servers that have none to give
/// and send an empty one.
pub fn with_result(task: &HostedTask, result: Payload) -> Ending {
    if task.status != HostedStatus::Failed {
        return finished(result);
    }
    let told = match RawObject::parse(result.as_str()) {
        Ok(object) if object.get("content").is_none() => None,
        Ok(mut object) if object.get("isError").is_none_or(|said| said.get() != "true") => {
            object.set("isError", RawValue::TRUE.to_owned());
            object.to_payload().ok()
        }
        _ => Some(result),
    };
    told.map_or_else(|| failed_with(&words_of(task)), finished)
}

/// The end of a task of 2025-11-25 that `tasks/result` answered with an error: the task's own, or one of a server that has no
/// such method and tells everything in `tasks/get`.
pub fn without_result(task: &HostedTask, error: Payload) -> Ending {
    if is_method_not_found(&error) {
        if let Some(result) = &task.result {
            return with_result(task, result.clone());
        }
        if let Some(own) = error_of(task) {
            return own;
        }
    }
    let summary = task.message.clone().map_or_else(|| message_of(&error), short);
    failed(error, summary)
}

/// The error that a failed task brings itself, if it is one.
pub fn error_of(task: &HostedTask) -> Option<Ending> {
    let error = task.error.clone().filter(|error| error.as_str().starts_with('{'))?;
    let summary = message_of(&error);
    Some(failed(error, summary))
}

/// Why a task failed, as its server tells people.
pub fn words_of(task: &HostedTask) -> String {
    task.message.clone().map_or_else(|| "The server's task failed.".to_owned(), short)
}

/// A result of the task, in place of the one that the call itself would have had.
pub fn finished(result: Payload) -> Ending {
    match ended(meta::without(meta::RELATED_TASK, result)) {
        // The call is not made again, whatever a task answers.
        Ending::Asked { .. } => failed_with("The server's task ended with a question"),
        Ending::Finished(Outcome::Result { body, .. })
            if hosted::created(Dialect::D2025_11_25, &body).is_some() =>
        {
            failed_with("The server's task ended with another task")
        }
        ending => ending,
    }
}
