//! Tasks that a server hosts, as whoever asked for them reads them: every member on its own, so that one of a wrong type
//! does not take the rest, and the work behind it, away.

use std::borrow::Cow;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use taskgate_task::{InvalidPayload, Payload};

use crate::dialect::Dialect;
use crate::jsonrpc::ErrorCode;
use crate::meta::{IDEMPOTENCY_KEY, IMMEDIATE_RESPONSE, KEY_NOT_FOUND, TASKS_EXTENSION};
use crate::method;
use crate::raw::{RawObject, read_object};
use crate::translate::code_of;

/// Longer ids are no ids but mistakes: they are kept and sent with every request.
const LONGEST_ID: usize = 1024;
/// The longest text for a model that is passed on, in bytes.
const LONGEST_IMMEDIATE: usize = 4096;

/// A task as an answer of its server tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostedTask {
    /// Where it stands.
    pub status: HostedStatus,
    /// A line for people.
    pub message: Option<String>,
    /// When it was made, as it was written.
    pub created: Option<Payload>,
    /// How long its server keeps it, from its making; `None` if it does not say, or without limit.
    pub ttl: Option<Duration>,
    /// When it last changed, as it was written.
    pub updated: Option<Payload>,
    /// How often the server wants to be asked.
    pub poll_interval: Option<Duration>,
    /// `inputRequests` (2026-07-28).
    pub input_requests: Option<Payload>,
    /// `result` of one that is completed (2026-07-28).
    pub result: Option<Payload>,
    /// `error` of one that failed (2026-07-28).
    pub error: Option<Payload>,
}

/// Where such a task stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostedStatus {
    /// It runs.
    Working,
    /// It waits for answers.
    InputRequired,
    /// It has a result.
    Completed,
    /// It has an error; in 2025-11-25 that may be a result that says so.
    Failed,
    /// It was cancelled.
    Cancelled,
    /// None of the words there are; nothing at all, if there is none.
    Unknown(String),
}

/// A handle that cannot be used: there is no way to ask for its task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("The server answered with a task whose id cannot be used")]
pub struct NoTaskId;

/// Whether a server with these capabilities hosts tasks for tool calls.
pub fn hosts(dialect: Dialect, capabilities: &RawValue) -> bool {
    match dialect {
        Dialect::D2025_11_25 => has(capabilities, &["tasks", "requests", "tools", "call"]),
        Dialect::D2026_07_28 => has(capabilities, &["extensions", TASKS_EXTENSION]),
    }
}

/// Whether a client with these capabilities hosts tasks for requests with this method (2025-11-25).
pub fn client_hosts(capabilities: &RawValue, name: &str) -> bool {
    match name {
        method::SAMPLE => has(capabilities, &["tasks", "requests", "sampling", "createMessage"]),
        method::ELICIT => has(capabilities, &["tasks", "requests", "elicitation", "create"]),
        _ => false,
    }
}

/// Whether a client with these capabilities can be told to cancel a task that it hosts (2025-11-25).
pub fn client_cancels(capabilities: &RawValue) -> bool {
    has(capabilities, &["tasks", "cancel"])
}

/// The params of a request of ours, which asks the client to make a task of it that is kept for `ttl` (2025-11-25).
pub fn as_task(params: Option<&Payload>, ttl: Duration) -> Result<Payload, InvalidPayload> {
    let mut object = params.map(|params| RawObject::parse(params.as_str())).transpose()?.unwrap_or_default();
    object.set("task", to_raw_value(&serde_json::json!({ "ttl": crate::dialect::millis(ttl) }))?);
    object.to_payload()
}

/// Whether there is something at this path.
fn has(capabilities: &RawValue, path: &[&str]) -> bool {
    let mut at = capabilities.to_owned();
    for name in path {
        let next = RawObject::parse(at.get()).ok().and_then(|object| object.get(name).map(ToOwned::to_owned));
        match next {
            // What is switched off in so many words is not there.
            Some(next) if !matches!(next.get(), "null" | "false") => at = next,
            _ => return false,
        }
    }
    true
}

/// Whether a server with these capabilities says that a call sent again under the same idempotency key finds what came of the
/// first. The key is taskgate's, and so is the word for it.
pub fn honours_keys(capabilities: &RawValue) -> bool {
    has(capabilities, &["experimental", IDEMPOTENCY_KEY])
}

/// Whether an error says that no call with the idempotency key is known: it was never made, or what came of it is gone.
pub fn is_unknown_key(error: &Payload) -> bool {
    let reason = || {
        let error = RawObject::parse(error.as_str()).ok()?;
        text(RawObject::parse(error.get("data")?.get()).ok()?.get("reason")?)
    };
    reason().is_some_and(|reason| reason == KEY_NOT_FOUND)
}

