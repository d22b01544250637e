//! Requests: the members of their params that decide something.

use std::borrow::Cow;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use taskgate_task::{InvalidPayload, InvalidTtl, Payload, TaskId, what_is_wrong};

use crate::jsonrpc::{RpcError, present};
use crate::log_level::LogLevel;
use crate::meta::Meta;
use crate::raw::{RawObject, object_member, read_object};

/// The members of a request's `params` that decide something here, found in one pass over the text.
/// Everything else stays in the raw text and is passed on from there.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Params<'a> {
    #[serde(borrow, default)]
    name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    uri: Option<&'a RawValue>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    task: Option<&'a RawValue>,
    #[serde(borrow, default)]
    task_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    cursor: Option<&'a RawValue>,
    #[serde(borrow, default)]
    level: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "ref")]
    reference: Option<&'a RawValue>,
    #[serde(borrow, default)]
    input_responses: Option<&'a RawValue>,
    #[serde(borrow, default)]
    request_state: Option<&'a RawValue>,
    #[serde(borrow, default)]
    notifications: Option<&'a RawValue>,
    #[serde(borrow, default)]
    request_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    protocol_version: Option<&'a RawValue>,
    #[serde(borrow, default)]
    capabilities: Option<&'a RawValue>,
    #[serde(borrow, default)]
    client_info: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "_meta", deserialize_with = "object_member")]
    meta: Option<Meta<'a>>,
}

/// A `tools/call`.
#[derive(Debug, Clone, PartialEq)]
pub struct CallTool {
    /// The tool as the caller names it.
    pub name: String,
    /// `params.task` of 2025-11-25: the caller wants a task. Always `None` in 2026-07-28, where the field is unknown.
    pub task: Option<TaskRequest>,
    /// Answers to the questions of an earlier, unfinished answer (2026-07-28, multi round-trip requests).
    pub answers: Option<Vec<(String, Payload)>>,
}

/// What a 2025-11-25 caller asks for its task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TaskRequest {
    /// The wanted time to live; `None` leaves it to us.
    pub ttl: Option<Duration>,
}

/// What a `subscriptions/listen` wants to hear of.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an object")]
pub struct Listen {
    /// Changes of the tool list.
    #[serde(default)]
    pub tools_list_changed: bool,
    /// Changes of the prompt list.
    #[serde(default)]
    pub prompts_list_changed: bool,
    /// Changes of the resource list.
    #[serde(default)]
    pub resources_list_changed: bool,
    /// Changes of these resources.
    #[serde(default)]
    pub resource_subscriptions: Vec<String>,
    /// Changes of these tasks (SEP-2663).
    #[serde(default)]
    pub task_ids: Option<Vec<String>>,
    /// What is not known here: an extension's.
    #[serde(skip)]
    pub others: Vec<(String, Payload)>,
}

impl Listen {
    /// The members of a filter that are known here.
    const KNOWN: [&'static str; 5] = [
        "toolsListChanged",
        "promptsListChanged",
        "resourcesListChanged",
        "resourceSubscriptions",
        "taskIds",
    ];

    /// The members of a filter that are not known here.
    pub fn others_of(filter: &RawObject<'_>) -> Vec<(String, Payload)> {
        let others = filter.iter().filter(|(name, _)| !Listen::KNOWN.contains(name));
        others.map(|(name, value)| (name.to_owned(), Payload::from_raw(value))).collect()
    }
}

impl<'a> Params<'a> {
    /// Reads `params`. Absent params read as an empty object.
    pub fn parse(params: Option<&'a Payload>) -> Result<Params<'a>, RpcError> {
        match params {
            None => Ok(Params::default()),
            Some(params) => serde_json::from_str(params.as_str()).map_err(|error| {
                RpcError::invalid_params(format!("Invalid params: {}", what_is_wrong(&error)))
            }),
        }
    }

    /// `_meta`, with the members known here. Absent, it has none.
    pub fn meta(&self) -> Meta<'a> {
        self.meta.unwrap_or_default()
    }

    /// Whether there is a `_meta` at all.
    pub fn has_meta(&self) -> bool {
        self.meta.is_some()
    }

