//! Two gateways on one store: what one runs, the other can be asked about.

use std::time::Duration;

use serde_json::{Value, json};
use taskgate_gateway::{MemoryStore, NodeSettings, Settings, ToolPolicy, WorkClass};

use crate::harness::{
    Board, Era, Modern, Old, Server, accept, builder, eventually, form, logs, quick, settings, soon, steps,
};

/// Two nodes with an upstream each, as separate processes would have.
async fn nodes(era: Era) -> [(Board, Server); 2] {
    let first = MemoryStore::shared();
    let second = first.another();
    [node(first, era).await, node(second, era).await]
}

async fn node(store: MemoryStore, era: Era) -> (Board, Server) {
    let board = Board::new(era);
    // Leases so long that nobody is taken for dead on a busy machine, and no looking for what was not told.
    let node = NodeSettings {
        poll: Duration::from_secs(600),
        lease: Duration::from_secs(600),
        ..NodeSettings::default()
    };
    let builder = builder(&board).settings(Settings { node, ..settings() }).single_user(true);
    let gateway = builder.store(store).build().await.expect("gateway");
    (board, Server::start(gateway).await)
}

/// Any node reads, answers, cancels and follows the work of another.
#[tokio::test(flavor = "multi_thread")]
async fn any_node_serves_any_task() {
    let [(board_a, a), (board_b, b)] = nodes(Era::Session).await;
    let (on_a, on_b) = (Modern::new(&a), Modern::new(&b));
    let id = on_a
        .task("always", json!([{"count": "run"}, {"wait": "ask"}, {"ask": [form("A?")]}, {"wait": "end"}]))
        .await;
    assert_eq!(on_b.get(&id).await["status"], "working");
    let mut stream = on_b.listen(&[&id]).await;
    // The acknowledgement and where it stands.
    for _ in 0..2 {
        next(&mut stream).await;
    }
    board_a.open("ask");
    let asking = next(&mut stream).await;
    assert_eq!(asking["params"]["status"], "input_required");
    let questions = on_b.get(&id).await["inputRequests"].as_object().expect("questions").clone();
    let (key, _) = questions.iter().next().expect("one");
    on_b.update(&id, json!({ key: accept("x") })).await.result();
    assert_eq!(next(&mut stream).await["params"]["status"], "working");
    // Whoever waits on one node hears of the end on the other; a client of 2025-11-25 too.
    let old = Old::open(&b).await;
    let waiting = tokio::spawn({
        let (old, id) = (old.clone(), id.clone());
        async move { old.ask("tasks/result", json!({"taskId": id})).await }
    });
    board_a.open("end");
    assert_eq!(soon("the result", waiting).await.expect("no panic").text(), "done");
    assert_eq!(next(&mut stream).await["params"]["status"], "completed");

    let id = on_a.task("always", json!([{"count": "run"}, {"wait": "never"}])).await;
    // The call before may still be on its way out, so that one is running says nothing.
    board_a.until("it runs", |board| board.count("run") == 2).await;
    on_b.ask("tasks/cancel", json!({"taskId": id})).await.result();
    board_a.until("the work has stopped", |board| board.running() == 0).await;
    assert_eq!((board_a.count("run"), board_b.count("run")), (2, 0));
    logs::clean();
}

/// A session is of one node. Another one says 404, which makes the client initialize again; its tasks are there.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_another_node_is_not_found_but_its_tasks_are() {
    let [(board, a), (_, b)] = nodes(Era::Both).await;
    let old = Old::open(&a).await;
    let id = old.augmented("always", json!([{"wait": "go"}])).await.task();
    let elsewhere = old.clone().moved_to(&b);
    let refused = elsewhere.begin("tasks/get", json!({"taskId": id})).await;
    assert_eq!(refused.status, 404);
    let again = Old::open(&b).await;
    assert_eq!(again.get(&id).await["status"], "working");
    board.open("go");
    assert_eq!(again.ask("tasks/result", json!({"taskId": id})).await.text(), "done");
}

