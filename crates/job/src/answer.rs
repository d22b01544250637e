use std::collections::BTreeMap;
use std::time::Duration;

use minijinja::Value;
use reqwest::header::{HeaderMap, RETRY_AFTER};

use crate::clock;
use crate::engine::value_of;
use crate::failure::Failure;
use crate::retry_after;

/// How much of a body is shown where it is not what was wanted, in characters.
const EXCERPT: usize = 500;

/// What came back.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The HTTP code.
    pub code: u16,
    headers: BTreeMap<String, String>,
    body: serde_json::Value,
    text: String,
    /// Why the body is no JSON although it begins like some.
    broken: Option<String>,
}

impl Answer {
    pub(crate) fn new(code: u16, headers: &HeaderMap, body: &[u8]) -> Answer {
        let headers = headers.iter().map(|(name, value)| {
            (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        });
        let text = String::from_utf8_lossy(body).into_owned();
        // A body is what it looks like: some APIs answer JSON under other names.
        let (body, broken) = match serde_json::from_str(&text) {
            Ok(body) => (body, None),
            Err(error) => {
                let broken = text.trim_start().starts_with(['{', '[']).then(|| error.to_string());
                (text.clone().into(), broken)
            }
        };
        Answer { code, headers: headers.collect(), body, text, broken }
    }

    /// What expressions find in it: `status`, `headers` and `body`.
    pub(crate) fn values(&self) -> [(&'static str, Value); 3] {
        [("status", Value::from(self.code)), ("headers", value_of(&self.headers)), ("body", self.body())]
    }

    /// The body.
    pub(crate) fn body(&self) -> Value {
        value_of(&self.body)
    }

    /// The body as it came.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The body as a text; of a JSON text, what it says.
    pub(crate) fn whole(&self) -> serde_json::Value {
        match &self.body {
            text @ serde_json::Value::String(_) => text.clone(),
            _ => self.text.trim().into(),
        }
    }

    /// The failure to find in it what was to be there.
    pub(crate) fn lacks(&self, request: &'static str, why: &str) -> Failure {
        let broken = self.broken.as_ref().map(|broken| format!("; the body is no JSON: {broken}"));
        Failure::Unreadable { request, why: format!("{why}{}", broken.unwrap_or_default()) }
    }

    /// After how long it may be asked again, if the answer says so.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        retry_after::parse(self.headers.get(RETRY_AFTER.as_str())?, clock::now())
    }

    /// The beginning of the body, in one line.
    pub(crate) fn excerpt(&self) -> String {
        let shown: Vec<&str> = self
            .text
            .split(|c: char| c.is_whitespace() || c.is_control())
            .filter(|word| !word.is_empty())
            .collect();
        let shown = shown.join(" ");
        // An API may say what it was sent.
        let shown = taskgate_credentials::redact::redact(&shown);
        match shown.char_indices().nth(EXCERPT) {
            Some((end, _)) => format!("{}…", &shown[..end]),
            None => shown.into_owned(),
        }
    }
}
