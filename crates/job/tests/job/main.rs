//! A job API's declaration, from templates and expressions to what is sent and understood.

mod api;
mod auth;
#[cfg(feature = "aws")]
mod aws;
mod google;
mod reach;
mod templates;
mod tls;

use std::time::Duration;

use axum::http::Method;
use serde_json::{Map, Value, json};
use taskgate_job::*;

/// Everything that any text may name.
pub(crate) fn scope() -> Scope<'static> {
    static WITH: std::sync::LazyLock<Map<String, Value>> =
        std::sync::LazyLock::new(|| json!({"place": "here"}).as_object().expect("an object").clone());
    let names = &[
        "args",
        "key",
        "job",
        "with",
        "callback_url",
        "status",
        "headers",
        "body",
        "detail",
        "answer",
        "question",
    ];
    Scope { names, with: &WITH, job: &["id"] }
}

pub(crate) fn expression(source: &str) -> Expression {
    Expression::new(source, &scope()).unwrap_or_else(|fault| panic!("{source}: {fault}"))
}

pub(crate) fn template(source: &str, escape: Escape) -> Template {
    Template::new(source, escape, &scope()).unwrap_or_else(|fault| panic!("{source}: {fault}"))
}

pub(crate) fn request(name: &'static str, method: Method, url: &str, body: Option<&str>) -> RequestTemplate {
    RequestTemplate {
        name,
        method,
        url: template(url, Escape::Url),
        headers: Vec::new(),
        body: body.map(|body| (BodyKind::Json, template(body, Escape::Json))),
        timeout: Duration::from_secs(10),
        ok: Codes::default(),
        retry_if: None,
    }
}

/// A plain API at this address, with everything it can have.
pub(crate) fn declaration(base: &str) -> Declaration {
    let url = |path: &str| format!("{base}{path}");
    let words =
        [("RUNNING", JobState::Working), ("DONE", JobState::Completed), ("ASKS", JobState::InputRequired)];
    let answer = r#"{"action": {{ answer.action }}, "content": {{ answer.content }}}"#;
    Declaration {
        with: scope().with.clone(),
        auth: Auth::None,
        start: Start {
            request: request(
                "start",
                Method::POST,
                &url("/jobs"),
                Some(r#"{"key": {{ key }}, "args": {{ args }}}"#),
            ),
            job: vec![("id".to_owned(), expression("body.id"))],
            is_idempotent: true,
            exists: Codes(vec![409]),
            exists_if: None,
            exists_job: vec![("id".to_owned(), expression("'job-' ~ key"))],
        },
        status: Status {
            request: request("status", Method::GET, &url("/jobs/{{ job.id }}"), None),
            state: expression("body.state"),
            states: words.map(|(word, state)| (word.to_owned(), state)).into(),
            message: Some(expression("body.note")),
            progress: Some(expression("body.steps.done")),
            total: Some(expression("body.steps.all")),
            error: Some(expression("body.error.message")),
            poll: Duration::from_millis(10),
            poll_max: Duration::from_millis(20),
        },
        detail: None,
        failure: None,
        result: ResultOf {
            request: Some(request("result", Method::GET, &url("/jobs/{{ job.id }}/output"), None)),
            value: Some(expression("body.output|fromjson")),
        },
        cancel: Some(Cancel {
            request: request("cancel", Method::DELETE, &url("/jobs/{{ job.id }}"), None),
            gone: Codes(vec![404]),
            gone_if: None,
        }),
        logs: Some(Logs {
            request: request("logs", Method::GET, &url("/jobs/{{ job.id }}/logs"), None),
            lines: None,
        }),
        question: Some(Question {
            key: expression("body.question.id"),
            message: expression("body.question.text"),
            schema: Some(expression("body.question.schema")),
            answer: request(
                "answer",
                Method::POST,
                &url("/jobs/{{ job.id }}/answers/{{ question }}"),
                Some(answer),
            ),
        }),
    }
}

pub(crate) fn call(args: Value) -> Call {
    Call { args, key: "0123".to_owned(), callback_url: None }
}
