//! Connections that the gateway closes so that clients come back for the rest (SEP-1699).

use std::time::Duration;

use serde_json::json;
use taskgate_gateway::Settings;
use tokio::time::Instant;

use crate::harness::direct::{Reply, gateway, gist, gists, progress, settled};
use crate::harness::{Board, Direct, Era, accept, form};

fn closing() -> Settings {
    let mut settings = Settings::default();
    settings.streams.close_after = Some(Duration::from_secs(30));
    settings.streams.retry = Duration::from_millis(1500);
    settings
}

/// Reads until the connection is closed, which must be told with a place to come back to and a time to wait.
async fn closed(stream: &mut Reply) {
    let mut last = String::new();
    let since = Instant::now();
    while let Some(block) = stream.block().await {
        last = block;
        assert!(since.elapsed() <= Duration::from_secs(30), "the connection stays open");
    }
    let lines: Vec<&str> = last.lines().collect();
    assert!(lines[0].starts_with("id: "), "{last:?}");
    assert_eq!(lines[1..], ["retry: 1500", "data: "]);
}

/// A connection is closed after the configured time, again and again, and nothing is lost: each comes back to where the
/// last one ended, and the call runs once.
#[tokio::test(start_paused = true)]
async fn a_client_that_polls_gets_everything_once() {
    let board = Board::new(Era::Session);
    let gateway = gateway(&board, closing()).await;
    let client = Direct::open(&gateway, "2025-11-25").await;
    let what: Vec<_> =
        (1..=8).flat_map(|n| [json!({"progress": {"progress": n}}), json!({"sleep": 17_000})]).collect();
    let mut stream = client.call(1, json!(what)).await;
    let (mut got, mut connections) = (Vec::new(), 0);
    while got.last() != Some(&json!("done")) {
        connections += 1;
        let since = Instant::now();
        got.extend(stream.rest().await.iter().map(gist));
        assert!(since.elapsed() <= Duration::from_secs(30));
        let last = stream.last.clone();
        tokio::time::sleep(Duration::from_millis(1500)).await;
        if got.last() != Some(&json!("done")) {
            stream = client.resume(&last).await;
        }
    }
    assert_eq!(json!(got), json!([1, 2, 3, 4, 5, 6, 7, 8, "done"]));
    assert!((4..=6).contains(&connections), "{connections}");
    assert_eq!((board.count("calls"), board.heard("notifications/cancelled").len()), (1, 0));
}

/// The general stream is closed and resumed in the same way.
#[tokio::test(start_paused = true)]
async fn the_general_stream_is_polled_too() {
    let board = Board::new(Era::Session);
    let gateway = gateway(&board, closing()).await;
    let client = Direct::open(&gateway, "2025-11-25").await;
    let mut stream = client.general().await;
    for n in 0..4 {
        board.say("notifications/prompts/list_changed", Some(json!({"progress": n}))).await;
        assert_eq!(gist(&stream.message().await.expect("news")), json!(n));
        closed(&mut stream).await;
        board.say("notifications/prompts/list_changed", Some(json!({"progress": n + 100}))).await;
        settled().await;
        stream = client.resume(&stream.last).await;
        assert_eq!(gist(&stream.message().await.expect("news")), json!(n + 100));
    }
}

/// A client that is only waiting to come back is still there: it is asked when it comes, on the same stream and once.
#[tokio::test(start_paused = true)]
async fn a_client_between_two_connections_is_asked_when_it_comes_back() {
    let board = Board::new(Era::Session);
    let gateway = gateway(&board, closing()).await;
    let client = Direct::open(&gateway, "2025-11-25").await;
    let params = json!({
        "name": "always", "task": {},
        "arguments": {"steps": [{"wait": "ask"}, {"ask": [form("Name?")]}, {"answers": true}]},
    });
    let created = client.request(1, "tools/call", params).await.json().await;
    let task = json!({"taskId": created["result"]["task"]["taskId"]});
    let mut general = client.general().await;
    let mut result = client.request(2, "tasks/result", task).await;
    closed(&mut result).await;
    board.open("ask");
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let mut back = client.resume(&result.last).await;
    let asked = back.message().await.expect("a question");
    closed(&mut back).await;
    // The answer comes while nobody is connected.
    client.respond(&asked["id"], accept("Luca")).await;
    settled().await;
    let got = client.resume(&back.last).await.rest().await;
    assert_eq!(gists(&got), json!([json!([accept("Luca")]).to_string()]));
    for message in general.rest().await {
        assert_ne!(message["method"], "elicitation/create");
    }
}

/// Older clients do not know of it: their connections stay.
#[tokio::test(start_paused = true)]
async fn connections_of_older_clients_are_not_closed() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18"] {
        let board = Board::new(Era::Session);
        let gateway = gateway(&board, closing()).await;
        let client = Direct::open(&gateway, version).await;
        let mut call = client.call(1, json!([progress([1]), vec![json!({"sleep": 100_000})]].concat())).await;
        while let Some(block) = call.block().await {
            assert!(!block.contains("retry:") && !block.ends_with("data: "), "{block:?}");
            if block.contains("\"result\"") {
                break;
            }
        }
        assert!(call.last.ends_with("-2"), "the answer came on this very connection");
    }
}