/// The node of a session asks, whichever does the work. Each node knows only what it has out itself, so a question may be out
/// on two; the first answer counts, and the other request is taken back.
#[tokio::test(flavor = "multi_thread")]
async fn the_node_of_a_session_asks() {
    let [(_, a), (_, b)] = nodes(Era::Session).await;
    let (on_a, on_b) = (Old::open(&a).await, Old::open(&b).await);
    let id = on_a.augmented("always", json!([{"ask": [form("A?")]}, {"answers": true}])).await.task();
    let mut far = on_b.begin("tasks/result", json!({"taskId": id})).await;
    let asked_far = next(&mut far).await;
    let mut near = on_a.begin("tasks/result", json!({"taskId": id})).await;
    let asked_near = next(&mut near).await;
    assert_eq!(asked_far["params"], asked_near["params"]);
    on_b.respond(&asked_far["id"], accept("far")).await;
    assert_eq!(soon("the result", far.answer()).await.text(), json!([accept("far")]).to_string());
    let near = soon("the result", near.answer()).await;
    assert_eq!(near.text(), json!([accept("far")]).to_string());
    assert_eq!(near.before[0]["method"], "notifications/cancelled", "{:?}", near.before);
    on_a.respond(&asked_near["id"], accept("near")).await;
    logs::clean();
}

/// Any node, any time: a `requestState` of one node opens on the other, where nothing of the call was kept.
#[tokio::test(flavor = "multi_thread")]
async fn a_state_opens_on_any_node() {
    let [(_, a), (board_b, b)] = nodes(Era::Modern).await;
    let what = json!([{"round": {"a": form("A?")}}, {"answers": true}]);
    let mut call = json!({"name": "never", "arguments": steps(&what)});
    let asked = Modern::new(&a).ask("tools/call", call.clone()).await;
    assert_eq!(asked.result()["resultType"], "input_required");
    call["requestState"] = asked.result()["requestState"].clone();
    call["inputResponses"] = json!({"a": accept("x")});
    let done = Modern::new(&b).ask("tools/call", call).await;
    assert_eq!(done.text(), json!({"a": accept("x")}).to_string());
    assert_eq!(board_b.heard("tools/call").len(), 1);
}

/// The same call sent to two nodes at once under one key is one task, one run.
#[tokio::test(flavor = "multi_thread")]
async fn one_key_is_one_task_on_all_nodes() {
    let [(board_a, a), (board_b, b)] = nodes(Era::Both).await;
    let call = json!({"name": "at_once", "arguments": steps(&json!([{"count": "run"}, {"wait": "go"}])),
        "_meta": {"io.taskgate/idempotency-key": "k"}});
    for _ in 0..20 {
        let (on_a, on_b) = (Modern::new(&a), Modern::new(&b));
        let (first, second) =
            tokio::join!(on_a.ask("tools/call", call.clone()), on_b.ask("tools/call", call.clone()));
        assert_eq!(first.task(), second.task());
    }
    assert_eq!(board_a.count("run") + board_b.count("run"), 1);
}

/// A rolling upgrade: what may run again goes on elsewhere at once, what may not is told so, nothing is forgotten.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_shuts_down_hands_its_work_over() {
    let first = MemoryStore::shared();
    let second = first.another();
    let repeat = ToolPolicy {
        class: Some(WorkClass::Repeatable),
        tasks: taskgate_gateway::TaskMode::Always,
        ..quick()
    };
    let start = async |store: MemoryStore| {
        let board = Board::new(Era::Both);
        let builder = builder(&board).tool("do", repeat.clone()).single_user(true).store(store);
        (board, Server::start(builder.build().await.expect("gateway")).await)
    };
    let (board_a, a) = start(first).await;
    let (board_b, b) = start(second).await;
    let what = json!([{"count": "run"}, {"wait": "go"}]);
    let on_a = Modern::new(&a);
    let (again, live) = (on_a.task("do", what.clone()).await, on_a.task("always", what).await);
    board_a.until("both run", |board| board.count("run") == 2).await;
    a.stop();
    a.stopped().await;
    let on_b = Modern::new(&b);
    assert_eq!(on_b.until(&live, "failed").await["error"]["data"]["reason"], "interrupted");
    board_b.until("it runs again", |board| board.count("run") == 1).await;
    board_b.open("go");
    on_b.until(&again, "completed").await;
    eventually("nothing is carried", || async { (b.gateway.engine().carried() == 0).then_some(()) }).await;
}

async fn next(stream: &mut crate::harness::http::Response) -> Value {
    let event = soon("an event", stream.event()).await.expect("an event");
    serde_json::from_str(&event).expect("JSON")
}
