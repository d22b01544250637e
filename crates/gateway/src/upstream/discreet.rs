//! Calls some of whose arguments are secrets: what is said of them is said without these.
//!
//! The arguments reach their tool as they are, and its result its caller. Everything else that is told of the call (its status, its
//! progress where it is kept, its errors, the log) has `[redacted]` in their place.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::Value;
use serde_json::value::RawValue;
use taskgate_credentials::redact::{KnownForNow, Redactor, know_for_now};
use taskgate_engine::{Ending, NotStopped, Report, Runner, Work};
use taskgate_task::{Outcome, Payload};
use taskgate_wire::{Params, RpcError};

use super::Request;
use crate::policy::{ToolPolicy, UpstreamSpec};

/// Which arguments of which tools are secrets.
#[derive(Debug, Clone, Default)]
pub struct Marks {
    all: Vec<String>,
    tools: HashMap<String, Vec<String>>,
}

impl Marks {
    /// Those of one tool.
    pub fn of_tool(policy: &ToolPolicy) -> Marks {
        Marks { all: policy.secret_arguments.clone(), tools: HashMap::new() }
    }

    /// Those of all tools of an upstream.
    pub fn of_upstream(spec: &UpstreamSpec) -> Marks {
        let tools = spec.tools.iter().map(|(name, policy)| (name.clone(), policy.secret_arguments.clone()));
        Marks { all: spec.policy.secret_arguments.clone(), tools: tools.collect() }
    }

    fn is_empty(&self) -> bool {
        self.all.is_empty() && self.tools.values().all(Vec::is_empty)
    }

    fn of_call(&self, params: Option<&Payload>) -> Vec<String> {
        let Ok(params) = Params::parse(params) else { return Vec::new() };
        let tool = params.name().ok();
        let marks = tool.and_then(|tool| self.tools.get(&*tool)).unwrap_or(&self.all);
        values(marks, params.arguments())
    }
}

/// Whatever is told of a call with these arguments to its caller before it runs, without the secrets among them.
pub fn redacted(policy: &ToolPolicy, arguments: Option<&RawValue>, text: String) -> String {
    if policy.secret_arguments.is_empty() {
        return text;
    }
    let values = values(&policy.secret_arguments, arguments);
    Redactor::of(values.iter().map(String::as_str)).redact(&text).into_owned()
}

/// How many bytes of a call can be secrets. They are looked for in everything that is told of it.
const MOST_SECRET: usize = 64 << 10;

/// Whether what is marked can be looked for.
///
/// # Errors
///
/// It is longer than what is looked for.
pub fn check_secrets(policy: &ToolPolicy, arguments: Option<&RawValue>) -> Result<(), RpcError> {
    // Nothing is longer than all of them together.
    if policy.secret_arguments.is_empty() || arguments.is_none_or(|all| all.get().len() <= MOST_SECRET) {
        return Ok(());
    }
    let length: usize = values(&policy.secret_arguments, arguments).iter().map(String::len).sum();
    if length <= MOST_SECRET {
        return Ok(());
    }
    Err(RpcError::invalid_params(format!(
        "The arguments that are marked as secrets have {length} bytes together; {MOST_SECRET} are the most"
    )))
}

/// The values at these places: what is no object or list there, as text.
fn values(marks: &[String], arguments: Option<&RawValue>) -> Vec<String> {
    let mut found = Vec::new();
    let Some(arguments) = arguments.filter(|_| !marks.is_empty()) else { return found };
    let Ok(arguments) = serde_json::from_str::<Value>(arguments.get()) else { return found };
    for mark in marks {
        let parts: Vec<&str> = mark.split('.').collect();
        at(&arguments, &parts, &mut found);
    }
    found
}

fn at(value: &Value, path: &[&str], found: &mut Vec<String>) {
    match (value, path) {
        (Value::Array(items), _) => items.iter().for_each(|item| at(item, path, found)),
        (Value::Object(members), [first, rest @ ..]) => {
            members.get(*first).into_iter().for_each(|member| at(member, rest, found));
        }
        (Value::Object(members), []) => members.values().for_each(|member| at(member, path, found)),
        (Value::String(text), []) => found.push(text.clone()),
        (Value::Number(number), []) => found.push(number.to_string()),
        (Value::Null | Value::Bool(_), []) | (_, [_, ..]) => {}
    }
}

/// The secrets of a call.
struct Secrets {
    redactor: Redactor,
    values: Vec<String>,
}

impl Secrets {
    /// A line for people without them. Lines are cut to a length, and maybe in the middle of one.
    fn line(&self, text: &str) -> String {
        let clean = self.redactor.redact(text);
        let Some(kept) = clean.strip_suffix('…') else { return clean.into_owned() };
        let begun = |value: &String| {
            let ends = value.char_indices().map(|(end, _)| end).filter(|end| *end > 0);
            ends.filter_map(|end| value.get(..end)).filter(|begun| kept.ends_with(begun)).map(str::len).max()
        };
        let rest = self.values.iter().filter_map(begun).max().unwrap_or(0);
        format!("{}…", kept.get(..kept.len() - rest).unwrap_or_default())
    }
}

