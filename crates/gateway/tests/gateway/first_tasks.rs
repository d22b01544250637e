//! Tasks as SEP-1686 first had them (2025-10-20): the requestor names them in a request's metadata, and the request is answered all
//! the same.

use serde_json::{Value, json};
use taskgate_gateway::{Gateway, Settings};

use crate::harness::{
    Answer, Board, Era, Life, Old, Pipe, accept, builder, direct, form, serve, settings, steps,
};
use crate::harness::{offers::Offers, serve_local};

const TASK: &str = "modelcontextprotocol.io/task";
const RELATED: &str = "modelcontextprotocol.io/related-task";

async fn local(board: &Board) -> Gateway {
    direct::gateway(board, Settings { single_user: true, ..settings() }).await
}

async fn open(gateway: &Gateway, version: &str) -> Pipe {
    let mut pipe = Pipe::start(gateway);
    pipe.initialize(version, json!({"elicitation": {}})).await.result();
    pipe
}

/// The params of a call that is to be the task `id`.
fn call(tool: &str, what: Value, id: &str) -> Value {
    json!({"name": tool, "arguments": steps(&what), "_meta": {TASK: {"taskId": id, "keepAlive": 60_000}}})
}

/// The params of a request about that task.
fn about(id: &str) -> Value {
    json!({"taskId": id, "_meta": {RELATED: {"taskId": id}}})
}

async fn created(pipe: &mut Pipe, id: &str) {
    let note = pipe.find(|message| message["method"] == "notifications/tasks/created").await;
    assert_eq!(note["params"], json!({"_meta": {RELATED: {"taskId": id}}}));
}

async fn status(pipe: &mut Pipe, id: &str) -> String {
    let state = pipe.ask("tasks/get", about(id)).await.result().clone();
    assert_eq!(
        (&state["taskId"], &state["_meta"], &state["keepAlive"]),
        (&json!(id), &json!({RELATED: {"taskId": id}}), &json!(60_000)),
        "{state}"
    );
    assert!(state["pollFrequency"].is_u64(), "{state}");
    state["status"].as_str().expect("a status").to_owned()
}

/// A task from its beginning to its deletion, in every version that has sessions.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_a_task_and_is_answered() {
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let board = Board::new(Era::Session);
        let gateway = local(&board).await;
        let mut pipe = open(&gateway, version).await;
        let what = json!([{"wait": "go"}, {"return": {"content": [], "n": 1.0}}]);
        let request = pipe.begin("tools/call", call("do", what, "mine")).await;
        created(&mut pipe, "mine").await;
        assert_eq!(status(&mut pipe, "mine").await, "submitted");
        let early = pipe.ask("tasks/result", about("mine")).await;
        assert_eq!(early.code(), -32602);
        assert!(early.error()["message"].as_str().is_some_and(|said| said.contains("submitted")));
        assert_eq!(pipe.ask("tasks/delete", about("mine")).await.code(), -32602, "it runs");
        // The id is taken, in any session of the owner.
        let again = open(&gateway, "2025-06-18").await.ask("tools/call", call("do", json!([]), "mine")).await;
        assert_eq!(again.code(), -32602, "{}", again.raw);
        board.open("go");
        let answer = pipe.answer(request).await;
        let result = json!({"content": [], "n": 1.0, "_meta": {RELATED: {"taskId": "mine"}}});
        assert_eq!(answer.result(), &result);
        assert_eq!(status(&mut pipe, "mine").await, "completed");
        assert_eq!(pipe.ask("tasks/result", about("mine")).await.result(), &result);
        let listed = pipe.ask("tasks/list", json!({})).await.result()["tasks"].clone();
        assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
        assert_eq!((&listed[0]["taskId"], &listed[0]["status"]), (&json!("mine"), &json!("completed")));
        assert_eq!(listed[0].get("_meta"), None);
        let deleted = pipe.ask("tasks/delete", about("mine")).await;
        assert_eq!(deleted.result(), &json!({"_meta": {RELATED: {"taskId": "mine"}}}));
        assert_eq!(pipe.ask("tasks/get", about("mine")).await.code(), -32602);
        assert_eq!(board.count("calls"), 1);
    }
}

