//! `subscriptions/listen` and status notifications.

use std::time::Instant;

use serde_json::{Value, json};

use crate::harness::modern::everything;
use taskgate_gateway::{Settings, StreamSettings};

use crate::harness::{Board, Era, Modern, Old, Pipe, eventually_with, serve, serve_with, settings, soon};

async fn next(stream: &mut crate::harness::http::Response) -> Value {
    serde_json::from_str(&stream.event().await.expect("an event")).expect("JSON")
}

/// Case 40: a subscriber hears of the end at once, however long the poll interval is, and what it hears is what
/// `tasks/get` says.
#[tokio::test(flavor = "multi_thread")]
async fn a_subscriber_is_woken_at_once() {
    let board = Board::new(Era::Both);
    let server = serve(&board).await;
    let modern = Modern::new(&server);
    let id = modern.task("always", json!([{"wait": "go"}])).await;
    let mut stream = modern.listen(&[&id]).await;
    assert!(stream.is_stream());
    assert_eq!(stream.header("x-accel-buffering"), Some("no"));
    let acknowledged = next(&mut stream).await;
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(acknowledged["params"]["notifications"], json!({"taskIds": [id]}));
    let subscription = acknowledged["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].clone();
    let current = next(&mut stream).await;
    assert_eq!(
        (&current["method"], &current["params"]["status"]),
        (&json!("notifications/tasks"), &json!("working"))
    );
    let since = Instant::now();
    board.open("go");
    let ended = next(&mut stream).await;
    assert!(since.elapsed().as_millis() < 1000);
    let mut params = ended["params"].clone();
    assert_eq!(params["_meta"], json!({"io.modelcontextprotocol/subscriptionId": subscription}));
    let mut got = modern.get(&id).await;
    for object in [&mut params, &mut got] {
        object.as_object_mut().expect("an object").retain(|key, _| key != "_meta" && key != "resultType");
    }
    assert_eq!(params, got);
}

/// Case 40: nothing is missed by those who subscribe around the finish.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_missed_around_the_finish() {
    let board = Board::new(Era::Both);
    let server = serve(&board).await;
    let modern = Modern::new(&server);
    for round in 0..60_u64 {
        let gate = format!("go-{round}");
        let id = modern.task("always", json!([{"wait": gate}])).await;
        let ids = [id.as_str()];
        let (mut stream, ()) = tokio::join!(modern.listen(&ids), async {
            tokio::time::sleep(std::time::Duration::from_micros(round * 30)).await;
            board.open(&gate);
        });
        let mut seen = Vec::new();
        while seen.last() != Some(&json!("completed")) {
            let message = next(&mut stream).await;
            if message["method"] == "notifications/tasks" {
                seen.push(message["params"]["status"].clone());
            }
        }
        assert!(seen.len() <= 2, "each state once: {seen:?}");
    }
}

/// SEP-2663: without the extension -32021; unknown and foreign ids are left out; current states come first.
#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_is_acknowledged_for_what_is_ones_own() {
    let board = Board::new(Era::Both);
    let server = serve(&board).await;
    let modern = Modern::new(&server);
    let mut local = Pipe::open(&server.gateway).await;
    let foreign = local.task("always", json!([{"wait": "x"}])).await;
    let running = modern.task("always", json!([{"wait": "x"}])).await;
    let done = modern.task("always", json!([])).await;
    modern.until(&done, "completed").await;
    let refused = Modern::without_tasks(&server)
        .ask("subscriptions/listen", json!({"notifications": {"taskIds": [running]}}))
        .await;
    assert_eq!((refused.code(), refused.status), (-32021, 400));
    // There is a most of what it can name, and of how often.
    let all: Vec<String> = (0..1001).map(|number| format!("{number:048x}")).collect();
    for ids in [all, vec![running.clone(); 2001]] {
        let refused = modern.ask("subscriptions/listen", json!({"notifications": {"taskIds": ids}})).await;
        assert_eq!((refused.code(), refused.status), (-32602, 200), "{}", refused.raw);
    }
    let mut stream = modern.listen(&[&foreign, &running, "unknown", &done, &running]).await;
    let acknowledged = next(&mut stream).await;
    assert_eq!(acknowledged["params"]["notifications"], json!({"taskIds": [running, done]}));
    for (id, status) in [(&running, "working"), (&done, "completed")] {
        let state = next(&mut stream).await["params"].clone();
        assert_eq!((&state["taskId"], &state["status"]), (&json!(id), &json!(status)));
    }
    // What is foreign makes no sound either.
    local.ask("tasks/cancel", json!({"taskId": foreign})).await.result();
    modern.ask("tasks/cancel", json!({"taskId": running})).await.result();
    let state = next(&mut stream).await["params"].clone();
    assert_eq!((&state["taskId"], &state["status"]), (&json!(running), &json!("cancelled")));
}

