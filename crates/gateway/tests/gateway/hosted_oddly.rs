//! Upstreams that host tasks and get it wrong. Each ends in clear words, and no work is left without an owner.

use std::time::Duration;

use serde_json::{Value, json};
use taskgate_gateway::UpstreamTasks;

use crate::harness::{Era, Pipe, accept, form, logs};
use crate::hosted::open;

/// A handle of the era, with these members.
fn handle(era: Era, members: Value) -> Value {
    let mut task = json!({"status": "working", "createdAt": "x", "lastUpdatedAt": "x"});
    task.as_object_mut().expect("an object").extend(members.as_object().expect("members").clone());
    if era == Era::Session {
        return json!({"task": task});
    }
    task["resultType"] = json!("task");
    task
}

async fn failed(pipe: &mut Pipe, id: &str) -> String {
    for _ in 0..100_000 {
        let task = pipe.ask("tasks/get", json!({"taskId": id})).await.result().clone();
        match task["status"].as_str() {
            Some("failed") => return task["statusMessage"].as_str().expect("a line").to_owned(),
            Some("working" | "input_required") => tokio::time::sleep(Duration::from_millis(100)).await,
            _ => panic!("it did not fail: {task}"),
        }
    }
    panic!("it never failed")
}

/// Case 27: a handle that nobody asked for is no result, and what it stands for is stopped.
#[tokio::test(start_paused = true)]
async fn a_handle_that_was_not_asked_for_is_no_result() {
    for (era, words) in [
        (Era::Session, "The server answered with a task although none was asked for"),
        (Era::Modern, "The server answered with a task although none was asked for"),
    ] {
        let (board, mut pipe) = open(era, UpstreamTasks::Auto).await;
        board.answer_oddly("tools/call", [Ok(handle(era, json!({"taskId": "odd"})))]);
        let answer = pipe.ask("tools/call", json!({"name": "plain", "arguments": {}})).await;
        assert_eq!(answer.error()["message"], words);
        board.until("it is stopped", |board| board.heard("tasks/cancel").len() == 1).await;
        assert_eq!(board.heard("tasks/cancel")[0]["params"]["taskId"], "odd");
        assert!(board.heard("tasks/get").is_empty());
    }
    logs::clean();
}

/// A handle without an id is an error; one whose other members are odd is followed at a pace of ours.
#[tokio::test(start_paused = true)]
async fn a_handle_is_taken_for_what_it_is() {
    for era in [Era::Session, Era::Modern] {
        for id in
            [json!({}), json!({"taskId": 7}), json!({"taskId": ""}), json!({"taskId": "x".repeat(2000)})]
        {
            let (board, mut pipe) = open(era, UpstreamTasks::Always).await;
            board.answer_oddly("tools/call", [Ok(handle(era, id))]);
            let task = pipe.task("optional", json!([])).await;
            assert_eq!(
                failed(&mut pipe, &task).await,
                "The server answered with a task whose id cannot be used"
            );
            assert!(board.heard("tasks/get").is_empty());
        }
        let odd =
            json!({"taskId": "odd", "ttl": "x", "ttlMs": [], "pollInterval": -1, "pollIntervalMs": "fast"});
        let (board, mut pipe) = open(era, UpstreamTasks::Always).await;
        board.answer_oddly("tools/call", [Ok(handle(era, odd))]);
        let result = json!({"content": [], "n": 1});
        let state = json!({"taskId": "odd", "status": "working", "statusMessage": 7, "pollInterval": 0, "pollIntervalMs": 0});
        let done = json!({"taskId": "odd", "status": "completed", "result": result});
        board.answer_oddly("tasks/get", [Ok(state), Ok(done)]);
        board.answer_oddly("tasks/result", [Ok(result)]);
        let since = tokio::time::Instant::now();
        let task = pipe.task("optional", json!([])).await;
        pipe.until(&task, "completed").await;
        assert!(since.elapsed() > Duration::from_secs(1), "{:?}", since.elapsed());
        assert_eq!(board.heard("tasks/get").len(), 2);
    }
    logs::clean();
}