/// Whether an error says that the call needs a caller who declares tasks (-32021): then nothing has run.
pub fn needs_tasks(error: &Payload) -> bool {
    if code_of(error) != Some(ErrorCode::MissingRequiredClientCapability.number().into()) {
        return false;
    }
    let required = || {
        let error = RawObject::parse(error.as_str()).ok()?;
        let data = RawObject::parse(error.get("data")?.get()).ok()?;
        Some(hosts(Dialect::D2026_07_28, data.get("requiredCapabilities")?))
    };
    required().unwrap_or(false)
}

/// The id and the first state of the task that a call was answered with; `None` if the answer is no handle.
pub fn created(dialect: Dialect, result: &Payload) -> Option<Result<(String, HostedTask), NoTaskId>> {
    /// What tells a handle from a result: all that is read of the answers of most calls.
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Signs<'a> {
        #[serde(borrow, default)]
        result_type: Option<&'a RawValue>,
        #[serde(borrow, default)]
        content: Option<&'a RawValue>,
        #[serde(borrow, default)]
        task: Option<&'a RawValue>,
    }
    let signs: Signs = read_object(result.as_raw()).ok()?;
    let task = match dialect {
        Dialect::D2026_07_28 => {
            signs.result_type.filter(|kind| kind.get() == "\"task\"")?;
            result.clone()
        }
        // A tool's result always has content and may well have a member of that name.
        Dialect::D2025_11_25 => match signs.content {
            None => Payload::from_raw(signs.task.filter(|task| task.get().starts_with('{'))?),
            Some(_) => return None,
        },
    };
    let id = RawObject::parse(task.as_str()).ok().and_then(|task| text(task.get("taskId")?));
    let id = id.filter(|id| !id.is_empty() && id.len() <= LONGEST_ID).ok_or(NoTaskId);
    Some(id.and_then(|id| Ok((id, state(dialect, &task).ok_or(NoTaskId)?))))
}

/// What a server wants a model to be told as soon as it has made a task of a call (2025-11-25), where it says so.
pub fn immediate(created: &Payload) -> Option<String> {
    let created = RawObject::parse(created.as_str()).ok()?;
    let meta = RawObject::parse(created.get("_meta")?.get()).ok()?;
    text(meta.get(IMMEDIATE_RESPONSE)?).filter(|text| text.len() <= LONGEST_IMMEDIATE)
}

/// What a `tasks/get` was answered with; `None` if that is no object.
pub fn state(dialect: Dialect, answer: &Payload) -> Option<HostedTask> {
    let task = RawObject::parse(answer.as_str()).ok()?;
    let (ttl, interval) = match dialect {
        Dialect::D2025_11_25 => ("ttl", "pollInterval"),
        Dialect::D2026_07_28 => ("ttlMs", "pollIntervalMs"),
    };
    let kept = |name: &str| task.get(name).filter(|raw| raw.get() != "null").map(Payload::from_raw);
    Some(HostedTask {
        status: status(task.get("status").map_or("", RawValue::get)),
        message: task.get("statusMessage").and_then(text).filter(|message| !message.is_empty()),
        created: kept("createdAt"),
        ttl: task.get(ttl).and_then(millis),
        updated: kept("lastUpdatedAt"),
        poll_interval: task.get(interval).and_then(millis),
        input_requests: kept("inputRequests"),
        result: kept("result"),
        error: kept("error"),
    })
}

/// The id of the task a status notification is about.
pub fn told_of(params: &Payload) -> Option<String> {
    RawObject::parse(params.as_str()).ok().and_then(|params| text(params.get("taskId")?))
}

fn status(word: &str) -> HostedStatus {
    match word {
        "\"working\"" => HostedStatus::Working,
        "\"input_required\"" => HostedStatus::InputRequired,
        "\"completed\"" => HostedStatus::Completed,
        "\"failed\"" => HostedStatus::Failed,
        "\"cancelled\"" => HostedStatus::Cancelled,
        other => HostedStatus::Unknown(other.to_owned()),
    }
}

fn text(raw: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    serde_json::from_str(raw.get()).ok().map(|Text(text)| text.into_owned())
}

