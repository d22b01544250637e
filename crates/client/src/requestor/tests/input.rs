use super::*;

/// Case 8 and 9, 2026-07-28: questions are found in the state, each is asked once and answered once, and each answer is sent
/// as soon as it is there.
#[tokio::test(start_paused = true)]
async fn listed_questions_are_asked_once_and_answered_once() {
    let (client, mut server, _script) = open(NEW).await;
    let mut call = client.call("t", json!({}));
    server.begin(NEW, 100).await;
    let both = json!({ "inputRequests": { "a": form("A?"), "b": form("B?") } });
    server.state("input_required", both.clone()).await;
    let (a, b) = (asked(&mut call).await, asked(&mut call).await);
    assert_eq!((a.key.as_str(), b.key.as_str()), ("a", "b"));
    let InputKind::Form { message, .. } = a.kind() else { panic!("{:?}", a.kind()) };
    assert_eq!(message, "A?");
    server.state("input_required", both.clone()).await;
    b.decline();
    let update = server.expect("tasks/update").await;
    assert_eq!(update.params["inputResponses"], json!({ "b": { "action": "decline" } }));
    server.answer(&update, json!({})).await;
    // A server may take a while to take it in.
    server.state("input_required", both).await;
    server.state("input_required", json!({ "inputRequests": { "a": form("A?") } })).await;
    a.answer(json!({ "x": 1 }));
    let update = server.expect("tasks/update").await;
    let answer = json!({ "a": { "action": "accept", "content": { "x": 1 } } });
    assert_eq!((&update.params["taskId"], &update.params["inputResponses"]), (&json!("T"), &answer));
    server.answer(&update, json!({})).await;
    server.complete(NEW).await;
    let rest = events(&mut call).await;
    let answered: Vec<_> = rest
        .iter()
        .filter_map(|event| match event {
            Event::Answered(key) => Some(key.as_str()),
            Event::Asked(_) => panic!("asked twice"),
            _ => None,
        })
        .collect();
    assert_eq!(answered, ["b", "a"]);
}

/// An answer that was lost on the way is sent again while its question is open; one that the server will not take is told.
#[tokio::test(start_paused = true)]
async fn an_answer_that_was_lost_is_sent_again() {
    let (client, mut server, _script) = open(NEW).await;
    let mut call = client.call("t", json!({}));
    server.begin(NEW, 100).await;
    let open = json!({ "inputRequests": { "a": form("A?") } });
    server.state("input_required", open.clone()).await;
    asked(&mut call).await.answer(json!({}));
    let update = server.expect("tasks/update").await;
    server.lose(&update, crate::FailureKind::Interrupted).await;
    server.state("input_required", open.clone()).await;
    let update = server.expect("tasks/update").await;
    assert_eq!(update.params["inputResponses"]["a"]["action"], "accept");
    server.fail(&update, -32602, "x is missing").await;
    server.state("input_required", open).await;
    server.expect("tasks/cancel").await;
    let called = call.result().await;
    assert!(
        matches!(&called, Err(CallError::InputRefused(why)) if why.contains("x is missing")),
        "{called:?}"
    );
}

/// A question that the server takes back is nobody's any more.
#[tokio::test(start_paused = true)]
async fn a_question_that_is_gone_is_withdrawn() {
    let (client, mut server, _script) = open(NEW).await;
    let mut call = client.call("t", json!({}));
    server.begin(NEW, 100).await;
    server.state("input_required", json!({ "inputRequests": { "a": form("A?") } })).await;
    let mut input = asked(&mut call).await;
    server.state("working", json!({})).await;
    input.withdrawn().await;
    input.answer(json!({}));
    server.complete(NEW).await;
    call.result().await.expect("a result");
}

