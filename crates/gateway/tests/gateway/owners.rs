//! Whose tasks are whose, and what ids and lists give away.

use serde_json::{Value, json};

use taskgate_gateway::admin::{AdminReply, AdminRequest, Desk};
use taskgate_gateway::{Bind, Settings};

use crate::harness::{
    Board, Era, Modern, Old, Pipe, Server, builder, eventually, serve, serve_local, settings,
};

/// Case 10: without authorization there is no list, neither declared nor served.
#[tokio::test(flavor = "multi_thread")]
async fn anonymous_callers_have_no_list() {
    let server = serve(&Board::new(Era::Both)).await;
    let old = Old::open(&server).await;
    let tasks = &old.initialized["capabilities"]["tasks"];
    assert_eq!(*tasks, json!({"cancel": {}, "requests": {"tools": {"call": {}}}}));
    assert_eq!(old.ask("tasks/list", json!({})).await.code(), -32601);
    assert_eq!(Modern::new(&server).ask("tasks/list", json!({})).await.code(), -32601);
}

/// Case 10: unknown, foreign and expired ids give byte-equal errors, in every verb of both dialects.
#[tokio::test(flavor = "multi_thread")]
async fn unknown_foreign_and_expired_ids_look_the_same() {
    let board = Board::new(Era::Both);
    let server = serve(&board).await;
    let mut local = Pipe::open(&server.gateway).await;
    let foreign = local.task("always", json!([{"wait": "never"}])).await;
    let old = Old::open(&server).await;
    let modern = Modern::new(&server);
    // The shortest lifetime there is: one second after the end the task is gone.
    let call = json!({"name": "always", "arguments": {}, "task": {"ttl": 0}});
    let expired = old.ask("tools/call", call).await.task();
    eventually("expiry", || async {
        (old.ask("tasks/get", json!({"taskId": expired})).await.json.get("error").is_some()).then_some(())
    })
    .await;
    let unknown = format!("{}{}", &foreign[..16], "0".repeat(32));
    let odd = ["", "x", "../../etc/passwd", "ffffffffffffffffffffffffffffffffffffffffffffffff"];
    let upper = foreign.to_uppercase();
    let ids = [foreign.as_str(), &expired, &unknown, &upper].into_iter().chain(odd);
    let mut errors: Vec<Value> = Vec::new();
    for id in ids {
        for verb in ["tasks/get", "tasks/result", "tasks/cancel"] {
            errors.push(old.ask(verb, json!({"taskId": id})).await.error().clone());
        }
        for verb in ["tasks/get", "tasks/cancel"] {
            let answer = modern.ask(verb, json!({"taskId": id})).await;
            assert_eq!(answer.status, 200);
            errors.push(answer.error().clone());
        }
        errors.push(modern.update(id, json!({"k": {}})).await.error().clone());
    }
    errors.dedup();
    assert_eq!(errors, [json!({"code": -32602, "message": "Unknown task"})]);
    assert_eq!(local.until(&foreign, "working").await["status"], "working");
}

/// Case 10: whoever is known sees all tasks of its own, page by page, and nobody else's.
#[tokio::test(flavor = "multi_thread")]
async fn more_tasks_than_a_page_are_listed_once_each() {
    let board = Board::new(Era::Both);
    let server = serve_local(&board).await;
    let old = Old::open(&server).await;
    assert!(old.initialized["capabilities"]["tasks"]["list"].is_object());
    let mut made = Vec::new();
    for _ in 0..230 {
        made.push(old.augmented("always", json!([])).await.task());
    }
    let mut seen = Vec::new();
    let mut cursor = json!({});
    let mut pages = 0;
    loop {
        let page = old.ask("tasks/list", cursor).await.result().clone();
        pages += 1;
        let tasks = page["tasks"].as_array().expect("tasks").clone();
        assert!(!tasks.is_empty());
        seen.extend(tasks.iter().map(|task| task["taskId"].as_str().expect("an id").to_owned()));
        match page.get("nextCursor") {
            Some(next) => cursor = json!({"cursor": next}),
            None => break,
        }
    }
    assert_eq!(pages, 3);
    made.sort();
    seen.sort();
    assert_eq!(made, seen);
}

/// Case 10, spec "Protocol Errors": an unknown cursor is -32602, whatever it looks like.
#[tokio::test(flavor = "multi_thread")]
async fn unknown_cursors_are_refused() {
    let server = serve_local(&Board::new(Era::Both)).await;
    let old = Old::open(&server).await;
    for cursor in [
        json!("x"),
        json!(""),
        json!("after-zzzzzzzzzzzzzzzz"),
        json!("after--000000000000001"),
        json!("after-ffffffffffffffff"),
        json!("after-0000000000000001\u{0}"),
        json!(7),
        json!({}),
    ] {
        assert_eq!(old.ask("tasks/list", json!({"cursor": cursor})).await.code(), -32602, "{cursor}");
    }
    assert_eq!(old.ask("tasks/list", json!({"cursor": null})).await.result()["tasks"], json!([]));
}

