//! How much may be asked, by one owner and in all: what is refused, what waits, and that nobody else notices.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};
use taskgate_gateway::{Bind, Gateway, LimitSettings, Settings};
use tokio::time::Instant;
use tower::ServiceExt;

use crate::harness::direct::{Reply, gateway, settled};
use crate::harness::{
    Answer, Board, Direct, Era, Modern, Old, Pipe, Server, builder, eventually, form, settings, soon, steps,
};

/// Settings for one known user with these limits.
fn local(limits: LimitSettings) -> Settings {
    Settings { limits, single_user: true, ..settings() }
}

async fn gateway_with(board: &Board, settings: Settings) -> Gateway {
    builder(board).settings(settings).build().await.expect("gateway")
}

/// An answer, whether it is an object or comes on a stream.
async fn answer(mut reply: Reply) -> Value {
    match reply.is_stream() {
        true => reply.rest().await.pop().expect("an answer"),
        false => reply.json().await,
    }
}

/// The error names the limit, its value and when to try again.
#[track_caller]
fn refused(answer: &Answer, limit: &str, value: usize) {
    let error = answer.error();
    assert_eq!(error["code"], -32603, "{}", answer.raw);
    assert_eq!((&error["data"]["limit"], &error["data"]["value"]), (&json!(limit), &json!(value)));
    assert!(error["data"]["retryAfterMs"].as_u64().is_some_and(|millis| millis > 0), "{}", answer.raw);
    assert!(error["message"].as_str().is_some_and(|text| text.contains(limit)), "{}", answer.raw);
}

/// SEMANTICS "Bad input": beyond the open tasks of an owner, or of all, every dialect hears the same, over HTTP and stdio, and nothing
/// has run or is kept; when one has ended there is room again.
#[tokio::test(flavor = "multi_thread")]
async fn open_tasks_are_bounded_in_every_dialect() {
    let all = LimitSettings { open_tasks: Some(2), ..LimitSettings::default() };
    let own = LimitSettings { owner_open_tasks: Some(2), ..LimitSettings::default() };
    for (limits, name, status) in [(own, "owner_open_tasks", 429), (all, "open_tasks", 503)] {
        let board = Board::new(Era::Both);
        let server = Server::start(gateway_with(&board, local(limits)).await).await;
        let (modern, old) = (Modern::new(&server), Old::open(&server).await);
        let mut pipe = Pipe::open(&server.gateway).await;
        let hold = json!([{"wait": "go"}]);
        let first = modern.task("always", hold.clone()).await;
        modern.task("at_once", hold.clone()).await;
        let calls = |name: &str| json!({"name": name, "arguments": steps(&hold)});
        let with = |mut params: Value, key: &str, value: Value| {
            params[key] = value;
            params
        };
        let as_task = with(calls("always"), "task", json!({}));
        for answer in [
            modern.tool("always", hold.clone()).await,
            modern.tool("patient", hold.clone()).await,
            old.ask("tools/call", as_task.clone()).await,
        ] {
            refused(&answer, name, 2);
            assert_eq!(answer.status, status);
        }
        refused(&pipe.ask("tools/call", as_task.clone()).await, name, 2);
        refused(&pipe.ask_modern("tools/call", calls("always")).await, name, 2);
        let first_words = json!({"modelcontextprotocol.io/task": {"taskId": "mine"}});
        refused(&pipe.ask("tools/call", with(calls("do"), "_meta", first_words)).await, name, 2);
        assert_eq!((board.running(), board.count("calls")), (2, 2), "nothing ran");
        let kept = server.gateway.engine().store().tally(None).await.expect("a tally");
        assert_eq!((kept.open(), kept.stored()), (2, 2), "nothing is kept");
        // What is no task is not held up.
        assert_eq!(modern.tool("never", json!([])).await.status, 200);
        assert_eq!(modern.ask("tasks/cancel", json!({"taskId": first})).await.status, 200);
        eventually("room", || async {
            modern.tool("always", hold.clone()).await.json.get("result").is_some().then_some(())
        })
        .await;
    }
}

