//! Time: limits, expiry, and what is late.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use taskgate_gateway::{Gateway, LifetimePolicy, TaskMode, ToolPolicy};
use taskgate_task::{Owner, TaskId};

use crate::harness::{Board, Era, Modern, Old, Server, accept, eventually, form, logs, quick, soon, steps};

/// A policy of tasks with these limits in milliseconds.
fn limits(run: u64, idle: Option<u64>, retention: u64) -> ToolPolicy {
    let lifetime = LifetimePolicy {
        run_limit: Duration::from_millis(run),
        idle_limit: idle.map(Duration::from_millis),
        retention: Duration::from_millis(retention),
        ..LifetimePolicy::default()
    };
    ToolPolicy { tasks: TaskMode::Always, lifetime, ..quick() }
}

async fn serve(board: &Board, policy: ToolPolicy) -> Server {
    let plain = ToolPolicy { tasks: TaskMode::Never, ..policy.clone() };
    let builder = Gateway::builder().add(board.spec("upstream")).policy(policy).tool("never", plain);
    Server::start(builder.settings(crate::harness::settings()).build().await.expect("gateway")).await
}

/// Case 2: a running task is not deleted because its ttl passed; the ttl grows, and the result stays readable for the
/// whole retention after the end.
#[tokio::test(flavor = "multi_thread")]
async fn a_short_ttl_does_not_end_a_running_task() {
    let board = Board::new(Era::Both);
    let server = serve(&board, limits(60_000, None, 60_000)).await;
    let old = Old::open(&server).await;
    let call = json!({"name": "do", "arguments": steps(&json!([{"wait": "go"}])), "task": {"ttl": 1000}});
    let created = old.ask("tools/call", call).await;
    assert_eq!(created.result()["task"]["ttl"], 1000);
    let id = created.task();
    tokio::time::sleep(Duration::from_millis(2300)).await;
    let grown = old.get(&id).await;
    assert_eq!(grown["status"], "working");
    assert!(grown["ttl"].as_u64().expect("a ttl") > 2300, "{grown}");
    board.open("go");
    let ended = old.until(&id, "completed").await;
    // From now on it is exact: the end, and one second more.
    assert!(ended["ttl"].as_u64().expect("a ttl") < 6000, "{ended}");
    assert_eq!(old.ask("tasks/result", json!({"taskId": id})).await.text(), "done");
    eventually("the end of the retention", || async {
        let answer = old.ask("tasks/get", json!({"taskId": id})).await;
        answer.json.get("error").map(|error| assert_eq!(error["message"], "Unknown task"))
    })
    .await;
    let gone = || async {
        let id = TaskId::parse(&id).expect("an id");
        server.gateway.engine().store().get(id).await.expect("read").is_none().then_some(())
    };
    eventually("the deletion", gone).await;
}

/// Case 21: at the run limit everything ends at once: work, questions, and those who wait; nothing is an error of ours.
#[tokio::test(flavor = "multi_thread")]
async fn the_run_limit_ends_everything_at_once() {
    for era in [Era::Session, Era::Modern] {
        let board = Board::new(era);
        let server = serve(&board, limits(700, None, 60_000)).await;
        let modern = Modern::new(&server);
        let old = Old::open(&server).await;
        let asks = if era == Era::Session {
            json!({"ask": [form("?")]})
        } else {
            json!({"round": {"q": form("?")}})
        };
        let since = Instant::now();
        let working = modern.task("do", json!([{"wait": "x"}])).await;
        let asking = modern.task("do", json!([asks])).await;
        let awaited = old.augmented("do", json!([{"wait": "x"}])).await.task();
        let waiter = tokio::spawn({
            let (old, id) = (old.clone(), awaited.clone());
            async move { old.ask("tasks/result", json!({"taskId": id})).await }
        });
        modern.until(&asking, "input_required").await;
        let answer = soon("the waiter", waiter).await.expect("no panic");
        assert_eq!((answer.code(), &answer.error()["data"]["reason"]), (-32603, &json!("run_limit")));
        for id in [&working, &asking] {
            let task = modern.until(id, "failed").await;
            assert_eq!(task["error"]["data"]["reason"], "run_limit", "{task}");
            assert!(task["statusMessage"].as_str().expect("words").contains("0.7 s"), "{task}");
        }
        assert!(since.elapsed() < Duration::from_millis(1900), "{:?}", since.elapsed());
        board.until("all work was stopped", |board| board.running() == 0).await;
        eventually("nothing carried", || async { (server.gateway.engine().carried() == 0).then_some(()) })
            .await;
        // A late answer and a late cancel are quiet.
        modern.update(&asking, json!({"q": accept("late"), "elicitation-1": accept("late")})).await.result();
        assert_eq!(old.ask("tasks/cancel", json!({"taskId": working})).await.code(), -32602);
        let told = board.heard("notifications/cancelled").len();
        assert_eq!(told, if era == Era::Session { 3 } else { 2 });
    }
    logs::clean();
}

