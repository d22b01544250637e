//! Coming back to a stream: 2025-11-25, transports, "Resumability and Redelivery".

use std::time::Duration;

use serde_json::{Value, json};
use taskgate_gateway::Settings;

use crate::harness::direct::{Reply, gateway, gist, gists, progress, settled, stream_of};
use crate::harness::{Board, Direct, Era, accept, form, settings};

async fn opened(settings: Settings, version: &str) -> (Board, Direct) {
    let board = Board::new(Era::Session);
    let gateway = gateway(&board, settings).await;
    let client = Direct::open(&gateway, version).await;
    (board, client)
}

/// Reads one message and returns the id of its event.
async fn read(stream: &mut Reply, want: Value) -> String {
    assert_eq!(gist(&stream.message().await.expect("a message")), want);
    stream.last.clone()
}

/// Case 18: a connection that breaks takes nothing with it. The call runs on once, and the client gets what it has not seen,
/// then what comes, then the answer, in order and whatever the version.
#[tokio::test(start_paused = true)]
async fn a_broken_stream_goes_on_where_it_broke() {
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let (board, client) = opened(Settings::default(), version).await;
        let what = [
            progress(1..=3),
            vec![json!({"wait": "away"})],
            progress(4..=5),
            vec![json!({"wait": "live"})],
            progress([6]),
        ];
        let mut first = client.call(1, json!(what.concat())).await;
        read(&mut first, json!(1)).await;
        let seen = read(&mut first, json!(2)).await;
        drop(first);
        board.open("away");
        settled().await;
        let mut second = client.resume(&seen).await;
        assert!(second.is_stream());
        for n in 3..=5 {
            let id = read(&mut second, json!(n)).await;
            assert_eq!(stream_of(&id), stream_of(&seen));
        }
        board.open("live");
        assert_eq!(gists(&second.rest().await), json!([6, "done"]));
        assert_eq!((board.count("calls"), board.heard("notifications/cancelled").len()), (1, 0));
    }
}

/// The answer of a call whose connection broke waits for the client for the configured time, and no longer.
#[tokio::test(start_paused = true)]
async fn an_answer_waits_for_its_client() {
    let (board, client) = opened(Settings::default(), "2025-11-25").await;
    let mut call = client
        .call(1, json!([{"wait": "go"}, {"return": {"content": [{"type": "text", "text": "late"}]}}]))
        .await;
    call.block().await.expect("a priming event");
    let primed = call.last.clone();
    drop(call);
    // While the call runs it can be resumed, however long it takes.
    tokio::time::sleep(Duration::from_secs(3000)).await;
    board.open("go");
    settled().await;
    assert_eq!(board.running(), 0);
    tokio::time::sleep(Duration::from_secs(250)).await;
    let mut back = client.resume(&primed).await;
    let seen = read(&mut back, json!("late")).await;
    assert_eq!(back.block().await, None, "a stream ends with its answer");
    // It may not have arrived this time either.
    assert_eq!(gists(&client.resume(&primed).await.rest().await), json!(["late"]));
    assert_eq!(client.resume(&seen).await.status, 204, "nothing is left to come back for");
    drop(back);
    tokio::time::sleep(Duration::from_secs(310)).await;
    assert_eq!(client.resume(&primed).await.status, 400);
    assert_eq!(client.status().await, 200);
}

/// A resumed stream is that one and no other: not another call's, not the general one.
#[tokio::test(start_paused = true)]
async fn a_client_gets_the_rest_of_the_stream_it_names() {
    let (board, client) = opened(Settings::default(), "2025-11-25").await;
    let mut seen = Vec::new();
    let mut general = client.general().await;
    board.say("notifications/prompts/list_changed", Some(json!({"progress": 0}))).await;
    seen.push(read(&mut general, json!(0)).await);
    let mut calls = Vec::new();
    for id in 1..=3 {
        let what = [progress([id * 10]), vec![json!({"wait": "go"})], progress([id * 10 + 1])].concat();
        let mut call = client.call(id, json!(what)).await;
        seen.push(read(&mut call, json!(id * 10)).await);
        calls.push(call);
    }
    drop((general, calls));
    board.say("notifications/prompts/list_changed", Some(json!({"progress": 1}))).await;
    board.open("go");
    settled().await;
    for (id, seen) in seen.iter().enumerate().rev() {
        let mut stream = client.resume(seen).await;
        if id == 0 {
            read(&mut stream, json!(1)).await;
            assert_eq!(stream.block().await.expect("a comment"), ":");
        } else {
            assert_eq!(gists(&stream.rest().await), json!([id * 10 + 1, "done"]));
        }
    }
}

