//! Calls that are answered at once if they end in time, and otherwise become tasks while they run.

use std::time::Duration;

use serde_json::{Value, json};
use taskgate_gateway::{Gateway, GatewayBuilder, ToolPolicy};

use crate::harness::{Board, Era, Modern, Old, Server, quick, serve, steps};

/// A call that ends within `inline_for` is answered directly; a longer one becomes a task while it runs, and its body
/// runs once.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_call_becomes_a_task_and_is_not_started_again() {
    let board = Board::new(Era::Both);
    let server = serve(&board).await;
    let modern = Modern::new(&server);
    assert_eq!(modern.tool("patient", json!([{"count": "body"}])).await.text(), "done");
    assert_eq!(board.count("body"), 1);
    let id = modern.task("patient", json!([{"count": "body"}, {"wait": "go"}, {"count": "after"}])).await;
    assert_eq!(modern.get(&id).await["status"], "working");
    board.open("go");
    assert_eq!(modern.until(&id, "completed").await["result"]["content"][0]["text"], "done");
    assert_eq!((board.count("body"), board.count("after"), board.count("calls")), (2, 1, 2));
    assert!(board.heard("notifications/cancelled").is_empty());
}

/// Promotion races the finish: whoever wins, there is exactly one answer, and a handle is always readable.
#[tokio::test(flavor = "multi_thread")]
async fn promotion_and_finish_race_to_one_answer() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = crate::harness::life::open(&directory.path().join("tasks.db")).await;
    let policy = ToolPolicy { inline_for: Duration::from_millis(20), ..quick() };
    race(Gateway::builder().policy(policy.clone())).await;
    race(Gateway::builder().policy(policy).store(store)).await;
}

async fn race(builder: GatewayBuilder) {
    let board = Board::new(Era::Both);
    let builder = builder.add(board.spec("upstream"));
    let server = Server::start(builder.build().await.expect("gateway")).await;
    let (mut results, mut tasks) = (0, 0);
    for round in 0..25 {
        let calls = (0..8).map(|n| {
            let modern = Modern::new(&server);
            async move {
                let millis = 17 + (round + n) % 6;
                let answer = modern.tool("do", json!([{"sleep": millis}, {"count": "ended"}])).await;
                let result = answer.result();
                match result.get("taskId").and_then(|id| id.as_str()) {
                    None => {
                        assert_eq!(answer.text(), "done");
                        false
                    }
                    Some(id) => {
                        // The handle resolves at once, whatever the work does meanwhile.
                        let task = modern.get(id).await;
                        assert!(task["status"] == "working" || task["status"] == "completed", "{task}");
                        assert_eq!(
                            modern.until(id, "completed").await["result"]["content"][0]["text"],
                            "done"
                        );
                        true
                    }
                }
            }
        });
        for task in futures_util::future::join_all(calls).await {
            *(if task { &mut tasks } else { &mut results }) += 1;
        }
    }
    assert_eq!(results + tasks, 200);
    assert_eq!((board.count("calls"), board.count("ended")), (200, 200));
    assert!(tasks > 0 && results > 0, "both sides must win sometimes: {results} {tasks}");
}

/// Progress before and after the promotion: the caller's token hears the former, the task's status line shows the latter.
#[tokio::test(flavor = "multi_thread")]
async fn progress_goes_to_the_caller_first_and_to_the_task_afterwards() {
    let board = Board::new(Era::Both);
    let server = serve(&board).await;
    let modern = Modern::new(&server);
    let what = json!({"steps": [
        {"progress": {"progress": 1, "total": 2, "message": "first"}},
        {"wait": "more"},
        {"progress": {"progress": 2, "total": 2, "message": "second"}},
        {"wait": "end"},
    ]});
    let params = json!({"name": "patient", "arguments": what, "_meta": {"progressToken": "tok"}});
    let answer = modern.ask("tools/call", params).await;
    assert_eq!(answer.before.len(), 1, "{:?}", answer.before);
    assert_eq!(
        answer.before[0]["params"],
        json!({"progress": 1, "total": 2, "message": "first", "progressToken": "tok"})
    );
    let id = answer.task();
    board.open("more");
    crate::harness::eventually("the status line", || async {
        (modern.get(&id).await["statusMessage"] == "second").then_some(())
    })
    .await;
    board.open("end");
    modern.until(&id, "completed").await;
    // The upstream always gets a token of ours, never the caller's.
    let sent = &board.heard("tools/call")[0]["params"]["_meta"]["progressToken"];
    assert!(sent.is_number(), "{sent}");
}

/// Progress and log messages of a plain call in a session: under the caller's own token, as it spelled it, and only to one
/// that gave a token.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_hears_of_progress_under_its_own_token() {
    let board = Board::new(Era::Both);
    let server = serve(&board).await;
    let old = Old::open(&server).await;
    let what = json!([{"progress": {"progress": 0.5, "extra": [1]}}, {"log": "hello"}, {"sleep": 20}]);
    for token in [json!("a"), json!(7), json!(9_007_199_254_740_993_u64), json!("")] {
        let params = json!({"name": "never", "arguments": steps(&what), "_meta": {"progressToken": token}});
        let answer = old.ask("tools/call", params).await;
        let progress: Vec<_> =
            answer.before.iter().filter(|said| said["method"] == "notifications/progress").collect();
        assert_eq!(progress.len(), 1, "{:?}", answer.before);
        assert_eq!(progress[0]["params"], json!({"progress": 0.5, "extra": [1], "progressToken": token}));
        let logged = answer.before.iter().find(|said| said["method"] == "notifications/message");
        assert_eq!(logged.expect("a message")["params"]["data"], "hello");
    }
    let silent = old.tool("never", what).await;
    assert!(
        silent.before.iter().all(|said| said["method"] != "notifications/progress"),
        "{:?}",
        silent.before
    );
}

/// Relaying: what is said right before the answer reaches the caller before the answer, however much it is.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_words_of_a_call_are_not_lost() {
    let server = serve(&Board::new(Era::Both)).await;
    let (old, modern) = (Old::open(&server).await, Modern::new(&server));
    let mut pipe = crate::harness::Pipe::open(&server.gateway).await;
    for count in [1, 500] {
        let what: Vec<Value> = (0..count).map(|number| json!({"progress": {"progress": number}})).collect();
        let params =
            json!({"name": "never", "arguments": {"steps": what}, "_meta": {"progressToken": "last"}});
        let id = pipe.begin("tools/call", params.clone()).await;
        pipe.answer(id).await.result();
        let over_stdio: Vec<Value> = std::mem::take(&mut pipe.others).into();
        let over_http = old.ask("tools/call", params.clone()).await.before;
        let stateless = modern.ask("tools/call", params).await.before;
        for heard in [over_stdio, over_http, stateless] {
            let heard: Vec<u64> =
                heard.iter().filter_map(|said| said["params"]["progress"].as_u64()).collect();
            assert_eq!(heard, (0..count).collect::<Vec<u64>>());
        }
    }
}
