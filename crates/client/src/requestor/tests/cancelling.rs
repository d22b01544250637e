use super::*;

fn is_cancelled(called: &Result<CallResult, CallError>) -> bool {
    matches!(called, Err(CallError::Cancelled { .. }))
}

/// Case 18: a plain call is cancelled by its id.
#[tokio::test(start_paused = true)]
async fn a_plain_call_is_cancelled_with_its_own_id() {
    let (client, mut server, _script) = open("2025-06-18").await;
    let call = client.call("t", json!({}));
    let request = server.expect("tools/call").await;
    let (called, told) = tokio::join!(call.cancel(), server.hear("notifications/cancelled"));
    assert!(is_cancelled(&called), "{called:?}");
    assert_eq!(told["requestId"].to_string(), request.id.as_str());
}

/// Case 18: cancelled before its task has a name, it is cancelled as soon as it has one; never in the way of plain calls.
#[tokio::test(start_paused = true)]
async fn a_task_without_a_name_yet_is_cancelled_as_soon_as_it_has_one() {
    for version in [OLD, NEW] {
        let (client, mut server, _script) = open(version).await;
        let call = client.call("t", json!({}));
        if version == OLD {
            server.tools("optional").await;
        }
        let request = server.expect("tools/call").await;
        let (called, ()) = tokio::join!(call.cancel(), async {
            if version == NEW {
                server.hear("notifications/cancelled").await;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
            server.accept(&request, version, 100).await;
            let cancel = server.expect("tasks/cancel").await;
            assert_eq!(cancel.params["taskId"], "T");
            server.answer(&cancel, json!({ "taskId": "T", "status": "cancelled" })).await;
        });
        assert!(is_cancelled(&called), "{version} {called:?}");
        assert_eq!(server.told.iter().filter(|(name, _)| name == "notifications/cancelled").count(), 0);
    }
}

/// A call that is answered after all has its result.
#[tokio::test(start_paused = true)]
async fn a_result_that_was_faster_than_the_cancel_counts() {
    let (client, mut server, _script) = open(OLD).await;
    let call = client.call("t", json!({}));
    server.tools("optional").await;
    let request = server.expect("tools/call").await;
    let (called, ()) = tokio::join!(call.cancel(), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        server.answer(&request, result("done")).await;
    });
    assert_eq!(called.expect("a result").text(), "done");
}

/// Case 17: a task is cancelled with the verb for tasks, once.
#[tokio::test(start_paused = true)]
async fn a_task_is_cancelled_by_its_id() {
    for version in [OLD, NEW] {
        let (client, mut server, _script) = open(version).await;
        let mut call = client.call("t", json!({}));
        server.begin(version, 1000).await;
        while call.handle().is_none() {
            call.next().await;
        }
        let (called, ()) = tokio::join!(call.cancel(), async {
            let cancel = server.expect("tasks/cancel").await;
            server.answer(&cancel, json!({})).await;
            server.state("cancelled", json!({ "statusMessage": "as you wish" })).await;
        });
        let Err(CallError::Cancelled { message }) = called else { panic!("{called:?}") };
        assert_eq!(message.as_deref(), Some("as you wish"));
    }
}

/// Cancelling is a wish: a task that ends all the same has its result, one that is over stays as it is, and a server that
/// only takes note is not waited for without end.
#[tokio::test(start_paused = true)]
async fn what_becomes_of_a_cancelled_task_its_state_says() {
    let (client, mut server, _script) = open(NEW).await;
    let call = client.call("t", json!({}));
    server.begin(NEW, 1000).await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    let (called, ()) = tokio::join!(call.cancel(), async {
        let cancel = server.expect("tasks/cancel").await;
        server.answer(&cancel, json!({})).await;
        server.complete(NEW).await;
    });
    called.expect("a result");

    let (client, mut server, _script) = open(OLD).await;
    let call = client.call("t", json!({}));
    server.begin(OLD, 1000).await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    let (called, ()) = tokio::join!(call.cancel(), async {
        let cancel = server.expect("tasks/cancel").await;
        server.fail(&cancel, -32602, "it is over").await;
        server.complete(OLD).await;
    });
    called.expect("a result");

    let (client, mut server, _script) = open(NEW).await;
    let call = client.call("t", json!({}));
    server.begin(NEW, 1000).await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    let (called, ()) = tokio::join!(call.cancel(), async {
        let cancel = server.expect("tasks/cancel").await;
        let told = Instant::now();
        server.answer(&cancel, json!({})).await;
        while told.elapsed() < Duration::from_secs(4) {
            server.state("working", json!({})).await;
        }
    });
    assert!(is_cancelled(&called), "{called:?}");
}