/// A whole or broken number of milliseconds. What is negative or too large for a duration says nothing.
fn millis(raw: &RawValue) -> Option<Duration> {
    let number: f64 = serde_json::from_str(raw.get()).ok()?;
    Duration::try_from_secs_f64(number / 1000.0).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: Dialect = Dialect::D2025_11_25;
    const NEW: Dialect = Dialect::D2026_07_28;

    fn json(text: &str) -> Payload {
        Payload::parse(text.to_owned()).expect("JSON")
    }

    /// Case 24: only the innermost member of the capability counts, and each era's only in its own place.
    #[test]
    fn who_hosts_tasks_says_so_in_the_place_of_its_era() {
        let old = json(r#"{"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}}"#);
        let new = json(r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#);
        for (dialect, text, hosts_tasks) in [
            (OLD, &old, true),
            (OLD, &new, false),
            (NEW, &new, true),
            (NEW, &old, false),
            (OLD, &json(r#"{"tasks":{"list":{},"cancel":{}}}"#), false),
            (OLD, &json(r#"{"tasks":{"requests":{"tools":{"call":false}}}}"#), false),
            (OLD, &json(r#"{"tasks":true}"#), false),
            (NEW, &json("7"), false),
        ] {
            assert_eq!(hosts(dialect, text.as_raw()), hosts_tasks, "{dialect:?} {}", text.as_str());
        }
    }

    /// Case 27: the handle first, and one without a ttl or with odd numbers is still a handle.
    #[test]
    fn handles_are_told_from_results() {
        let id = |dialect, text: &str| created(dialect, &json(text)).map(|made| made.map(|(id, _)| id));
        assert_eq!(id(OLD, r#"{"task":{"taskId":"a","status":"working"}}"#), Some(Ok("a".to_owned())));
        assert_eq!(id(NEW, r#"{"resultType":"task","taskId":"\u0061"}"#), Some(Ok("a".to_owned())));
        assert_eq!(
            id(OLD, r#"{"task":{"taskId":"a","ttl":"x","pollInterval":[]}}"#),
            Some(Ok("a".to_owned()))
        );
        assert_eq!(id(OLD, r#"{"content":[],"task":{"taskId":"a"}}"#), None);
        assert_eq!(id(OLD, r#"{"resultType":"task","taskId":"a"}"#), None);
        assert_eq!(id(NEW, r#"{"task":{"taskId":"a"}}"#), None);
        assert_eq!(id(NEW, "[]"), None);
        let long = "x".repeat(LONGEST_ID + 1);
        for bad in [
            r#""taskId":7"#,
            r#""taskId":null"#,
            r#""taskId":"""#,
            r#""x":1"#,
            &format!(r#""taskId":"{long}""#),
        ] {
            assert_eq!(id(OLD, &format!(r#"{{"task":{{{bad}}}}}"#)), Some(Err(NoTaskId)), "{bad}");
            assert_eq!(id(NEW, &format!(r#"{{"resultType":"task",{bad}}}"#)), Some(Err(NoTaskId)), "{bad}");
        }
    }

    #[test]
    fn odd_members_leave_the_others_alone() {
        let read = |text: &str| state(OLD, &json(text)).expect("an object");
        let task = read(r#"{"status":"paused","statusMessage":7,"pollInterval":1e999}"#);
        assert_eq!(task.status, HostedStatus::Unknown("\"paused\"".to_owned()));
        assert_eq!((task.message, task.poll_interval), (None, None));
        for (number, interval) in
            [("1500", Some(1500)), ("0", Some(0)), ("-1", None), ("1e300", None), ("\"5\"", None)]
        {
            let read = read(&format!(r#"{{"pollInterval":{number},"pollIntervalMs":9}}"#)).poll_interval;
            assert_eq!(read, interval.map(Duration::from_millis), "{number}");
        }
        assert_eq!(state(NEW, &json("null")), None);
        let task = state(NEW, &json(r#"{"ttlMs":5000,"ttl":1,"createdAt":"then"}"#)).expect("an object");
        assert_eq!((task.ttl, task.created), (Some(Duration::from_secs(5)), Some(json("\"then\""))));
        assert_eq!(read(r#"{"ttl":null}"#).ttl, None);
    }

    /// What taskgate says of idempotency keys is read where it is said, and nowhere else.
    #[test]
    fn words_about_keys_are_told_from_others() {
        let honours = |text: &str| honours_keys(json(text).as_raw());
        assert!(honours(r#"{"experimental":{"io.taskgate/idempotency-key":{}}}"#));
        assert!(!honours(r#"{"experimental":{"io.taskgate/idempotency-key":false}}"#));
        assert!(!honours(r#"{"io.taskgate/idempotency-key":{},"experimental":{}}"#));
        assert!(is_unknown_key(&json(r#"{"code":-32602,"data":{"reason":"key_not_found"}}"#)));
        for other in
            [r#"{"code":-32602}"#, r#"{"data":{"reason":"run_limit"}}"#, r#"{"data":"key_not_found"}"#]
        {
            assert!(!is_unknown_key(&json(other)), "{other}");
        }
    }

    #[test]
    fn an_error_that_asks_for_the_extension_is_told_from_others() {
        let error = |code: i32, required: &str| {
            needs_tasks(&json(&format!(r#"{{"code":{code},"data":{{"requiredCapabilities":{required}}}}}"#)))
        };
        assert!(error(-32021, r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#));
        assert!(!error(-32021, r#"{"elicitation":{}}"#));
        assert!(!error(-32603, r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#));
        assert!(!needs_tasks(&json(r#"{"code":-32021}"#)));
    }
}
