//! How tasks of 2025-11-25 end at servers that do not keep to it.

use super::*;

async fn ended(result: Result<Value, (i64, &str)>, state: Value) -> Result<CallResult, CallError> {
    let (client, mut server, _script) = open(OLD).await;
    let call = client.call("t", json!({}));
    let served = async {
        server.begin(OLD, 1000).await;
        let status = state["status"].as_str().expect("a word").to_owned();
        server.state(&status, state).await;
        let request = server.expect("tasks/result").await;
        match result {
            Ok(result) => server.answer(&request, result).await,
            Err((code, message)) => server.fail(&request, code, message).await,
        }
    };
    tokio::join!(served, call.result()).1
}

/// Case 6, with servers that have nothing to give for a task that failed, or do not say in it that it did.
#[tokio::test(start_paused = true)]
async fn a_failed_task_is_a_failure_whatever_its_result_says() {
    let state = json!({ "status": "failed", "statusMessage": "it went wrong" });
    let empty = json!({ "_meta": { "io.modelcontextprotocol/related-task": { "taskId": "T" } } });
    match ended(Ok(empty), state.clone()).await {
        Err(CallError::Failed { message, error: None, .. }) => {
            assert_eq!(message.as_deref(), Some("it went wrong"));
        }
        other => panic!("{other:?}"),
    }
    let told = ended(Ok(result("it did not work")), state).await.expect("a result");
    assert!(told.is_error, "{told:?}");
    assert_eq!(told.text(), "it did not work");
}

/// With servers that tell everything in `tasks/get`.
#[tokio::test(start_paused = true)]
async fn a_server_without_tasks_result_may_tell_it_in_the_state() {
    let missing = || Err((-32601, "Method not found"));
    let state = json!({ "status": "completed", "result": result("done") });
    assert_eq!(ended(missing(), state).await.expect("a result").text(), "done");
    let state = json!({ "status": "failed", "error": { "code": -32050, "message": "it went wrong" } });
    match ended(missing(), state).await {
        Err(CallError::Failed { error: Some(error), .. }) => assert_eq!(error.code, -32050),
        other => panic!("{other:?}"),
    }
    let state = json!({ "status": "failed", "statusMessage": "it went wrong" });
    match ended(missing(), state).await {
        Err(CallError::Failed { message, error: None, .. }) => {
            assert_eq!(message.as_deref(), Some("it went wrong"));
        }
        other => panic!("{other:?}"),
    }
}

/// Its task would wait for ever: it is cancelled, and the caller told.
#[tokio::test(start_paused = true)]
async fn a_server_without_tasks_result_cannot_ask() {
    let (client, mut server, _script) = open(OLD).await;
    let call = client.call("t", json!({}));
    let served = async {
        server.begin(OLD, 1000).await;
        server.state("input_required", json!({})).await;
        let request = server.expect("tasks/result").await;
        server.fail(&request, -32601, "Method not found").await;
        assert_eq!(server.expect("tasks/cancel").await.params["taskId"], "T");
    };
    match tokio::join!(served, call.result()).1 {
        Err(CallError::Unsupported(why)) => assert!(why.contains("tasks/result"), "{why}"),
        other => panic!("{other:?}"),
    }
}