/// Case 9, 2025-11-25: `tasks/result` is opened at once when the task asks. A stream that is cut off before the answer brings
/// the same question again, which is asked once and answered on the second stream.
#[tokio::test(start_paused = true)]
async fn a_question_on_a_broken_stream_is_asked_once() {
    for answers_between in [false, true] {
        let (client, mut server, _script) = open(OLD).await;
        let mut call = client.call("t", json!({}));
        server.begin(OLD, 60_000).await;
        server
            .notify("notifications/tasks/status", json!({ "taskId": "T", "status": "input_required" }))
            .await;
        server.state("input_required", json!({})).await;
        let waiting = server.expect("tasks/result").await;
        let params = json!({ "message": "A?", "requestedSchema": {},
            "_meta": { "io.modelcontextprotocol/related-task": { "taskId": "T" } } });
        server.ask(1, "elicitation/create", params.clone(), &waiting).await;
        let mut input = Some(asked(&mut call).await);
        server.lose(&waiting, crate::FailureKind::Interrupted).await;
        if answers_between && let Some(input) = input.take() {
            tokio::time::sleep(Duration::from_millis(1)).await;
            input.answer(json!({ "x": 1 }));
        }
        server.state("input_required", json!({})).await;
        let waiting = server.expect("tasks/result").await;
        server.ask(2, "elicitation/create", params, &waiting).await;
        if let Some(input) = input.take() {
            tokio::time::sleep(Duration::from_secs(1)).await;
            input.answer(json!({ "x": 1 }));
        }
        let (id, answer) = server.response().await;
        // What belongs to a task names it, in both directions (2025-11-25).
        let related = json!({ "io.modelcontextprotocol/related-task": { "taskId": "T" } });
        let expected = json!({ "action": "accept", "content": { "x": 1 }, "_meta": related });
        assert_eq!((id, answer), (Id::number(2), Ok(expected)));
        server.answer(&waiting, result("done")).await;
        server.state("completed", json!({})).await;
        let rest = events(&mut call).await;
        assert!(!rest.iter().any(|event| matches!(event, Event::Asked(_))), "{answers_between} {rest:?}");
        assert_eq!(call.result().await.expect("a result").text(), "done");
    }
}

/// The same words asked again after the answer are another question; and twice at a time they are two.
#[tokio::test(start_paused = true)]
async fn the_same_words_again_are_another_question() {
    let (client, mut server, _script) = open("2025-06-18").await;
    let mut call = client.call("t", json!({}));
    let request = server.expect("tools/call").await;
    let go_on = json!({ "message": "Go on?", "requestedSchema": {} });
    for id in 1..=2 {
        server.ask(id, "elicitation/create", go_on.clone(), &request).await;
        asked(&mut call).await.cancel();
        assert_eq!(server.response().await, (Id::number(id), Ok(json!({ "action": "cancel" }))));
    }
    server.ask(3, "elicitation/create", go_on.clone(), &request).await;
    server.ask(4, "elicitation/create", go_on, &request).await;
    let (three, four) = (asked(&mut call).await, asked(&mut call).await);
    assert_ne!(three.key, four.key);
    four.decline();
    assert_eq!(server.response().await.0, Id::number(4));
    drop(three);
    assert_eq!(server.response().await, (Id::number(3), Ok(json!({ "action": "cancel" }))));
    server.answer(&request, result("done")).await;
    call.result().await.expect("a result");
}

/// What was not declared is refused without asking anybody: by an error on a stream, by giving the task up in a list.
#[tokio::test(start_paused = true)]
async fn what_was_not_declared_is_not_asked() {
    let (client, mut server, _script) = open("2025-06-18").await;
    let mut call = client.call("t", json!({}));
    let request = server.expect("tools/call").await;
    server.ask(1, "sampling/createMessage", json!({ "messages": [] }), &request).await;
    let (_, refused) = server.response().await;
    assert_eq!(refused.expect_err("refused")["code"], -1);
    server.answer(&request, result("done")).await;
    assert!(!events(&mut call).await.iter().any(|event| matches!(event, Event::Asked(_))));

    let (client, mut server, _script) = open(NEW).await;
    let (called, ()) = tokio::join!(client.call("t", json!({})), async {
        server.begin(NEW, 100).await;
        let sample = json!({ "method": "sampling/createMessage", "params": { "messages": [] } });
        server.state("input_required", json!({ "inputRequests": { "a": sample } })).await;
        server.expect("tasks/cancel").await;
    });
    assert!(matches!(called, Err(CallError::InputRefused(_))), "{called:?}");
}

/// A caller who only waits for the result answers no questions, and is not kept waiting by them.
#[tokio::test(start_paused = true)]
async fn questions_nobody_takes_are_let_go_of() {
    let (client, mut server, _script) = open(NEW).await;
    let (called, ()) = tokio::join!(client.call("t", json!({})), async {
        server.begin(NEW, 100).await;
        server.state("input_required", json!({ "inputRequests": { "a": form("A?") } })).await;
        let update = server.expect("tasks/update").await;
        assert_eq!(update.params["inputResponses"], json!({ "a": { "action": "cancel" } }));
        server.answer(&update, json!({})).await;
        server.complete(NEW).await;
    });
    called.expect("a result");
}