/// How long after the end of a call its secrets are kept out of the log: what a server writes may arrive after its answer.
const LINGER: Duration = Duration::from_secs(30);

/// Secrets that are known for some time after this is dropped.
struct Lingering(Option<KnownForNow>);

impl Drop for Lingering {
    fn drop(&mut self) {
        if let (Some(known), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move {
                tokio::time::sleep(LINGER).await;
                drop(known);
            });
        }
    }
}

/// Runs work whose arguments may be secrets.
pub struct Discreet {
    marks: Marks,
    with: Arc<dyn Runner>,
}

impl Discreet {
    /// For work of such tools. Where nothing is marked, nothing stands before the work.
    pub fn before(marks: Marks, with: Arc<dyn Runner>) -> Arc<dyn Runner> {
        if marks.is_empty() { with } else { Arc::new(Discreet { marks, with }) }
    }
}

impl Runner for Discreet {
    fn run(&self, work: Work, report: Report) -> BoxFuture<'static, Ending> {
        let request = work.description.read::<Request>();
        let secrets = request.map(|request| self.marks.of_call(request.params.as_ref())).unwrap_or_default();
        let redactor = Redactor::of(secrets.iter().map(String::as_str));
        if redactor.is_empty() {
            return self.with.run(work, report);
        }
        let known = Lingering(Some(know_for_now(secrets.clone())));
        let secrets = Arc::new(Secrets { redactor, values: secrets });
        let words = secrets.clone();
        report.says_as(move |text| words.line(&text));
        let run = self.with.run(work, report);
        Box::pin(async move {
            let _known = known;
            clean(run.await, &secrets)
        })
    }

    fn reach(&self, work: &Work) -> Result<(), String> {
        self.with.reach(work)
    }

    fn stop(&self, work: Work) -> BoxFuture<'static, Result<(), NotStopped>> {
        self.with.stop(work)
    }
}

fn clean(ending: Ending, secrets: &Secrets) -> Ending {
    let line = |text: String| secrets.line(&text);
    match ending {
        Ending::Finished(Outcome::Result { body, is_error, summary }) => {
            Ending::Finished(Outcome::Result { body, is_error, summary: summary.map(line) })
        }
        Ending::Finished(Outcome::Error { body, summary }) => Ending::Finished(Outcome::Error {
            body: error(body, |text| secrets.redactor.redact(text)),
            summary: line(summary),
        }),
        Ending::Lost { message } => Ending::Lost { message: line(message) },
        Ending::PutBack { pause, message } => Ending::PutBack { pause, message: line(message) },
        asked @ Ending::Asked { .. } => asked,
    }
}

/// An error object without what `redact` takes out.
pub(super) fn error(body: Payload, redact: impl FnOnce(&str) -> Cow<'_, str>) -> Payload {
    let clean = match redact(body.as_str()) {
        Cow::Borrowed(_) => return body,
        Cow::Owned(clean) => clean,
    };
    Payload::parse(clean).unwrap_or_else(|_| {
        // A value that was no text: what is left is no JSON any more.
        RpcError::internal("The error of the server cannot be shown: there is a secret in it").to_payload()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(marks: &[&str], arguments: &str) -> Vec<String> {
        let marks: Vec<String> = marks.iter().map(|mark| (*mark).to_owned()).collect();
        values(&marks, Some(&RawValue::from_string(arguments.to_owned()).expect("JSON")))
    }

    #[test]
    fn values_are_found_at_their_places() {
        let arguments =
            r#"{"password":"a","auth":{"token":"b","n":1},"list":[{"pin":7},{"pin":8}],"other":"c"}"#;
        assert_eq!(found(&["password"], arguments), ["a"]);
        assert_eq!(found(&["auth.token", "list.pin"], arguments), ["b", "7", "8"]);
        assert_eq!(found(&["auth"], arguments), ["b", "1"]);
        assert!(found(&["nothing", "password.more", ""], arguments).is_empty());
    }

    #[test]
    fn of_a_secret_that_was_cut_nothing_is_left() {
        let secrets = Secrets { redactor: Redactor::of(["sesame"]), values: vec!["sesame".to_owned()] };
        for (text, clean) in [
            ("open sesame now", "open [redacted] now"),
            ("open sesa…", "open …"),
            ("open s…", "open …"),
            ("open sesa", "open sesa"),
            ("open…", "open…"),
        ] {
            assert_eq!(secrets.line(text), clean);
        }
    }

    #[test]
    fn an_error_stays_an_error() {
        let body = |text: &str| Payload::parse(text.to_owned()).expect("JSON");
        let redactor = Redactor::of(["sesame", "12345"]);
        let clean = error(body(r#"{"code":1,"message":"no sesame"}"#), |text| redactor.redact(text));
        assert_eq!(clean.as_str(), r#"{"code":1,"message":"no [redacted]"}"#);
        let clean = error(body(r#"{"code":1,"message":"m","data":12345}"#), |text| redactor.redact(text));
        assert!(!clean.as_str().contains("12345") && clean.as_str().contains("-32603"), "{}", clean.as_str());
    }
}
