//! What stands in a line.

use std::borrow::Cow;
use std::net::IpAddr;
use std::time::SystemTime;

use serde::Serialize;
use taskgate_task::{NodeId, TaskId, Timestamp};
use taskgate_wire::dialect::iso;

/// The longest string of others in a line, in characters.
pub const LONGEST: usize = 256;

/// Why a request was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// It shows no token that is good.
    Unauthorized,
    /// Its token does not allow it, or it comes from a web page or to a name that is not configured.
    Forbidden,
    /// It names somebody else's session.
    ForeignSession,
    /// A limit is reached.
    Limit,
    /// The tool may not be called like this.
    Policy,
    /// There is no such tool for this caller.
    UnknownTool,
    /// There is no such task for this caller: it never was, is somebody else's, or has expired.
    UnknownTask,
    /// What is asked cannot be done, or not now.
    Error,
    /// The audit log itself cannot be written.
    Audit,
}

/// One line. What there is nothing to say of is left out.
#[derive(Debug, Serialize)]
pub struct Line<'a> {
    pub(crate) time: String,
    /// What kind of line it is.
    pub(crate) event: &'static str,
    /// The half of the task's id that is no secret, in hexadecimal, as `taskgate tasks` shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The id that its requestor has given the task (2025-10-20), or what a caller took for an id.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "short_text")]
    pub given_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "short_text")]
    pub owner: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "short_text")]
    pub upstream: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "short_text")]
    pub tool: Option<&'a str>,
    /// Who moved the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub who: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// In our own words, or the name of a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<Cow<'a, str>>,
    /// The code of the error that was the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<i64>,
    /// What is asked of the task, where a tool that stands in for it is called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verb: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "short_text")]
    pub method: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "short_text")]
    pub request_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dialect: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "short_text")]
    pub client: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "short_text")]
    pub client_version: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<String>,
}

impl<'a> Line<'a> {
    /// A line about something at this moment.
    pub fn at(at: Timestamp, event: &'static str) -> Line<'a> {
        Line {
            time: iso(at),
            event,
            task: None,
            given_id: None,
            owner: None,
            upstream: None,
            tool: None,
            who: None,
            from: None,
            to: None,
            version: None,
            reason: None,
            why: None,
            code: None,
            verb: None,
            method: None,
            request_id: None,
            protocol: None,
            dialect: None,
            client: None,
            client_version: None,
            peer: None,
            node: None,
        }
    }

    /// A line about something that happens now.
    pub fn now(event: &'static str) -> Line<'a> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Line::at(Timestamp::from_millis(i64::try_from(now.as_millis()).unwrap_or(i64::MAX)), event)
    }

    /// As it is written, with the end of the line.
    pub fn text(mut self, node: Option<NodeId>) -> String {
        self.node = node.map(|node| node.to_string());
        // Only maps with odd keys cannot be written.
        let mut text = serde_json::to_string(&self).unwrap_or_default();
        text.push('\n');
        text
    }
}

/// The half of an id that may be shown: the other one opens the task where there is no authorization.
pub fn locator(id: &TaskId) -> String {
    format!("{:016x}", id.locator())
}

/// What others say, bounded and without what a terminal might take for an order or a viewer for the end of a line. JSON escapes the rest.
pub fn short(text: &str) -> Cow<'_, str> {
    let is_odd = |c: char| matches!(c, '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let end = text.char_indices().nth(LONGEST).map(|(end, _)| end);
    if end.is_none() && !text.contains(is_odd) {
        return Cow::Borrowed(text);
    }
    let kept = text.get(..end.unwrap_or(text.len())).unwrap_or_default();
    let mut kept: String = kept.chars().map(|c| if is_odd(c) { '\u{fffd}' } else { c }).collect();
    if end.is_some() {
        kept.push('…');
    }
    Cow::Owned(kept)
}

#[expect(clippy::trivially_copy_pass_by_ref, clippy::ref_option, reason = "serde passes members so")]
fn short_text<S: serde::Serializer>(text: &Option<&str>, serializer: S) -> Result<S::Ok, S::Error> {
    text.map(short).serialize(serializer)
}