/// Answers that make no sense are borne for a while, and not for ever; whatever they stand for is stopped.
#[tokio::test(start_paused = true)]
async fn states_that_make_no_sense_end_the_wait() {
    let missing = json!({"code": -32603, "message": "out of order"});
    for era in [Era::Session, Era::Modern] {
        for (state, words) in [
            (Ok(json!({"taskId": "x", "status": "paused"})), "a status that is not known: \"paused\""),
            (Ok(json!({"taskId": "x"})), "a status that is not known: "),
            (Ok(json!([])), "its answer is no object"),
            (Err(missing.clone()), "out of order"),
        ] {
            let (board, mut pipe) = open(era, UpstreamTasks::Always).await;
            board.answer_oddly("tasks/get", [state]);
            let task = pipe.task("optional", json!([{"wait": "never"}])).await;
            let line = failed(&mut pipe, &task).await;
            assert!(
                line.starts_with("The server does not say how its task stands: ") && line.contains(words),
                "{line}"
            );
            assert_eq!(board.heard("tasks/get").len(), 11);
            board.until("it is stopped", |board| !board.heard("tasks/cancel").is_empty()).await;
        }
        // One that finds its words again is listened to.
        let (board, mut pipe) = open(era, UpstreamTasks::Always).await;
        let done = json!({"taskId": "x", "status": "completed", "result": {"content": []}});
        board.answer_oddly("tasks/get", [Err(missing.clone()), Ok(json!(7)), Ok(done)]);
        board.answer_oddly("tasks/result", [Ok(json!({"content": []}))]);
        let task = pipe.task("optional", json!([{"wait": "never"}])).await;
        pipe.until(&task, "completed").await;
        for (code, words) in [
            (-32602, "The server no longer knows the task it made of this call: gone"),
            (-32601, "The server cannot be asked for its task: gone"),
        ] {
            let (board, mut pipe) = open(era, UpstreamTasks::Always).await;
            board.answer_oddly("tasks/get", [Err(json!({"code": code, "message": "gone"}))]);
            let task = pipe.task("optional", json!([{"wait": "never"}])).await;
            assert_eq!(failed(&mut pipe, &task).await, words);
        }
    }
    logs::clean();
}

/// A task that says it has ended and has nothing to show for it has failed.
#[tokio::test(start_paused = true)]
async fn an_end_without_a_result_is_a_failure() {
    for (end, words) in [
        (json!({"status": "completed"}), "The server's task is completed and has no result"),
        (
            json!({"status": "completed", "result": {"resultType": "input_required"}}),
            "The server's task ended with a question",
        ),
        (
            json!({"status": "completed", "result": {"resultType": "task", "taskId": "y"}}),
            "The server answered with an unknown resultType: \"task\"",
        ),
        (json!({"status": "completed", "result": 7}), "The server's result is no object"),
        (json!({"status": "failed", "statusMessage": "why"}), "why"),
        (json!({"status": "failed", "error": 7}), "The server's task failed."),
    ] {
        let (board, mut pipe) = open(Era::Modern, UpstreamTasks::Always).await;
        board.answer_oddly("tasks/get", [Ok(end)]);
        let task = pipe.task("optional", json!([{"wait": "never"}])).await;
        assert_eq!(failed(&mut pipe, &task).await, words);
        assert_eq!(board.count("calls"), 1);
    }
    let (board, mut pipe) = open(Era::Session, UpstreamTasks::Always).await;
    board.answer_oddly("tasks/get", [Ok(json!({"status": "completed"}))]);
    board.answer_oddly("tasks/result", [Ok(json!({"task": {"taskId": "y", "status": "working"}}))]);
    let task = pipe.task("optional", json!([{"wait": "never"}])).await;
    assert_eq!(failed(&mut pipe, &task).await, "The server's task ended with another task");
    logs::clean();
}