/// A question of a task that is dropped stays open, and is not asked again by this call.
#[tokio::test(start_paused = true)]
async fn a_question_that_is_dropped_stays_open() {
    let (client, mut server, _script) = open(NEW).await;
    let mut call = client.call("t", json!({}));
    server.begin(NEW, 100).await;
    let open = json!({ "inputRequests": { "a": form("A?") } });
    server.state("input_required", open.clone()).await;
    drop(asked(&mut call).await);
    server.state("input_required", open.clone()).await;
    let handle = call.detach().expect("a task");
    let mut again = client.resume(handle);
    loop {
        let (method, request) = server.request().await;
        assert_eq!(method, "tasks/get", "nothing was answered");
        let mut state = json!({ "taskId": "T", "status": "input_required" });
        state["inputRequests"] = open["inputRequests"].clone();
        server.answer(&request, state).await;
        tokio::select! {
            input = asked(&mut again) => break input.answer(json!({})),
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
        }
    }
    let update = server.expect("tasks/update").await;
    assert_eq!(update.params["inputResponses"]["a"]["action"], "accept");
}

/// A handler answers in every generation, one that panics has not answered, and it declares what it is for.
#[tokio::test(start_paused = true)]
async fn a_handler_answers() {
    for version in ["2025-06-18", OLD, NEW] {
        let mut script = Script::new();
        let builder = script.builder().input_handler(|input: Input| async move {
            assert!(!matches!(input.kind(), InputKind::Url { .. }), "a handler with a fault");
            InputAnswer::Accept(json!({ "asked": input.method }))
        });
        let (client, mut server) = script.open(builder, version).await;
        let (called, answer) = tokio::join!(client.call("t", json!({})), async {
            match version {
                NEW => {
                    let request = server.begin(version, 100).await;
                    let able = &request.params["_meta"]["io.modelcontextprotocol/clientCapabilities"];
                    assert_eq!(able["elicitation"], json!({ "form": {}, "url": {} }));
                    assert!(able["sampling"].is_null());
                    let url = json!({ "method": "elicitation/create",
                        "params": { "mode": "url", "message": "m", "url": "https://x.example/" } });
                    let asked = json!({ "inputRequests": { "a": form("A?"), "b": url } });
                    server.state("input_required", asked).await;
                    let mut answers = serde_json::Map::new();
                    for _ in 0..2 {
                        let update = server.expect("tasks/update").await;
                        answers.extend(update.params["inputResponses"].as_object().expect("answers").clone());
                        server.answer(&update, json!({})).await;
                    }
                    assert_eq!(answers["b"], json!({ "action": "cancel" }));
                    server.complete(version).await;
                    answers["a"].clone()
                }
                OLD => {
                    server.begin(version, 100).await;
                    server.state("input_required", json!({})).await;
                    let waiting = server.expect("tasks/result").await;
                    server.ask(1, "elicitation/create", json!({ "message": "A?" }), &waiting).await;
                    let (_, answer) = server.response().await;
                    server.state("completed", json!({})).await;
                    server.answer(&waiting, result("done")).await;
                    answer.expect("a result")
                }
                _ => {
                    let request = server.expect("tools/call").await;
                    server.ask(1, "elicitation/create", json!({ "message": "A?" }), &request).await;
                    let (_, answer) = server.response().await;
                    server.answer(&request, result("done")).await;
                    answer.expect("a result")
                }
            }
        });
        assert_eq!(called.expect("a result").text(), "done", "{version}");
        assert_eq!(answer, json!({ "action": "accept", "content": { "asked": "elicitation/create" } }));
    }
}

