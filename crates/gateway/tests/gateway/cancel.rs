//! Cancelling, and clients that go away.

use serde_json::json;
use taskgate_task::Owner;

use crate::harness::{Board, Era, Modern, Old, Pipe, logs, serve, serve_local, soon, steps};

/// Case 17: a cancelled task sends its upstream exactly one `notifications/cancelled`, with the upstream's own id.
#[tokio::test(flavor = "multi_thread")]
async fn the_upstream_hears_of_a_cancel_once() {
    for era in [Era::Session, Era::Modern] {
        let board = Board::new(era);
        let server = serve(&board).await;
        let old = Old::open(&server).await;
        let modern = Modern::new(&server);
        let first = old.augmented("always", json!([{"wait": "never"}])).await.task();
        let second = modern.task("always", json!([{"wait": "never"}])).await;
        board.until("both run", |board| board.running() == 2).await;
        let calls = board.heard("tools/call");
        let cancelled = old.ask("tasks/cancel", json!({"taskId": first})).await;
        assert_eq!(cancelled.result()["status"], "cancelled");
        assert_eq!(
            modern.ask("tasks/cancel", json!({"taskId": second})).await.result(),
            &json!({"resultType": "complete"})
        );
        board.until("both stop", |board| board.running() == 0).await;
        assert_eq!(modern.get(&second).await["status"], "cancelled");
        let mut ids: Vec<_> =
            board.heard("notifications/cancelled").iter().map(|n| n["params"]["requestId"].clone()).collect();
        ids.sort_by_key(|id| id.as_u64());
        let mut want: Vec<_> = calls.iter().map(|call| call["id"].clone()).collect();
        want.sort_by_key(|id| id.as_u64());
        assert_eq!(ids, want);
    }
}

/// Case 3: cancelling what has ended is -32602 in 2025-11-25 and an empty acknowledgement in 2026-07-28; nothing moves.
#[tokio::test(flavor = "multi_thread")]
async fn what_has_ended_stays_as_it_ended() {
    let board = Board::new(Era::Both);
    let server = serve(&board).await;
    let old = Old::open(&server).await;
    let modern = Modern::new(&server);
    for (what, status) in [
        (json!([]), "completed"),
        (json!([{"error": {"code": -1, "message": "no"}}]), "failed"),
        (json!([{"wait": "x"}]), "cancelled"),
    ] {
        let id = old.augmented("always", what).await.task();
        if status == "cancelled" {
            assert_eq!(old.ask("tasks/cancel", json!({"taskId": id})).await.result()["status"], "cancelled");
        }
        let before = modern.until(&id, status).await;
        assert_eq!(old.ask("tasks/cancel", json!({"taskId": id})).await.code(), -32602);
        assert_eq!(
            modern.ask("tasks/cancel", json!({"taskId": id})).await.result(),
            &json!({"resultType": "complete"})
        );
        assert_eq!(modern.get(&id).await, before);
    }
}

/// Case 3: cancel and finish race, through both dialects: one terminal state, which the cancel's reply agrees with.
#[tokio::test(flavor = "multi_thread")]
async fn cancel_and_finish_race_to_one_end() {
    let board = Board::new(Era::Both);
    let server = serve(&board).await;
    let old = Old::open(&server).await;
    let modern = Modern::new(&server);
    for round in 0..60 {
        let gate = format!("go-{round}");
        let id = old.augmented("always", json!([{"wait": gate}])).await.task();
        let opener = async {
            if round % 3 == 0 {
                tokio::task::yield_now().await;
            }
            board.open(&gate);
        };
        if round % 2 == 0 {
            let (cancelled, ()) = tokio::join!(old.ask("tasks/cancel", json!({"taskId": id})), opener);
            let ended = crate::harness::eventually("the end", || async {
                let task = old.get(&id).await;
                (task["status"] != "working").then_some(task)
            })
            .await;
            match cancelled.json.get("result") {
                Some(task) => assert_eq!(
                    (&task["status"], &ended["status"]),
                    (&json!("cancelled"), &json!("cancelled"))
                ),
                None => assert_eq!((cancelled.code(), &ended["status"]), (-32602, &json!("completed"))),
            }
        } else {
            let (cancelled, ()) = tokio::join!(modern.ask("tasks/cancel", json!({"taskId": id})), opener);
            assert_eq!(cancelled.result(), &json!({"resultType": "complete"}));
        }
        let end = modern.get(&id).await;
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        assert_eq!(modern.get(&id).await, end);
    }
    assert_eq!(server.gateway.engine().carried(), 0);
}

/// Case 18 (a) in 2026-07-28: closing the stream before there is a handle cancels the call.
#[tokio::test(flavor = "multi_thread")]
async fn a_2026_client_that_leaves_before_the_handle_cancels() {
    let board = Board::new(Era::Both);
    let server = serve_local(&board).await;
    let modern = Modern::new(&server);
    for (tool, millis) in [("do", 100), ("never", 0), ("never", 1300)] {
        let (headers, body) =
            modern.request("tools/call", json!({"name": tool, "arguments": steps(&json!([{"wait": "x"}]))}));
        let addr = server.addr;
        let sent = tokio::spawn(async move {
            let headers: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
            crate::harness::http::send(addr, "POST", &headers, body.to_string().as_bytes()).await
        });
        board.until("it runs", |board| board.running() == 1).await;
        tokio::time::sleep(std::time::Duration::from_millis(millis)).await;
        if millis > 1000 {
            // By now the answer has become a stream.
            drop(sent.await.expect("a head"));
        } else {
            sent.abort();
        }
        board.until("it stops", |board| board.running() == 0).await;
    }
    assert_eq!(board.heard("notifications/cancelled").len(), 3);
    let list = server.gateway.engine().list(&Owner::local(), None, 10).await;
    assert_eq!(list.expect("a list").tasks.len(), 0);
}

