//! What a restart leaves, and how a gateway ends.

use serde_json::json;

use crate::harness::{
    Board, Era, Life, Modern, Old, Pipe, Server, accept, builder, form, logs, policies, soon,
};

/// Case 1: after a crash and a restart the same owner, in a new session, finds its task; another owner does not.
#[tokio::test(flavor = "multi_thread")]
async fn finished_tasks_survive_a_crash_byte_for_byte() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("tasks.db");
    let board = Board::new(Era::Both);
    let start = |board: Board| move || builder(&board);
    let life = Life::start(&file, start(board.clone())).await;
    let modern = Modern::new(life.server());
    let old = Old::open(life.server()).await;
    let body = json!({"content": [{"type": "text", "text": "é😀"}], "n": 1.0});
    let id = modern.task("always", json!([{"return": body}])).await;
    let before = modern.until(&id, "completed").await;
    let result = old.ask("tasks/result", json!({"taskId": id})).await.raw;
    life.kill().await;
    let life = Life::start(&file, start(board.clone())).await;
    let modern = Modern::new(life.server());
    assert_eq!(modern.get(&id).await.to_string(), before.to_string());
    assert_eq!(old_begin(&old, life.server()).await, 404);
    let old = Old::open(life.server()).await;
    assert_eq!(
        old.ask("tasks/result", json!({"taskId": id})).await.raw.replace("\"id\":1", ""),
        result.replace("\"id\":1", "")
    );
    let mut local = Pipe::open(&life.server().gateway).await;
    let foreign = local.ask("tasks/get", json!({"taskId": id})).await.error().clone();
    assert_eq!(foreign, *local.ask("tasks/get", json!({"taskId": "unknown"})).await.error());
}

/// A request of an old session at a new server.
async fn old_begin(old: &Old, server: &Server) -> u16 {
    let headers = [("Mcp-Session-Id", old.session.as_str())];
    let ping = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    crate::harness::http::send(server.addr, "POST", &headers, ping).await.status
}

/// Cases 4 and 20: after a crash, running and asking work of class `live` fails as interrupted; `repeatable` work runs
/// again under the same id; nothing else is left.
#[tokio::test(flavor = "multi_thread")]
async fn each_unfinished_task_gets_its_one_decision() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("tasks.db");
    let board = Board::new(Era::Session);
    let start = |board: Board| move || builder(&board);
    let life = Life::start(&file, start(board.clone())).await;
    let modern = Modern::new(life.server());
    let old = Old::open(life.server()).await;
    let working = modern.task("always", json!([{"count": "live"}, {"wait": "x"}])).await;
    let asking = modern.task("always", json!([{"count": "live"}, {"ask": [form("Name?")]}])).await;
    let again = old.augmented("reader", json!([{"count": "again"}, {"wait": "go"}])).await.task();
    modern.until(&asking, "input_required").await;
    board.until("all run", |board| board.running() == 3).await;
    life.kill().await;
    board.until("all were stopped", |board| board.running() == 0).await;
    let life = Life::start(&file, start(board.clone())).await;
    let modern = Modern::new(life.server());
    for id in [&working, &asking] {
        let task = modern.until(id, "failed").await;
        assert_eq!(task["error"]["data"]["reason"], "interrupted");
        assert!(task["statusMessage"].as_str().expect("a line").contains("interrupted"), "{task}");
    }
    assert_eq!(modern.get(&again).await["status"], "working");
    board.open("go");
    modern.until(&again, "completed").await;
    assert_eq!((board.count("live"), board.count("again")), (2, 2));
    assert_eq!(life.server().gateway.engine().carried(), 0);
    logs::clean();
}

/// A task whose upstream ended its call to ask waits through a restart and completes after the answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_parked_question_survives_a_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("tasks.db");
    let board = Board::new(Era::Modern);
    let start = |board: Board| move || builder(&board);
    let life = Life::start(&file, start(board.clone())).await;
    let modern = Modern::new(life.server());
    let what = json!([{"count": "begun"}, {"round": {"a": form("A?"), "b": form("B?")}}, {"answers": true}]);
    let id = modern.task("always", what).await;
    let before = modern.until(&id, "input_required").await;
    assert_eq!(before["inputRequests"], json!({"a": form("A?"), "b": form("B?")}));
    modern.update(&id, json!({"a": accept("x")})).await.result();
    assert_eq!(board.running(), 0);
    life.kill().await;
    let life = Life::start(&file, start(board.clone())).await;
    let modern = Modern::new(life.server());
    let after = modern.get(&id).await;
    assert_eq!(
        (&after["status"], &after["inputRequests"]),
        (&json!("input_required"), &json!({"b": form("B?")}))
    );
    modern.update(&id, json!({"b": accept("y"), "a": accept("late")})).await.result();
    let done = modern.until(&id, "completed").await;
    let answers = done["result"]["content"][0]["text"].as_str().expect("a text").to_owned();
    assert_eq!(answers, json!({"a": accept("x"), "b": accept("y")}).to_string());
    assert_eq!(board.count("begun"), 2);
    let calls = board.heard("tools/call");
    assert_eq!(calls[1]["params"]["requestState"], "round-1");
}

