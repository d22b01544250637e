//! Which task a question is shown at, and for how long, where the upstream does not say whose it is or takes it back.

use std::time::Duration;

use serde_json::{Value, json};
use taskgate_gateway::{Settings, StreamSettings};

use crate::harness::{
    Board, Era, Modern, Old, accept, eventually, form, serve_local, serve_with, settings, steps,
};
use crate::input::next;

/// The open question of a task: its key and what it asks.
async fn question(modern: &Modern, id: &str) -> (String, String) {
    let task = modern.until(id, "input_required").await;
    let asked = task["inputRequests"].as_object().expect("requests");
    assert_eq!(asked.len(), 1, "{task}");
    let (key, request) = asked.iter().next().expect("a question");
    (key.clone(), request["params"]["message"].as_str().expect("a message").to_owned())
}

fn text(task: &Value) -> &str {
    task["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {task}"))
}

/// Case 8: calls of one owner that ask at once show one question each, and each gets its
/// own answer, whichever task it was shown at.
#[tokio::test(flavor = "multi_thread")]
async fn each_asking_call_gets_its_own_answer() {
    let board = Board::new(Era::Session);
    let server = serve_local(&board).await;
    let modern = Modern::new(&server);
    let mut tasks = Vec::new();
    for name in ["A", "B", "C"] {
        let what = json!([{"wait": "all"}, {"ask_unnamed": [form(name)]}, {"answers": true}]);
        tasks.push((name, modern.task("always", what).await));
    }
    board.until("all calls", |board| board.running() == 3).await;
    board.open("all");
    for (_, id) in &tasks {
        question(&modern, id).await;
    }
    // A call that got its answer ends, and what its task shows moves to another one.
    eventually("the end of all", || async {
        let mut ended = 0;
        for (_, id) in &tasks {
            let task = modern.get(id).await;
            ended += usize::from(task["status"] == "completed");
            for (key, request) in task["inputRequests"].as_object().into_iter().flatten() {
                let name = request["params"]["message"].as_str().expect("a message");
                modern.update(id, json!({key: accept(name)})).await.result();
            }
        }
        (ended == tasks.len()).then_some(())
    })
    .await;
    for (name, id) in &tasks {
        assert_eq!(text(&modern.until(id, "completed").await), json!([accept(name)]).to_string());
    }
}

/// Case 8: a question that was shown at the wrong task goes to another one when that ends, however it ends, and is
/// answered there; the call that asked never notices.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_outlives_the_task_it_was_shown_at() {
    for cancel in [false, true] {
        let board = Board::new(Era::Session);
        let server = serve_local(&board).await;
        let modern = Modern::new(&server);
        let what = json!([{"wait": "ask"}, {"ask_unnamed": [form("Name?")]}, {"answers": true}]);
        let asker = modern.task("always", what).await;
        // The handle may be there before the call is: the question goes to the younger call of the two.
        board.until("the first call", |board| board.running() == 1).await;
        let other = modern.task("always", json!([{"wait": "go"}])).await;
        board.until("both calls", |board| board.running() == 2).await;
        board.open("ask");
        let (key, _) = question(&modern, &other).await;
        assert_eq!(modern.get(&asker).await["status"], "working");
        if cancel {
            modern.ask("tasks/cancel", json!({"taskId": other})).await.result();
            modern.until(&other, "cancelled").await;
        } else {
            board.open("go");
            modern.until(&other, "completed").await;
        }
        // An answer to the task it has left is late.
        modern.update(&other, json!({key: accept("late")})).await.result();
        let (key, asks) = question(&modern, &asker).await;
        assert_eq!(asks, "Name?");
        modern.update(&asker, json!({key: accept("Luca")})).await.result();
        assert_eq!(text(&modern.until(&asker, "completed").await), json!([accept("Luca")]).to_string());
    }
}

/// Case 8: a client that cannot be asked does not stand in the way of another one of the same owner that can.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_goes_to_a_client_that_can_be_asked() {
    let board = Board::new(Era::Session);
    let server = serve_local(&board).await;
    let modern = Modern::new(&server);
    let mute = Modern::with(&server, json!({"extensions": {"io.modelcontextprotocol/tasks": {}}}));
    let what = json!([{"wait": "ask"}, {"ask_unnamed": [form("Name?")]}, {"answers": true}]);
    let asker = modern.task("always", what).await;
    let other = mute.task("always", json!([{"wait": "go"}])).await;
    board.until("both calls", |board| board.running() == 2).await;
    board.open("ask");
    let (key, _) = question(&modern, &asker).await;
    modern.update(&asker, json!({key: accept("Luca")})).await.result();
    assert_eq!(text(&modern.until(&asker, "completed").await), json!([accept("Luca")]).to_string());
    assert_eq!(mute.get(&other).await["status"], "working");
}