/// What is kept counts although it has ended, and so do its bytes.
#[tokio::test(flavor = "multi_thread")]
async fn stored_tasks_and_bytes_are_bounded() {
    let stored = LimitSettings { owner_stored_tasks: Some(2), ..LimitSettings::default() };
    let size = LimitSettings { stored_size: Some(50_000), ..LimitSettings::default() };
    for (limits, name, value) in [(stored, "owner_stored_tasks", 2), (size, "stored_size", 50_000)] {
        let board = Board::new(Era::Both);
        let server = Server::start(gateway_with(&board, local(limits)).await).await;
        let modern = Modern::new(&server);
        let text = "x".repeat(30_000);
        let long = json!([{"return": {"content": [{"type": "text", "text": text}]}}]);
        for _ in 0..2 {
            let id = modern.task("always", long.clone()).await;
            modern.until(&id, "completed").await;
        }
        // Counted is only what is near a limit, so that the first one beyond it may still get in.
        eventually("the limit", || async {
            let answer = modern.tool("always", long.clone()).await;
            answer.json.get("error").is_some().then(|| refused(&answer, name, value))
        })
        .await;
    }
}

/// An owner makes so many tasks and asks for so many in a second, and hears when there is one again; the calls of other sessions of
/// callers that are not known are not touched.
#[tokio::test(start_paused = true)]
async fn rates_are_held_for_each_owner() {
    let limits = LimitSettings {
        owner_creates: Some(1),
        owner_creates_burst: Some(2),
        owner_polls: Some(10),
        owner_polls_burst: Some(3),
        ..LimitSettings::default()
    };
    let board = Board::new(Era::Session);
    let gateway = gateway(&board, Settings { limits, ..settings() }).await;
    let (one, other) =
        (Direct::open(&gateway, "2025-11-25").await, Direct::open(&gateway, "2025-11-25").await);
    let call = || json!({"name": "always", "arguments": steps(&json!([])), "task": {}});
    let made = one.request(1, "tools/call", call()).await.json().await;
    let id = made["result"]["task"]["taskId"].clone();
    assert!(id.is_string(), "{made}");
    assert_eq!(one.request(2, "tools/call", call()).await.status, 200);
    let refused = one.request(3, "tools/call", call()).await;
    assert_eq!((refused.status, refused.headers["retry-after"].as_bytes()), (429, &b"1"[..]));
    let data = refused.json().await["error"]["data"].clone();
    assert_eq!((&data["limit"], &data["value"]), (&json!("owner_creates"), &json!(1)));
    let get = json!({"taskId": id});
    for number in 4..7 {
        assert_eq!(one.request(number, "tasks/get", get.clone()).await.status, 200);
    }
    let refused = one.request(7, "tasks/get", get.clone()).await;
    assert_eq!(refused.status, 429);
    let data = refused.json().await["error"]["data"].clone();
    assert_eq!((&data["limit"], &data["value"]), (&json!("owner_polls"), &json!(10)));
    let wait = data["retryAfterMs"].as_u64().expect("a time");
    assert!((1..=100).contains(&wait), "{wait}");
    assert_eq!(other.request(1, "tools/call", call()).await.status, 200);
    assert_eq!(other.request(2, "tasks/get", get.clone()).await.status, 200);
    tokio::time::sleep(Duration::from_millis(wait)).await;
    assert_eq!(one.request(8, "tasks/get", get).await.status, 200);
}

/// Beyond the calls that may run, a task waits for its turn and says so, in 2025-10-20 as `submitted`; beyond the queue, nothing is
/// begun; and what has waited runs.
#[tokio::test(flavor = "multi_thread")]
async fn calls_wait_for_their_turn_and_say_so() {
    let limits = LimitSettings { owner_calls: Some(1), owner_queue: 3, ..LimitSettings::default() };
    let board = Board::new(Era::Both);
    let server = Server::start(gateway_with(&board, local(limits)).await).await;
    let (modern, old) = (Modern::new(&server), Old::open(&server).await);
    let mut pipe = Pipe::open(&server.gateway).await;
    let hold = json!([{"wait": "go"}]);
    let running = modern.task("always", hold.clone()).await;
    board.until("the first call", |board| board.running() == 1).await;
    let queued = modern.task("always", hold.clone()).await;
    let task = modern.get(&queued).await;
    assert_eq!(task["status"], "working");
    assert!(task["statusMessage"].as_str().is_some_and(|said| said.starts_with("Queued")), "{task}");
    let called = json!({"name": "always", "arguments": steps(&hold), "task": {}});
    let by_old = old.ask("tools/call", called).await.task();
    let meta = json!({"modelcontextprotocol.io/task": {"taskId": "mine"}});
    let first_words = json!({"name": "do", "arguments": steps(&hold), "_meta": meta});
    let request = pipe.begin("tools/call", first_words).await;
    let about =
        json!({"taskId": "mine", "_meta": {"modelcontextprotocol.io/related-task": {"taskId": "mine"}}});
    let status = soon("the task", async {
        loop {
            let answer = pipe.ask("tasks/get", about.clone()).await;
            if let Some(status) = answer.json["result"]["status"].as_str() {
                return status.to_owned();
            }
        }
    })
    .await;
    assert_eq!(status, "submitted");
    let answer = modern.tool("never", json!([])).await;
    refused(&answer, "owner_queue", 3);
    assert_eq!((answer.status, board.count("calls")), (429, 1));
    // What waits can be cancelled, and never runs.
    assert_eq!(old.ask("tasks/cancel", json!({"taskId": by_old})).await.result()["status"], "cancelled");
    board.open("go");
    modern.until(&running, "completed").await;
    modern.until(&queued, "completed").await;
    assert!(pipe.answer(request).await.json.get("result").is_some());
    assert_eq!(board.count("calls"), 3);
    assert_eq!(modern.tool("never", json!([])).await.status, 200);
}

