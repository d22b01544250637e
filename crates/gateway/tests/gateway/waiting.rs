//! Work that cannot go on before its upstream is back. The clock is paused, so the hours take no time.

use std::time::Duration;

use serde_json::{Value, json};
use taskgate_gateway::{Gateway, MemoryStore, TaskMode, ToolPolicy};
use taskgate_task::LifetimePolicy;

use crate::harness::{Board, Era, Pipe, accept, form, logs, quick, settings};

/// A gateway on this store; its tools are tasks that may be silent for a few seconds.
async fn gateway(board: &Board, store: &MemoryStore) -> Gateway {
    let lifetime = LifetimePolicy { idle_limit: Some(Duration::from_secs(5)), ..LifetimePolicy::default() };
    let policy = ToolPolicy { tasks: TaskMode::Always, lifetime, ..quick() };
    let builder = Gateway::builder().add(board.spec("far")).policy(policy);
    builder.store(store.clone()).settings(settings()).build().await.expect("gateway")
}

async fn get(pipe: &mut Pipe, id: &str) -> Value {
    pipe.ask("tasks/get", json!({"taskId": id})).await.result().clone()
}

/// A gateway that begins with a task of an earlier one and without the task's upstream.
async fn interrupted(board: &Board) -> (Pipe, String) {
    let store = MemoryStore::new();
    let first = gateway(board, &store).await;
    let mut pipe = Pipe::open(&first).await;
    let id = pipe.task("reader", json!([{"count": "begun"}, {"wait": "go"}])).await;
    board.until("it runs", |board| board.count("begun") == 1).await;
    first.drain().await;
    board.drop_links(true).await;
    let second = gateway(board, &store).await;
    let mut pipe = Pipe::open(&second).await;
    // Far longer than a call waits for a first start, and than the work may be silent.
    tokio::time::sleep(Duration::from_secs(600)).await;
    let waiting = get(&mut pipe, &id).await;
    let line = waiting["statusMessage"].as_str().expect("a line");
    assert!(
        waiting["status"] == "working" && line.starts_with("Waiting for the server \"far\": "),
        "{waiting}"
    );
    assert_eq!(board.count("begun"), 1);
    (pipe, id)
}

/// Case 4: repeatable work that is run again waits until its upstream is up, and then runs.
#[tokio::test(start_paused = true)]
async fn interrupted_work_waits_for_its_upstream() {
    let board = Board::new(Era::Both);
    let (mut pipe, id) = interrupted(&board).await;
    board.accept_links();
    tokio::time::sleep(Duration::from_secs(40)).await;
    assert_eq!(board.count("begun"), 2);
    // From here on silence is the work's own again.
    let failed = get(&mut pipe, &id).await;
    assert_eq!(failed["status"], "failed", "{failed}");
    assert!(failed["statusMessage"].as_str().expect("a line").contains("silent"), "{failed}");

    let board = Board::new(Era::Both);
    let (mut pipe, id) = interrupted(&board).await;
    board.accept_links();
    while board.count("begun") < 2 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let line = get(&mut pipe, &id).await["statusMessage"].clone();
    assert!(!line.as_str().expect("a line").contains("Waiting"), "{line}");
    board.open("go");
    pipe.until(&id, "completed").await;
    logs::clean();
}

/// Case 17: work that waits for its upstream can be cancelled, and is not begun when the upstream comes back.
#[tokio::test(start_paused = true)]
async fn work_that_waits_can_be_cancelled() {
    let board = Board::new(Era::Both);
    let (mut pipe, id) = interrupted(&board).await;
    assert_eq!(pipe.ask("tasks/cancel", json!({"taskId": id})).await.result()["status"], "cancelled");
    board.accept_links();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!((get(&mut pipe, &id).await["status"].clone(), board.count("begun")), (json!("cancelled"), 1));
}

/// The same for answers that come while the upstream is away: they are not lost with the call that would take them there.
#[tokio::test(start_paused = true)]
async fn answers_wait_for_their_upstream() {
    let board = Board::new(Era::Modern);
    let gateway = gateway(&board, &MemoryStore::new()).await;
    let mut pipe = Pipe::start(&gateway);
    let arguments = json!({"steps": [{"round": {"a": form("A?")}}, {"answers": true}]});
    let asked = pipe.ask_modern("tools/call", json!({"name": "do", "arguments": arguments})).await;
    let id = asked.task();
    let task =
        async |pipe: &mut Pipe| pipe.ask_modern("tasks/get", json!({"taskId": id})).await.result().clone();
    while task(&mut pipe).await["status"] != "input_required" {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    board.drop_links(true).await;
    let answers = json!({"taskId": id, "inputResponses": {"a": accept("x")}});
    pipe.ask_modern("tasks/update", answers).await.result();
    tokio::time::sleep(Duration::from_secs(600)).await;
    let waiting = task(&mut pipe).await;
    assert!(waiting["statusMessage"].as_str().expect("a line").starts_with("Waiting"), "{waiting}");
    board.accept_links();
    tokio::time::sleep(Duration::from_secs(40)).await;
    let done = task(&mut pipe).await;
    let text = json!({"a": accept("x")}).to_string();
    assert_eq!(done["result"]["content"][0]["text"], text, "{done}");
}