/// A question is asked although its call reports progress all the time; one that the upstream takes back is open no longer: the task goes on working, and an answer that comes for it
/// is ignored like one for an unknown key.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_is_taken_back_is_open_no_longer() {
    let board = Board::new(Era::Session);
    let server = serve_local(&board).await;
    let modern = Modern::new(&server);
    let what = json!([{"take_back": [form("A?"), form("B?")]}, {"wait": "ask"}, {"ask": [form("C?")]}, {"answers": true}]);
    let id = modern.task("always", what).await;
    let asked = modern.until(&id, "input_required").await;
    let keys: Vec<String> = asked["inputRequests"].as_object().expect("requests").keys().cloned().collect();
    assert_eq!(keys.len(), 2);
    board.open("take back");
    let working = modern.until(&id, "working").await;
    assert!(working.get("inputRequests").is_none(), "{working}");
    for key in &keys {
        modern.update(&id, json!({key: accept("late")})).await.result();
    }
    assert_eq!(modern.get(&id).await, working);
    board.open("ask");
    let (key, asks) = question(&modern, &id).await;
    assert!(asks == "C?" && !keys.contains(&key), "{key} was used before");
    modern.update(&id, json!({key: accept("c")})).await.result();
    assert_eq!(text(&modern.until(&id, "completed").await), json!([accept("c")]).to_string());
}

/// Cancellation is passed on: a session's client that was asked hears that the question is taken back, on the stream it was
/// asked on, whether a task or a plain call asked. Its late answer is ignored.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_in_a_session_hears_that_a_question_is_taken_back() {
    for plain in [true, false] {
        let board = Board::new(Era::Session);
        let server = serve_local(&board).await;
        let old = Old::open(&server).await;
        let what = json!([{"take_back": [form("A?")]}, {"wait": "go"}]);
        let mut stream = if plain {
            old.begin("tools/call", json!({"name": "never", "arguments": steps(&what)})).await
        } else {
            let id = old.augmented("always", what).await.task();
            old.begin("tasks/result", json!({"taskId": id})).await
        };
        let question = next(&mut stream).await;
        assert_eq!(question["method"], "elicitation/create");
        board.open("take back");
        let cancelled = next(&mut stream).await;
        assert_eq!(cancelled["method"], "notifications/cancelled");
        assert_eq!(cancelled["params"]["requestId"], question["id"]);
        old.respond(&question["id"], accept("late")).await;
        board.open("go");
        assert_eq!(stream.answer().await.text(), "done");
    }
}

/// Case 8: a question that went out on the stream of a plain call moves on when that stream breaks and nobody comes back to
/// it, although the call runs on.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_outlives_the_stream_it_was_asked_on() {
    let board = Board::new(Era::Session);
    let streams = StreamSettings { replay_for: Duration::from_millis(200), ..StreamSettings::default() };
    let server = serve_with(&board, Settings { single_user: true, streams, ..settings() }).await;
    let (old, modern) = (Old::open(&server).await, Modern::new(&server));
    let what = json!([{"wait": "ask"}, {"ask_unnamed": [form("Name?")]}, {"answers": true}]);
    let asker = modern.task("always", what).await;
    let plain = json!({"name": "never", "arguments": steps(&json!([{"wait": "go"}]))});
    board.until("the first call", |board| board.running() == 1).await;
    let mut stream = old.begin("tools/call", plain).await;
    board.until("both calls", |board| board.running() == 2).await;
    board.open("ask");
    assert_eq!(next(&mut stream).await["method"], "elicitation/create");
    drop(stream);
    let (key, _) = question(&modern, &asker).await;
    assert_eq!(board.running(), 2);
    modern.update(&asker, json!({key: accept("Luca")})).await.result();
    assert_eq!(text(&modern.until(&asker, "completed").await), json!([accept("Luca")]).to_string());
}