/// One owner's flood of calls delays another's by one call, and every one of them is answered.
#[tokio::test(start_paused = true)]
async fn a_flood_of_one_owner_starves_nobody() {
    let limits = LimitSettings { calls: Some(2), ..LimitSettings::default() };
    let board = Board::new(Era::Session);
    let gateway = gateway(&board, Settings { limits, ..settings() }).await;
    let greedy = Direct::open(&gateway, "2025-11-25").await;
    let work = || json!([{"sleep": 100}]);
    let flood: Vec<_> = (0..200)
        .map(|number| {
            let greedy = greedy.clone();
            tokio::spawn(async move { answer(greedy.call(number, work()).await).await })
        })
        .collect();
    settled().await;
    let began = Instant::now();
    let others = (0..10).map(|_| async {
        let other = Direct::open(&gateway, "2025-11-25").await;
        for number in 0..5 {
            let answered = answer(other.call(number, work()).await).await;
            assert!(answered.get("result").is_some(), "{answered}");
        }
    });
    futures_util::future::join_all(others).await;
    // Eleven owners share two places: each of five rounds takes at most six times a call's length, and the flood ten seconds.
    assert!(began.elapsed() <= Duration::from_millis(3600), "{:?}", began.elapsed());
    for call in flood {
        let answered = call.await.expect("no panic");
        assert!(answered.get("result").is_some(), "{answered}");
    }
}

/// Streams that are listened to, and calls that wait for answers, have an end.
#[tokio::test(flavor = "multi_thread")]
async fn streams_and_parked_calls_are_bounded() {
    let limits =
        LimitSettings { owner_streams: Some(2), owner_parked_calls: Some(1), ..LimitSettings::default() };
    let board = Board::new(Era::Both);
    let server = Server::start(gateway_with(&board, local(limits)).await).await;
    let modern = Modern::new(&server);
    let one = modern.listen(&[]).await;
    let _two = modern.listen(&[]).await;
    let answer = modern.listen(&[]).await.answer().await;
    refused(&answer, "owner_streams", 2);
    assert_eq!(answer.status, 429);
    drop(one);
    let asks = json!([{"ask": [form("Name?")]}, {"answers": true}]);
    let asked = modern.tool("never", asks.clone()).await;
    assert_eq!(asked.result()["resultType"], "input_required");
    refused(&modern.tool("never", asks).await, "owner_parked_calls", 1);
    eventually("the second call's end", || async { (board.running() == 1).then_some(()) }).await;
    // A stream that has ended leaves its place.
    let general = Direct::open(&server.gateway, "2025-11-25").await;
    eventually("a place", || async { (general.general().await.status == 200).then_some(()) }).await;
}

/// Whoever tries ids is answered later and later asked for nothing else: the bytes are the same, and those who ask for their own tasks
/// notice nothing.
#[tokio::test(start_paused = true)]
async fn trying_ids_is_slowed_down_and_answered_the_same() {
    let limits = LimitSettings { unknown_ids: Some(5), ..LimitSettings::default() };
    let board = Board::new(Era::Session);
    let gateway = gateway(&board, Settings { limits, ..settings() }).await;
    let (guesser, other) =
        (Direct::open(&gateway, "2025-11-25").await, Direct::open(&gateway, "2025-11-25").await);
    let unknown = json!({"taskId": "0".repeat(48)});
    let mut answers = Vec::new();
    for number in 0..7 {
        let began = Instant::now();
        let verb = ["tasks/get", "tasks/cancel", "tasks/result"][number % 3];
        let answer = self::answer(guesser.request(1, verb, unknown.clone()).await).await;
        answers.push(answer.to_string());
        let late = began.elapsed() >= Duration::from_secs(1);
        assert_eq!(late, number >= 5, "{number}: {:?}", began.elapsed());
    }
    answers.dedup();
    assert_eq!(answers.len(), 1, "{answers:?}");
    let began = Instant::now();
    assert_eq!(other.request(1, "tasks/get", unknown).await.json().await["error"]["code"], -32602);
    assert!(began.elapsed() < Duration::from_millis(500));
    let text = numbers(&gateway).await;
    assert!(text.contains("taskgate_unknown_ids_total 8\n"), "{text}");
    assert!(text.contains("taskgate_unknown_ids_delayed_total 2\n"), "{text}");
}

