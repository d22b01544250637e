//! Sessions begin, end and are bounded.

use std::time::Duration;

use serde_json::json;
use taskgate_gateway::Settings;

use crate::harness::direct::{gateway, gists, initialize, progress, settled};
use crate::harness::{Board, Direct, Era, Pipe, settings, steps};

/// Case 29: a session that its client has ended is unknown to everybody from then on; its streams close, its calls are
/// stopped.
#[tokio::test(start_paused = true)]
async fn a_deleted_session_is_unknown() {
    let board = Board::new(Era::Session);
    let gateway = gateway(&board, Settings::default()).await;
    let (client, other) =
        (Direct::open(&gateway, "2025-11-25").await, Direct::open(&gateway, "2025-11-25").await);
    let mut general = client.general().await;
    let mut call = client.call(1, json!([progress([1]), vec![json!({"wait": "go"})]].concat())).await;
    call.message().await.expect("progress");
    let seen = call.last.clone();
    assert_eq!(client.end().await, 204);
    assert_eq!((general.rest().await, call.rest().await), (vec![], vec![]));
    settled().await;
    assert_eq!(board.running(), 0);
    assert_eq!(client.status().await, 404);
    assert_eq!(client.general().await.status, 404);
    assert_eq!(client.resume(&seen).await.status, 404);
    assert_eq!(client.end().await, 404);
    assert_eq!(other.status().await, 200);
}

/// Case 29: a session that nobody uses ends after the configured time; one whose client is connected or waits for an answer
/// is used.
#[tokio::test(start_paused = true)]
async fn an_idle_session_is_unknown() {
    let board = Board::new(Era::Session);
    let gateway =
        gateway(&board, Settings { session_idle: Duration::from_secs(60), ..Settings::default() }).await;
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(Direct::open(&gateway, "2025-11-25").await);
    }
    let [idle, listening, waiting, asking] = &clients[..] else { panic!("four clients") };
    let general = listening.general().await;
    // Its connection breaks, but its call runs.
    drop(waiting.call(1, json!([{"wait": "go"}])).await);
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_secs(50)).await;
        assert_eq!(asking.status().await, 200);
    }
    assert_eq!(idle.status().await, 404);
    assert_eq!((listening.status().await, waiting.status().await), (200, 200));
    drop(general);
    board.open("go");
    tokio::time::sleep(Duration::from_secs(70)).await;
    for client in &clients {
        assert_eq!(client.status().await, 404);
    }
}

/// A session is kept as long as a task that was made in it has not ended, and as long after it as any other.
#[tokio::test(start_paused = true)]
async fn a_session_with_a_live_task_is_not_idle() {
    let board = Board::new(Era::Session);
    let gateway =
        gateway(&board, Settings { session_idle: Duration::from_secs(60), ..Settings::default() }).await;
    let (client, other) =
        (Direct::open(&gateway, "2025-11-25").await, Direct::open(&gateway, "2025-11-25").await);
    augmented(&client).await;
    tokio::time::sleep(Duration::from_secs(1800)).await;
    // Whoever asks for the status uses the session, so that is asked only where it must have ended.
    assert_eq!(other.status().await, 404);
    board.open("go");
    settled().await;
    tokio::time::sleep(Duration::from_secs(50)).await;
    assert_eq!(client.status().await, 200);
    tokio::time::sleep(Duration::from_secs(90)).await;
    assert_eq!(client.status().await, 404);
}

/// Sessions that only tasks keep give way when there are as many as there may be, the one unused for longest first; others
/// do not.
#[tokio::test(start_paused = true)]
async fn sessions_kept_by_tasks_give_way() {
    let board = Board::new(Era::Session);
    let idle = Duration::from_secs(60);
    let gateway =
        gateway(&board, Settings { session_idle: idle, max_sessions: 2, ..Settings::default() }).await;
    let first = Direct::open(&gateway, "2025-11-25").await;
    augmented(&first).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let second = Direct::open(&gateway, "2025-11-25").await;
    augmented(&second).await;
    assert_eq!(initialize(&gateway, "2025-11-25").await.status, 503);
    tokio::time::sleep(Duration::from_secs(1000)).await;
    let third = Direct::open(&gateway, "2025-11-25").await;
    assert_eq!((first.status().await, second.status().await, third.status().await), (404, 200, 200));
    // Both were used just now.
    assert_eq!(initialize(&gateway, "2025-11-25").await.status, 503);
    assert_eq!(board.running(), 2, "tasks do not end with their sessions");
}

