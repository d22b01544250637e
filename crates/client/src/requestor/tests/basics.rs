use super::*;

/// A call resolves the same, whether the server answers at once, makes a task of it, or has no tasks, in every version.
#[tokio::test(start_paused = true)]
async fn a_call_resolves_the_same_whatever_the_server_makes_of_it() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", OLD, NEW] {
        let (client, mut server, _script) = open(version).await;
        assert_eq!(client.protocol_version(), Some(version));
        let (called, ()) = tokio::join!(client.call("t", json!({ "a": 1 })), async {
            if version == OLD {
                server.tools("forbidden").await;
            }
            let request = server.expect("tools/call").await;
            assert_eq!(
                (&request.params["name"], &request.params["arguments"]),
                (&json!("t"), &json!({ "a": 1 }))
            );
            assert!(request.params.get("task").is_none());
            server.answer(&request, result("done")).await;
        });
        let called = called.expect("a result");
        assert_eq!((called.text().as_str(), called.is_error), ("done", false), "{version}");
    }
    for version in [OLD, NEW] {
        let (client, mut server, _script) = open(version).await;
        let mut call = client.call("t", json!({}));
        let (events, ()) = tokio::join!(events(&mut call), async {
            server.begin(version, 1000).await;
            server.state("working", json!({ "statusMessage": "half" })).await;
            server.complete(version).await;
        });
        assert!(
            matches!(&events[0], Event::Accepted(handle) if handle.task == "T" && handle.version == version)
        );
        let says =
            |event: &Event| matches!(event, Event::Status(state) if state.message.as_deref() == Some("half"));
        assert!(events.iter().any(says), "{events:?}");
        assert!(matches!(events.last(), Some(Event::Done)));
        assert_eq!(call.result().await.expect("a result").text(), "done", "{version}");
    }
}

/// Case 26: the tool says whether it can be a task; it is asked once, and again when the list has changed.
#[tokio::test(start_paused = true)]
async fn a_call_follows_what_the_tool_says_of_tasks() {
    for (support, is_task) in [("forbidden", false), ("optional", true), ("required", true), ("odd", false)] {
        let (client, mut server, _script) = open(OLD).await;
        for round in 0..2 {
            let (called, ()) = tokio::join!(client.call("t", json!({})), async {
                if round == 0 {
                    server.tools(support).await;
                }
                let request = server.expect("tools/call").await;
                assert_eq!(request.params.get("task").is_some(), is_task, "{support}");
                server.answer(&request, result("done")).await;
            });
            called.expect("a result");
        }
        server.notify("notifications/tools/list_changed", json!({})).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
        let (called, ()) = tokio::join!(client.call("t", json!({})), async {
            server.tools("forbidden").await;
            let request = server.expect("tools/call").await;
            assert!(request.params.get("task").is_none());
            server.answer(&request, result("done")).await;
        });
        called.expect("a result");
    }
}

/// Case 26: a list that is out of date is read anew when the server refuses the call for it; nothing has run then.
#[tokio::test(start_paused = true)]
async fn a_call_refused_for_its_use_of_tasks_is_made_as_the_tool_now_says() {
    let (client, mut server, _script) = open(OLD).await;
    let (called, ()) = tokio::join!(client.call("t", json!({})), async {
        server.tools("forbidden").await;
        let request = server.expect("tools/call").await;
        server.fail(&request, -32601, "needs a task").await;
        server.tools("required").await;
        let request = server.expect("tools/call").await;
        assert!(request.params.get("task").is_some());
        server.accept(&request, OLD, 100).await;
        server.complete(OLD).await;
    });
    called.expect("a result");
    // Refused again for the same reason, it stays refused.
    let (called, ()) = tokio::join!(client.call("t", json!({})), async {
        let request = server.expect("tools/call").await;
        server.fail(&request, -32601, "no").await;
        server.tools("required").await;
    });
    assert!(matches!(called, Err(CallError::Rpc(error)) if error.code == -32601));
}

/// Case 7: a handle that nobody asked for is no answer, and its task is cancelled.
#[tokio::test(start_paused = true)]
async fn a_handle_nobody_asked_for_is_an_invalid_response() {
    for version in [OLD, NEW] {
        let (client, mut server, _script) = open(version).await;
        let request = CallRequest { task: Some(TaskUse::Never), ..CallRequest::new("t", json!({})) };
        let (called, ()) = tokio::join!(client.call_with(request), async {
            let request = server.expect("tools/call").await;
            let declared =
                &request.params["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"];
            assert!(request.params.get("task").is_none() && declared.is_null());
            server.accept(&request, version, 100).await;
            assert_eq!(server.expect("tasks/cancel").await.params["taskId"], "T");
        });
        assert!(matches!(called, Err(CallError::InvalidResponse(_))), "{called:?}");
    }
}

/// Case 27: handles with odd members are followed; results of an unknown type are errors.
#[tokio::test(start_paused = true)]
async fn answers_are_taken_for_what_they_say_they_are() {
    let nested = json!({ "task": { "taskId": "T", "ttl": "x", "pollInterval": [] } });
    let flat = json!({ "resultType": "task", "taskId": "T" });
    for (version, handle) in [(OLD, nested), (NEW, flat)] {
        let (client, mut server, _script) = open(version).await;
        let (called, ()) = tokio::join!(client.call("t", json!({})), async {
            if version == OLD {
                server.tools("optional").await;
            }
            let request = server.expect("tools/call").await;
            server.answer(&request, handle).await;
            server.complete(version).await;
        });
        assert_eq!(called.expect("a result").text(), "done");
    }
    for answer in
        [json!({ "resultType": "future" }), json!([1]), json!({ "resultType": "task", "taskId": 7 })]
    {
        let (client, mut server, _script) = open(NEW).await;
        let (called, ()) = tokio::join!(client.call("t", json!({})), async {
            let request = server.expect("tools/call").await;
            server.answer(&request, answer).await;
        });
        assert!(matches!(called, Err(CallError::InvalidResponse(_))), "{called:?}");
    }
}