async fn get(gateway: &Gateway, path: &str) -> (u16, String) {
    let request = Request::get(path).body(Body::empty()).expect("a request");
    let Ok(response) = gateway.metrics_router().oneshot(request).await;
    let status = response.status().as_u16();
    let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.expect("a body");
    (status, String::from_utf8(body.to_vec()).expect("text"))
}

pub async fn numbers(gateway: &Gateway) -> String {
    let (status, text) = get(gateway, "/metrics").await;
    assert_eq!(status, 200);
    text
}

/// Numbers of everything that is limited, without a name of any owner, task or session; and whether calls can be taken.
#[tokio::test(flavor = "multi_thread")]
async fn the_numbers_tell_what_goes_on_and_of_nobody() {
    let limits = LimitSettings { owner_open_tasks: Some(1), ..LimitSettings::default() };
    let board = Board::new(Era::Both);
    let server = Server::start(gateway_with(&board, local(limits)).await).await;
    let modern = Modern::new(&server);
    let id = modern.task("always", json!([{"wait": "go"}])).await;
    refused(&modern.tool("always", json!([])).await, "owner_open_tasks", 1);
    modern.get(&id).await;
    let old = Old::open(&server).await;
    let _stream = modern.listen(&[]).await;
    let text = numbers(&server.gateway).await;
    for line in [
        "taskgate_tasks{status=\"working\"} 1",
        "taskgate_tasks{status=\"completed\"} 0",
        "taskgate_tasks_open 1",
        "taskgate_tasks_created_total 1",
        "taskgate_polls_total 1",
        "taskgate_refusals_total{limit=\"owner_open_tasks\"} 1",
        "taskgate_refusals_total{limit=\"owner_polls\"} 0",
        "taskgate_calls_running 1",
        "taskgate_calls_queued 0",
        "taskgate_streams 1",
        "taskgate_sessions 1",
        "taskgate_upstream{upstream=\"upstream\",state=\"up\"} 1",
    ] {
        assert!(text.lines().any(|is| is == line), "{line} is missing:\n{text}");
    }
    for secret in ["local", &id, &id[16..], &id[..16]] {
        assert!(!text.contains(secret), "{secret}:\n{text}");
    }
    drop(old);
    assert_eq!(get(&server.gateway, "/healthz").await, (200, "ok\n".to_owned()));
    server.gateway.drain().await;
    assert_eq!(get(&server.gateway, "/healthz").await.0, 503);
}

/// What waits for a client that does not read stays within its limit: progress is left out, the answer is not, and the client is heard
/// again when it reads.
#[tokio::test(flavor = "multi_thread")]
async fn a_pipe_that_is_not_read_holds_only_so_much() {
    let limits = LimitSettings { backlog: 64 << 10, ..LimitSettings::default() };
    let board = Board::new(Era::Session);
    let gateway = gateway_with(&board, Settings { limits, ..settings() }).await;
    let mut pipe = Pipe::open(&gateway).await;
    let (long, most) = ("x".repeat(1000), 2000);
    let flood: Vec<Value> =
        (0..most).map(|n| json!({"progress": {"progress": n, "message": long}})).collect();
    let arguments = steps(&json!(flood));
    let call = json!({"name": "never", "arguments": arguments, "_meta": {"progressToken": "p"}});
    let request = pipe.begin("tools/call", call).await;
    // Nobody reads before the call has ended.
    board.until("the call's end", |board| board.count("calls") == 1 && board.running() == 0).await;
    let answer = pipe.answer(request).await;
    assert!(answer.json.get("result").is_some(), "{}", answer.raw);
    let seen = pipe.others.iter().filter(|message| message["method"] == "notifications/progress").count();
    assert!(seen > 10 && seen < most / 2, "{seen}");
    assert!(numbers(&gateway).await.contains("taskgate_messages_left_out_total"));
    pipe.ping().await;
}