/// Case 11: the limit of a plain call ends it at its time, in every dialect, and the upstream is told.
#[tokio::test(flavor = "multi_thread")]
async fn a_plain_call_ends_at_its_limit() {
    let board = Board::new(Era::Both);
    let server = serve(&board, limits(600, None, 60_000)).await;
    let old = Old::open(&server).await;
    let modern = Modern::new(&server);
    for n in 0..2 {
        let since = Instant::now();
        let what = json!([{"wait": "x"}]);
        let answer = if n == 0 { old.tool("never", what).await } else { modern.tool("never", what).await };
        assert_eq!(answer.code(), -32603, "{}", answer.raw);
        let took = since.elapsed().as_millis();
        assert!((550..1500).contains(&took), "{took} ms");
        board
            .until("the upstream was told", |board| board.heard("notifications/cancelled").len() == n + 1)
            .await;
    }
    // Within its limit it is left alone.
    assert_eq!(modern.tool("never", json!([{"sleep": 300}])).await.text(), "done");
}

/// Cases 14 and 39: progress resets the idle limit although the caller gave no token, never the run limit; silence ends
/// the work; the status line shows the progress.
#[tokio::test(flavor = "multi_thread")]
async fn progress_resets_the_idle_limit_only() {
    let board = Board::new(Era::Both);
    let server = serve(&board, limits(2000, Some(500), 60_000)).await;
    let modern = Modern::new(&server);
    let chatty = |rounds: usize| -> Value {
        let round = |n: usize| {
            [json!({"sleep": 200}), json!({"progress": {"progress": n, "message": format!("step {n}")}})]
        };
        (0..rounds).flat_map(round).collect()
    };
    let silent = modern.task("do", json!([{"wait": "x"}])).await;
    let fine = modern.task("do", chatty(5)).await;
    let endless = modern.task("do", chatty(40)).await;
    eventually("a status line", || async {
        let task = modern.get(&fine).await;
        task["statusMessage"].as_str().is_some_and(|line| line.starts_with("step")).then_some(())
    })
    .await;
    let plain = modern.tool("never", chatty(5)).await;
    assert_eq!((plain.text(), plain.before.len()), ("done", 0));
    assert_eq!(modern.until(&silent, "failed").await["error"]["data"]["reason"], "idle_limit");
    modern.until(&fine, "completed").await;
    assert_eq!(modern.until(&endless, "failed").await["error"]["data"]["reason"], "run_limit");
    board.until("all work was stopped", |board| board.running() == 0).await;
    // Waiting for the requestor is no silence.
    let asking = modern.task("do", json!([{"ask": [form("?")]}])).await;
    tokio::time::sleep(Duration::from_millis(900)).await;
    assert_eq!(modern.get(&asking).await["status"], "input_required");
    modern.update(&asking, json!({"elicitation-1": accept("x")})).await.result();
    modern.until(&asking, "completed").await;
    logs::clean();
}

/// Case 38: a cancel between two progress writes wins; the work stops, and nothing is an error.
#[tokio::test(flavor = "multi_thread")]
async fn progress_after_a_cancel_changes_nothing() {
    let board = Board::new(Era::Both);
    let server = serve(&board, limits(60_000, None, 60_000)).await;
    let modern = Modern::new(&server);
    let steps: Value =
        (0..2000).flat_map(|n| [json!({"progress": {"progress": n}}), json!({"sleep": 1})]).collect();
    for _ in 0..10 {
        let id = modern.task("do", steps.clone()).await;
        eventually("progress", || async { modern.get(&id).await.get("statusMessage").cloned() }).await;
        modern.ask("tasks/cancel", json!({"taskId": id})).await.result();
        let cancelled = modern.get(&id).await;
        assert_eq!(cancelled["status"], "cancelled");
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!(modern.get(&id).await, cancelled);
    }
    board.until("all work was stopped", |board| board.running() == 0).await;
    logs::clean();
}

/// Case 21: the audit trail of an expiry: created, asked, failed; nothing after the end.
#[tokio::test(flavor = "multi_thread")]
async fn the_events_tell_what_happened() {
    let board = Board::new(Era::Session);
    let server = serve(&board, limits(500, None, 60_000)).await;
    let modern = Modern::new(&server);
    let id = modern.task("do", json!([{"ask": [form("?")]}])).await;
    modern.until(&id, "failed").await;
    let engine = server.gateway.engine();
    let id = TaskId::parse(&id).expect("an id");
    let events = engine.store().events(id).await.expect("events");
    let told: Vec<_> = events.iter().map(|event| (event.to.as_str(), event.why.as_str())).collect();
    assert_eq!(told, [("working", "created"), ("input_required", "1 asked"), ("failed", "run_limit")]);
    assert!(engine.get(&Owner::anonymous(), id).await.is_ok());
}
