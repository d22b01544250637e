//! Whose tasks are whose, and what ids and lists give away.

use serde_json::{Value, json};

use crate::harness::{Board, Era, Modern, Old, Pipe, eventually, serve, serve_local};

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