/// SEMANTICS: a tool's own error is a result of a completed task, an error of the protocol fails it, and only what is completed
/// has a result.
#[tokio::test(flavor = "multi_thread")]
async fn errors_are_told_apart() {
    let board = Board::new(Era::Session);
    let mut pipe = open(&local(&board).await, "2025-06-18").await;
    let bad = json!([{"return": {"content": [{"type": "text", "text": "no"}], "isError": true}}]);
    let answer = pipe.ask("tools/call", call("do", bad, "a")).await;
    assert_eq!(answer.result()["isError"], true);
    assert_eq!(status(&mut pipe, "a").await, "completed");
    assert_eq!(pipe.ask("tasks/result", about("a")).await.result()["isError"], true);
    let error = json!([{"error": {"code": -32000, "message": "broken"}}]);
    assert_eq!(pipe.ask("tools/call", call("do", error, "b")).await.code(), -32000);
    let failed = pipe.ask("tasks/get", about("b")).await.result().clone();
    assert_eq!((&failed["status"], &failed["error"]), (&json!("failed"), &json!("broken")));
    assert_eq!(pipe.ask("tasks/result", about("b")).await.code(), -32602);
}

/// A question is asked on the request's own stream and says whose it is; meanwhile the task wants input.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_names_its_task() {
    let board = Board::new(Era::Session);
    let mut pipe = open(&local(&board).await, "2025-11-25").await;
    let what = json!([{"ask": [form("Name?")]}, {"answers": true}]);
    let request = pipe.begin("tools/call", call("do", what, "mine")).await;
    let question = pipe.find(|message| message["method"] == "elicitation/create").await;
    assert_eq!(question["params"]["_meta"], json!({RELATED: {"taskId": "mine"}}));
    assert_eq!(status(&mut pipe, "mine").await, "input_required");
    pipe.respond(&question["id"], accept("Luca")).await;
    assert_eq!(pipe.answer(request).await.text(), json!([accept("Luca")]).to_string());
    assert!(pipe.kept(|message| message["method"] == "notifications/tasks/status").is_none());
}

/// Case 18: cancelling the request cancels the task, also before its requestor knows that it is there; the request has no
/// answer then. What has ended stays as it is.
#[tokio::test(flavor = "multi_thread")]
async fn cancelling_the_request_cancels_the_task() {
    for early in [false, true] {
        let board = Board::new(Era::Session);
        let mut pipe = open(&local(&board).await, "2025-06-18").await;
        let request = pipe.begin("tools/call", call("do", json!([{"wait": "never"}]), "mine")).await;
        if !early {
            created(&mut pipe, "mine").await;
            board.until("the call", |board| board.running() == 1).await;
        }
        let note =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request}});
        pipe.write(format!("{note}\n").as_bytes()).await;
        let end = crate::harness::eventually_with(&mut pipe, "the end", async |pipe| {
            let answer: Answer = pipe.ask("tasks/get", about("mine")).await;
            match answer.json.get("result") {
                // The request may have been cancelled before there was anything to be made a task of.
                None if early => Some("cancelled".to_owned()),
                state => state?["status"].as_str().filter(|said| *said == "cancelled").map(str::to_owned),
            }
        });
        assert_eq!(end.await, "cancelled");
        board.until("the end of the work", |board| board.running() == 0).await;
        pipe.ping().await;
        assert!(pipe.kept(|message| message["id"] == request && message.get("method").is_none()).is_none());
        let done = pipe.begin("tools/call", call("do", json!([]), "other")).await;
        pipe.answer(done).await.result();
        let note =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": done}});
        pipe.write(format!("{note}\n").as_bytes()).await;
        pipe.ping().await;
        assert_eq!(status(&mut pipe, "other").await, "completed");
    }
}

