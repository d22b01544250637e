use super::*;

/// The server's interval counts from the first time on, between floor and cap.
#[tokio::test(start_paused = true)]
async fn a_task_is_asked_about_at_the_servers_pace() {
    for version in [OLD, NEW] {
        for (said, kept) in [(0, 50), (700, 700), (3_600_000, 60_000)] {
            let (client, mut server, _script) = open(version).await;
            let (called, ()) = tokio::join!(client.call("t", json!({})), async {
                server.begin(version, said).await;
                let begun = Instant::now();
                server.state("working", json!({})).await;
                assert_eq!(begun.elapsed().as_millis(), kept, "{version} {said}");
                server.state("working", json!({})).await;
                assert_eq!(begun.elapsed().as_millis(), 2 * kept, "{version} {said}");
                server.complete(version).await;
            });
            called.expect("a result");
        }
    }
}

/// Case 40: what the server says by itself wakes the poll, but polling stays the truth.
#[tokio::test(start_paused = true)]
async fn a_notification_wakes_the_poll() {
    for version in [OLD, NEW] {
        let (client, mut server, _script) = open(version).await;
        let (called, took) = tokio::join!(client.call("t", json!({})), async {
            server.begin(version, 60_000).await;
            let begun = Instant::now();
            tokio::time::sleep(Duration::from_secs(1)).await;
            told(&mut server, version).await;
            server.complete(version).await;
            begun.elapsed()
        });
        assert_eq!(called.expect("a result").text(), "done");
        assert!(took < Duration::from_secs(2), "{version} {took:?}");
    }
}

async fn told(server: &mut Server, version: &str) {
    let state = json!({ "taskId": "T", "status": "completed" });
    if version == OLD {
        return server.notify("notifications/tasks/status", state).await;
    }
    while server.listen.is_none() {
        let Some(Message::Request { id, method, params }) = server.message().await else { panic!("gone") };
        assert_eq!(method, "subscriptions/listen");
        assert_eq!(value(&params.expect("params"))["notifications"]["taskIds"], json!(["T"]));
        server.listen = Some(id);
    }
    let subscription: Value =
        serde_json::from_str(server.listen.as_ref().expect("it is").as_str()).expect("JSON");
    let mut state = state;
    state["_meta"] = json!({ "io.modelcontextprotocol/subscriptionId": subscription });
    server.notify("notifications/tasks", state).await;
}

/// Case 40: what is said of a task before its handle is there is not lost.
#[tokio::test(start_paused = true)]
async fn a_notification_before_the_handle_counts() {
    let (client, mut server, _script) = open(OLD).await;
    let (called, took) = tokio::join!(client.call("t", json!({})), async {
        server.tools("optional").await;
        let request = server.expect("tools/call").await;
        server.notify("notifications/tasks/status", json!({ "taskId": "T", "status": "completed" })).await;
        server.accept(&request, OLD, 60_000).await;
        let begun = Instant::now();
        server.complete(OLD).await;
        begun.elapsed()
    });
    called.expect("a result");
    assert!(took < Duration::from_secs(2), "{took:?}");
}

/// Case 40: a notification that is lost costs an interval and nothing more; a server that refuses subscriptions is polled.
#[tokio::test(start_paused = true)]
async fn without_notifications_the_next_poll_finds_it() {
    let (client, mut server, _script) = open(NEW).await;
    let (called, took) = tokio::join!(client.call("t", json!({})), async {
        server.begin(NEW, 60_000).await;
        let begun = Instant::now();
        let Some(Message::Request { id, .. }) = server.message().await else { panic!("gone") };
        server.fail(&Request { id, params: Value::Null }, -32601, "no").await;
        server.complete(NEW).await;
        begun.elapsed()
    });
    called.expect("a result");
    assert_eq!(took, Duration::from_secs(60));
}

/// A server that says nothing that makes sense is asked again, and not for ever.
#[tokio::test(start_paused = true)]
async fn senseless_answers_are_borne_for_a_while() {
    let (client, mut server, _script) = open(NEW).await;
    let (called, ()) = tokio::join!(client.call("t", json!({})), async {
        server.begin(NEW, 100).await;
        server.state("paused", json!({})).await;
        let request = server.expect("tasks/get").await;
        server.fail(&request, -32603, "oops").await;
        server.complete(NEW).await;
    });
    called.expect("a result");
    let (called, ()) = tokio::join!(client.call("t", json!({})), async {
        server.begin(NEW, 100).await;
        for _ in 0..11 {
            server.state("paused", json!({})).await;
        }
    });
    assert!(matches!(called, Err(CallError::InvalidResponse(_))), "{called:?}");
}

/// An id that the server does not know any more leads nowhere, and says so.
#[tokio::test(start_paused = true)]
async fn an_expired_task_is_told() {
    for version in [OLD, NEW] {
        let (client, mut server, _script) = open(version).await;
        let (called, ()) = tokio::join!(client.call("t", json!({})), async {
            server.begin(version, 100).await;
            let request = server.expect("tasks/get").await;
            server.fail(&request, -32602, "Task not found").await;
        });
        assert!(matches!(&called, Err(CallError::Expired { handle }) if handle.task == "T"), "{called:?}");
    }
}

/// A status that nobody looks at gives way to a newer one: a caller that only waits for the result costs no memory.
#[tokio::test(start_paused = true)]
async fn states_nobody_looks_at_do_not_pile_up() {
    let (client, mut server, _script) = open(NEW).await;
    let mut call = client.call("t", json!({}));
    server.begin(NEW, 100).await;
    for _ in 0..50 {
        server.state("working", json!({})).await;
    }
    server.complete(NEW).await;
    let events = events(&mut call).await;
    assert!(events.len() <= 4, "{events:?}");
}