/// Makes a task that waits.
async fn augmented(client: &Direct) {
    let arguments = steps(&json!([{"wait": "go"}]));
    let params = json!({"name": "always", "task": {}, "arguments": arguments});
    let created = client.request(1, "tools/call", params).await.json().await;
    assert_eq!(created["result"]["task"]["status"], "working", "{created}");
}

/// There are as many sessions as there may be; the next client is told which limit it met and when to try again.
#[tokio::test(start_paused = true)]
async fn sessions_are_bounded() {
    let board = Board::new(Era::Session);
    let gateway = gateway(&board, Settings { max_sessions: 2, ..settings() }).await;
    let (first, second) =
        (Direct::open(&gateway, "2025-11-25").await, Direct::open(&gateway, "2025-06-18").await);
    let refused = initialize(&gateway, "2025-11-25").await;
    assert_eq!((refused.status, refused.headers["retry-after"].as_bytes()), (503, &b"30"[..]));
    assert!(refused.headers.get("mcp-session-id").is_none());
    let refused = refused.json().await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(0), &json!(-32603)));
    assert!(refused["error"]["message"].as_str().is_some_and(|text| text.contains("max_sessions (2)")));
    assert_eq!((first.status().await, second.status().await), (200, 200));
    first.end().await;
    assert_eq!(Direct::open(&gateway, "2025-11-25").await.status().await, 200);
}

/// A session has as many open requests as it may; the next one is refused, others are not touched.
#[tokio::test(start_paused = true)]
async fn open_requests_of_a_session_are_bounded() {
    let board = Board::new(Era::Session);
    let gateway = gateway(&board, Settings { session_requests: 2, ..settings() }).await;
    let (client, other) =
        (Direct::open(&gateway, "2025-11-25").await, Direct::open(&gateway, "2025-11-25").await);
    let mut first = client.call(1, json!([{"wait": "go"}])).await;
    // Whether the client is connected makes no difference, nor does an id that is used twice.
    drop(client.call(1, json!([{"wait": "go"}])).await);
    let refused = client.call(3, json!([])).await;
    assert_eq!((refused.status, refused.headers["retry-after"].as_bytes()), (429, &b"1"[..]));
    let refused = refused.json().await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(3), &json!(-32603)));
    assert!(refused["error"]["message"].as_str().is_some_and(|text| text.contains("session_requests (2)")));
    assert_eq!((board.count("calls"), other.status().await), (2, 200));
    // What wants no answer is heard all the same: this ends one of them.
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    assert_eq!(client.post(cancel).await.status, 202);
    assert_eq!(gists(&first.rest().await), json!([]));
    assert_eq!(client.call(4, json!([])).await.json().await["id"], json!(4));
}

/// The members of a batch count one by one.
#[tokio::test(start_paused = true)]
async fn the_requests_of_a_batch_are_bounded() {
    let board = Board::new(Era::Session);
    let gateway = gateway(&board, Settings { session_requests: 2, ..settings() }).await;
    let client = Direct::open(&gateway, "2025-03-26").await;
    let call = |id: u64| {
        let params = json!({"name": "never", "arguments": steps(&json!([{"wait": "go"}]))});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
    };
    let mut batch = client.post(json!([call(1), call(2), call(3)])).await;
    let refused = batch.message().await.expect("an answer");
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(3), &json!(-32603)));
    // Its stream can be resumed like any other.
    let seen = batch.last.clone();
    drop(batch);
    board.open("go");
    let mut ids: Vec<_> =
        client.resume(&seen).await.rest().await.iter().map(|answer| answer["id"].as_u64()).collect();
    ids.sort_unstable();
    assert_eq!(ids, [Some(1), Some(2)]);
}

/// stdio has one client, who shares its limits with nobody.
#[tokio::test(flavor = "multi_thread")]
async fn a_pipe_has_no_such_bounds() {
    let board = Board::new(Era::Session);
    let gateway = gateway(&board, Settings { session_requests: 1, max_sessions: 1, ..settings() }).await;
    let mut pipe = Pipe::open(&gateway).await;
    for _ in 0..3 {
        pipe.begin("tools/call", json!({"name": "never", "arguments": steps(&json!([{"wait": "go"}]))}))
            .await;
    }
    board.until("all calls", |board| board.running() == 3).await;
}