/// Two subscribers of one task both hear everything, and one that leaves takes nothing from the other.
#[tokio::test(flavor = "multi_thread")]
async fn two_subscribers_hear_the_same() {
    let board = Board::new(Era::Both);
    let server = serve(&board).await;
    let modern = Modern::new(&server);
    let id = modern
        .task(
            "always",
            json!([{"wait": "one"}, {"progress": {"progress": 1, "message": "half"}}, {"wait": "two"}]),
        )
        .await;
    let mut first = modern.listen(&[&id]).await;
    let mut second = modern.listen(&[&id]).await;
    for stream in [&mut first, &mut second] {
        next(stream).await;
        assert_eq!(next(stream).await["params"]["status"], "working");
    }
    board.open("one");
    for stream in [&mut first, &mut second] {
        assert_eq!(next(stream).await["params"]["statusMessage"], "half");
    }
    drop(first);
    board.open("two");
    assert_eq!(next(&mut second).await["params"]["status"], "completed");
}

/// Subscriptions over stdio: told apart by the subscription's id, ended by `notifications/cancelled`.
#[tokio::test(flavor = "multi_thread")]
async fn stdio_subscriptions_are_told_apart() {
    let board = Board::new(Era::Both);
    let server = serve(&board).await;
    let mut pipe = Pipe::start(&server.gateway);
    let mut ids = Vec::new();
    for gate in ["a", "b"] {
        let params = json!({"name": "always", "arguments": {"steps": [{"wait": gate}]}});
        ids.push(pipe.ask_modern("tools/call", params).await.task());
    }
    let mut subscriptions = Vec::new();
    for id in &ids {
        let mut params = json!({"notifications": {"taskIds": [id]}});
        params["_meta"] = crate::harness::pipe::modern_meta(everything());
        let number = pipe.begin("subscriptions/listen", params).await;
        for _ in 0..2 {
            let message = pipe.message().await;
            assert_eq!(message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], number);
        }
        subscriptions.push(number);
    }
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": subscriptions[0]}});
    pipe.write(format!("{cancel}\n").as_bytes()).await;
    pipe.ping_modern().await;
    board.open("a");
    board.open("b");
    let message = pipe.message().await;
    assert_eq!(message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], subscriptions[1]);
    assert_eq!(message["params"]["status"], "completed");
    eventually_with(&mut pipe, "the other one's end", async |pipe| {
        let first = pipe.ask_modern("tasks/get", json!({"taskId": ids[0]})).await.result().clone();
        (first["status"] == "completed").then_some(())
    })
    .await;
    assert!(pipe.others.is_empty(), "{:?}", pipe.others);
}

/// Case 40: status notifications of 2025-11-25 on the general stream; polling stays the truth without one.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_hears_of_its_tasks_on_the_general_stream() {
    let board = Board::new(Era::Both);
    let server = serve(&board).await;
    let old = Old::open(&server).await;
    let mut stream = old.stream().await;
    assert_eq!(stream.status, 200);
    let id = old.augmented("always", json!([{"wait": "go"}])).await.task();
    board.open("go");
    let told = next(&mut stream).await;
    assert_eq!(told["method"], "notifications/tasks/status");
    assert_eq!((&told["params"]["taskId"], &told["params"]["status"]), (&json!(id), &json!("completed")));
    assert!(told["params"].get("_meta").is_none());
    assert_eq!(told["params"], old.get(&id).await);
}

/// A newer general stream replaces an older one; what was said without one is kept, within bounds, for the next.
#[tokio::test(flavor = "multi_thread")]
async fn a_newer_general_stream_replaces_the_older_one() {
    let board = Board::new(Era::Session);
    let streams = StreamSettings { replay_events: 64, ..StreamSettings::default() };
    let server = serve_with(&board, Settings { streams, ..settings() }).await;
    let old = Old::open(&server).await;
    let mut first = old.stream().await;
    let mut second = old.stream().await;
    assert_eq!(soon("its end", first.event()).await, None);
    board.say("notifications/prompts/list_changed", None).await;
    assert_eq!(next(&mut second).await["method"], "notifications/prompts/list_changed");
    drop(second);
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    for n in 0..100 {
        board.say("notifications/prompts/list_changed", Some(json!({"n": n}))).await;
    }
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    let mut third = old.stream().await;
    for n in 36..100 {
        assert_eq!(next(&mut third).await["params"]["n"], n);
    }
}