/// Case 18 (b): the client leaves while its task is being created. Whether the handle got out or not, there is no task
/// that nobody works on.
#[tokio::test(flavor = "multi_thread")]
async fn no_task_is_left_without_work_when_a_client_leaves_during_the_creation() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = crate::harness::life::open(&directory.path().join("tasks.db")).await;
    let board = Board::new(Era::Both);
    let builder = crate::harness::builder(&board).single_user(true).store(store);
    let server = crate::harness::Server::start(builder.build().await.expect("gateway")).await;
    let modern = Modern::new(&server);
    modern.tool("always", json!([])).await;
    for round in 0..120_u64 {
        let (headers, body) = modern
            .request("tools/call", json!({"name": "always", "arguments": steps(&json!([{"wait": "x"}]))}));
        let addr = server.addr;
        let sent = tokio::spawn(async move {
            let headers: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
            crate::harness::http::send(addr, "POST", &headers, body.to_string().as_bytes()).await
        });
        board.until("it was called", |board| board.count("calls") as u64 == round + 2).await;
        tokio::time::sleep(std::time::Duration::from_micros(round * 15)).await;
        sent.abort();
        let _ = sent.await;
    }
    let engine = server.gateway.engine().clone();
    let settled = || async {
        let tasks = engine.list(&Owner::local(), None, 1000).await.expect("a list").tasks;
        let open = tasks.iter().filter(|task| !task.status.is_terminal()).count();
        (open == engine.carried() && open == board.running()).then_some(open)
    };
    crate::harness::eventually("every open task has its work", settled).await;
    logs::clean();
}

/// Case 18 (a) in 2025-11-25: a lost connection is no cancel, `notifications/cancelled` is.
#[tokio::test(flavor = "multi_thread")]
async fn a_2025_client_cancels_with_a_notification_only() {
    let board = Board::new(Era::Both);
    let server = serve(&board).await;
    let old = Old::open(&server).await;
    let message = |id: u64, gate: &str| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {"name": "never", "arguments": steps(&json!([{"wait": gate}, {"count": "ended"}]))}})
    };
    let lost = tokio::spawn({
        let (old, message) = (old.clone(), message(71, "go"));
        async move { old.post(&message).await }
    });
    board.until("it runs", |board| board.running() == 1).await;
    lost.abort();
    let _ = lost.await;
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    assert_eq!(board.running(), 1);
    board.open("go");
    board.until("it ends", |board| board.count("ended") == 1 && board.running() == 0).await;
    assert!(board.heard("notifications/cancelled").is_empty());

    let waiting = tokio::spawn({
        let (old, message) = (old.clone(), message(72, "never"));
        async move { old.post(&message).await.status }
    });
    board.until("it runs", |board| board.running() == 1).await;
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 72}});
    assert_eq!(old.post(&cancel).await.status, 202);
    board.until("it stops", |board| board.running() == 0).await;
    assert_eq!(board.heard("notifications/cancelled").len(), 1);
    assert_eq!(soon("an end", waiting).await.expect("no panic"), 202);
}

/// Case 18 (c): after the handle has left, neither a lost connection, a cancelled request nor the session's end cancels.
#[tokio::test(flavor = "multi_thread")]
async fn after_the_handle_nothing_but_tasks_cancel_cancels() {
    let board = Board::new(Era::Both);
    let server = serve(&board).await;
    let modern = Modern::new(&server);
    let old = Old::open(&server).await;
    let first = modern.task("always", json!([{"wait": "go"}])).await;
    let message = json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call",
        "params": {"name": "do", "arguments": steps(&json!([{"wait": "go"}])), "task": {}}});
    let second = old.post(&message).await.answer().await.task();
    old.post(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}}))
        .await;
    assert_eq!(old.end().await, 204);
    let mut pipe = Pipe::open(&server.gateway).await;
    let third = pipe.task("always", json!([{"wait": "go"}])).await;
    assert_eq!(modern.get(&first).await["status"], "working");
    assert_eq!(modern.get(&second).await["status"], "working");
    board.open("go");
    modern.until(&first, "completed").await;
    modern.until(&second, "completed").await;
    pipe.until(&third, "completed").await;
    assert!(board.heard("notifications/cancelled").is_empty());
}

/// Case 22: a task owns all it needs; its client closes at once and everything still works.
#[tokio::test(flavor = "multi_thread")]
async fn work_goes_on_when_its_client_is_gone() {
    let board = Board::new(Era::Both);
    let server = serve(&board).await;
    let old = Old::open(&server).await;
    let what = json!([{"wait": "gone"}, {"progress": {"progress": 1, "message": "still here"}}, {"log": "hello"}, {"sleep": 50}]);
    let id = old.augmented("always", what).await.task();
    assert_eq!(old.end().await, 204);
    board.open("gone");
    let task = Modern::new(&server).until(&id, "completed").await;
    assert_eq!(task["result"]["content"][0]["text"], "done");
    logs::clean();
}