/// Case 6: what a failed task left is always fetched: a result that says so, or an error.
#[tokio::test(start_paused = true)]
async fn a_failure_tells_what_failed() {
    let bad = json!({ "isError": true, "content": [{ "type": "text", "text": "E0277" }], "structuredContent": { "n": 1 } });
    for version in [OLD, NEW] {
        let (client, mut server, _script) = open(version).await;
        let (called, ()) = tokio::join!(client.call("t", json!({})), async {
            server.begin(version, 100).await;
            if version == OLD {
                server.state("failed", json!({ "statusMessage": "no" })).await;
                let request = server.expect("tasks/result").await;
                server.answer(&request, bad.clone()).await;
            } else {
                server.state("completed", json!({ "result": bad })).await;
            }
        });
        let called = called.expect("a result");
        assert_eq!((called.is_error, called.text().as_str()), (true, "E0277"), "{version}");
        assert_eq!(called.structured, Some(json!({ "n": 1 })));

        let (called, ()) = tokio::join!(client.call("t", json!({})), async {
            let request = server.expect("tools/call").await;
            server.accept(&request, version, 100).await;
            let error = json!({ "code": -32099, "message": "broken" });
            server.state("failed", json!({ "statusMessage": "no", "error": error })).await;
            if version == OLD {
                let request = server.expect("tasks/result").await;
                server.fail(&request, -32099, "broken").await;
            }
        });
        let Err(CallError::Failed { status, message, error: Some(error) }) = called else {
            panic!("{called:?}")
        };
        assert_eq!((status, message.as_deref()), (TaskStatus::Failed, Some("no")));
        assert_eq!((error.code, error.message.as_str()), (-32099, "broken"));
    }
}

/// A call that fails at once says what the server said; a tool that is not there has a word of its own.
#[tokio::test(start_paused = true)]
async fn errors_of_a_call_are_told_apart() {
    let (client, mut server, _script) = open(NEW).await;
    for (code, message, is_missing) in [(-32602, "Unknown tool: t", true), (-32602, "bad n", false)] {
        let (called, ()) = tokio::join!(client.call("t", json!({})), async {
            let request = server.expect("tools/call").await;
            server.fail(&request, code, message).await;
        });
        match called {
            Err(CallError::ToolNotFound { tool, .. }) if is_missing => assert_eq!(tool, "t"),
            Err(CallError::Rpc(error)) if !is_missing => assert_eq!(error.message, message),
            other => panic!("{other:?}"),
        }
    }
}

/// Where a call must be a task and cannot be, it is not made.
#[tokio::test(start_paused = true)]
async fn always_a_task_means_never_a_plain_call() {
    let (client, mut server, _script) = open("2025-06-18").await;
    let request = CallRequest { task: Some(TaskUse::Always), ..CallRequest::new("t", json!({})) };
    assert!(matches!(client.call_with(request).await, Err(CallError::Unsupported(_))));
    let (called, ()) = tokio::join!(client.call("t", json!({})), async {
        let request = server.expect("tools/call").await;
        server.answer(&request, result("done")).await;
    });
    called.expect("a result");
    assert_eq!(server.calls, 1);
}

/// Progress and log lines come as events, from before the handle and after it.
#[tokio::test(start_paused = true)]
async fn what_is_said_meanwhile_is_told() {
    let (client, mut server, _script) = open(OLD).await;
    let mut call = client.call("t", json!({}));
    let (events, ()) = tokio::join!(events(&mut call), async {
        server.tools("optional").await;
        let request = server.expect("tools/call").await;
        let token = request.params["_meta"]["progressToken"].clone();
        let progress = |n: u32| json!({ "progressToken": token, "progress": n, "total": 9, "message": "m" });
        server.notify("notifications/progress", progress(1)).await;
        server.notify("notifications/message", json!({ "level": "info", "data": "d" })).await;
        server.accept(&request, OLD, 1000).await;
        server.notify("notifications/progress", progress(2)).await;
        server.notify("notifications/progress", json!({ "progressToken": 99, "progress": 5 })).await;
        server.complete(OLD).await;
    });
    let progress: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::Progress(progress) => {
                Some((progress.progress, progress.total, progress.message.as_deref()))
            }
            _ => None,
        })
        .collect();
    assert_eq!(progress, [(Some(1.0), Some(9.0), Some("m")), (Some(2.0), Some(9.0), Some("m"))]);
    assert!(events.iter().any(|event| matches!(event, Event::Log(_))));
}

/// Case 37: arguments, answers and connections are not shown.
#[test]
fn nothing_secret_is_shown() {
    let request = CallRequest::new("t", json!({ "token": "sesame" }));
    let answer = InputAnswer::Accept(json!({ "password": "sesame" }));
    let endpoint = Endpoint::Command(crate::StdioCommand::new("npx").args(["--token", "sesame"]));
    for shown in [format!("{request:?}"), format!("{answer:?}"), format!("{endpoint:?}")] {
        assert!(!shown.contains("sesame"), "{shown}");
    }
}
