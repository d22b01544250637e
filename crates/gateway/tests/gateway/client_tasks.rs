//! Clients of 2025-11-25 that make tasks of the questions they are asked (SEP-1686: either side may host tasks).

use std::time::Duration;

use serde_json::{Value, json};
use taskgate_gateway::{Settings, StreamSettings};

use crate::harness::{Board, Era, Old, Pipe, accept, direct, form, serve_with, settings};
use crate::input::next;

/// What such a client declares.
fn hosting() -> Value {
    json!({
        "elicitation": {},
        "sampling": {},
        "tasks": {"cancel": {}, "requests": {"elicitation": {"create": {}}, "sampling": {"createMessage": {}}}}
    })
}

/// A client in front of a tool that asks one question.
async fn client(capabilities: Value, version: &str, what: Value) -> (Board, Pipe, String) {
    let board = Board::new(Era::Session);
    let gateway = direct::gateway(&board, Settings { single_user: true, ..settings() }).await;
    let mut pipe = Pipe::start(&gateway);
    pipe.initialize(version, capabilities).await.result();
    let id = match version {
        "2025-11-25" => pipe.task("always", what).await,
        _ => {
            let params = json!({"name": "never", "arguments": {"steps": what}});
            pipe.begin("tools/call", params).await.to_string()
        }
    };
    (board, pipe, id)
}

/// The next request of the server with this method.
async fn asked(pipe: &mut Pipe, method: &str) -> Value {
    pipe.find(|message| message["method"] == method && message.get("id").is_some()).await
}

/// The client's task, as it tells of it.
fn task(status: &str, interval: Value) -> Value {
    json!({
        "taskId": "mine", "status": status, "createdAt": "2026-11-30T00:00:00Z",
        "lastUpdatedAt": "2026-11-30T00:00:00Z", "ttl": 60000, "pollInterval": interval
    })
}

/// The question is asked as a task; the client is asked how far it is until it has an answer, which reaches the tool
/// without what concerns this hop only.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_takes_its_time_with_a_question() {
    let (_board, mut pipe, id) =
        client(hosting(), "2025-11-25", json!([{"ask": [form("Name?")]}, {"answers": true}])).await;
    pipe.until(&id, "input_required").await;
    let question = asked(&mut pipe, "elicitation/create").await;
    assert!(question["params"]["task"]["ttl"].as_u64().is_some_and(|ttl| ttl > 60_000), "{question}");
    assert_eq!(question["params"]["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], id.as_str());
    pipe.respond(&question["id"], json!({"task": task("working", json!(200))})).await;
    for status in ["working", "input_required", "completed"] {
        let look = asked(&mut pipe, "tasks/get").await;
        assert_eq!(look["params"], json!({"taskId": "mine"}));
        pipe.respond(&look["id"], task(status, json!(200))).await;
    }
    let fetch = asked(&mut pipe, "tasks/result").await;
    assert_eq!(fetch["params"]["taskId"], "mine");
    let mut answer = accept("Luca");
    answer["_meta"] = json!({"io.modelcontextprotocol/related-task": {"taskId": "mine"}});
    pipe.respond(&fetch["id"], answer).await;
    pipe.until(&id, "completed").await;
    let result = pipe.ask("tasks/result", json!({"taskId": id})).await;
    assert_eq!(result.text(), json!([accept("Luca")]).to_string());
}

/// The stream that a question was asked on may break once the client has made a task of it: the answer is fetched on
/// another one, and nothing is asked twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_clients_task_outlives_the_stream_of_its_question() {
    let board = Board::new(Era::Session);
    let streams = StreamSettings { replay_for: Duration::from_millis(100), ..StreamSettings::default() };
    let server = serve_with(&board, Settings { single_user: true, streams, ..settings() }).await;
    let old = Old::with(&server, "2025-11-25", hosting()).await;
    let what = json!([{"ask": [form("Name?")]}, {"answers": true}]);
    let id = old.augmented("always", what).await.task();
    let mut stream = old.begin("tasks/result", json!({"taskId": id})).await;
    let question = next(&mut stream).await;
    old.respond(&question["id"], json!({"task": task("working", json!(200))})).await;
    drop(stream);
    let mut stream = old.stream().await;
    let look = loop {
        let message = next(&mut stream).await;
        assert_ne!(message["method"], "elicitation/create", "asked again");
        if message["method"] == "tasks/get" {
            break message;
        }
    };
    old.respond(&look["id"], task("completed", json!(200))).await;
    let fetch = loop {
        let message = next(&mut stream).await;
        if message["method"] == "tasks/result" {
            break message;
        }
    };
    old.respond(&fetch["id"], accept("Luca")).await;
    old.until(&id, "completed").await;
    assert_eq!(
        old.ask("tasks/result", json!({"taskId": id})).await.text(),
        json!([accept("Luca")]).to_string()
    );
}

