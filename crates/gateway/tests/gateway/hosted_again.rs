//! What is done a second time with an upstream that hosts tasks, and what is not. The clock is paused.

use std::time::Duration;

use serde_json::{Value, json};
use taskgate_gateway::{Gateway, MemoryStore, ToolPolicy, UpstreamSpec, UpstreamTasks};

use crate::harness::{Board, Era, Offers, Pipe, accept, form, logs, paused_store, quick, settings};
use crate::hosted::{ERAS, gateway_on, until};

/// A server whose tool `again` may be called again.
fn board(era: Era) -> Board {
    let mut offers = Offers::hosting();
    let mut again = offers.tools[0].clone();
    (again["name"], again["annotations"]) = (json!("again"), json!({"idempotentHint": true}));
    offers.tools.push(again);
    Board::with(era, offers)
}

async fn gateway(board: &Board, store: &MemoryStore) -> Gateway {
    let spec = UpstreamSpec { upstream_tasks: UpstreamTasks::Always, ..board.spec("far") };
    let policy = ToolPolicy { inline_for: Duration::from_secs(3600), max_attempts: 3, ..quick() };
    let builder = Gateway::builder().add(spec).policy(policy);
    builder.store(store.clone()).settings(settings()).build().await.expect("gateway")
}

fn work() -> Value {
    json!([{"count": "begun"}, {"wait": "go"}, {"return": {"content": [], "n": 5}}])
}

/// Case 29: a server that has forgotten the task of a call that may be made again is called again, by whoever finds that out,
/// and so is the next one.
#[tokio::test(start_paused = true)]
async fn a_forgotten_task_of_a_repeatable_tool_is_made_again() {
    for era in ERAS {
        let (board, store) = (board(era), paused_store());
        let first = gateway(&board, &store).await;
        let mut pipe = Pipe::open(&first).await;
        let id = pipe.task("again", work()).await;
        until("it is followed", async || !board.heard("tasks/get").is_empty()).await;
        board.forget_hosted();
        until("it is called again", async || board.count("begun") == 2).await;
        first.drain().await;
        board.forget_hosted();
        let second = gateway(&board, &store).await;
        let mut pipe = Pipe::open(&second).await;
        until("it is called again", async || board.count("begun") == 3).await;
        board.open("go");
        pipe.until(&id, "completed").await;
        assert_eq!(pipe.ask("tasks/result", json!({"taskId": id})).await.result()["n"], 5);
        assert_eq!(board.heard("tools/call").len(), 3);
    }
    logs::clean();
}

/// But not for ever: its calls are counted, across gateways too.
#[tokio::test(start_paused = true)]
async fn a_server_that_forgets_again_and_again_is_given_up() {
    for era in ERAS {
        let (board, store) = (board(era), paused_store());
        let mut gateway_now = gateway(&board, &store).await;
        let id = Pipe::open(&gateway_now).await.task("again", work()).await;
        for calls in 1..=3 {
            until("it is called", async || board.count("begun") == calls).await;
            gateway_now.drain().await;
            board.forget_hosted();
            gateway_now = gateway(&board, &store).await;
        }
        let mut pipe = Pipe::open(&gateway_now).await;
        let failed = pipe.until(&id, "failed").await;
        let line = failed["statusMessage"].as_str().expect("a line");
        assert!(line.starts_with("The server no longer knows the task"), "{line}");
        assert_eq!(board.heard("tools/call").len(), 3);
    }
    logs::clean();
}

/// Case 8: an answer that was given, and had not reached the server when the gateway went, is not asked for a second time.
#[tokio::test(start_paused = true)]
async fn an_answer_on_its_way_outlives_its_gateway() {
    let board = board(Era::Modern);
    let store = paused_store();
    let first = gateway_on(&board, &store, UpstreamTasks::Always).await;
    let mut pipe = Pipe::open(&first).await;
    board.answer_oddly("tasks/update", [Err(json!({"code": -32603, "message": "busy"}))]);
    let what = json!([{"ask": {"a": form("A?"), "b": form("B?")}}, {"answers": true}]);
    let id = pipe.task("optional", what).await;
    let asked = pipe.find(|said| said["params"]["message"] == "A?").await;
    pipe.respond(&asked["id"], accept("x")).await;
    until("it is told", async || !board.heard("tasks/update").is_empty()).await;
    first.drain().await;
    board.answer_oddly("tasks/update", []);
    let second = gateway_on(&board, &store, UpstreamTasks::Always).await;
    let mut pipe = Pipe::open(&second).await;
    // The other one was open, and has to be asked again.
    let waiting = pipe.begin("tasks/result", json!({"taskId": id})).await;
    let asked = pipe.find(|said| said["method"] == "elicitation/create").await;
    assert_eq!(asked["params"]["message"], "B?");
    pipe.respond(&asked["id"], accept("y")).await;
    let answer = pipe.answer(waiting).await;
    assert_eq!(answer.text(), json!({"a": accept("x"), "b": accept("y")}).to_string());
    assert_eq!(board.count("calls"), 1);
    logs::clean();
}
