//! The requestor's side: what asks for a task, and how what is said of it is read.

use std::borrow::Cow;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use taskgate_task::{InvalidPayload, Payload};

use super::{RELATED_TASK, TASK};
use crate::dialect::{Dialect, millis};
use crate::hosted::{self, HostedStatus, HostedTask};
use crate::{RawObject, meta};

/// A request's params with the metadata that makes it this task; the rest stays as it is.
///
/// # Errors
///
/// If the params are no object.
pub fn as_task(
    params: &Payload,
    task: &str,
    keep_alive: Option<Duration>,
) -> Result<Payload, InvalidPayload> {
    let asked = match keep_alive {
        Some(keep) => serde_json::json!({ "taskId": task, "keepAlive": millis(keep) }),
        None => serde_json::json!({ "taskId": task }),
    };
    meta::edit(Some(params), |meta| {
        meta.set(TASK, to_raw_value(&asked)?);
        Ok(())
    })
}

/// The params of a request about a task.
pub fn about(task: &str) -> serde_json::Value {
    serde_json::json!({ "taskId": task, "_meta": { RELATED_TASK: { "taskId": task } } })
}

/// The task that a message's metadata says it belongs to.
pub fn related_to(params: &Payload) -> Option<String> {
    named(params, RELATED_TASK)
}

/// The task that a request's metadata makes of it.
pub fn made_by(params: &RawValue) -> Option<String> {
    // Hardly any request has it, and looking at the text is cheaper than reading it.
    params.get().contains(TASK).then(|| named(&Payload::from_raw(params), TASK))?
}

fn named(params: &Payload, key: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Named<'a> {
        #[serde(borrow, rename = "taskId")]
        task_id: Cow<'a, str>,
    }
    let params = RawObject::parse(params.as_str()).ok()?;
    let meta = RawObject::parse(params.get("_meta")?.get()).ok()?;
    serde_json::from_str(meta.get(key)?.get()).ok().map(|Named { task_id }| task_id.into_owned())
}

/// How a task stands; `None` if the answer is no object. What was only submitted is worked at as far as a requestor is concerned.
pub fn hosted(answer: &Payload) -> Option<HostedTask> {
    // What the generations share is read in one place.
    let mut task = hosted::state(Dialect::D2025_11_25, answer)?;
    let said = RawObject::parse(answer.as_str()).ok()?;
    if matches!(&task.status, HostedStatus::Unknown(word) if word == "\"submitted\"") {
        task.status = HostedStatus::Working;
    }
    let frequency = said.get("pollFrequency").and_then(|raw| serde_json::from_str::<f64>(raw.get()).ok());
    task.poll_interval = frequency.and_then(|every| Duration::try_from_secs_f64(every / 1000.0).ok());
    task.message = said.get("error").and_then(|raw| serde_json::from_str(raw.get()).ok());
    // `keepAlive` counts from the end, and is no time to live.
    task.ttl = None;
    Some(task)
}

/// Whether a task that stands like this has ended in a way that nobody knows.
pub fn is_lost(status: &HostedStatus) -> bool {
    matches!(status, HostedStatus::Unknown(word) if word == "\"unknown\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Payload {
        Payload::parse(text.to_owned()).expect("JSON")
    }

    #[test]
    fn a_request_becomes_the_task_and_stays_what_it_is() {
        let made = as_task(&json(r#"{"n":1.0,"_meta":{"x/y":1e2}}"#), "a", Some(Duration::from_secs(2)));
        let made = made.expect("an object");
        assert!(made.as_str().starts_with(r#"{"n":1.0,"_meta":{"x/y":1e2,"#), "{}", made.as_str());
        let value: serde_json::Value = serde_json::from_str(made.as_str()).expect("JSON");
        assert_eq!(value["_meta"][TASK], serde_json::json!({ "taskId": "a", "keepAlive": 2000 }));
        assert_eq!(made_by(made.as_raw()).as_deref(), Some("a"));
        assert_eq!(related_to(&made), None);
        assert_eq!(related_to(&Payload::from_value(&about("b")).expect("JSON")).as_deref(), Some("b"));
    }

    #[test]
    fn states_are_read() {
        let task =
            hosted(&json(r#"{"status":"submitted","pollFrequency":500,"keepAlive":null}"#)).expect("one");
        assert_eq!(
            (task.status, task.poll_interval),
            (HostedStatus::Working, Some(Duration::from_millis(500)))
        );
        let task = hosted(&json(r#"{"status":"failed","error":"no"}"#)).expect("one");
        assert_eq!((task.status, task.message.as_deref()), (HostedStatus::Failed, Some("no")));
        assert!(is_lost(&hosted(&json(r#"{"status":"unknown"}"#)).expect("one").status));
        assert!(!is_lost(&hosted(&json(r#"{"status":"odd"}"#)).expect("one").status));
    }
}
