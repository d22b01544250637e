//! What real libraries make of hosting tasks where the texts leave room, or are not followed: the reason of a failure stays, and
//! nothing is waited for in vain.

use serde_json::{Value, json};
use taskgate_gateway::UpstreamTasks;

use crate::harness::{Era, Pipe, logs};
use crate::hosted::open;

/// The whole of a task that has ended, in both eras: `tasks/get` of 2026-07-28, and the answer of `tasks/result`.
async fn ended(pipe: &mut Pipe, id: &str) -> (Value, Value) {
    pipe.until(id, "failed").await;
    let modern = pipe.ask_modern("tasks/get", json!({"taskId": id})).await.result().clone();
    (modern, pipe.ask("tasks/result", json!({"taskId": id})).await.json.clone())
}

/// Case 6: a task of 2025-11-25 that failed without a result is no success, whatever its server answers when it is asked for one,
/// and people read why it failed.
#[tokio::test(start_paused = true)]
async fn a_failed_task_has_failed_and_says_why() {
    let failed = json!({"taskId": "x", "status": "failed", "statusMessage": "no room left"});
    let related = json!({"io.modelcontextprotocol/related-task": {"taskId": "hosted-1"}});
    // The Python SDK has no result for it and sends an empty one.
    let (board, mut pipe) = open(Era::Session, UpstreamTasks::Always).await;
    board.answer_oddly("tasks/get", [Ok(failed.clone())]);
    board.answer_oddly("tasks/result", [Ok(json!({"_meta": related}))]);
    let task = pipe.task("optional", json!([{"wait": "never"}])).await;
    let (modern, old) = ended(&mut pipe, &task).await;
    assert_eq!((&modern["status"], &modern["error"]["message"]), (&json!("failed"), &json!("no room left")));
    assert_eq!(old["error"], json!({"code": -32603, "message": "no room left"}), "{old}");
    // The TypeScript SDK says that it has none. That error is passed on, and the reason is the line for people.
    let (board, mut pipe) = open(Era::Session, UpstreamTasks::Always).await;
    board.answer_oddly("tasks/get", [Ok(failed.clone())]);
    let none = json!({"code": -32603, "message": "Task x has no result stored"});
    board.answer_oddly("tasks/result", [Err(none.clone())]);
    let task = pipe.task("optional", json!([{"wait": "never"}])).await;
    let (modern, old) = ended(&mut pipe, &task).await;
    assert_eq!((&modern["statusMessage"], &modern["error"]), (&json!("no room left"), &none));
    assert_eq!(old["error"], none);
    // One with a result that does not say so is an error all the same, to both eras.
    let (board, mut pipe) = open(Era::Session, UpstreamTasks::Always).await;
    board.answer_oddly("tasks/get", [Ok(failed)]);
    let content = json!([{"type": "text", "text": "half of it"}]);
    board.answer_oddly("tasks/result", [Ok(json!({"content": content, "isError": false}))]);
    let task = pipe.task("optional", json!([{"wait": "never"}])).await;
    pipe.until(&task, "failed").await;
    let modern = pipe.ask_modern("tasks/get", json!({"taskId": task})).await.result()["result"].clone();
    assert_eq!((&modern["content"], &modern["isError"]), (&content, &json!(true)));
    logs::clean();
}

/// tower-mcp has the tasks of 2025-11-25 without their `tasks/result`: what has ended is in `tasks/get`. A question cannot reach
/// anybody there, so nobody waits for its answer.
#[tokio::test(start_paused = true)]
async fn a_server_without_tasks_result_is_not_waited_for() {
    let unknown = json!({"code": -32601, "message": "Method not found"});
    let (board, mut pipe) = open(Era::Session, UpstreamTasks::Always).await;
    board.answer_oddly("tasks/result", [Err(unknown.clone())]);
    let result = json!({"content": [], "n": 1.5});
    board.answer_oddly("tasks/get", [Ok(json!({"status": "completed", "result": result}))]);
    let task = pipe.task("optional", json!([{"wait": "never"}])).await;
    pipe.until(&task, "completed").await;
    assert_eq!(pipe.ask("tasks/result", json!({"taskId": task})).await.result()["n"], 1.5);

    let (board, mut pipe) = open(Era::Session, UpstreamTasks::Always).await;
    board.answer_oddly("tasks/result", [Err(unknown.clone())]);
    let error = json!({"code": -7, "message": "broken"});
    board.answer_oddly("tasks/get", [Ok(json!({"status": "failed", "error": error}))]);
    let task = pipe.task("optional", json!([{"wait": "never"}])).await;
    assert_eq!(ended(&mut pipe, &task).await.1["error"], error);

    let (board, mut pipe) = open(Era::Session, UpstreamTasks::Always).await;
    board.answer_oddly("tasks/result", [Err(unknown)]);
    board.answer_oddly("tasks/get", [Ok(json!({"status": "input_required"}))]);
    let task = pipe.task("optional", json!([{"wait": "never"}])).await;
    let line = ended(&mut pipe, &task).await.0["statusMessage"].clone();
    assert_eq!(
        line,
        "The server has no tasks/result, so its task can neither ask nor answer: Method not found"
    );
    board.until("it is stopped", |board| !board.heard("tasks/cancel").is_empty()).await;
    logs::clean();
}

/// tower-mcp lists tools that are always tasks to those only who can have tasks (2026-07-28). The gateway can, unless it must not.
#[tokio::test(start_paused = true)]
async fn tools_are_listed_as_to_a_client_with_tasks() {
    for (wanted, declares) in
        [(UpstreamTasks::Auto, true), (UpstreamTasks::Always, true), (UpstreamTasks::Never, false)]
    {
        let (board, mut pipe) = open(Era::Modern, wanted).await;
        pipe.ask("tools/list", json!({})).await.result();
        pipe.ask_modern("tools/list", json!({})).await.result();
        // The gateway for itself, and for clients of both eras.
        let asked = board.heard("tools/list");
        assert!(asked.len() >= 3, "{asked:?}");
        for asked in asked {
            let said = &asked["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
            assert_eq!(said["extensions"]["io.modelcontextprotocol/tasks"].is_object(), declares, "{said}");
            assert!(said["elicitation"].is_object(), "{said}");
        }
    }
    logs::clean();
}

/// In the Python SDK a `tasks/result` that waits may miss the end it waits for. It is asked once more when the task has ended.
#[tokio::test(start_paused = true)]
async fn a_result_that_was_waited_for_too_early_is_asked_for_again() {
    let (board, mut pipe) = open(Era::Session, UpstreamTasks::Always).await;
    let state = |status: &str| Ok(json!({"taskId": "x", "status": status, "pollInterval": 1000}));
    board.answer_oddly("tasks/get", [state("input_required")]);
    let task = pipe.task("optional", json!([{"wait": "never"}])).await;
    board.until("the result is waited for", |board| board.heard("tasks/result").len() == 1).await;
    board.answer_oddly("tasks/result", [Ok(json!({"content": [], "n": "second"}))]);
    board.answer_oddly("tasks/get", [state("completed")]);
    pipe.until(&task, "completed").await;
    assert_eq!(pipe.ask("tasks/result", json!({"taskId": task})).await.result()["n"], "second");
    assert_eq!(board.heard("tasks/result").len(), 2);
    logs::clean();
}
