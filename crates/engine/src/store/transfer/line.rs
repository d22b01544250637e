//! What stands in the lines. Payloads are strings, not JSON in JSON: between their tokens they may have line breaks, and
//! they must come back byte for byte.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use taskgate_task::{Failure, Status, Timestamp, Who};

use super::Carried;
use crate::store::code::OutcomeKind;

/// A line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line<'a> {
    /// The first one: the version of the format.
    TaskgateExport(u32),
    /// A secret of the store.
    Secret(SecretLine<'a>),
    /// A task.
    Task(Box<TaskLine<'a>>),
    /// The last one: how much there should have been before.
    End(Carried),
}

/// A secret of the store.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SecretLine<'a> {
    pub(super) name: Cow<'a, str>,
    /// In hexadecimal digits.
    pub(super) value: String,
}

impl std::fmt::Debug for SecretLine<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecretLine").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A task. Times are milliseconds since the Unix epoch; what is not there is left out.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TaskLine<'a> {
    pub(super) id: String,
    pub(super) owner: Cow<'a, str>,
    pub(super) runner: Cow<'a, str>,
    pub(super) class: Cow<'a, str>,
    pub(super) status: Status,
    pub(super) version: u64,
    pub(super) fence: u64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) node: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) ready_at: Option<Timestamp>,
    pub(super) attempts: u32,
    pub(super) max_attempts: u32,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) ended_at: Option<Timestamp>,
    pub(super) run_deadline: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) idle_limit_ms: Option<u64>,
    pub(super) retention_ms: u64,
    pub(super) ttl_ms: u64,
    pub(super) poll_interval_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) status_message: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) failure: Option<Failure>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) key: Option<KeyLine<'a>>,
    pub(super) events: Vec<EventLine<'a>>,
    /// The questions and answers, as a text of JSON.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) inputs: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) checkpoint: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) outcome: Option<OutcomeLine<'a>>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) work: Option<Cow<'a, str>>,
}

/// An idempotency key.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KeyLine<'a> {
    pub(super) tool: Cow<'a, str>,
    pub(super) key: Cow<'a, str>,
    /// In hexadecimal digits.
    pub(super) digest: String,
}

/// How the work ended.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OutcomeLine<'a> {
    pub(super) kind: OutcomeKind,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) summary: Option<Cow<'a, str>>,
    pub(super) body: Cow<'a, str>,
}

/// An event.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EventLine<'a> {
    pub(super) version: u64,
    pub(super) at: Timestamp,
    pub(super) who: Who,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) from: Option<Status>,
    pub(super) to: Status,
    pub(super) why: Cow<'a, str>,
}

/// Lower-case hexadecimal digits.
pub(super) fn to_hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Reads them back.
pub(super) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let byte = |pair: &[u8]| match *pair {
        [high, low] => u8::try_from(digit(high)? * 16 + digit(low)?).ok(),
        _ => None,
    };
    text.as_bytes().chunks(2).map(byte).collect()
}