    /// `name`.
    pub fn name(&self) -> Result<Cow<'a, str>, RpcError> {
        string("name", self.name)
    }

    /// Whether `name` is this text, written as we would write it.
    pub fn is_named(&self, name: &str) -> bool {
        let bare = self.name.and_then(|raw| raw.get().strip_prefix('"')?.strip_suffix('"'));
        bare == Some(name) && !name.contains(['\\', '"'])
    }

    /// Whether there is a `task`, whatever it is.
    pub fn has_task(&self) -> bool {
        self.task.is_some()
    }

    /// `uri`.
    pub fn uri(&self) -> Result<Cow<'a, str>, RpcError> {
        string("uri", self.uri)
    }

    /// `arguments`, untouched.
    pub fn arguments(&self) -> Option<&'a RawValue> {
        self.arguments
    }

    /// The name of the tool of a `tools/call`, once its arguments are such as any tool could take: no arguments, or an object.
    pub fn tool(&self) -> Result<String, RpcError> {
        let name = self.name()?.into_owned();
        if self.arguments.is_some_and(|raw| !raw.get().starts_with('{')) {
            return Err(RpcError::invalid_params("Invalid params: arguments must be an object"));
        }
        Ok(name)
    }

    /// `taskId` as text. Whether it names a task is another question.
    pub fn task_id(&self) -> Result<Cow<'a, str>, RpcError> {
        string("taskId", self.task_id)
    }

    /// `taskId` read as an id of ours. A text that cannot be one gets the same answer as an unknown id.
    pub fn task(&self) -> Result<TaskId, RpcError> {
        TaskId::parse(&self.task_id()?).map_err(|_| RpcError::unknown_task())
    }

    /// `cursor`, if given.
    pub fn cursor(&self) -> Result<Option<Cow<'a, str>>, RpcError> {
        self.cursor.map(|raw| string("cursor", Some(raw))).transpose()
    }

    /// `level` of a `logging/setLevel`.
    pub fn level(&self) -> Result<LogLevel, RpcError> {
        self.level
            .and_then(LogLevel::from_raw)
            .ok_or_else(|| RpcError::invalid_params("Invalid params: level must be a log level"))
    }

    /// `ref` of a `completion/complete`, untouched.
    pub fn reference(&self) -> Option<&'a RawValue> {
        self.reference
    }

    /// `requestId`, untouched.
    pub fn request_id(&self) -> Option<&'a RawValue> {
        self.request_id
    }

    /// `protocolVersion` of an `initialize`.
    pub fn protocol_version(&self) -> Result<Cow<'a, str>, RpcError> {
        string("protocolVersion", self.protocol_version)
    }

    /// `clientInfo` of an `initialize`.
    pub fn client_info(&self) -> Option<&'a RawValue> {
        self.client_info
    }

    /// `capabilities` of an `initialize`.
    pub fn capabilities(&self) -> Option<&'a RawValue> {
        self.capabilities
    }

    /// `requestState`, if given.
    pub fn request_state(&self) -> Result<Option<String>, RpcError> {
        self.request_state.map(|raw| string("requestState", Some(raw)).map(Cow::into_owned)).transpose()
    }

    /// `inputResponses`: a map; `None` if absent or null.
    pub fn input_responses(&self) -> Result<Option<Vec<(String, Payload)>>, RpcError> {
        let Some(raw) = self.input_responses else { return Ok(None) };
        let map = RawObject::parse(raw.get())
            .map_err(|_| RpcError::invalid_params("Invalid params: inputResponses must be an object"))?;
        Ok(Some(map.iter().map(|(key, value)| (key.to_owned(), Payload::from_raw(value))).collect()))
    }

    /// `params.task` of 2025-11-25. An object asks for a task; `ttl` must be a whole number of milliseconds from 0 up, or null.
    pub fn task_request(&self) -> Result<Option<TaskRequest>, RpcError> {
        let Some(raw) = self.task else { return Ok(None) };
        let wrong = |what: &str| RpcError::invalid_params(format!("Invalid params: task{what}"));
        let task = RawObject::parse(raw.get()).map_err(|_| wrong(" must be an object"))?;
        let ttl = task.get("ttl").map_or(Ok(None), read_ttl);
        Ok(Some(TaskRequest { ttl: ttl.map_err(|error| wrong(&format!(".ttl: {error}")))? }))
    }

    /// The filter of a `subscriptions/listen`.
    pub fn listen(&self) -> Result<Listen, RpcError> {
        let Some(raw) = self.notifications else {
            return Err(RpcError::invalid_params("Invalid params: notifications is missing"));
        };
        let read = || -> Result<Listen, InvalidPayload> {
            let others = Listen::others_of(&RawObject::parse(raw.get())?);
            Ok(Listen { others, ..read_object(raw)? })
        };
        read().map_err(|error| RpcError::invalid_params(format!("Invalid params: notifications: {error}")))
    }
}

