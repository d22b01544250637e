use super::*;
use crate::FailureKind;

/// Case 29: the connection is lost and made again once, the task is asked about by its id, and the tool is not called again.
#[tokio::test(start_paused = true)]
async fn a_task_is_followed_over_another_connection() {
    for version in [OLD, NEW] {
        let (client, mut server, mut script) = open(version).await;
        let mut call = client.call("t", json!({}));
        let (events, ()) = tokio::join!(events(&mut call), async {
            server.begin(version, 100).await;
            server.state("working", json!({})).await;
            server.close().await;
            let mut server = script.next().await;
            server.open(version).await;
            server.state("working", json!({})).await;
            server.complete(version).await;
            assert_eq!(server.calls, 0);
        });
        assert!(events.iter().any(|event| matches!(event, Event::Retrying { attempt: 1, .. })), "{events:?}");
        assert_eq!(call.result().await.expect("a result").text(), "done");
        assert_eq!(script.opened.load(Ordering::Relaxed), 2);
    }
}

/// Case 29: a session that the server has lost is opened anew. What it did not look at is sent in the new one.
#[tokio::test(start_paused = true)]
async fn a_lost_session_is_opened_anew() {
    let (client, mut server, mut script) = open(OLD).await;
    let (called, ()) = tokio::join!(client.call("t", json!({})), async {
        server.begin(OLD, 100).await;
        let request = server.expect("tasks/get").await;
        server.outdate().await;
        server.lose(&request, FailureKind::SessionLost).await;
        let mut server = script.next().await;
        server.open(OLD).await;
        server.complete(OLD).await;
        assert_eq!(server.calls, 0);
    });
    called.expect("a result");
    assert_eq!(script.opened.load(Ordering::Relaxed), 2);

    let (client, mut server, mut script) = open("2025-06-18").await;
    let (called, ()) = tokio::join!(client.call("t", json!({})), async {
        let request = server.expect("tools/call").await;
        server.outdate().await;
        server.lose(&request, FailureKind::SessionLost).await;
        let mut server = script.next().await;
        server.open("2025-06-18").await;
        let request = server.expect("tools/call").await;
        server.answer(&request, result("done")).await;
    });
    called.expect("a result");
}

/// Case 29: a call that may have arrived is not sent again, in any version.
#[tokio::test(start_paused = true)]
async fn a_call_that_may_have_arrived_is_not_sent_again() {
    for version in ["2025-06-18", OLD, NEW] {
        for is_closed in [false, true] {
            let (client, mut server, script) = open(version).await;
            let (called, ()) = tokio::join!(client.call("t", json!({})), async {
                if version == OLD {
                    server.tools("optional").await;
                }
                let request = server.expect("tools/call").await;
                if is_closed {
                    server.close().await;
                } else {
                    server.lose(&request, FailureKind::Interrupted).await;
                }
            });
            assert!(matches!(called, Err(CallError::Uncertain { .. })), "{version} {called:?}");
            tokio::time::sleep(Duration::from_secs(120)).await;
            assert_eq!(script.opened.load(Ordering::Relaxed), 1);
        }
    }
}

/// A server that is away for a while is tried again, after ever longer pauses; one that stays away is given up with the handle.
#[tokio::test(start_paused = true)]
async fn patience_has_an_end_and_the_handle_stays() {
    let (client, mut server, mut script) = open(NEW).await;
    let mut call = client.call("t", json!({}));
    let begun = Instant::now();
    let (events, ()) = tokio::join!(events(&mut call), async {
        server.begin(NEW, 100).await;
        server.close().await;
        while let Ok(server) = tokio::time::timeout(Duration::from_secs(30), script.next()).await {
            server.close().await;
        }
    });
    let waits: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::Retrying { wait, .. } => Some(*wait),
            _ => None,
        })
        .collect();
    assert!(waits.len() > 5 && waits[0] < Duration::from_millis(101), "{waits:?}");
    assert!(waits.last() > waits.first() && waits.iter().all(|wait| *wait <= Duration::from_secs(10)));
    let error = call.result().await.expect_err("unreachable");
    assert!(matches!(error, CallError::Unreachable { .. }), "{error:?}");
    assert_eq!(error.handle().map(|handle| handle.task.as_str()), Some("T"));
    assert!((60..110).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
}

/// Interrupted requests about a task are made again at the usual pace.
#[tokio::test(start_paused = true)]
async fn interrupted_questions_about_a_task_are_asked_again() {
    let (client, mut server, script) = open(OLD).await;
    let (called, ()) = tokio::join!(client.call("t", json!({})), async {
        server.begin(OLD, 100).await;
        for _ in 0..3 {
            let request = server.expect("tasks/get").await;
            server.lose(&request, FailureKind::Interrupted).await;
        }
        server.state("completed", json!({})).await;
        let request = server.expect("tasks/result").await;
        server.lose(&request, FailureKind::Interrupted).await;
        server.complete(OLD).await;
    });
    assert_eq!(called.expect("a result").text(), "done");
    assert_eq!(script.opened.load(Ordering::Relaxed), 1);
}

/// What a call is answered with is not lost because its server ends right after.
#[tokio::test(start_paused = true)]
async fn a_child_that_dies_of_the_probe_is_started_again() {
    let mut script = Script::new();
    let (client, mut server) = tokio::join!(script.builder().connect(), async {
        let mut server = script.next().await;
        server.expect("server/discover").await;
        server.close().await;
        let mut server = script.next().await;
        server.initialize("2025-06-18").await;
        server
    });
    let client = client.expect("connect");
    // It is not asked again when it is started anew.
    let (called, ()) = tokio::join!(client.call("t", json!({})), async {
        let request = server.expect("tools/call").await;
        server.answer(&request, result("done")).await;
    });
    called.expect("a result");
    server.close().await;
    let (called, ()) = tokio::join!(
        async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            client.call("t", json!({})).await
        },
        async {
            let mut server = script.next().await;
            server.initialize("2025-06-18").await;
            let request = server.expect("tools/call").await;
            server.answer(&request, result("done")).await;
        }
    );
    called.expect("a result");
}

/// Case 1: the handle leads to the task from another process, over a connection of its generation.
#[tokio::test(start_paused = true)]
async fn a_handle_leads_back_in_its_own_generation() {
    let (client, mut server, _script) = open(OLD).await;
    let call = client.call("t", json!({}));
    server.begin(OLD, 100).await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    let handle = call.detach().expect("a handle");
    drop((client, server));

    // By now the server is met in the next generation.
    let mut script = Script::new();
    let (client, mut server) = script.open(script.builder(), NEW).await;
    let (called, ()) = tokio::join!(client.resume(handle.clone()), async {
        let mut server = script.next().await;
        server.initialize(OLD).await;
        server.complete(OLD).await;
    });
    assert_eq!(called.expect("a result").text(), "done");
    // One that has left the old one behind is asked in the new one.
    let (called, ()) = tokio::join!(client.resume(handle.clone()), async {
        let mut old = script.next().await;
        let request = old.expect("initialize").await;
        old.fail(&request, -32601, "no").await;
        server.complete(NEW).await;
    });
    assert_eq!(called.expect("a result").text(), "done");
    let other = Handle { endpoint: "memory:other".to_owned(), ..handle };
    assert!(matches!(client.resume(other.clone()).await, Err(CallError::WrongEndpoint { .. })));
    assert!(matches!(client.get(&other).await, Err(CallError::WrongEndpoint { .. })));
}