/// SIGTERM drains: what ends within the grace time ends well, inline calls too, the rest fails as interrupted.
#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_lets_finish_what_can_finish() {
    let board = Board::new(Era::Both);
    let builder = builder(&board).settings(taskgate_gateway::Settings {
        drain_grace: std::time::Duration::from_millis(1500),
        ..crate::harness::settings()
    });
    let gateway = builder.build().await.expect("gateway");
    let server = Server::start(gateway.clone()).await;
    let modern = Modern::new(&server);
    let short = modern.task("always", json!([{"sleep": 700}])).await;
    let long = modern.task("always", json!([{"wait": "x"}])).await;
    let mut listening = modern.listen(&[&long]).await;
    let inline = tokio::spawn({
        let modern = modern.clone();
        async move { modern.tool("never", json!([{"sleep": 800}])).await }
    });
    board.until("all run", |board| board.running() == 3).await;
    let old = Old::open(&server).await;
    let waiting = tokio::spawn({
        let long = long.clone();
        async move { old.ask("tasks/result", json!({"taskId": long})).await }
    });
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    server.stop();
    server.stopped().await;
    // Whoever waited hears how it ended.
    let waited = soon("the waiter's answer", waiting).await.expect("no panic");
    assert_eq!(waited.error()["data"]["reason"], "interrupted");
    assert_eq!(soon("the inline answer", inline).await.expect("no panic").text(), "done");
    let owner = taskgate_task::Owner::anonymous();
    let get = async |id: &str| {
        let id = taskgate_task::TaskId::parse(id).expect("an id");
        gateway.engine().get(&owner, id).await.expect("a task")
    };
    assert_eq!(get(&short).await.status.as_str(), "completed");
    assert_eq!(get(&long).await.failure.expect("a failure").as_str(), "interrupted");
    assert_eq!(gateway.engine().carried(), 0);
    // The subscription ended in good order.
    let mut last = String::new();
    while let Some(event) = listening.event().await {
        last = event;
    }
    let last: serde_json::Value = serde_json::from_str(&last).expect("JSON");
    assert_eq!(last["result"]["resultType"], "complete");
    board.until("nothing runs", |board| board.running() == 0).await;
    logs::clean();
}

/// Case 19, the quiet end: a client that writes its requests and closes the pipe still gets its answers.
#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_input_does_not_swallow_answers() {
    let board = Board::new(Era::Both);
    let gateway = builder(&board).build().await.expect("gateway");
    let mut pipe = Pipe::start(&gateway);
    let id = {
        let mut params = json!({"name": "never", "arguments": {"steps": [{"sleep": 200}]}});
        params["_meta"] = crate::harness::pipe::modern_meta(crate::harness::modern::everything());
        pipe.begin("tools/call", params).await
    };
    pipe.close();
    let rest = pipe.ended().await;
    assert!(rest.iter().any(|message| message["id"] == id && message["result"].is_object()), "{rest:?}");
}

/// SIGTERM over stdio: the input is still open, running work gets its grace, and the server ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_over_stdio_does_not_wait_for_the_end_of_input() {
    let board = Board::new(Era::Both);
    let gateway = builder(&board).build().await.expect("gateway");
    let mut pipe = Pipe::open(&gateway).await;
    let short = pipe.task("always", json!([{"sleep": 200}])).await;
    let long = pipe.task("always", json!([{"wait": "x"}])).await;
    let waiting = pipe.begin("tasks/result", json!({"taskId": long})).await;
    pipe.ping().await;
    pipe.stop();
    let rest = pipe.ended().await;
    // Whoever waited hears how it ended.
    let answer = rest.iter().find(|message| message["id"] == waiting).expect("an answer");
    assert_eq!(answer["error"]["data"]["reason"], "interrupted", "{answer}");
    let owner = taskgate_task::Owner::local();
    let id = taskgate_task::TaskId::parse(&short).expect("an id");
    assert_eq!(gateway.engine().get(&owner, id).await.expect("a task").status.as_str(), "completed");
    logs::clean();
}

/// A shutdown starts nothing new, but tells so.
#[tokio::test(flavor = "multi_thread")]
async fn a_draining_gateway_refuses_new_work() {
    let board = Board::new(Era::Both);
    let server = Server::start(
        policies(taskgate_gateway::Gateway::builder().add(board.spec("u"))).build().await.expect("gateway"),
    )
    .await;
    server.gateway.drain().await;
    let answer = Modern::new(&server).tool("always", json!([])).await;
    assert_eq!(answer.code(), -32603);
    assert!(answer.error()["message"].as_str().expect("a message").contains("shutting down"));
    assert_eq!(board.count("calls"), 0);
}

/// A dropped gateway lets go of its store: the library face leaves nothing behind.
#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_gateway_lets_go_of_its_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("tasks.db");
    let board = Board::new(Era::Both);
    for _ in 0..2 {
        let store = crate::harness::life::open(&file).await;
        let gateway = builder(&board).store(store).build().await.expect("gateway");
        let mut pipe = Pipe::open(&gateway).await;
        pipe.task("always", json!([])).await;
        pipe.close();
        pipe.ended().await;
        drop(gateway);
    }
}