/// Cancelled while only its result is on the way, the task is over and its result is waited for.
#[tokio::test(start_paused = true)]
async fn a_task_that_is_over_gives_its_result() {
    let (client, mut server, _script) = open(OLD).await;
    let call = client.call("t", json!({}));
    server.begin(OLD, 100).await;
    server.state("completed", json!({})).await;
    let waited = server.expect("tasks/result").await;
    let (called, ()) = tokio::join!(call.cancel(), async {
        let cancel = server.expect("tasks/cancel").await;
        server.fail(&cancel, -32602, "it is over").await;
        tokio::time::sleep(Duration::from_secs(20)).await;
        server.answer(&waited, result("done")).await;
    });
    assert_eq!(called.expect("a result").text(), "done");
    assert_eq!(server.told.len(), 1, "{:?}", server.told);
}

/// Cancelled before anything was sent, nothing is.
#[tokio::test(start_paused = true)]
async fn a_call_that_was_not_sent_is_just_not_made() {
    let (client, mut server, _script) = open(OLD).await;
    let call = client.call("t", json!({}));
    server.expect("tools/list").await;
    assert!(is_cancelled(&call.cancel().await));
    assert_eq!(server.calls, 0);
}

/// Letting go of a task cancels nothing, and the handle leads back; letting go before there is a task gives the call up.
#[tokio::test(start_paused = true)]
async fn a_task_that_is_let_go_of_goes_on() {
    for version in [OLD, NEW] {
        let (client, mut server, _script) = open(version).await;
        let mut call = client.call("t", json!({}));
        let request = server.begin(version, 1000).await;
        while call.handle().is_none() {
            call.next().await;
        }
        let handle = call.detach().expect("a handle");
        let text = serde_json::to_string(&handle).expect("JSON");
        let handle: Handle = serde_json::from_str(&text).expect("the same");
        tokio::time::sleep(Duration::from_secs(10)).await;
        let (called, ()) = tokio::join!(client.resume(handle), server.complete(version));
        assert_eq!(called.expect("a result").text(), "done");
        let call: Value = serde_json::from_str(request.id.as_str()).expect("JSON");
        let is_of_call = |told: &Value| told["requestId"] == call;
        assert!(!server.told.iter().any(|(_, told)| is_of_call(told)), "{:?}", server.told);
    }
    let (client, mut server, _script) = open("2025-06-18").await;
    let call = client.call("t", json!({}));
    server.expect("tools/call").await;
    assert_eq!(call.detach(), None);
    server.hear("notifications/cancelled").await;

    let (client, mut server, _script) = open(OLD).await;
    let call = client.call("t", json!({}));
    server.tools("optional").await;
    let request = server.expect("tools/call").await;
    drop(call);
    server.accept(&request, OLD, 100).await;
    assert_eq!(server.expect("tasks/cancel").await.params["taskId"], "T");
}

/// Case 11: one deadline for all of it, which reaches the innermost request.
#[tokio::test(start_paused = true)]
async fn the_deadline_reaches_whatever_is_being_done() {
    let within = |seconds| CallRequest {
        deadline: Some(Duration::from_secs(seconds)),
        ..CallRequest::new("t", json!({}))
    };
    // While the tools are listed.
    let (client, mut server, _script) = open(OLD).await;
    let begun = Instant::now();
    let (called, _) = tokio::join!(client.call_with(within(2)), server.expect("tools/list"));
    assert!(matches!(called, Err(CallError::Deadline { handle: None, .. })), "{called:?}");
    assert_eq!(begun.elapsed(), Duration::from_secs(2));
    // While the tool runs: it is told.
    let (client, mut server, _script) = open("2025-06-18").await;
    let begun = Instant::now();
    let (called, _) = tokio::join!(client.call_with(within(2)), server.expect("tools/call"));
    assert!(matches!(called, Err(CallError::Deadline { handle: None, .. })), "{called:?}");
    assert_eq!(begun.elapsed(), Duration::from_secs(2));
    server.hear("notifications/cancelled").await;
    // A tool that takes less than the deadline, and more than what is usual elsewhere.
    let (called, ()) = tokio::join!(client.call_with(within(90)), async {
        let request = server.expect("tools/call").await;
        tokio::time::sleep(Duration::from_secs(75)).await;
        server.answer(&request, result("done")).await;
    });
    called.expect("a result");
    // While a task is followed: it goes on, and the handle leads back.
    let (client, mut server, _script) = open(NEW).await;
    let (called, ()) = tokio::join!(client.call_with(within(2)), async {
        server.begin(NEW, 60_000).await;
    });
    assert!(matches!(&called, Err(CallError::Deadline { handle: Some(handle), .. }) if handle.task == "T"));
    assert!(server.told.is_empty());
}