/// Not only tools: whatever of resources, prompts and completions is one server's.
#[tokio::test(flavor = "multi_thread")]
async fn other_requests_can_be_tasks() {
    let board = Board::with(Era::Session, Offers::all(&["p"], &["test://r"], &[]));
    let mut pipe = open(&local(&board).await, "2025-06-18").await;
    let meta = |id: &str| json!({TASK: {"taskId": id, "keepAlive": 60_000}});
    let complete = json!({"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": "b"}, "_meta": meta("c")});
    for (id, method, params) in [
        ("p", "prompts/get", json!({"name": "p", "_meta": meta("p")})),
        ("r", "resources/read", json!({"uri": "test://r", "_meta": meta("r")})),
        ("c", "completion/complete", complete),
    ] {
        let answer = pipe.ask(method, params).await.result().clone();
        created(&mut pipe, id).await;
        assert_eq!(answer["_meta"][RELATED]["taskId"], id, "{method}");
        assert_eq!(pipe.ask("tasks/result", about(id)).await.result(), &answer, "{method}");
    }
    // A list cannot: it is answered as if nothing had been asked.
    let listed = pipe.ask("tools/list", json!({"_meta": meta("l")})).await.result().clone();
    assert_eq!(listed.get("_meta"), None, "{listed}");
    assert_eq!(pipe.ask("tasks/get", about("l")).await.code(), -32602);
}

/// "Receivers that do not support task augmentation on a request MUST process the request normally, ignoring any task metadata."
#[tokio::test(flavor = "multi_thread")]
async fn what_has_no_tasks_is_answered_plainly() {
    let board = Board::new(Era::Session);
    let mut pipe = open(&local(&board).await, "2025-06-18").await;
    let answer = pipe.ask("tools/call", call("never", json!([]), "mine")).await;
    assert_eq!(answer.result().get("_meta"), None);
    assert_eq!(pipe.ask("tasks/get", about("mine")).await.code(), -32602);
    assert!(pipe.kept(|message| message["method"] == "notifications/tasks/created").is_none());
}

/// Nothing runs for a request for a task that makes no sense.
#[tokio::test(flavor = "multi_thread")]
async fn what_makes_no_sense_is_refused() {
    let board = Board::new(Era::Session);
    let mut pipe = open(&local(&board).await, "2025-06-18").await;
    let long = "x".repeat(257);
    for asked in [
        json!(true),
        json!([]),
        json!({}),
        json!({"taskId": 7}),
        json!({"taskId": ""}),
        json!({"taskId": long}),
        json!({"taskId": "a", "keepAlive": -1}),
        json!({"taskId": "a", "keepAlive": 1.5}),
        json!({"taskId": "a", "keepAlive": "1"}),
    ] {
        let params = json!({"name": "do", "arguments": steps(&json!([])), "_meta": {TASK: asked}});
        let answer = pipe.ask("tools/call", params).await;
        assert_eq!(answer.code(), -32602, "{asked}: {}", answer.raw);
    }
    for method in ["tasks/get", "tasks/result", "tasks/delete"] {
        let nameless = json!({"_meta": {RELATED: {}}});
        assert_eq!(pipe.ask(method, nameless).await.code(), -32602, "{method}");
        assert_eq!(pipe.ask(method, about("unknown")).await.code(), -32602, "{method}");
    }
    assert_eq!(pipe.ask("tasks/list", json!({"cursor": "mine"})).await.code(), -32602);
    assert_eq!(pipe.ask("tasks/cancel", about("unknown")).await.code(), -32601);
    assert_eq!(board.count("calls"), 0);
}