/// Case 1: tasks belong to the owner, not to the session. Another session of the same owner sees them, also after its
/// own session ended, and through the other dialect.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_outlives_its_session_and_reads_through_any_dialect() {
    let board = Board::new(Era::Both);
    let server = serve(&board).await;
    let first = Old::open(&server).await;
    let id = first.augmented("do", json!([{"wait": "go"}])).await.task();
    assert_eq!(first.end().await, 204);
    assert_eq!(first.begin("tasks/get", json!({"taskId": id})).await.status, 404);
    let second = Old::open(&server).await;
    assert_eq!(second.get(&id).await["status"], "working");
    board.open("go");
    let modern = Modern::new(&server);
    assert_eq!(modern.until(&id, "completed").await["result"]["content"][0]["text"], "done");
    assert_eq!(second.ask("tasks/result", json!({"taskId": id})).await.text(), "done");
}

/// `bind = "session"`: what a session has made is its own. Others do not see it even with its id, in any generation; it can be listed; and
/// nothing of the session's name stands in the store.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_may_own_its_tasks() {
    let board = Board::new(Era::Both);
    let bound = Settings { bind: Bind::Session, ..settings() };
    let server = Server::start(builder(&board).settings(bound).build().await.expect("gateway")).await;
    let (mine, other) = (Old::open(&server).await, Old::open(&server).await);
    let modern = Modern::new(&server);
    let id = mine.augmented("always", json!([{"wait": "go"}])).await.task();
    assert_eq!(mine.get(&id).await["status"], "working");
    let foreign = json!({"taskId": id});
    let unknown = json!({"taskId": format!("{}{}", &id[..16], "0".repeat(32))});
    for verb in ["tasks/get", "tasks/result", "tasks/cancel"] {
        let answers = [other.ask(verb, foreign.clone()).await, other.ask(verb, unknown.clone()).await];
        assert_eq!(answers[0].error(), answers[1].error(), "{verb}");
        assert_eq!(answers[0].code(), -32602, "{verb}");
    }
    for verb in ["tasks/get", "tasks/cancel"] {
        assert_eq!(modern.ask(verb, foreign.clone()).await.code(), -32602, "{verb}");
    }
    let listed = async |session: &Old| {
        let page = session.ask("tasks/list", json!({})).await.result()["tasks"].clone();
        page.as_array().expect("tasks").len()
    };
    assert!(mine.initialized["capabilities"]["tasks"]["list"].is_object());
    assert_eq!((listed(&mine).await, listed(&other).await), (1, 0));
    // What is made outside of sessions is reached by its id, as ever, and by no session.
    let outside = modern.task("always", json!([])).await;
    modern.until(&outside, "completed").await;
    assert_eq!(Modern::new(&server).get(&outside).await["status"], "completed");
    assert_eq!(mine.ask("tasks/get", json!({"taskId": outside})).await.code(), -32602);
    let shown =
        Desk::new(server.gateway.engine().clone()).answer(AdminRequest::Show { task: id.clone() }).await;
    let AdminReply::Task { task, .. } = shown else { panic!("{shown:?}") };
    assert!(task.owner.starts_with("session ") && !task.owner.contains(&mine.session), "{}", task.owner);
    // The work goes on when its session has ended, but nobody sees it any more.
    assert_eq!(mine.end().await, 204);
    assert_eq!(Old::open(&server).await.ask("tasks/get", foreign.clone()).await.code(), -32602);
    board.open("go");
}

/// Where callers are known, a new session sees what an old one has made, in every generation.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_session_of_the_same_owner_sees_its_tasks() {
    let board = Board::new(Era::Both);
    let server = serve_local(&board).await;
    let first = Old::open(&server).await;
    let id = first.augmented("always", json!([{"wait": "go"}])).await.task();
    assert_eq!(first.end().await, 204);
    let (second, modern) = (Old::open(&server).await, Modern::new(&server));
    let mut pipe = Pipe::open(&server.gateway).await;
    assert_eq!(second.get(&id).await["status"], "working");
    assert_eq!(modern.get(&id).await["status"], "working");
    let related = json!({"modelcontextprotocol.io/related-task": {"taskId": id}});
    let params = json!({"taskId": id, "_meta": related});
    assert_eq!(second.ask("tasks/get", params.clone()).await.result()["taskId"], json!(id));
    assert_eq!(pipe.ask("tasks/get", params).await.result()["taskId"], json!(id));
    board.open("go");
    modern.until(&id, "completed").await;
}