/// A stream has one connection at a time, the newest: it gets what comes, and the older one ends.
#[tokio::test(start_paused = true)]
async fn a_newer_connection_takes_over() {
    let (board, client) = opened(Settings::default(), "2025-11-25").await;
    let mut call =
        client.call(1, json!([progress([1]), vec![json!({"wait": "go"})], progress([2])].concat())).await;
    let seen = read(&mut call, json!(1)).await;
    let mut back = client.resume(&seen).await;
    assert_eq!(call.message().await, None);
    drop(call);
    board.open("go");
    assert_eq!(gists(&back.rest().await), json!([2, "done"]));
}

/// What no kept stream of the session has is refused, the session lives on, and other sessions' streams are out of reach.
#[tokio::test(start_paused = true)]
async fn unknown_and_foreign_ids_are_refused() {
    let board = Board::new(Era::Session);
    let gateway = gateway(&board, Settings::default()).await;
    let (client, other) =
        (Direct::open(&gateway, "2025-11-25").await, Direct::open(&gateway, "2025-11-25").await);
    let mut call = client.call(1, json!([progress([1]), vec![json!({"wait": "go"})]].concat())).await;
    let known = read(&mut call, json!(1)).await;
    // The other session has a stream of the same number.
    let mut foreign = other.call(1, json!([progress([1]), vec![json!({"wait": "go"})]].concat())).await;
    read(&mut foreign, json!(1)).await;
    let stream = stream_of(&known);
    let future = format!("{stream}-99");
    let no_stream = format!("{}-7-1", stream_of(stream));
    for id in ["1", "nonsense", &foreign.last, &future, &no_stream, &format!("{known}-1")] {
        let refused = client.resume(id).await;
        assert_eq!(refused.status, 400, "{id}");
        assert_eq!(refused.json().await["error"]["code"], -32600);
    }
    // Nothing of that has touched anybody's stream.
    board.open("go");
    assert_eq!(gists(&call.rest().await), json!(["done"]));
    assert_eq!(gists(&foreign.rest().await), json!(["done"]));
    assert_eq!((client.status().await, other.status().await), (200, 200));
    // Without an id it is the general stream.
    assert!(client.resume("").await.is_stream());
}

/// What went past the limits is missing, the rest is there: above all the answer.
#[tokio::test(start_paused = true)]
async fn what_was_given_up_is_missing_and_the_rest_comes() {
    let mut few = settings();
    few.streams.replay_events = 4;
    let mut small = settings();
    small.streams.replay_size = 1024;
    let mut shared = settings();
    shared.streams.session_replay = 3 * 1024;
    for limited in [few, small, shared] {
        let (board, client) = opened(limited, "2025-11-25").await;
        let mut call = client.call(1, json!([vec![json!({"wait": "go"})], progress(1..=50)].concat())).await;
        call.block().await.expect("a priming event");
        let primed = call.last.clone();
        drop(call);
        board.open("go");
        settled().await;
        let got = client.resume(&primed).await.rest().await;
        assert!((2..=20).contains(&got.len()), "{}", got.len());
        let last = got.len() as u64 - 1;
        let want: Vec<Value> = (51 - last..=50).map(|n| json!(n)).chain([json!("done")]).collect();
        assert_eq!(gists(&got), json!(want));
    }
}

/// What a session keeps is bounded over all its streams: those that ended first are forgotten first, and a client that is
/// connected is not touched.
#[tokio::test(start_paused = true)]
async fn the_oldest_streams_are_forgotten_first() {
    let mut limited = Settings::default();
    limited.streams.session_replay = 32 * 1024;
    let (board, client) = opened(limited, "2025-11-25").await;
    let mut live = client.call(100, json!([progress([1]), vec![json!({"wait": "go"})]].concat())).await;
    let seen = read(&mut live, json!(1)).await;
    let text = "x".repeat(4 * 1024);
    let result = json!({"content": [{"type": "text", "text": text}]});
    let mut ids = Vec::new();
    for id in 1..=20 {
        let mut call =
            client.call(id, json!([progress([id]), vec![json!({"return": result})]].concat())).await;
        ids.push(read(&mut call, json!(id)).await);
        drop(call);
        settled().await;
    }
    let mut kept = 0;
    for (n, id) in ids.iter().enumerate() {
        let mut back = client.resume(id).await;
        if back.status == 200 {
            kept += 1;
            assert_eq!(gists(&back.rest().await), json!([text]));
        } else {
            assert_eq!((back.status, kept), (400, 0), "stream {n}");
        }
    }
    assert!((5..=8).contains(&kept), "{kept} answers of 4 KiB are kept");
    board.open("go");
    assert_eq!(gists(&live.rest().await), json!(["done"]));
    assert_eq!(client.resume(&seen).await.status, 200);
}