/// One task, made in one generation and read in the others, by the name it has there.
#[tokio::test(flavor = "multi_thread")]
async fn every_generation_reads_it() {
    let board = Board::new(Era::Session);
    let server = serve_local(&board).await;
    let (first, core) = (Old::with(&server, "2025-06-18", json!({})).await, Old::open(&server).await);
    let modern = crate::harness::Modern::new(&server);
    let what = json!([{"return": {"content": [{"type": "text", "text": "é"}]}}]);
    first.ask("tools/call", call("do", what.clone(), "mine")).await.result();
    let listed = core.ask("tasks/list", json!({})).await.result()["tasks"][0].clone();
    let id = listed["taskId"].as_str().expect("an id");
    assert_eq!(listed["status"], "completed");
    assert_eq!(core.ask("tasks/result", json!({"taskId": id})).await.text(), "é");
    assert_eq!(modern.get(id).await["result"]["content"][0]["text"], "é");
    assert_eq!(first.ask("tasks/result", about(id)).await.text(), "é");
    for other in [modern.task("always", what.clone()).await, core.augmented("always", what).await.task()] {
        modern.until(&other, "completed").await;
        assert_eq!(first.ask("tasks/result", about(&other)).await.text(), "é");
        assert_eq!(first.ask("tasks/get", about(&other)).await.result()["taskId"], other.as_str());
    }
    // In a session of 2025-11-25 the request's own metadata says which words are meant, or what the session has said before.
    let state = core.ask("tasks/get", about("mine")).await.result().clone();
    assert_eq!(state["keepAlive"], 60_000);
    assert!(core.ask("tasks/get", json!({"taskId": id})).await.result()["ttl"].is_u64());
}

/// Case 1 and 10: an id counts for its owner, whatever the session; whoever has no authorization has ids of the session alone.
#[tokio::test(flavor = "multi_thread")]
async fn an_id_is_its_owners() {
    let board = Board::new(Era::Session);
    let gateway = local(&board).await;
    let mut gone = open(&gateway, "2025-06-18").await;
    gone.begin("tools/call", call("do", json!([{"wait": "go"}, {"return": {"content": []}}]), "mine")).await;
    created(&mut gone, "mine").await;
    // The end of a session cancels nothing.
    drop(gone);
    let mut pipe = open(&gateway, "2025-06-18").await;
    assert_eq!(status(&mut pipe, "mine").await, "submitted");
    board.open("go");
    crate::harness::eventually_with(&mut pipe, "the end", async |pipe| {
        (status(pipe, "mine").await == "completed").then_some(())
    })
    .await;

    let server = serve(&board).await;
    let (one, other) = (
        Old::with(&server, "2025-06-18", json!({})).await,
        Old::with(&server, "2025-06-18", json!({})).await,
    );
    for old in [&one, &other] {
        old.ask("tools/call", call("do", json!([]), "same")).await.result();
        assert_eq!(old.ask("tasks/list", json!({})).await.code(), -32601);
    }
    one.ask("tasks/delete", about("same")).await.result();
    let foreign = one.ask("tasks/get", about("same")).await.error().clone();
    assert_eq!(foreign, *one.ask("tasks/get", about("unknown")).await.error());
    other.ask("tasks/get", about("same")).await.result();
}

/// The id is found again by the next process.
#[tokio::test(flavor = "multi_thread")]
async fn a_given_id_outlives_a_crash() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("tasks.db");
    let board = Board::new(Era::Session);
    let start = |board: Board| move || builder(&board).single_user(true);
    let life = Life::start(&file, start(board.clone())).await;
    let old = Old::with(life.server(), "2025-06-18", json!({})).await;
    let answer =
        old.ask("tools/call", call("do", json!([{"return": {"content": [], "n": 1.0}}]), "mine")).await;
    life.kill().await;
    let life = Life::start(&file, start(board)).await;
    let old = Old::with(life.server(), "2025-06-18", json!({})).await;
    assert_eq!(old.ask("tasks/result", about("mine")).await.result(), answer.result());
}