pub(crate) fn string<'a>(name: &str, raw: Option<&'a RawValue>) -> Result<Cow<'a, str>, RpcError> {
    #[derive(Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    let raw = raw.ok_or_else(|| RpcError::invalid_params(format!("Invalid params: {name} is missing")))?;
    let Text(text) = serde_json::from_str(raw.get())
        .map_err(|_| RpcError::invalid_params(format!("Invalid params: {name} must be a string")))?;
    Ok(text)
}

/// Absent and null leave the ttl to us; numbers beyond any real lifetime are clamped later, where the policy is known.
pub(crate) fn read_ttl(raw: &RawValue) -> Result<Option<Duration>, InvalidTtl> {
    if raw.get() == "null" {
        return Ok(None);
    }
    if let Ok(millis) = raw.get().parse::<u64>() {
        return Ok(Some(Duration::from_millis(millis)));
    }
    let number: f64 = serde_json::from_str(raw.get()).map_err(|_| InvalidTtl)?;
    if number < 0.0 || number.fract() != 0.0 {
        return Err(InvalidTtl);
    }
    // The cast saturates, which is the clamp that is wanted for absurd numbers.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    Ok(Some(Duration::from_millis(number as u64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(text: &str) -> Result<Option<TaskRequest>, RpcError> {
        let params = Payload::parse(text.to_owned()).expect("JSON");
        Params::parse(Some(&params))?.task_request()
    }

    /// SEMANTICS, Lifetime: each odd ttl has its defined answer.
    #[test]
    fn every_ttl_has_a_defined_answer() {
        let millis =
            |text| task(text).map(|request| request.and_then(|r| r.ttl).map(|ttl| ttl.as_millis() as u64));
        assert_eq!(task("{}"), Ok(None));
        assert_eq!(millis(r#"{"task":{}}"#), Ok(None));
        assert_eq!(millis(r#"{"task":{"ttl":null}}"#), Ok(None));
        assert_eq!(millis(r#"{"task":{"ttl":0}}"#), Ok(Some(0)));
        assert_eq!(millis(r#"{"task":{"ttl":60000}}"#), Ok(Some(60_000)));
        assert_eq!(millis(r#"{"task":{"ttl":6e4}}"#), Ok(Some(60_000)));
        assert_eq!(millis(r#"{"task":{"ttl":1e300}}"#), Ok(Some(u64::MAX)));
        for bad in ["-1", "1.5", "\"60000\"", "true", "{}", "[]", "1e999"] {
            let text = format!(r#"{{"task":{{"ttl":{bad}}}}}"#);
            assert_eq!(task(&text).map_err(|error| error.code.number()), Err(-32602), "{bad}");
        }
        assert!(task(r#"{"task":true}"#).is_err());
        assert!(task(r#"{"task":null}"#).is_err());
    }

    #[test]
    fn task_ids_that_cannot_be_ours_are_unknown_and_other_types_are_wrong() {
        let text = |text: &str| Payload::parse(text.to_owned()).expect("JSON");
        let answer = |payload: &Payload| Params::parse(Some(payload)).and_then(|params| params.task());
        assert_eq!(answer(&text(r#"{"taskId":"no-such-task"}"#)), Err(RpcError::unknown_task()));
        assert_eq!(
            answer(&text(r#"{"taskId":7}"#)).map_err(|e| e.message),
            Err("Invalid params: taskId must be a string".into())
        );
        assert_eq!(
            answer(&text("{}")).map_err(|e| e.message),
            Err("Invalid params: taskId is missing".into())
        );
    }
}