/// A result that comes before its time is none: the state decides, and is not asked for without a pause.
#[tokio::test(start_paused = true)]
async fn a_result_before_the_end_is_not_believed() {
    for early in
        [Ok(json!({"content": [], "n": "early"})), Err(json!({"code": -32602, "message": "not yet"}))]
    {
        let (board, mut pipe) = open(Era::Session, UpstreamTasks::Always).await;
        board.answer_oddly("tasks/result", [early]);
        board.answer_oddly(
            "tasks/get",
            [Ok(json!({"taskId": "x", "status": "input_required", "pollInterval": 1000}))],
        );
        let task = pipe.task("optional", json!([{"wait": "never"}])).await;
        tokio::time::sleep(Duration::from_secs(100)).await;
        let asked = board.heard("tasks/get").len();
        assert!((90..=105).contains(&asked), "{asked}");
        assert_eq!(pipe.ask("tasks/get", json!({"taskId": task})).await.result()["status"], "working");
        board.answer_oddly("tasks/result", [Ok(json!({"content": [], "n": "late"}))]);
        board.answer_oddly("tasks/get", [Ok(json!({"taskId": "x", "status": "completed"}))]);
        pipe.until(&task, "completed").await;
        let result = pipe.ask("tasks/result", json!({"taskId": task})).await;
        assert_eq!(result.result()["n"], "late");
    }
    logs::clean();
}

/// A task that asks new questions for ever, or none, or such as nobody can be asked, does not get anywhere with it.
#[tokio::test(start_paused = true)]
async fn endless_questions_come_to_an_end() {
    let (board, mut pipe) = open(Era::Modern, UpstreamTasks::Always).await;
    let asks = |n: usize| {
        let requests: serde_json::Map<_, _> = (0..300).map(|k| (format!("{n}-{k}"), form("?"))).collect();
        Ok(
            json!({"taskId": "x", "status": "input_required", "inputRequests": requests, "pollIntervalMs": 50}),
        )
    };
    board.answer_oddly("tasks/get", (0..10).map(asks));
    let task = pipe.task("optional", json!([{"wait": "never"}])).await;
    assert_eq!(failed(&mut pipe, &task).await, "The server does not stop asking for input");
    board.until("it is stopped", |board| !board.heard("tasks/cancel").is_empty()).await;

    for requests in [json!(null), json!({})] {
        let (board, mut pipe) = open(Era::Modern, UpstreamTasks::Always).await;
        let state = json!({"status": "input_required", "inputRequests": requests, "pollIntervalMs": 1000});
        board.answer_oddly("tasks/get", [Ok(state)]);
        let task = pipe.task("optional", json!([{"wait": "never"}])).await;
        tokio::time::sleep(Duration::from_secs(20)).await;
        let asked = board.heard("tasks/get").len();
        assert!((15..=22).contains(&asked), "{asked}");
        pipe.ask("tasks/cancel", json!({"taskId": task})).await.result();
    }
    for (requests, words) in [
        (json!({"a": {"method": "x/own"}}), "The client cannot be asked x/own"),
        (json!({"a": 7}), "The server's questions cannot be read"),
        (json!(7), "The server's questions cannot be read"),
    ] {
        let (board, mut pipe) = open(Era::Modern, UpstreamTasks::Always).await;
        let state = json!({"status": "input_required", "inputRequests": requests});
        board.answer_oddly("tasks/get", [Ok(state)]);
        let task = pipe.task("optional", json!([{"wait": "never"}])).await;
        let line = failed(&mut pipe, &task).await;
        assert!(line.starts_with(words), "{line}");
        board.until("it is stopped", |board| !board.heard("tasks/cancel").is_empty()).await;
    }
    logs::clean();
}

/// Case 8: an answer that the server did not take is given again for as long as the question stands, and once only after that.
#[tokio::test(start_paused = true)]
async fn an_answer_that_was_not_taken_is_given_again() {
    let (board, mut pipe) = open(Era::Modern, UpstreamTasks::Always).await;
    let busy = Err(json!({"code": -32603, "message": "busy"}));
    board.answer_oddly("tasks/update", [busy.clone(), busy, Ok(json!({"resultType": "complete"}))]);
    let what = json!([{"ask": {"a": form("A?")}}, {"answers": true}]);
    let task = pipe.task("optional", what).await;
    let asked = pipe.find(|said| said["params"]["message"] == "A?").await;
    pipe.respond(&asked["id"], accept("x")).await;
    board.until("it is taken", |board| board.heard("tasks/update").len() == 3).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    // The fake has said that it took it and goes on showing the question.
    let given = board.heard("tasks/update");
    assert_eq!(given.len(), 3);
    assert!(given.iter().all(|update| update["params"]["inputResponses"] == json!({"a": accept("x")})));
    board.answer_hosted("hosted-1", "a", accept("x"));
    pipe.until(&task, "completed").await;
    logs::clean();
}