/// A subscriber that goes away is forgotten.
#[tokio::test(flavor = "multi_thread")]
async fn a_subscriber_that_leaves_is_forgotten() {
    let board = Board::new(Era::Both);
    let server = serve(&board).await;
    let modern = Modern::new(&server);
    let id = modern.task("always", json!([{"wait": "x"}])).await;
    let task = taskgate_task::TaskId::parse(&id).expect("an id");
    let followed = || server.gateway.engine().store().feed().is_followed(&task);
    let mut many: Vec<String> = (0..999).map(|n| format!("{n:048x}")).collect();
    many.push(id.clone());
    let ids: Vec<&str> = many.iter().map(String::as_str).collect();
    for ids in [&[id.as_str()][..], &ids] {
        let mut stream = modern.listen(ids).await;
        assert_eq!(next(&mut stream).await["params"]["notifications"], json!({"taskIds": [id]}));
        assert!(followed());
        drop(stream);
        crate::harness::eventually("it is forgotten", || async { (!followed()).then_some(()) }).await;
    }
    assert_eq!(modern.get(&id).await["status"], "working");
}

/// A blocked `tasks/result` is answered the moment the task ends.
#[tokio::test(flavor = "multi_thread")]
async fn tasks_result_blocks_until_the_end() {
    let board = Board::new(Era::Both);
    let server = serve(&board).await;
    let old = Old::open(&server).await;
    let id = old.augmented("always", json!([{"wait": "go"}])).await.task();
    let waiting = (0..3).map(|_| {
        let (old, id) = (old.clone(), id.clone());
        tokio::spawn(async move { old.ask("tasks/result", json!({"taskId": id})).await })
    });
    let waiting: Vec<_> = waiting.collect();
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    board.open("go");
    for waiting in waiting {
        assert_eq!(soon("a result", waiting).await.expect("no panic").text(), "done");
    }
}

/// Changes of an upstream's lists reach whoever asked for them, under their subscription, and nobody else.
#[tokio::test(flavor = "multi_thread")]
async fn changes_of_an_upstream_reach_those_who_asked() {
    let board = Board::new(Era::Session);
    let server = serve(&board).await;
    let modern = Modern::new(&server);
    let mut tools =
        modern.open("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}})).await;
    let mut prompts =
        modern.open("subscriptions/listen", json!({"notifications": {"promptsListChanged": true}})).await;
    next(&mut tools).await;
    next(&mut prompts).await;
    let mut pipe = Pipe::open(&server.gateway).await;
    board.say("notifications/tools/list_changed", None).await;
    assert_eq!(next(&mut tools).await["method"], "notifications/tools/list_changed");
    board.say("notifications/prompts/list_changed", Some(json!({"_meta": {"k": 1}}))).await;
    let told = next(&mut prompts).await;
    assert_eq!(told["method"], "notifications/prompts/list_changed");
    assert_eq!(told["params"]["_meta"]["k"], 1);
    assert!(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].is_number());
    eventually_with(&mut pipe, "both changes", async |pipe| {
        let method = pipe.message().await["method"].clone();
        (method == "notifications/prompts/list_changed").then_some(())
    })
    .await;
}

/// `subscriptions/listen` needs a filter of the right shape.
#[tokio::test(flavor = "multi_thread")]
async fn malformed_filters_are_refused() {
    let server = serve(&Board::new(Era::Both)).await;
    let modern = Modern::new(&server);
    for params in [
        json!({}),
        json!({"notifications": 7}),
        json!({"notifications": {"taskIds": "x"}}),
        json!({"notifications": {"taskIds": [7]}}),
        json!({"notifications": {"toolsListChanged": "yes"}}),
    ] {
        assert_eq!(modern.ask("subscriptions/listen", params.clone()).await.code(), -32602, "{params}");
    }
    let mut nothing = modern.open("subscriptions/listen", json!({"notifications": {}})).await;
    assert_eq!(next(&mut nothing).await["params"]["notifications"], json!({}));
}
