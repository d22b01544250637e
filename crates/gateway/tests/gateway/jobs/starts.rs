//! A job is started once, whatever happens to its start, and never left without anybody who knows of it.

use serde_json::json;
use taskgate_gateway::TaskMode;

use super::{builder, forge, live, serve, task, written};
use crate::harness::job_api::Twist;
use crate::harness::{Modern, Server, eventually};

const NOT_IDEMPOTENT: (&str, &str) = ("idempotent = true", "idempotent = false");

/// A gateway that dies between the start and its answer: the next one starts again with the same key, and that is one job.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_was_cut_off_is_made_again_with_its_key() {
    for refuses_known in [false, true] {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("tasks.db");
        let api = forge().await;
        api.with(|forge| forge.refuses_known = refuses_known);
        api.twist("start", Twist::Hold);
        let life = live(&file, written(&api.base, "")).await;
        let id = task(&Modern::new(life.server()), "x").await;
        api.until("a job", |forge| forge.only().is_some().then_some(())).await;
        life.kill().await;
        let life = live(&file, written(&api.base, "")).await;
        let modern = Modern::new(life.server());
        api.heard_times("status", 1).await;
        api.with(|forge| forge.ends(json!("once")));
        assert_eq!(modern.until(&id, "completed").await["result"]["content"][0]["text"], "once");
        assert_eq!(api.heard("start").len(), 2);
        api.is_content();
    }
}

/// Where that would make two jobs it is not done, and whoever waits hears what may be running.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_cannot_be_repeated_is_reported() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("tasks.db");
    let api = forge().await;
    let text = written(&api.base, "").replace(NOT_IDEMPOTENT.0, NOT_IDEMPOTENT.1);
    api.twist("start", Twist::Hold);
    let life = live(&file, text.clone()).await;
    let id = task(&Modern::new(life.server()), "x").await;
    let key = api.until("a job", |forge| forge.only().map(|job| job.key.clone())).await;
    life.kill().await;
    let life = live(&file, text).await;
    let modern = Modern::new(life.server());
    let said = modern.until(&id, "failed").await["error"]["message"].to_string();
    assert!(said.contains("may be running") && said.contains(&key), "{said}");
    assert_eq!(api.heard("start").len(), 1);
    // An answer that is lost leaves the same open.
    api.with(|forge| forge.jobs.clear());
    api.twist("start", Twist::Lose);
    let id = task(&modern, "x").await;
    let said = modern.until(&id, "failed").await["error"]["message"].to_string();
    assert!(said.contains("may have been started all the same"), "{said}");
    assert_eq!(api.heard("start").len(), 2);
    api.is_content();
}

/// A start that may be repeated is, as long as it takes; one that the API will not have is told to whoever called.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_goes_on_until_it_is_answered() {
    let api = forge().await;
    let server = serve(&written(&api.base, ""), TaskMode::Always).await;
    let modern = Modern::new(&server);
    for twist in [Twist::Refuse(503, "later"), Twist::Lose, Twist::RefuseWith(429, "retry-after", "1")] {
        api.twist("start", twist);
    }
    let id = task(&modern, "x").await;
    eventually("a word of it", || async {
        modern.get(&id).await["statusMessage"]
            .as_str()
            .is_some_and(|line| line.starts_with("Waiting for the job API"))
            .then_some(())
    })
    .await;
    api.heard_times("status", 1).await;
    api.with(|forge| forge.ends(json!("one")));
    modern.until(&id, "completed").await;
    assert_eq!(api.heard("start").len(), 4);
    api.twist("start", Twist::Refuse(400, "no such thing"));
    let id = task(&modern, "y").await;
    let task = modern.until(&id, "completed").await;
    assert_eq!(task["result"]["isError"], true);
    assert!(
        task["result"]["content"][0]["text"].as_str().expect("a text").contains("HTTP 400: no such thing"),
        "{task}"
    );
    api.is_content();
}

