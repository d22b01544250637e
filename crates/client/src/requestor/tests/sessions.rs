use super::*;
use crate::FailureKind;

/// The deadline of clients here.
const WHOLE: Duration = Duration::from_secs(3600);

/// Tasks are listed where the server lists them, page by page, and nowhere else.
#[tokio::test(start_paused = true)]
async fn tasks_are_listed_where_there_is_a_list() {
    let (client, mut server, _script) = open(OLD).await;
    let (listed, ()) = tokio::join!(client.list(), async {
        let request = server.expect("tasks/list").await;
        assert!(request.params.get("cursor").is_none());
        let page =
            json!({ "tasks": [{ "taskId": "A", "status": "working", "ttl": 5000 }, {}], "nextCursor": "c" });
        server.answer(&request, page).await;
        let request = server.expect("tasks/list").await;
        assert_eq!(request.params["cursor"], "c");
        server.answer(&request, json!({ "tasks": [{ "taskId": "B", "status": "failed" }] })).await;
    });
    let listed = listed.expect("a list");
    let listed: Vec<_> = listed.iter().map(|task| (task.task.as_str(), &task.status, task.ttl)).collect();
    let ttl = Some(Duration::from_secs(5));
    assert_eq!(listed, [("A", &TaskStatus::Working, ttl), ("B", &TaskStatus::Failed, None)]);
    let (listed, ()) = tokio::join!(client.list(), async {
        let request = server.expect("tasks/list").await;
        server.fail(&request, -32601, "no").await;
    });
    assert!(matches!(listed, Err(CallError::Unsupported(_))));
    for version in ["2025-06-18", NEW] {
        let (client, _server, _script) = open(version).await;
        assert!(matches!(client.list().await, Err(CallError::Unsupported(_))));
    }
}

/// Single requests are made again over another connection; an unknown task is told from everything else.
#[tokio::test(start_paused = true)]
async fn single_requests_outlast_a_connection() {
    for version in [OLD, NEW] {
        let (client, mut server, mut script) = open(version).await;
        let handle = client.handle("T", "t").await.expect("connected");
        let (got, mut server) = tokio::join!(client.get(&handle), async {
            server.expect("tasks/get").await;
            server.close().await;
            let mut server = script.next().await;
            server.open(version).await;
            let request = server.expect("tasks/get").await;
            server.lose(&request, FailureKind::Interrupted).await;
            server.state("working", json!({ "statusMessage": "m", "createdAt": "then" })).await;
            server
        });
        let got = got.expect("a state");
        assert_eq!((got.status, got.message.as_deref()), (TaskStatus::Working, Some("m")));
        assert_eq!(got.created.as_deref(), Some("then"));
        let (got, ()) = tokio::join!(client.get(&handle), async {
            let request = server.expect("tasks/get").await;
            server.fail(&request, -32602, "unknown").await;
        });
        assert!(matches!(got, Err(CallError::Expired { .. })), "{got:?}");
    }
}

/// A task that is over stays as it is when it is cancelled, which is no failure; one that is unknown is.
#[tokio::test(start_paused = true)]
async fn cancelling_by_handle_says_what_is_known() {
    let (client, mut server, _script) = open(OLD).await;
    let handle = client.handle("T", "t").await.expect("connected");
    for is_known in [true, false] {
        let (cancelled, ()) = tokio::join!(client.cancel(&handle), async {
            let request = server.expect("tasks/cancel").await;
            server.fail(&request, -32602, "no").await;
            if is_known {
                server.state("completed", json!({})).await;
            } else {
                let request = server.expect("tasks/get").await;
                server.fail(&request, -32602, "unknown").await;
            }
        });
        assert_eq!(cancelled.is_ok(), is_known, "{cancelled:?}");
    }
}

/// Every page of the tools, as they came.
#[tokio::test(start_paused = true)]
async fn tools_are_listed_in_full() {
    let (client, mut server, _script) = open(NEW).await;
    let (tools, ()) = tokio::join!(client.tools(), async {
        let request = server.expect("tools/list").await;
        server.answer(&request, json!({ "tools": [{ "name": "a", "x": 1 }], "nextCursor": "2" })).await;
        let request = server.expect("tools/list").await;
        assert_eq!(request.params["cursor"], "2");
        server.answer(&request, json!({ "tools": [{ "name": "b" }] })).await;
    });
    let tools: Vec<_> = tools.expect("tools").iter().map(value).collect();
    assert_eq!(tools, [json!({ "name": "a", "x": 1 }), json!({ "name": "b" })]);
}

/// A list that leads back to itself is what was read of it, once; and the deadline is one for all of its pages.
#[tokio::test(start_paused = true)]
async fn a_list_without_an_end_ends() {
    let (client, mut server, _script) = open(NEW).await;
    let (tools, ()) = tokio::join!(client.tools(), async {
        for (tool, next) in [("a", "2"), ("b", "3"), ("c", "2")] {
            let request = server.expect("tools/list").await;
            server.answer(&request, json!({ "tools": [{ "name": tool }], "nextCursor": next })).await;
        }
    });
    assert_eq!(tools.expect("tools").len(), 3);
    let (client, mut server, _script) = open(OLD).await;
    let started = tokio::time::Instant::now();
    let slow = async {
        for page in 0.. {
            let request = server.expect("tasks/list").await;
            tokio::time::sleep(WHOLE / 4).await;
            server.answer(&request, json!({ "tasks": [], "nextCursor": page.to_string() })).await;
        }
    };
    tokio::select! {
        listed = client.list() => assert!(matches!(listed, Err(CallError::Deadline { .. })), "{listed:?}"),
        () = slow => {}
    }
    assert_eq!(started.elapsed(), WHOLE);
}

/// Tools can be called without a list of them.
#[tokio::test(start_paused = true)]
async fn a_server_without_a_list_of_tools_can_be_called() {
    let (client, mut server, _script) = open(OLD).await;
    let (called, ()) = tokio::join!(client.call("t", json!({})), async {
        let request = server.expect("tools/list").await;
        server.fail(&request, -32601, "no").await;
        let request = server.expect("tools/call").await;
        assert!(request.params.get("task").is_none());
        server.answer(&request, result("done")).await;
    });
    called.expect("a result");
}

/// Nothing is asked before it is needed: no lists when the client connects.
#[tokio::test(start_paused = true)]
async fn connecting_asks_for_nothing_else() {
    for version in ["2025-06-18", OLD, NEW] {
        let (client, mut server, _script) = open(version).await;
        drop(client);
        while let Some(message) = server.message().await {
            assert!(matches!(message, Message::Notification { .. }), "{message:?}");
        }
    }
}

/// A server that cannot be connected to is told at once, in time.
#[tokio::test(start_paused = true)]
async fn a_connection_that_fails_is_told() {
    let mut script = Script::new();
    let builder = script.builder().deadline(Duration::from_secs(2));
    let begun = Instant::now();
    let (connected, _server) = tokio::join!(builder.connect(), script.next());
    assert!(matches!(connected, Err(ConnectError::Deadline(_))), "{connected:?}");
    assert_eq!(begun.elapsed(), Duration::from_secs(2));
    let missing = Endpoint::Command(crate::StdioCommand::new("no-such-program-anywhere"));
    let connected = Client::builder(missing).connect().await;
    assert!(matches!(connected, Err(ConnectError::Start(_))), "{connected:?}");
}
