//! What is sent and what is understood, against a server that keeps what it hears.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{Method, Response};
use serde_json::{Value, json};
use taskgate_job::{Failure, Http, JobApi, JobState};
use tokio::sync::Mutex;

use crate::{call, declaration, expression, request};

/// A server that answers what it is told to, one answer after the other.
#[derive(Clone, Default)]
pub struct Server(Arc<Mutex<Script>>);

type Answer = (u16, Option<(&'static str, String)>, String);

#[derive(Default)]
struct Script {
    heard: Vec<Heard>,
    answers: Vec<Answer>,
}

/// A request as it came.
#[derive(Debug, Clone, PartialEq)]
pub struct Heard {
    pub method: Method,
    pub path: String,
    pub headers: axum::http::HeaderMap,
    pub body: String,
}

impl Heard {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().expect("text")).unwrap_or_default()
    }
}

impl Server {
    pub async fn start() -> (Server, String) {
        let server = Server::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a socket");
        let base = format!("http://{}", listener.local_addr().expect("an address"));
        let state = server.clone();
        let app = Router::new().fallback(move |request: Request| async move { state.answer(request).await });
        tokio::spawn(async move { axum::serve(listener, app).await });
        (server, base)
    }

    async fn answer(self, request: Request) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let body = to_bytes(body, 1 << 20).await.expect("a body");
        let mut script = self.0.lock().await;
        script.heard.push(Heard {
            method: parts.method,
            path: parts.uri.to_string(),
            headers: parts.headers,
            body: String::from_utf8(body.to_vec()).expect("text"),
        });
        assert!(!script.answers.is_empty(), "{:?} was not expected", script.heard.last());
        let (code, header, body) = script.answers.remove(0);
        let mut response = Response::builder().status(code);
        if let Some((name, value)) = header {
            response = response.header(name, value);
        }
        response.body(Body::from(body)).expect("a response")
    }

    pub async fn will(&self, code: u16, body: impl Into<String>) {
        self.0.lock().await.answers.push((code, None, body.into()));
    }

    pub async fn will_say(&self, code: u16, header: (&'static str, &str), body: &str) {
        self.0.lock().await.answers.push((code, Some((header.0, header.1.to_owned())), body.to_owned()));
    }

    /// What was heard since the last time.
    pub async fn heard(&self) -> Vec<Heard> {
        std::mem::take(&mut self.0.lock().await.heard)
    }
}

async fn api() -> (JobApi, Server) {
    let (server, base) = Server::start().await;
    (JobApi::new(declaration(&base), Http::new(None).expect("connections")), server)
}

fn job() -> serde_json::Map<String, Value> {
    json!({"id": "a b"}).as_object().expect("an object").clone()
}

