//! SSE streams as they begin and as they are kept open, and which message is on which.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::{Value, json};
use taskgate_gateway::{Gateway, Settings};
use tokio::time::Instant;

use crate::harness::direct::{Reply, gateway, gist, gists, new, progress, send, settled, stream_of};
use crate::harness::{Board, Direct, Era, settings, steps};

/// The oldest versions never heard of empty data; all have the same streams.
const VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// Every stream begins at once, says so to proxies, and passes everything on when it happens.
///
/// SEP-1699: with a priming event in 2025-11-25, and with nothing that older clients could take for a message before.
#[tokio::test(start_paused = true)]
async fn a_stream_begins_at_once_and_holds_nothing_back() {
    for version in VERSIONS {
        let board = Board::new(Era::Session);
        let gateway = gateway(&board, Settings::default()).await;
        let client = Direct::open(&gateway, version).await;
        // A call that says nothing is not kept waiting for its stream for long.
        let since = Instant::now();
        let quiet = client.call(1, json!([{"wait": "go"}])).await;
        assert!(since.elapsed() <= Duration::from_secs(2));
        let general = client.general().await;
        let mut call = client
            .call(
                2,
                json!(
                    [progress([1]), vec![json!({"wait": "two"})], progress([2]), vec![json!({"wait": "go"})]]
                        .concat()
                ),
            )
            .await;
        let since = Instant::now();
        for (what, mut stream) in [("quiet", quiet), ("general", general)] {
            is_stream(&stream);
            is_opening(version, &stream.block().await.expect("a first event"));
            assert_eq!(since.elapsed(), Duration::ZERO, "{what} of {version}");
        }
        is_opening(version, &call.block().await.expect("a first event"));
        assert_eq!(gist(&call.message().await.expect("progress")), json!(1));
        board.open("two");
        assert_eq!(gist(&call.message().await.expect("progress")), json!(2));
        assert_eq!(since.elapsed(), Duration::ZERO, "progress waits for nothing");
        board.open("go");
        assert_eq!(gists(&call.rest().await), json!(["done"]));
    }
}

#[track_caller]
fn is_stream(reply: &Reply) {
    assert_eq!(reply.status, 200);
    assert!(reply.is_stream());
    assert_eq!(reply.headers["x-accel-buffering"], "no");
    assert!(reply.headers["cache-control"].to_str().is_ok_and(|value| value.contains("no-cache")));
}

#[track_caller]
fn is_opening(version: &str, block: &str) {
    if version == "2025-11-25" {
        let lines: Vec<&str> = block.lines().collect();
        assert!(lines[0].starts_with("id: "), "{block:?}");
        assert_eq!(lines[1..], ["retry: 1000", "data: "]);
    } else {
        assert_eq!(block, ":");
    }
}

/// Comments keep streams open, more often than every 15 seconds unless it is configured otherwise.
#[tokio::test(start_paused = true)]
async fn an_idle_stream_gets_comments() {
    let board = Board::new(Era::Both);
    let gateway = gateway(&board, Settings::default()).await;
    let client = Direct::open(&gateway, "2025-11-25").await;
    let call = client.call(1, json!([{"wait": "go"}])).await;
    let general = client.general().await;
    for mut stream in [call, general, stateless(&gateway, json!([{"wait": "go"}])).await] {
        stream.block().await.expect("an opening");
        for _ in 0..3 {
            let since = Instant::now();
            assert_eq!(stream.block().await.expect("a comment"), ":");
            assert!(since.elapsed() <= Duration::from_secs(15), "{:?}", since.elapsed());
        }
    }
}

/// The ids of events name their stream, are used once in a session, and are there in every version that has sessions.
///
/// 2025-11-25, transports: each message is on exactly one of several streams that are open at a time.
#[tokio::test(start_paused = true)]
async fn each_message_is_on_one_stream_under_an_id_of_its_own() {
    for version in VERSIONS {
        let board = Board::new(Era::Session);
        let gateway = gateway(&board, Settings::default()).await;
        let client = Direct::open(&gateway, version).await;
        let mut streams = vec![client.general().await];
        for id in 1..=4 {
            let what = [progress([id * 10]), vec![json!({"wait": "go"})], progress([id * 10 + 1])].concat();
            streams.push(client.call(id, json!(what)).await);
        }
        board.say("notifications/prompts/list_changed", Some(json!({"progress": 0}))).await;
        board.open("go");
        let mut ids = HashSet::new();
        let mut names = HashSet::new();
        for (n, stream) in streams.iter_mut().enumerate() {
            let mut messages = Vec::new();
            let mut name = String::new();
            let most = if n == 0 { 1 } else { 3 };
            while messages.len() < most {
                let block = stream.block().await.expect("an event");
                if block == ":" {
                    continue;
                }
                new(&mut ids, &stream.last);
                assert!(name.is_empty() || name == stream_of(&stream.last), "{name} {}", stream.last);
                name = stream_of(&stream.last).to_owned();
                let data = block.lines().find_map(|line| line.strip_prefix("data: ")).expect("data");
                if !data.is_empty() {
                    messages.push(gist(&serde_json::from_str::<Value>(data).expect("JSON")));
                }
            }
            let n = n as u64 * 10;
            assert_eq!(json!(messages), if n == 0 { json!([0]) } else { json!([n, n + 1, "done"]) });
            new(&mut names, &name);
        }
        settled().await;
        // Streams of requests end with their answers, the general one goes on.
        for stream in &mut streams[1..] {
            assert_eq!(stream.block().await, None);
        }
        assert_eq!(streams[0].block().await.expect("a comment"), ":");
    }
}

/// A call of 2026-07-28 that reports progress and does these steps.
async fn stateless(gateway: &Gateway, what: Value) -> Reply {
    let params = json!({"name": "never", "arguments": steps(&what), "_meta": {
        "progressToken": 7,
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }});
    let headers =
        [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", "never")];
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    send(gateway, "POST", &headers, body.to_string()).await
}

/// 2026-07-28: nothing of this is on its streams. They have no ids and no retry, they are not closed before their end, and
/// there is no GET to come back with.
#[tokio::test(start_paused = true)]
async fn streams_of_2026_07_28_cannot_be_resumed() {
    let board = Board::new(Era::Both);
    let mut settings = settings();
    settings.streams.close_after = Some(Duration::from_secs(2));
    let gateway = gateway(&board, settings).await;
    let mut call = stateless(&gateway, json!([progress([1]), vec![json!({"sleep": 60_000})]].concat())).await;
    is_stream(&call);
    let mut messages = 0;
    while let Some(block) = call.block().await {
        assert!(block == ":" || block.starts_with("event: message\ndata: {"), "{block:?}");
        assert_eq!(
            block.lines().filter(|line| line.starts_with("id:") || line.starts_with("retry:")).count(),
            0
        );
        messages += usize::from(block != ":");
    }
    assert_eq!(messages, 2);
    for headers in [
        &[("Last-Event-ID", "00000000-1-1")][..],
        &[("Last-Event-ID", "00000000-1-1"), ("MCP-Protocol-Version", "2026-07-28")],
    ] {
        assert_eq!(send(&gateway, "GET", headers, String::new()).await.status, 405);
    }
    // The call ends with its stream, as it did.
    let call = stateless(&gateway, json!([progress([1]), vec![json!({"wait": "never"})]].concat())).await;
    drop(call);
    board.until("its end", |board| board.running() == 0).await;
}