/// Questions in the answer of a plain call (2026-07-28): it is made again with the answers and the server's state, and its
/// keys mean something for one round only.
#[tokio::test(start_paused = true)]
async fn a_call_that_asks_is_made_again_with_the_answers() {
    let (client, mut server, _script) = open(NEW).await;
    let mut call = client.call("t", json!({ "n": 1 }));
    let (outcome, ()) = tokio::join!(
        async {
            asked(&mut call).await.answer(json!({ "x": 1 }));
            asked(&mut call).await.decline();
            asked(&mut call).await.answer(json!({ "x": 2 }));
            // The same key in the task that comes of it is another question.
            asked(&mut call).await.answer(json!({ "x": 3 }));
            call.result().await
        },
        async {
            let request = server.expect("tools/call").await;
            let asked = json!({ "resultType": "input_required", "requestState": "S1",
                "inputRequests": { "a": form("A?"), "b": form("B?") } });
            server.answer(&request, asked).await;
            let request = server.expect("tools/call").await;
            assert_eq!(
                (&request.params["arguments"], &request.params["requestState"]),
                (&json!({ "n": 1 }), &json!("S1"))
            );
            assert_eq!(request.params["inputResponses"]["b"], json!({ "action": "decline" }));
            let asked = json!({ "resultType": "input_required", "inputRequests": { "a": form("A?") } });
            server.answer(&request, asked).await;
            let request = server.expect("tools/call").await;
            assert!(request.params.get("requestState").is_none());
            assert_eq!(request.params["inputResponses"]["a"]["content"], json!({ "x": 2 }));
            // Without questions it only wants to be called again.
            server.answer(&request, json!({ "resultType": "input_required", "requestState": "S2" })).await;
            let request = server.expect("tools/call").await;
            assert_eq!(request.params["requestState"], "S2");
            assert!(request.params.get("inputResponses").is_none());
            server.accept(&request, NEW, 100).await;
            server.state("input_required", json!({ "inputRequests": { "a": form("A?") } })).await;
            let update = server.expect("tasks/update").await;
            server.answer(&update, json!({})).await;
            server.complete(NEW).await;
        }
    );
    assert_eq!(outcome.expect("a result").text(), "done");
    // No other version has that.
    let (client, mut server, _script) = open("2025-06-18").await;
    let (called, ()) = tokio::join!(client.call("t", json!({})), async {
        let request = server.expect("tools/call").await;
        server.answer(&request, json!({ "resultType": "input_required" })).await;
    });
    assert!(matches!(called, Err(CallError::InvalidResponse(_))), "{called:?}");
}

/// A question can be answered by its key from elsewhere, in each generation in its own way.
#[tokio::test(start_paused = true)]
async fn a_question_is_answered_by_its_key() {
    let (client, mut server, _script) = open(NEW).await;
    let handle = client.handle("T", "t").await.expect("connected");
    let open = json!({ "inputRequests": { "a": form("A?") } });
    let (got, ()) = tokio::join!(client.get(&handle), async {
        server.state("input_required", open.clone()).await;
    });
    assert_eq!(got.expect("a state").inputs[0].0, "a");
    let answer = || InputAnswer::Accept(json!({ "x": 1 }));
    let (answered, ()) = tokio::join!(client.answer(&handle, "a", answer()), async {
        server.state("input_required", open.clone()).await;
        let update = server.expect("tasks/update").await;
        assert_eq!(update.params["inputResponses"]["a"]["content"], json!({ "x": 1 }));
        server.answer(&update, json!({})).await;
    });
    answered.expect("taken");
    let (answered, _) =
        tokio::join!(client.answer(&handle, "b", answer()), server.state("input_required", open));
    assert!(matches!(answered, Err(CallError::InputRefused(_))), "{answered:?}");

    // The key that a call tells of leads to the question on another stream.
    let (client, mut server, _script) = super::open(OLD).await;
    let mut call = client.call("t", json!({}));
    server.begin(OLD, 100).await;
    server.state("input_required", json!({})).await;
    let waiting = server.expect("tasks/result").await;
    let params =
        json!({ "message": "A?", "_meta": { "io.modelcontextprotocol/related-task": { "taskId": "T" } } });
    server.ask(1, "elicitation/create", params.clone(), &waiting).await;
    let input = asked(&mut call).await;
    let key = input.key.clone();
    // Not an answer.
    drop(input);
    tokio::time::sleep(Duration::from_millis(1)).await;
    let handle = call.handle().expect("a task");
    drop(call);
    server.hear("notifications/cancelled").await;
    let ((), answered) = tokio::join!(
        async {
            let waiting = server.expect("tasks/result").await;
            server.ask(2, "elicitation/create", json!({ "message": "Another?" }), &waiting).await;
            server.ask(3, "elicitation/create", params, &waiting).await;
            loop {
                if let (id, Ok(answer)) = server.response().await {
                    assert_eq!((id, &answer["content"]), (Id::number(3), &json!({ "x": 1 })));
                    break;
                }
            }
        },
        client.answer(&handle, &key, answer())
    );
    answered.expect("taken");
}
