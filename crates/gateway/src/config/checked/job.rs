//! A job of an API that is a tool.

mod auth;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value};
use taskgate_job::{
    Auth, BodyKind, Cancel, Codes, Declaration, Detail, Escape, Expression, Extract, JobState, Logs,
    Question, RequestTemplate, ResultOf, Scope, Start, Status, Template,
};
use toml::Spanned;

use super::run::{check_description, check_tool, refuse_what_is_for_servers, schema};
use super::{Surroundings, place};
use crate::config::limits::{self, DurationRange};
use crate::config::raw::RawUpstream;
use crate::config::raw_job::{RawJob, RawPart};
use crate::upstream::JobTool;

/// How long an answer may take, if nothing is said.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How often a job is looked at, if nothing is said.
const POLL: Duration = Duration::from_secs(2);
const POLL_MAX: Duration = Duration::from_secs(30);

/// What every text of a job may name.
const ALWAYS: [&str; 4] = ["args", "key", "with", "callback_url"];
/// What the answer to a start is read with.
const OF_START: [&str; 7] = ["args", "key", "with", "callback_url", "status", "headers", "body"];
/// What a request about a job may name.
const OF_JOB: [&str; 5] = ["args", "key", "with", "callback_url", "job"];
/// What a request about a job that was looked at may name.
const OF_SEEN_JOB: [&str; 6] = ["args", "key", "with", "callback_url", "job", "detail"];
/// What the answer to it is read with.
const OF_ANSWER: [&str; 8] = ["args", "key", "with", "callback_url", "job", "status", "headers", "body"];
/// What a look is read with.
const OF_LOOK: [&str; 9] =
    ["args", "key", "with", "callback_url", "job", "status", "headers", "body", "detail"];
/// What an answer that is no success is read with.
const OF_REFUSAL: [&str; 4] = ["with", "status", "headers", "body"];
/// What the request that answers a question may name.
const OF_QUESTION: [&str; 7] = ["args", "key", "with", "callback_url", "job", "question", "answer"];

/// Checks `[upstream.job]` of this upstream.
pub(super) fn check(
    raw: &Spanned<RawJob>,
    upstream: &RawUpstream,
    around: &Surroundings<'_>,
) -> Option<JobTool> {
    let (span, raw) = (raw.span(), raw.get_ref());
    if !raw.written.iter().any(|written| written == "tool") {
        let help = "add `tool = \"NAME\"`: the name callers know it by";
        around.problems.add_with_help(span.clone(), "[upstream.job] has no `tool`", help);
    }
    let tool = check_tool(&raw.tool, around);
    let description = check_description(&raw.description, around);
    let input_schema =
        schema("input_schema", &raw.input_schema, around).unwrap_or_else(crate::upstream::ToolSchema::any);
    refuse_what_is_for_servers("the job of [upstream.job]", upstream, around);
    let ca_file = around.parsed(&raw.ca_file, "ca_file", "the path of a file", |text| match text {
        "" => Err("is empty".to_owned()),
        _ => place::whole(Path::new(text), around),
    });
    let with = settings(raw, around);
    let auth = raw.auth.as_ref().map_or(Some(Auth::None), |auth| auth::check(auth, &with, around));
    let declaration = Checker { span, raw, with: &with, around }.declaration();
    let declaration = Declaration { auth: auth?, ..declaration? };
    let reach = around.reach.clone();
    Some(JobTool {
        tool: tool?,
        description,
        input_schema,
        declaration,
        ca_file,
        reach,
        written: raw.whole.clone(),
    })
}

/// The settings. One that the preset needs and nobody gives is told once, not at each place that uses it.
fn settings(raw: &RawJob, around: &Surroundings<'_>) -> Map<String, Value> {
    let mut with = raw.with.clone();
    let Some((at, preset)) = &raw.preset else { return with };
    for (key, what) in preset.needs() {
        if !with.contains_key(&key) {
            let wrong = format!("the preset \"{}\" needs `with.{key}`", preset.name);
            around.problems.add_with_help(at.clone(), wrong, format!("add `with = {{ {key} = … }}`: {what}"));
            with.insert(key, "x".into());
        }
    }
    with
}

struct Checker<'a> {
    span: Range<usize>,
    raw: &'a RawJob,
    with: &'a Map<String, Value>,
    around: &'a Surroundings<'a>,
}