/// A client that is connected gets everything, however small the limits and however much comes at once.
#[tokio::test(start_paused = true)]
async fn a_connected_client_misses_nothing() {
    let mut limited = settings();
    limited.streams.replay_events = 1;
    let (_, client) = opened(limited, "2025-11-25").await;
    let mut call = client.call(1, json!(progress(1..=500))).await;
    let got = call.rest().await;
    let want: Vec<Value> = (1..=500).map(|n| json!(n)).chain([json!("done")]).collect();
    assert_eq!(gists(&got), json!(want));
}

/// A question that went out on a stream that broke is asked again on the same stream when the client comes back, and can be
/// answered before, too. The call waits meanwhile.
#[tokio::test(start_paused = true)]
async fn a_question_waits_for_a_client_that_comes_back() {
    for comes_back in [true, false] {
        let (board, client) = opened(Settings::default(), "2025-11-25").await;
        let mut call = client.call(1, json!([{"ask": [form("Name?")]}, {"answers": true}])).await;
        call.block().await.expect("a priming event");
        let primed = call.last.clone();
        let asked = call.message().await.expect("a question");
        drop(call);
        tokio::time::sleep(Duration::from_secs(120)).await;
        if comes_back {
            let mut back = client.resume(&primed).await;
            assert_eq!(back.message().await.expect("the question"), asked);
        }
        client.respond(&asked["id"], accept("Luca")).await;
        settled().await;
        let got = client.resume(&primed).await.rest().await;
        assert_eq!(gist(got.last().expect("an answer")), json!(json!([accept("Luca")]).to_string()));
        assert_eq!((board.count("calls"), got.len()), (1, 2));
    }
}

/// A client that does not come back in time has not answered, so that the call does not wait for ever.
#[tokio::test(start_paused = true)]
async fn a_question_does_not_wait_for_a_client_that_stays_away() {
    let (board, client) = opened(Settings::default(), "2025-11-25").await;
    let mut call = client.call(1, json!([{"ask": [form("Name?")]}, {"answers": true}])).await;
    call.message().await.expect("a question");
    drop(call);
    tokio::time::sleep(Duration::from_secs(290)).await;
    assert_eq!(board.running(), 1);
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(board.running(), 0);
}

/// Case 9: a task's question that is asked on another stream is taken back from the one that broke, so that a client which
/// comes back to that does not answer it in vain.
#[tokio::test(start_paused = true)]
async fn a_question_that_moved_on_is_taken_back_from_its_first_stream() {
    let (_, client) = opened(settings(), "2025-11-25").await;
    let params = json!({
        "name": "always", "task": {},
        "arguments": {"steps": [{"ask": [form("Name?")]}, {"answers": true}]},
    });
    let created = client.request(1, "tools/call", params).await.json().await;
    let task = json!({"taskId": created["result"]["task"]["taskId"]});
    settled().await;
    let mut first = client.request(2, "tasks/result", task.clone()).await;
    first.block().await.expect("a priming event");
    let primed = first.last.clone();
    let asked = first.message().await.expect("the question");
    drop(first);
    let mut second = client.request(3, "tasks/result", task).await;
    let again = second.message().await.expect("the question");
    assert_eq!(again["params"], asked["params"]);
    assert_ne!(again["id"], asked["id"]);
    let mut back = client.resume(&primed).await;
    assert_eq!(back.message().await.expect("the question"), asked);
    let cancelled = back.message().await.expect("its end");
    assert_eq!(
        (&cancelled["method"], &cancelled["params"]["requestId"]),
        (&json!("notifications/cancelled"), &asked["id"])
    );
    client.respond(&asked["id"], accept("late")).await;
    client.respond(&again["id"], accept("Luca")).await;
    for stream in [&mut back, &mut second] {
        let got = stream.rest().await;
        assert_eq!(gists(&got), json!([json!([accept("Luca")]).to_string()]));
    }
}