/// A word of the client's is heard before its interval is over.
#[tokio::test(flavor = "multi_thread")]
async fn a_clients_word_is_heard() {
    let (_board, mut pipe, id) =
        client(hosting(), "2025-11-25", json!([{"ask": [form("Name?")]}, {"answers": true}])).await;
    pipe.until(&id, "input_required").await;
    let question = asked(&mut pipe, "elicitation/create").await;
    // A minute: far longer than this test waits for anything.
    pipe.respond(&question["id"], json!({"task": task("working", json!(60_000))})).await;
    let told = json!({"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": task("completed", json!(60_000))});
    let look = loop {
        // The word may come before the handle has been read.
        pipe.write(format!("{told}\n").as_bytes()).await;
        pipe.ping().await;
        if let Some(look) = pipe.kept(|message| message["method"] == "tasks/get") {
            break look;
        }
    };
    pipe.respond(&look["id"], task("completed", json!(60_000))).await;
    let fetch = asked(&mut pipe, "tasks/result").await;
    pipe.respond(&fetch["id"], accept("Luca")).await;
    pipe.until(&id, "completed").await;
}

/// Case 17: a question that is no longer open is cancelled where it has become a task.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_became_a_task_is_taken_back() {
    let what = json!([{"take_back": [form("A?")]}, {"wait": "go"}]);
    let (board, mut pipe, id) = client(hosting(), "2025-11-25", what).await;
    pipe.until(&id, "input_required").await;
    let question = asked(&mut pipe, "elicitation/create").await;
    pipe.respond(&question["id"], json!({"task": task("working", json!(200))})).await;
    asked(&mut pipe, "tasks/get").await;
    board.open("take back");
    let cancel = asked(&mut pipe, "tasks/cancel").await;
    assert_eq!(cancel["params"], json!({"taskId": "mine"}));
    pipe.respond(&cancel["id"], task("cancelled", json!(200))).await;
    board.open("go");
    pipe.until(&id, "completed").await;
}

/// Case 6 and 27, the other way round: whatever else becomes of such a task, the tool hears that there is no answer, and
/// nothing waits for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_clients_task_that_comes_to_nothing_is_no_answer() {
    for end in ["cancelled", "unheard-of", "gone", "no id", "fails"] {
        let what = json!([{"ask": [form("Name?")]}, {"answers": true}]);
        let (_board, mut pipe, id) = client(hosting(), "2025-11-25", what).await;
        pipe.until(&id, "input_required").await;
        let question = asked(&mut pipe, "elicitation/create").await;
        let error = json!({"code": -32602, "message": "no such task"});
        if end == "no id" {
            pipe.respond(&question["id"], json!({"task": {"status": "working"}})).await;
        } else {
            pipe.respond(&question["id"], json!({"task": task("working", json!(200))})).await;
            let look = asked(&mut pipe, "tasks/get").await;
            match end {
                "gone" => {
                    let refused = json!({"jsonrpc": "2.0", "id": look["id"], "error": error});
                    pipe.write(format!("{refused}\n").as_bytes()).await;
                }
                "fails" => {
                    pipe.respond(&look["id"], task("failed", json!(200))).await;
                    let fetch = asked(&mut pipe, "tasks/result").await;
                    let refused = json!({"jsonrpc": "2.0", "id": fetch["id"], "error": error});
                    pipe.write(format!("{refused}\n").as_bytes()).await;
                }
                status => pipe.respond(&look["id"], task(status, json!(200))).await,
            }
        }
        pipe.until(&id, "completed").await;
        let result = pipe.ask("tasks/result", json!({"taskId": id})).await;
        assert_eq!(result.text(), json!([{"action": "cancel"}]).to_string(), "{end}");
    }
}

/// Who does not host tasks for a question is not asked for one: not by another version, not for another kind of question.
#[tokio::test(flavor = "multi_thread")]
async fn only_who_hosts_tasks_is_asked_for_one() {
    let without = json!({"elicitation": {}, "tasks": {"requests": {"sampling": {"createMessage": {}}}}});
    for (capabilities, version) in [(without, "2025-11-25"), (hosting(), "2025-06-18")] {
        let what = json!([{"ask": [form("Name?")]}, {"answers": true}]);
        let (_board, mut pipe, id) = client(capabilities, version, what).await;
        if version == "2025-11-25" {
            pipe.until(&id, "input_required").await;
        }
        let question = asked(&mut pipe, "elicitation/create").await;
        assert_eq!(question["params"].get("task"), None, "{question}");
        // What merely looks like a handle is an answer like any other.
        pipe.respond(&question["id"], accept("Luca")).await;
        if version == "2025-11-25" {
            pipe.until(&id, "completed").await;
        } else {
            let answer = pipe.answer(id.parse().expect("a number")).await;
            assert_eq!(answer.text(), json!([accept("Luca")]).to_string());
        }
    }
}