impl Checker<'_> {
    fn declaration(&self) -> Option<Declaration> {
        let start = self.raw.start.as_ref();
        let job: Vec<&str> = start
            .iter()
            .flat_map(|start| start.get_ref().tables.get("job"))
            .flatten()
            .map(|(name, _)| name.get_ref().as_str())
            .collect();
        let (start, status) = (self.part("start", start), self.part("status", self.raw.status.as_ref()));
        let start = start.and_then(|part| self.start(part));
        let status = status.and_then(|part| self.status(part, &job));
        let detail = optional(self.raw.detail.as_ref().map(|part| {
            let request = self.request("detail", part, "GET", &OF_ANSWER, &job);
            let when = self.expression(part.get_ref(), "when", &OF_ANSWER, &job);
            Some(Detail { request: request?, when })
        }));
        let result = self.raw.result.as_ref();
        let result = result.map_or(Some(ResultOf::default()), |part| self.result("result", part, &job));
        let failure = optional(self.raw.failure.as_ref().map(|part| self.result("failure", part, &job)));
        let cancel = optional(self.raw.cancel.as_ref().map(|part| {
            let request = self.request("cancel", part, "POST", &OF_JOB, &job);
            let gone = self.codes(part.get_ref(), "gone");
            let gone_if = self.expression(part.get_ref(), "gone_if", &OF_REFUSAL, &[]);
            Some(Cancel { request: request?, gone, gone_if })
        }));
        let logs = optional(self.raw.logs.as_ref().map(|part| {
            let request = self.request("logs", part, "GET", &OF_SEEN_JOB, &job);
            let lines = self.expression(part.get_ref(), "lines", &OF_ANSWER, &job);
            Some(Logs { request: request?, lines })
        }));
        let question = self.question(&job);
        Some(Declaration {
            with: self.with.clone(),
            auth: Auth::None,
            start: start?,
            status: status?,
            detail: detail?,
            result: result?,
            failure: failure?,
            cancel: cancel?,
            logs: logs?,
            question: question?,
        })
    }

    fn start(&self, part: &Spanned<RawPart>) -> Option<Start> {
        let raw = part.get_ref();
        let request = self.request("start", part, "POST", &ALWAYS, &[]);
        self.needs(
            part,
            "[upstream.job.start]",
            "job",
            "what is kept to find the job again, such as { id = \"body.id\" }",
        );
        let [job, exists_job] = ["job", "exists_job"].map(|key| self.extract(raw, key));
        let exists = self.codes(raw, "exists");
        let exists_if = self.expression(raw, "exists_if", &OF_REFUSAL, &[]);
        let is_idempotent = raw.idempotent.as_ref().is_some_and(|idempotent| *idempotent.get_ref());
        if let Some(idempotent) = raw.idempotent.as_ref().filter(|_| is_idempotent) {
            let texts = ["url", "body"].into_iter().filter_map(|key| raw.texts.get(key));
            let headers = raw.tables.get("headers").into_iter().flatten().map(|(_, value)| value);
            if !texts.chain(headers).any(|text| text.get_ref().contains("key")) {
                let what = "a start that is `idempotent` must send the `key`, and this one does not";
                let help =
                    "put {{ key }} where the API takes a token that makes a repeated start the same one";
                self.around.problems.add_with_help(idempotent.span(), what, help);
            }
        }
        Some(Start {
            request: request?,
            job: job?,
            is_idempotent,
            exists,
            exists_if,
            exists_job: exists_job?,
        })
    }

    fn status(&self, part: &Spanned<RawPart>, job: &[&str]) -> Option<Status> {
        let raw = part.get_ref();
        let section = "[upstream.job.status]";
        let request = self.request("status", part, "GET", &OF_JOB, job);
        self.needs(part, section, "state", "where the job stands, such as \"body.status\"");
        self.needs(part, section, "states", "what the API's words mean, such as { DONE = \"completed\" }");
        let state = self.expression(raw, "state", &OF_LOOK, job);
        let [message, progress, total, error] =
            ["message", "progress", "total", "error"].map(|key| self.expression(raw, key, &OF_LOOK, job));
        let poll = self.duration(raw, "poll", limits::JOB_POLL);
        let poll_max = self.duration(raw, "poll_max", limits::JOB_POLL);
        let states = self.states(raw);
        let poll = poll.unwrap_or(POLL);
        let poll_max = poll_max.unwrap_or(POLL_MAX.max(poll));
        Some(Status {
            request: request?,
            state: state?,
            states,
            message,
            progress,
            total,
            error,
            poll,
            poll_max,
        })
    }

    fn states(&self, raw: &RawPart) -> BTreeMap<String, JobState> {
        let mut states = BTreeMap::new();
        for (word, means) in raw.tables.get("states").into_iter().flatten() {
            let state = self.around.parsed_at(
                means,
                "states",
                r#""working", "input_required", "completed", "failed", "cancelled""#,
                |text| match text {
                    "working" => Ok(JobState::Working),
                    "input_required" => Ok(JobState::InputRequired),
                    "completed" => Ok(JobState::Completed),
                    "failed" => Ok(JobState::Failed),
                    "cancelled" => Ok(JobState::Cancelled),
                    _ => Err("is none of these words".to_owned()),
                },
            );
            states.extend(state.map(|state| (word.get_ref().clone(), state)));
        }
        states
    }

    fn result(&self, name: &'static str, part: &Spanned<RawPart>, job: &[&str]) -> Option<ResultOf> {
        let raw = part.get_ref();
        let value = self.expression(raw, "value", &OF_ANSWER, job);
        // Without a request the last look has it.
        let only_value = raw.written.iter().all(|key| key == "value");
        let request = optional((!only_value).then(|| self.request(name, part, "GET", &OF_SEEN_JOB, job)));
        Some(ResultOf { request: request?, value })
    }

    /// A question needs a way to answer, and an answer something that asks.
    fn question(&self, job: &[&str]) -> Option<Option<Question>> {
        let (part, answer) = match (&self.raw.question, &self.raw.answer) {
            (None, None) => return Some(None),
            (Some(question), Some(answer)) => (question, answer),
            (Some(question), None) => {
                let help = "add [upstream.job.answer]: the request that answers";
                self.around.problems.add_with_help(question.span(), "a question nobody can answer", help);
                return None;
            }
            (None, Some(answer)) => {
                let help = "add [upstream.job.question]: what is asked";
                self.around.problems.add_with_help(answer.span(), "an answer to no question", help);
                return None;
            }
        };
        let section = "[upstream.job.question]";
        self.needs(
            part,
            section,
            "key",
            "what tells one question from the next, such as \"body.question.id\"",
        );
        self.needs(part, section, "message", "the question, such as \"body.question.text\"");
        let raw = part.get_ref();
        let [key, message, schema] =
            ["key", "message", "schema"].map(|key| self.expression(raw, key, &OF_LOOK, job));
        let answer = self.request("answer", answer, "POST", &OF_QUESTION, job);
        Some(Some(Question { key: key?, message: message?, schema, answer: answer? }))
    }

    fn part<'p>(&self, key: &str, part: Option<&'p Spanned<RawPart>>) -> Option<&'p Spanned<RawPart>> {
        // One that is there but of the wrong type has been noted already.
        if part.is_none() && !self.raw.written.iter().any(|written| written == key) {
            let help = format!("add [upstream.job.{key}], or a `preset` that has it");
            self.around.problems.add_with_help(
                self.span.clone(),
                format!("[upstream.job] has no `{key}`"),
                help,
            );
        }
        part
    }

    fn needs(&self, part: &Spanned<RawPart>, section: &str, key: &str, what: &str) {
        let is_empty = part.get_ref().tables.get(key).is_some_and(Vec::is_empty);
        if !part.get_ref().has(key) || is_empty {
            let help = format!("add `{key}`: {what}");
            self.around.problems.add_with_help(part.span(), format!("{section} has no `{key}`"), help);
        }
    }

    fn request(
        &self,
        name: &'static str,
        part: &Spanned<RawPart>,
        usual: &str,
        names: &[&str],
        job: &[&str],
    ) -> Option<RequestTemplate> {
        let raw = part.get_ref();
        self.needs(part, &format!("[upstream.job.{name}]"), "url", "where the request goes");
        let methods = r#""GET", "POST", "PUT", "PATCH", "DELETE""#;
        let method = match raw.texts.get("method") {
            None => usual.parse().ok(),
            Some(method) => self.around.parsed_at(method, "method", methods, |word| {
                let known = ["GET", "POST", "PUT", "PATCH", "DELETE"].contains(&word);
                word.parse().ok().filter(|_| known).ok_or_else(|| "is none of these words".to_owned())
            }),
        };
        let url = raw.texts.get("url").and_then(|url| self.template("url", url, Escape::Url, names, job));
        let mut headers = Some(Vec::new());
        let mut kind = Some(BodyKind::Json);
        for (header, value) in raw.tables.get("headers").into_iter().flatten() {
            let written = header.get_ref().parse::<axum::http::HeaderName>();
            if written.is_err() {
                let what = format!(
                    "`headers`: \"{}\" cannot be the name of a header",
                    header.get_ref().escape_debug()
                );
                self.around.problems.add(header.span(), what);
            }
            if written.as_ref().is_ok_and(|name| *name == axum::http::header::CONTENT_TYPE) {
                kind = self.body_kind(value);
            }
            let template = self.template("headers", value, Escape::Header, names, job);
            match (&mut headers, written.ok().zip(template)) {
                (Some(headers), Some(header)) => headers.push(header),
                _ => headers = None,
            }
        }
        let body = optional(raw.texts.get("body").map(|body| {
            let kind = kind?;
            let escape = match kind {
                BodyKind::Json => Escape::Json,
                BodyKind::Form => Escape::Form,
            };
            Some((kind, self.template("body", body, escape, names, job)?))
        }));
        let timeout = self.duration(raw, "timeout", limits::JOB_TIMEOUT).unwrap_or(TIMEOUT);
        let ok = self.codes(raw, "ok");
        let retry_if = self.expression(raw, "retry_if", &OF_REFUSAL, &[]);
        Some(RequestTemplate {
            name,
            method: method?,
            url: url?,
            headers: headers?,
            body: body?,
            timeout,
            ok,
            retry_if,
        })
    }

    /// How values are inserted into a body depends on what it is.
    fn body_kind(&self, content_type: &Spanned<String>) -> Option<BodyKind> {
        let text = content_type.get_ref().to_ascii_lowercase();
        if text.contains("json") {
            return Some(BodyKind::Json);
        }
        if text.contains("x-www-form-urlencoded") {
            return Some(BodyKind::Form);
        }
        let what = format!("values cannot be inserted into a body of the type \"{}\"", text.escape_debug());
        let help =
            "allowed: JSON (application/json and what ends with +json) and application/x-www-form-urlencoded";
        self.around.problems.add_with_help(content_type.span(), what, help);
        None
    }

    fn template(
        &self,
        key: &str,
        text: &Spanned<String>,
        escape: Escape,
        names: &[&str],
        job: &[&str],
    ) -> Option<Template> {
        self.needs_public_url(key, text);
        let scope = Scope { names, with: self.with, job };
        self.sound(key, text.span(), Template::new(text.get_ref(), escape, &scope))
    }

    /// Without a public address of ours there is none for a job either.
    fn needs_public_url(&self, key: &str, text: &Spanned<String>) {
        if text.get_ref().contains("callback_url") && !self.around.has_public_url {
            let what = format!("`{key}`: there is no `callback_url` without a `public_url`");
            let help =
                "add `public_url = \"https://…\"` at the top of the file: how others reach this server";
            self.around.problems.add_with_help(text.span(), what, help);
        }
    }

    fn expression(&self, raw: &RawPart, key: &str, names: &[&str], job: &[&str]) -> Option<Expression> {
        let text = raw.texts.get(key)?;
        let scope = Scope { names, with: self.with, job };
        self.sound(key, text.span(), Expression::new(text.get_ref(), &scope))
    }

    fn extract(&self, raw: &RawPart, key: &str) -> Option<Extract> {
        let scope = Scope { names: &OF_START, with: self.with, job: &[] };
        let texts = raw.tables.get(key).into_iter().flatten();
        // Each is looked at, so that all that is wrong is told at once.
        let found: Vec<_> = texts
            .map(|(name, text)| {
                let expression = self.sound(key, text.span(), Expression::new(text.get_ref(), &scope));
                Some((name.get_ref().clone(), expression?))
            })
            .collect();
        found.into_iter().collect()
    }

    fn sound<T>(&self, key: &str, span: Range<usize>, made: Result<T, taskgate_job::Fault>) -> Option<T> {
        made.map_err(|fault| self.around.problems.add(span, format!("`{key}`: {fault}"))).ok()
    }

    fn duration(&self, raw: &RawPart, key: &str, range: DurationRange) -> Option<Duration> {
        let text = raw.texts.get(key)?;
        self.around.parsed_at(text, key, &range.allowed(), |text| range.parse(text))
    }

    fn codes(&self, raw: &RawPart, key: &str) -> Codes {
        let mut codes = Vec::new();
        for code in raw.codes.get(key).into_iter().flat_map(Spanned::get_ref) {
            match u16::try_from(*code.get_ref()).ok().filter(|code| (100..600).contains(code)) {
                Some(code) => codes.push(code),
                None => {
                    let what = format!("`{key}`: {} is no HTTP code", code.get_ref());
                    self.around.problems.add_with_help(code.span(), what, "allowed: 100 to 599");
                }
            }
        }
        Codes(codes)
    }
}

/// What is not there is fine, and what is there must be sound.
fn optional<T>(part: Option<Option<T>>) -> Option<Option<T>> {
    match part {
        None => Some(None),
        Some(sound) => sound.map(Some),
    }
}