/// Issue "Limits", load: ten thousand idle streams cost so much memory each and no more, and whoever works meanwhile is answered.
#[tokio::test(start_paused = true)]
async fn ten_thousand_idle_streams_are_cheap() {
    const STREAMS: u64 = 10_000;
    let board = Board::new(Era::Session);
    let gateway = gateway(&board, Settings { max_sessions: 20_000, ..settings() }).await;
    let before = resident();
    let mut streams = Vec::new();
    for _ in 0..STREAMS {
        let client = Direct::open(&gateway, "2025-11-25").await;
        let stream = client.general().await;
        assert_eq!(stream.status, 200);
        streams.push((client, stream));
    }
    let each = resident().saturating_sub(before) / STREAMS;
    eprintln!("{each} resident bytes for an idle session with its stream");
    assert!(each < 20_000, "{each} bytes each");
    let one = &streams[4711].0;
    assert_eq!(one.call(1, json!([])).await.json().await["id"], 1);
    assert!(numbers(&gateway).await.contains("taskgate_streams 10000\n"));
    drop(streams);
    settled().await;
    assert!(numbers(&gateway).await.contains("taskgate_streams 0\n"));
}

/// What this process has in memory, in bytes.
fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("statm");
    pages.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("pages") * 4096
}

/// Issue "Limits", load: a flood of creations by one owner makes as many tasks as the owner may have and nothing else, however they
/// race; others make theirs meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_creations_makes_as_many_tasks_as_may_be() {
    const MOST: usize = 50;
    let limits = LimitSettings { owner_open_tasks: Some(MOST), ..LimitSettings::default() };
    let board = Board::new(Era::Session);
    let settings = Settings { limits, bind: Bind::Session, session_requests: 100_000, ..settings() };
    let gateway = gateway(&board, settings).await;
    let greedy = Direct::open(&gateway, "2025-11-25").await;
    let call = || json!({"name": "always", "arguments": steps(&json!([{"wait": "go"}])), "task": {}});
    let flood: Vec<_> = (0..2000)
        .map(|number| {
            let greedy = greedy.clone();
            tokio::spawn(async move { answer(greedy.request(number, "tools/call", call()).await).await })
        })
        .collect();
    let modest = Direct::open(&gateway, "2025-11-25").await;
    for number in 0..5 {
        let made = answer(modest.request(number, "tools/call", call()).await).await;
        assert!(made["result"]["task"]["taskId"].is_string(), "{made}");
    }
    let mut made = 0;
    for call in flood {
        let answered = call.await.expect("no panic");
        match answered.get("result") {
            Some(_) => made += 1,
            None => assert_eq!(answered["error"]["data"]["limit"], "owner_open_tasks", "{answered}"),
        }
    }
    assert_eq!(made, MOST);
    let kept = gateway.engine().store().tally(None).await.expect("a tally");
    assert_eq!(kept.stored(), MOST as u64 + 5);
    board.until("the calls that were let in", |board| board.running() == MOST + 5).await;
    assert_eq!(board.count("calls"), MOST + 5);
}

/// Issue "Limits", load: a storm of questions by one owner is refused beyond its rate, and every question of others is answered.
#[tokio::test(start_paused = true)]
async fn a_storm_of_polls_is_nobody_elses() {
    let limits = LimitSettings { owner_polls: Some(20), ..LimitSettings::default() };
    let board = Board::new(Era::Session);
    let gateway = gateway(&board, Settings { limits, ..settings() }).await;
    let storm = Direct::open(&gateway, "2025-11-25").await;
    let call = json!({"name": "always", "arguments": steps(&json!([])), "task": {}});
    let made = answer(storm.request(1, "tools/call", call).await).await;
    let about = json!({"taskId": made["result"]["task"]["taskId"]});
    let mut answered = 0;
    let others: Vec<Direct> =
        futures_util::future::join_all((0..10).map(|_| Direct::open(&gateway, "2025-11-25"))).await;
    for round in 0..10 {
        for number in 0..100 {
            let status = storm.request(number, "tasks/get", about.clone()).await.status;
            assert!(status == 200 || status == 429, "{status}");
            answered += usize::from(status == 200);
        }
        for other in &others {
            assert_eq!(other.request(round, "tasks/get", about.clone()).await.status, 200);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // A burst of a second's, and what a second brings again.
    assert!((20..=41).contains(&answered), "{answered}");
}