/// A task that is cancelled while its job is being started cancels the job as soon as there is one.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_during_the_start_reaches_the_job() {
    for (from, to) in [("", ""), NOT_IDEMPOTENT] {
        let api = forge().await;
        let server = serve(&written(&api.base, "").replace(from, to), TaskMode::Always).await;
        let modern = Modern::new(&server);
        api.twist("start", Twist::Delay);
        let id = task(&modern, "x").await;
        api.heard_times("start", 1).await;
        modern.ask("tasks/cancel", json!({"taskId": id})).await.result();
        modern.until(&id, "cancelled").await;
        api.open();
        api.until("the job is cancelled", |forge| {
            forge.only().is_some_and(|job| job.is_cancelled).then_some(())
        })
        .await;
        assert_eq!(api.heard("start").len(), 1);
        api.is_content();
    }
}

/// A call that nobody waits for any more and that is no task leaves no job.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_was_given_up_leaves_no_job() {
    let api = forge().await;
    let server = serve(&written(&api.base, ""), TaskMode::Never).await;
    let modern = Modern::new(&server);
    api.twist("start", Twist::Delay);
    let call =
        tokio::spawn(
            async move { modern.ask("tools/call", json!({"name": "forge", "arguments": {}})).await },
        );
    api.heard_times("start", 1).await;
    call.abort();
    assert!(call.await.is_err());
    api.open();
    api.until("the job is cancelled", |forge| forge.only().is_some_and(|job| job.is_cancelled).then_some(()))
        .await;
    api.is_content();
}

/// A cancel is sent again until the API has taken it, by the next gateway too; a job that is gone is cancelled.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_is_sent_until_it_is_taken() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("tasks.db");
    let api = forge().await;
    let life = live(&file, written(&api.base, "")).await;
    let modern = Modern::new(life.server());
    let id = task(&modern, "x").await;
    api.heard_times("status", 1).await;
    api.twist("cancel", Twist::Refuse(500, "oh"));
    api.twist("cancel", Twist::Hold);
    modern.ask("tasks/cancel", json!({"taskId": id})).await.result();
    api.heard_times("cancel", 2).await;
    life.kill().await;
    api.with(|forge| forge.jobs.clear());
    let life = live(&file, written(&api.base, "")).await;
    api.heard_times("cancel", 3).await;
    let engine = life.server().gateway.engine().clone();
    eventually("nothing is carried", || async { (engine.carried() == 0).then_some(()) }).await;
    assert_eq!(Modern::new(life.server()).get(&id).await["status"], "cancelled");
    api.is_content();
}

/// Arguments that a template does not find are told at once, and nothing is sent.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_is_told_before_anything_is_sent() {
    let api = forge().await;
    let text = written(&api.base, "").replace("\"args\": {{ args }}", "\"args\": {{ args.needed }}");
    let server = Server::start(builder(&text, TaskMode::Auto).build().await.expect("gateway")).await;
    let answer =
        Modern::new(&server).ask("tools/call", json!({"name": "forge", "arguments": {"what": "x"}})).await;
    assert_eq!(answer.result()["isError"], true);
    assert!(answer.text().contains("`args.needed`"), "{}", answer.text());
    assert_eq!(api.heard("start").len(), 0);
}

/// A secret that changes is read anew, and one that is not believed fails what it is for, without showing itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_may_change_while_a_job_runs() {
    let token = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(token.path(), "first\n").expect("written");
    let api = forge().await;
    api.with(|forge| forge.token = Some("first"));
    let auth = format!(
        "auth = {{ bearer = {{ from_file = \"{}\" }} }}\n[upstream.job.start]",
        token.path().display()
    );
    let text = written(&api.base, "").replacen("[upstream.job.start]", &auth, 1);
    let server = serve(&text, TaskMode::Always).await;
    let modern = Modern::new(&server);
    let id = task(&modern, "x").await;
    api.heard_times("status", 1).await;
    std::fs::write(token.path(), "second").expect("written");
    api.with(|forge| forge.token = Some("second"));
    // What was on its way with the old one may have come too late.
    let line = eventually("an end or a look", || async {
        let task = modern.get(&id).await;
        let looks = api
            .heard("status")
            .iter()
            .filter(|heard| heard.header("authorization") == "Bearer second")
            .count();
        (task["status"] == "failed" || looks > 1).then(|| task["statusMessage"].to_string())
    })
    .await;
    assert!(!line.contains("first") && !line.contains("second"), "{line}");
    api.is_content();
}
