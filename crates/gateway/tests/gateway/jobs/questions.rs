//! What a job asks, through its API and the gateway to whoever called.

use serde_json::{Value, json};
use taskgate_gateway::TaskMode;

use super::{forge, live, serve, task, written};
use crate::harness::job_api::Twist;
use crate::harness::{Modern, Old, accept};

fn asks(id: &str) -> Value {
    json!({"state": "ASKS", "question": {
        "id": id, "text": "Which?", "schema": {"type": "object", "properties": {"name": {"type": "string"}}},
    }})
}

fn asked() -> Value {
    json!({"method": "elicitation/create", "params": {
        "mode": "form", "message": "Which?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
    }})
}

/// A question is asked once, its answer sent until it is taken, and the next question is another one.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_asked_and_answered() {
    let api = forge().await;
    let server = serve(&written(&api.base, ""), TaskMode::Always).await;
    let modern = Modern::new(&server);
    let id = task(&modern, "x").await;
    api.until("a job", |forge| forge.only().is_some().then_some(())).await;
    for (key, answer) in [("q-1", accept("a")), ("q-2", json!({"action": "decline"}))] {
        api.with(|forge| forge.shows(asks(key)));
        let task = modern.until(&id, "input_required").await;
        assert_eq!(task["inputRequests"], json!({ key: asked() }));
        api.twist("answer", Twist::Refuse(503, "later"));
        modern.update(&id, json!({ key: answer })).await.result();
        let taken = api.until("an answer", |forge| forge.only()?.answers.pop()).await;
        let mut expected = answer;
        if expected.get("content").is_none() {
            expected["content"] = json!({});
        }
        assert_eq!(taken, (key.to_owned(), expected));
        api.with(|forge| forge.shows(json!({"state": "RUNNING"})));
        modern.until(&id, "working").await;
    }
    api.with(|forge| forge.ends(json!("y")));
    modern.until(&id, "completed").await;
    api.is_content();
}

/// A question that the job takes back need not be answered.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_taken_back() {
    let api = forge().await;
    let server = serve(&written(&api.base, ""), TaskMode::Always).await;
    let modern = Modern::new(&server);
    let id = task(&modern, "x").await;
    api.until("a job", |forge| forge.only().is_some().then_some(())).await;
    api.with(|forge| forge.shows(asks("q")));
    modern.until(&id, "input_required").await;
    api.with(|forge| forge.shows(json!({"state": "RUNNING"})));
    modern.until(&id, "working").await;
    api.with(|forge| forge.ends(json!("y")));
    modern.until(&id, "completed").await;
    assert_eq!(api.heard("answer").len(), 0);
}

/// A question survives the gateway: the next one asks it again.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_survives_a_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("tasks.db");
    let api = forge().await;
    let life = live(&file, written(&api.base, "")).await;
    let modern = Modern::new(life.server());
    let id = task(&modern, "x").await;
    api.until("a job", |forge| forge.only().is_some().then_some(())).await;
    api.with(|forge| forge.shows(asks("q")));
    modern.until(&id, "input_required").await;
    life.kill().await;
    let life = live(&file, written(&api.base, "")).await;
    let modern = Modern::new(life.server());
    let task = modern.until(&id, "input_required").await;
    let (key, question) = task["inputRequests"].as_object().expect("questions").iter().next().expect("one");
    assert_eq!(*question, asked());
    modern.update(&id, json!({ key: accept("b") })).await.result();
    let taken = api.until("an answer", |forge| forge.only()?.answers.pop()).await;
    assert_eq!(taken, ("q".to_owned(), accept("b")));
    api.with(|forge| forge.ends(json!("y")));
    modern.until(&id, "completed").await;
    api.is_content();
}

/// Whoever cannot be asked does not leave the job waiting for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_to_nobody_ends_the_job() {
    let api = forge().await;
    let server = serve(&written(&api.base, ""), TaskMode::Auto).await;
    let old = Old::with(&server, "2025-11-25", json!({})).await;
    let id = old.ask("tools/call", json!({"name": "forge", "arguments": {}, "task": {}})).await.task();
    api.until("a job", |forge| forge.only().is_some().then_some(())).await;
    api.with(|forge| forge.shows(asks("q")));
    let line = old.until(&id, "failed").await["statusMessage"].to_string();
    assert!(line.contains("did not declare"), "{line}");
    api.until("the job is cancelled", |forge| forge.only()?.is_cancelled.then_some(())).await;
    api.is_content();
}

/// An answer that the API will not have is not the last word: the question is asked again, under another key.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_answer_is_asked_for_again() {
    let api = forge().await;
    let server = serve(&written(&api.base, ""), TaskMode::Always).await;
    let modern = Modern::new(&server);
    let id = task(&modern, "x").await;
    api.until("a job", |forge| forge.only().is_some().then_some(())).await;
    api.with(|forge| forge.shows(asks("q")));
    modern.until(&id, "input_required").await;
    api.twist("answer", Twist::Refuse(422, "no such name"));
    modern.update(&id, json!({"q": accept("a")})).await.result();
    api.heard_times("answer", 1).await;
    let task = modern.until(&id, "input_required").await;
    assert_eq!(task["inputRequests"], json!({ "q~2": asked() }));
    modern.update(&id, json!({"q~2": accept("b")})).await.result();
    let taken = api.until("an answer", |forge| forge.only()?.answers.pop()).await;
    assert_eq!(taken, ("q".to_owned(), accept("b")));
    // Who declines is not asked again.
    api.with(|forge| forge.shows(asks("r")));
    modern.until(&id, "input_required").await;
    api.twist("answer", Twist::Refuse(422, "no"));
    modern.update(&id, json!({"r": {"action": "decline"}})).await.result();
    modern.until(&id, "working").await;
    api.with(|forge| forge.ends(json!("y")));
    modern.until(&id, "completed").await;
    assert_eq!(api.heard("answer").len(), 3);
    api.is_content();
}