#[tokio::test]
async fn a_job_is_started_looked_at_fetched_and_cancelled() {
    let (api, server) = api().await;
    let call = call(json!({"n": 1}));
    server.will(201, r#"{"id": "a b"}"#).await;
    let started = api.start(&call).await.expect("started");
    assert_eq!((Value::from(started.job.clone()), started.is_old), (json!({"id": "a b"}), false));
    let heard = server.heard().await;
    assert_eq!((heard[0].method.as_str(), heard[0].path.as_str()), ("POST", "/jobs"));
    assert_eq!(heard[0].header("content-type"), "application/json");
    assert_eq!(heard[0].body, r#"{"key": "0123", "args": {"n":1}}"#);

    server
        .will_say(
            200,
            ("retry-after", "7"),
            r#"{"state": "RUNNING", "note": "on it", "steps": {"done": 2, "all": 3}}"#,
        )
        .await;
    let seen = api.look(&call, &started.job).await.expect("seen");
    assert_eq!(
        (seen.state, seen.word.as_str(), seen.message.as_deref()),
        (Some(JobState::Working), "RUNNING", Some("on it"))
    );
    assert_eq!((seen.progress, seen.total, seen.error), (Some(json!(2)), Some(json!(3)), None));
    assert_eq!(seen.retry_after.map(|wait| wait.as_secs()), Some(7));
    assert_eq!(server.heard().await[0].path, "/jobs/a%20b");

    server.will(200, r#"{"state": "PONDERING"}"#).await;
    let seen = api.look(&call, &job()).await.expect("seen");
    assert_eq!((seen.state, seen.word.as_str(), seen.message), (None, "PONDERING", None));

    server.will(200, r#"{"state": "DONE"}"#).await;
    server.will(200, r#"{"output": "{\"x\":[1,2]}"}"#).await;
    let seen = api.look(&call, &job()).await.expect("seen");
    assert_eq!(api.result(&call, &job(), &seen).await, Ok(json!({"x": [1, 2]})));

    server.will(200, "one\ntwo\n").await;
    assert_eq!(api.logs(&call, &job(), &seen).await, Ok(Some(vec!["one".to_owned(), "two".to_owned()])));

    for code in [204, 404] {
        server.will(code, "").await;
        assert_eq!(api.cancel(&call, &job()).await, Ok(true), "{code}");
    }
    let last = server.heard().await.pop().expect("heard");
    assert_eq!((last.method.as_str(), last.path.as_str(), last.body.as_str()), ("DELETE", "/jobs/a%20b", ""));
}

/// The same key started before: the job is found, by what the answer or the key says.
#[tokio::test]
async fn a_job_that_exists_is_found() {
    let (api, server) = api().await;
    server.will(409, "there is one").await;
    let started = api.start(&call(json!({}))).await.expect("found");
    assert_eq!((Value::from(started.job), started.is_old), (json!({"id": "job-0123"}), true));
}

#[tokio::test]
async fn a_question_is_read_and_answered() {
    let (api, server) = api().await;
    let question =
        json!({"state": "ASKS", "question": {"id": "q/1", "text": "Which?", "schema": {"type": "object"}}});
    server.will(200, question.to_string()).await;
    let asked = api.look(&call(json!({})), &job()).await.expect("seen").asked.expect("a question");
    assert_eq!(
        (asked.key.as_str(), asked.message.as_str(), asked.schema),
        ("q/1", "Which?", Some(json!({"type": "object"})))
    );
    server.heard().await;
    server.will(200, "").await;
    let answer = json!({"action": "accept", "content": {"which": "this"}});
    api.answer(&call(json!({})), &job(), &asked.key, &answer).await.expect("answered");
    let heard = server.heard().await;
    assert_eq!(
        (heard[0].path.as_str(), heard[0].body.as_str()),
        ("/jobs/a%20b/answers/q%2F1", r#"{"action": "accept", "content": {"which":"this"}}"#)
    );
}

/// What a failure leaves open decides whether it is tried again.
#[tokio::test]
async fn failures_say_what_they_leave_open() {
    let (api, server) = api().await;
    let call = call(json!({}));
    for (code, is_transient, did_nothing) in [
        (302, false, true),
        (400, false, true),
        (403, false, true),
        (404, false, true),
        (408, true, false),
        (429, true, true),
        (500, true, false),
        (503, true, false),
        (504, true, false),
    ] {
        server.will_say(code, ("location", "http://127.0.0.1:1/"), "no\n\u{1b}[31m way").await;
        let failure = api.start(&call).await.expect_err("refused");
        assert_eq!(
            (failure.code(), failure.is_transient(), failure.did_nothing()),
            (Some(code), is_transient, did_nothing)
        );
        assert!(failure.to_string().ends_with(&format!("HTTP {code}: no [31m way")), "{failure}");
    }
    assert_eq!(server.heard().await.len(), 9);
    server.will(200, r#"{"name": "x"}"#).await;
    let failure = api.start(&call).await.expect_err("no id");
    assert!(
        !failure.is_transient() && !failure.did_nothing() && failure.to_string().contains("`body.id`"),
        "{failure}"
    );
    // Nobody listens at this port.
    let nobody = JobApi::new(declaration("http://127.0.0.1:1"), Http::new(None).expect("connections"));
    let failure = nobody.start(&call).await.expect_err("nobody");
    assert!(failure.is_transient() && failure.did_nothing(), "{failure}");
    assert!(!failure.to_string().contains("127.0.0.1:1/jobs"), "{failure}");
}

/// A result that is the whole body keeps its spelling; of a JSON text, it is what that says.
#[tokio::test]
async fn a_whole_body_is_given_as_it_is() {
    let (server, base) = Server::start().await;
    let mut declared = declaration(&base);
    declared.result.value = None;
    let api = JobApi::new(declared, Http::new(None).expect("connections"));
    let call = call(json!({}));
    server.will(200, r#"{"state": "DONE"}"#).await;
    let seen = api.look(&call, &job()).await.expect("seen");
    let odd = r#"{"n": 12345678901234567890123, "e": 1E+2, "a": 1, "a": 2}"#;
    for (body, result) in [
        (odd, odd),
        (" [1.50]\n", "[1.50]"),
        ("plain\n", "plain\n"),
        (r#""\u00e9""#, "é"),
        ("", ""),
        ("null", "null"),
    ] {
        server.will(200, body).await;
        assert_eq!(api.result(&call, &job(), &seen).await, Ok(json!(result)), "{body}");
    }
}

/// What finds a job again is kept as it was sent or not at all: with another id it would be another job.
#[tokio::test]
async fn an_id_that_cannot_be_kept_is_refused() {
    let (api, server) = api().await;
    let call = call(json!({}));
    let long = format!(r#"{{"id": "{}"}}"#, "x".repeat(20_000));
    for (body, why) in [
        (r#"{"id": 12345678901234567890123}"#, "`job.id` is a number with more digits than are kept"),
        (r#"{"id": -9007199254740993.0}"#, "`job.id` is a number with more digits than are kept"),
        (&*long, "`job.id` is longer than 16 KiB"),
        (r#"{"id": null}"#, "`job.id` is null"),
        (r#"{"id": 1, "size": 1e999}"#, "the body is no JSON: number out of range"),
    ] {
        server.will(200, body).await;
        let failure = api.start(&call).await.expect_err(why);
        assert!(failure.to_string().contains(why) && !failure.did_nothing(), "{failure}");
    }
    for id in ["18446744073709551615", "-9223372036854775808", "1.5"] {
        server.will(200, format!(r#"{{"id": {id}}}"#)).await;
        let kept = api.start(&call).await.expect("kept").job["id"].to_string();
        assert_eq!(kept, id);
    }
}

/// A connection that ends in the middle may have carried the request, and an answer without end fills no memory.
#[tokio::test]
async fn half_an_answer_is_none() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a socket");
    let base = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        let (mut first, _) = listener.accept().await.expect("a connection");
        let _ = first.read(&mut [0; 4096]).await;
        let _ = first.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"id\"").await;
        drop(first);
        let (mut second, _) = listener.accept().await.expect("a connection");
        let _ = second.read(&mut [0; 4096]).await;
        let _ = second.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n").await;
        let endless = vec![b'x'; 1 << 16];
        while second.write_all(&endless).await.is_ok() {}
    });
    let api = JobApi::new(declaration(&base), Http::new(None).expect("connections"));
    let failure = api.start(&call(json!({}))).await.expect_err("half");
    assert!(matches!(failure, Failure::Unanswered { .. }) && !failure.did_nothing(), "{failure}");
    let failure = api.start(&call(json!({}))).await.expect_err("too long");
    assert!(failure.to_string().contains("longer than 16 MiB"), "{failure}");
}

/// Where one code means many things, the body says which.
#[tokio::test]
async fn a_code_can_mean_more_than_one_thing() {
    let (server, base) = Server::start().await;
    let mut declared = declaration(&base);
    declared.start.exists = taskgate_job::Codes(vec![400]);
    declared.start.exists_if = Some(expression("'Exists' in body.type"));
    declared.start.request.retry_if = Some(expression("'Throttling' in body.type"));
    declared.cancel.as_mut().expect("a cancel").gone = taskgate_job::Codes(vec![400]);
    declared.cancel.as_mut().expect("a cancel").gone_if = Some(expression("body.type == 'Gone'"));
    let (api, call) = (JobApi::new(declared, Http::new(None).expect("connections")), call(json!({})));
    server.will(400, r#"{"type": "JobExists"}"#).await;
    assert!(api.start(&call).await.expect("found").is_old);
    for (body, is_transient) in
        [(r#"{"type": "Throttling"}"#, true), (r#"{"type": "Other"}"#, false), ("text", false)]
    {
        server.will(400, body).await;
        let failure = api.start(&call).await.expect_err("refused");
        assert_eq!((failure.is_transient(), failure.did_nothing()), (is_transient, true), "{failure}");
    }
    server.will(400, r#"{"type": "Gone"}"#).await;
    assert_eq!(api.cancel(&call, &job()).await, Ok(true));
    server.will(400, r#"{"type": "Other"}"#).await;
    api.cancel(&call, &job()).await.expect_err("refused");
}

/// A look can take two requests, and shows what it can if the second has no answer.
#[tokio::test]
async fn a_look_can_have_details() {
    let (server, base) = Server::start().await;
    let mut declared = declaration(&base);
    let request = request("detail", Method::POST, &format!("{base}/jobs/{{{{ job.id }}}}/query"), Some("{}"));
    declared.detail =
        Some(taskgate_job::Detail { request, when: Some(expression("body.state == 'RUNNING'")) });
    declared.status.state = expression("'ASKS' if detail.question is defined else body.state");
    declared.status.message = Some(expression("detail.note"));
    declared.failure = Some(taskgate_job::ResultOf {
        request: Some(crate::request("failure", Method::GET, &format!("{base}/why"), None)),
        value: Some(expression("body.why")),
    });
    declared.question = None;
    let (api, call) = (JobApi::new(declared, Http::new(None).expect("connections")), call(json!({})));
    server.will(200, r#"{"state": "RUNNING"}"#).await;
    server.will(200, r#"{"note": "on it", "question": {}}"#).await;
    let seen = api.look(&call, &job()).await.expect("seen");
    assert_eq!((seen.state, seen.message.as_deref()), (Some(JobState::InputRequired), Some("on it")));
    server.will(200, r#"{"state": "RUNNING"}"#).await;
    server.will(504, "nobody").await;
    let seen = api.look(&call, &job()).await.expect("seen");
    assert_eq!((seen.state, seen.message), (Some(JobState::Working), None));
    server.will(200, r#"{"state": "DONE"}"#).await;
    let seen = api.look(&call, &job()).await.expect("seen");
    assert_eq!(seen.state, Some(JobState::Completed));
    server.will(200, r#"{"why": "x"}"#).await;
    assert_eq!(api.failure(&call, &job(), &seen).await, Some(json!("x")));
    server.will(500, "").await;
    assert_eq!(api.failure(&call, &job(), &seen).await, None);
    let paths: Vec<_> = server.heard().await.into_iter().map(|heard| heard.path).collect();
    assert_eq!(
        paths,
        [
            "/jobs/a%20b",
            "/jobs/a%20b/query",
            "/jobs/a%20b",
            "/jobs/a%20b/query",
            "/jobs/a%20b",
            "/why",
            "/why"
        ]
    );
}
