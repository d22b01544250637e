//! Tasks by metadata (2025-10-20): the race of the call's answer with what its task says.

use super::*;

const TASK: &str = "modelcontextprotocol.io/task";
const RELATED: &str = "modelcontextprotocol.io/related-task";

/// A server of this version whose client asks for tasks by metadata.
async fn first(version: &str) -> (Client, Server, Script) {
    let mut script = Script::new();
    let builder = script.builder().answers(Answers::ELICITATION).tasks(TaskUse::ByMetadata);
    let (client, server) = script.open(builder, version).await;
    (client, server, script)
}

/// The call, and the id that it gives its task.
async fn called(server: &mut Server) -> (Request, String) {
    let request = server.expect("tools/call").await;
    assert!(request.params.get("task").is_none(), "{}", request.params);
    let id = request.params["_meta"][TASK]["taskId"].as_str().expect("an id").to_owned();
    assert!(id.len() >= 31, "122 bits: {id}");
    (request, id)
}

async fn created(server: &Server, id: &str) {
    server.notify("notifications/tasks/created", json!({ "_meta": { RELATED: { "taskId": id } } })).await;
}

/// Answers a request about the task, which says which one it is about.
async fn about(server: &mut Server, method: &str, id: &str, answer: Value) {
    let request = server.expect(method).await;
    assert_eq!(
        (&request.params["taskId"], &request.params["_meta"][RELATED]["taskId"]),
        (&json!(id), &json!(id)),
        "{}",
        request.params
    );
    server.answer(&request, answer).await;
}

fn state(id: &str, status: &str) -> Value {
    json!({ "taskId": id, "status": status, "keepAlive": null, "pollFrequency": 500 })
}

/// Case 7: a server that ignores the metadata just answers, with a result or an error; that is all there is.
#[tokio::test(start_paused = true)]
async fn a_server_that_ignores_the_metadata_just_answers() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", OLD] {
        let (client, mut server, _script) = first(version).await;
        let mut call = client.call("t", json!({}));
        let (seen, ()) = tokio::join!(events(&mut call), async {
            let (request, _) = called(&mut server).await;
            server.answer(&request, result("done")).await;
        });
        assert!(matches!(seen[..], [Event::Done]), "{version} {seen:?}");
        assert_eq!(call.result().await.expect("a result").text(), "done", "{version}");
        let (failed, ()) = tokio::join!(client.call("t", json!({})), async {
            let (request, _) = called(&mut server).await;
            server.fail(&request, -32000, "broken").await;
        });
        assert!(matches!(failed, Err(CallError::Rpc(_))), "{failed:?}");
    }
}

/// The answer to the call comes first: it is taken, and nothing is fetched. The notice may come before it, after it, or never.
#[tokio::test(start_paused = true)]
async fn the_answer_to_the_call_is_the_result() {
    for (before, after) in [(true, false), (false, true), (false, false), (true, true)] {
        let (client, mut server, _script) = first("2025-06-18").await;
        let mut call = client.call_with(CallRequest {
            ttl: Some(Duration::from_secs(60)),
            ..CallRequest::new("t", json!({ "a": 1 }))
        });
        let (seen, ()) = tokio::join!(events(&mut call), async {
            let (request, id) = called(&mut server).await;
            assert_eq!(request.params["_meta"][TASK]["keepAlive"], 60_000);
            assert_eq!(request.params["arguments"], json!({ "a": 1 }));
            if before {
                created(&server, &id).await;
                about(&mut server, "tasks/get", &id, state(&id, "submitted")).await;
                about(&mut server, "tasks/get", &id, state(&id, "working")).await;
            }
            let mut done = result("done");
            done["_meta"] = json!({ RELATED: { "taskId": id } });
            server.answer(&request, done).await;
            if after {
                created(&server, &id).await;
            }
        });
        let accepted = seen.iter().filter(|event| matches!(event, Event::Accepted(_))).count();
        assert_eq!(accepted, usize::from(before), "{seen:?}");
        let done = call.result().await.expect("a result");
        assert_eq!(done.text(), "done");
        assert!(!done.raw.as_str().contains(RELATED), "{}", done.raw.as_str());
        tokio::time::sleep(Duration::from_secs(60)).await;
        drop(client);
        while let Some(message) = server.message().await {
            assert!(!matches!(message, Message::Request { .. }), "nothing is fetched: {message:?}");
        }
    }
}

/// The state comes first: the result is fetched once the task is completed, at the pace the server asks for.
#[tokio::test(start_paused = true)]
async fn a_completed_task_is_fetched() {
    let (client, mut server, _script) = first(OLD).await;
    let mut call = client.call("t", json!({}));
    let (seen, ()) = tokio::join!(events(&mut call), async {
        let (_, id) = called(&mut server).await;
        created(&server, &id).await;
        for status in ["submitted", "working", "input_required"] {
            about(&mut server, "tasks/get", &id, state(&id, status)).await;
            let at = Instant::now();
            if status == "input_required" {
                about(&mut server, "tasks/get", &id, state(&id, "completed")).await;
                assert!(at.elapsed() >= Duration::from_millis(500), "{:?}", at.elapsed());
            }
        }
        about(&mut server, "tasks/result", &id, result("fetched")).await;
    });
    assert!(matches!(&seen[0], Event::Accepted(handle) if handle.version == "2025-10-20"), "{seen:?}");
    let handle = call.handle().expect("a handle");
    assert_eq!(call.result().await.expect("a result").text(), "fetched");
    let (deleted, ()) = tokio::join!(client.delete(&handle), async {
        about(&mut server, "tasks/delete", &handle.task, json!({})).await;
    });
    deleted.expect("deleted");
    let of_others = Handle { version: OLD.to_owned(), ..handle };
    assert!(matches!(client.delete(&of_others).await, Err(CallError::Unsupported(_))));
}

/// Case 6: each end is told from the others.
#[tokio::test(start_paused = true)]
async fn every_end_is_told() {
    for status in ["failed", "cancelled", "unknown"] {
        let (client, mut server, _script) = first("2025-06-18").await;
        let (ended, ()) = tokio::join!(client.call("t", json!({})), async {
            let (_, id) = called(&mut server).await;
            created(&server, &id).await;
            let mut said = state(&id, status);
            said["error"] = json!("why");
            about(&mut server, "tasks/get", &id, said).await;
        });
        match (status, ended) {
            ("failed", Err(CallError::Failed { status: TaskStatus::Failed, message, error: None })) => {
                assert_eq!(message.as_deref(), Some("why"));
            }
            ("cancelled", Err(CallError::Cancelled { .. })) => {}
            ("unknown", Err(CallError::Failed { status: TaskStatus::Unknown(_), .. })) => {}
            (_, ended) => panic!("{status} {ended:?}"),
        }
    }
    let (client, mut server, _script) = first("2025-06-18").await;
    let (failed, ()) = tokio::join!(client.call("t", json!({})), async {
        let (request, id) = called(&mut server).await;
        created(&server, &id).await;
        about(&mut server, "tasks/get", &id, state(&id, "working")).await;
        server.fail(&request, -32099, "broken").await;
    });
    let Err(CallError::Failed { error: Some(error), .. }) = failed else { panic!("{failed:?}") };
    assert_eq!(error.code, -32099);
}

/// Case 29: the connection is lost, before it was said that there is a task or after. It is asked about by the id that the call gave
/// it; the tool is not called again.
#[tokio::test(start_paused = true)]
async fn a_task_is_found_by_its_id() {
    for is_said in [true, false] {
        let (client, mut server, mut script) = first("2025-06-18").await;
        let (done, ()) = tokio::join!(client.call("t", json!({})), async {
            let (_, id) = called(&mut server).await;
            if is_said {
                created(&server, &id).await;
                about(&mut server, "tasks/get", &id, state(&id, "working")).await;
            }
            server.close().await;
            let mut server = script.next().await;
            server.open("2025-06-18").await;
            about(&mut server, "tasks/get", &id, state(&id, "completed")).await;
            about(&mut server, "tasks/result", &id, result("found")).await;
            assert_eq!(server.calls, 0);
        });
        assert_eq!(done.expect("a result").text(), "found", "{is_said}");
    }
}

/// Case 29: a call whose connection is lost at a server that makes no tasks may have run; nobody calls it again.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_no_task_stays_uncertain() {
    for code in [-32601, -32602] {
        let (client, mut server, mut script) = first("2025-06-18").await;
        let (ended, ()) = tokio::join!(client.call("t", json!({})), async {
            called(&mut server).await;
            server.close().await;
            let mut server = script.next().await;
            server.open("2025-06-18").await;
            let request = server.expect("tasks/get").await;
            server.fail(&request, code, "no").await;
        });
        assert!(matches!(ended, Err(CallError::Uncertain { .. })), "{ended:?}");
    }
}

/// Case 17: the call is cancelled by its request, and its task is looked at afterwards. Whoever comes back cannot cancel it, and is told so.
#[tokio::test(start_paused = true)]
async fn cancelling_is_of_the_call() {
    let (client, mut server, _script) = first("2025-06-18").await;
    let mut call = client.call("t", json!({}));
    let (handle, ()) = tokio::join!(
        async {
            while call.handle().is_none() {
                call.next().await;
            }
            let handle = call.handle().expect("a handle");
            let ended = call.cancel().await;
            assert!(matches!(ended, Err(CallError::Cancelled { .. })), "{ended:?}");
            handle
        },
        async {
            let (request, id) = called(&mut server).await;
            created(&server, &id).await;
            let told = server.hear("notifications/cancelled").await;
            assert_eq!(told["requestId"].to_string(), request.id.as_str());
            about(&mut server, "tasks/get", &id, state(&id, "cancelled")).await;
        }
    );
    assert!(matches!(client.cancel(&handle).await, Err(CallError::Unsupported(_))));
    let resumed = client.resume(handle).cancel();
    let ended = resumed.await;
    assert!(matches!(ended, Err(CallError::Unsupported(_))), "{ended:?}");
}

/// A caller that lets go of the call lets its task go on.
#[tokio::test(start_paused = true)]
async fn letting_go_cancels_nothing() {
    let (client, mut server, _script) = first("2025-06-18").await;
    let mut call = client.call("t", json!({}));
    tokio::join!(
        async {
            while call.handle().is_none() {
                call.next().await;
            }
        },
        async {
            let (_, id) = called(&mut server).await;
            created(&server, &id).await;
        }
    );
    let handle = call.detach().expect("a handle");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (state_of, ()) = tokio::join!(client.get(&handle), async {
        about(&mut server, "tasks/get", &handle.task, state(&handle.task, "submitted")).await;
    });
    assert_eq!(state_of.expect("a state").status, TaskStatus::Working);
    assert!(server.told.iter().all(|(method, _)| method != "notifications/cancelled"), "{:?}", server.told);
}

/// Case 9: of two calls at a time each is asked what its task asks.
#[tokio::test(start_paused = true)]
async fn questions_reach_the_call_of_their_task() {
    let (client, mut server, _script) = first("2025-06-18").await;
    let (mut one, mut two) = (client.call("t", json!({})), client.call("t", json!({})));
    let answers = async |call: &mut PendingCall| {
        let input = asked(call).await;
        let said = input.params.as_ref().map(|params| params.as_str().to_owned()).expect("params");
        assert!(!said.contains(RELATED), "{said}");
        input.decline();
        said
    };
    let ((first, second), ()) =
        tokio::join!(async { tokio::join!(answers(&mut one), answers(&mut two)) }, async {
            let (_, one) = called(&mut server).await;
            let (_, two) = called(&mut server).await;
            for (id, number) in [(&one, 1), (&two, 2)] {
                let mut params = form(id)["params"].clone();
                params["_meta"] = json!({ RELATED: { "taskId": id } });
                let params = Some(payload(&params));
                let method = "elicitation/create".to_owned();
                server.say(Message::Request { id: Id::number(number), method, params }).await;
                server.response().await.1.expect("an answer");
            }
            created(&server, &one).await;
            created(&server, &two).await;
        });
    // The forms say whose they are, and neither call was asked twice.
    assert_ne!(first, second);
    let handle = async |call: &mut PendingCall| {
        while call.handle().is_none() {
            call.next().await;
        }
        call.handle().expect("a handle").task
    };
    assert!(first.contains(&handle(&mut one).await) && second.contains(&handle(&mut two).await));
}

/// Case 31: the id is kept before the call is sent, so that another life finds the task whatever was heard of it.
#[cfg(feature = "ledger")]
#[test]
fn the_ledger_has_the_id_before_the_server() {
    let (_folder, file) = ledger::file();
    let open = async |script: &mut Script| {
        let ledger = crate::Ledger::open(&file).expect("a ledger");
        script.open(script.builder().tasks(TaskUse::ByMetadata).ledger(ledger), "2025-06-18").await
    };
    let id = ledger::life(async {
        let (client, mut server) = open(&mut Script::new()).await;
        let _lost = client.call("t", json!({}));
        called(&mut server).await.1
    });
    ledger::life(async {
        let (client, mut server) = open(&mut Script::new()).await;
        let call = client.resume_all().await.expect("a ledger").pop().expect("the call");
        let (done, ()) = tokio::join!(call, async {
            about(&mut server, "tasks/get", &id, state(&id, "completed")).await;
            about(&mut server, "tasks/result", &id, result("found")).await;
        });
        assert_eq!(done.expect("a result").text(), "found");
        assert_eq!(server.calls, 0);
    });
}

/// Whatever can be augmented can be a task, not only calls of tools; elsewhere it is a plain request that is answered.
#[tokio::test(start_paused = true)]
async fn any_request_can_be_a_task() {
    for method in ["resources/read", "prompts/get", "completion/complete"] {
        let (client, mut server, _script) = first("2025-06-18").await;
        let call = client.request(method, json!({ "uri": "x:y", "_meta": { "a/b": 1 } }));
        let handle = async {
            let request = server.expect(method).await;
            let id = request.params["_meta"][TASK]["taskId"].as_str().expect("an id").to_owned();
            assert_eq!((&request.params["uri"], &request.params["_meta"]["a/b"]), (&json!("x:y"), &json!(1)));
            assert!(request.params.get("arguments").is_none() && request.params.get("name").is_none());
            created(&server, &id).await;
            about(&mut server, "tasks/get", &id, state(&id, "completed")).await;
            about(&mut server, "tasks/result", &id, json!({ "contents": [{ "n": 1.0 }] })).await;
        };
        let (done, ()) = tokio::join!(call, handle);
        assert_eq!(value(&done.expect("a result").raw)["contents"], json!([{ "n": 1.0 }]), "{method}");
        for version in [OLD, NEW] {
            let (client, mut server, _script) = open(version).await;
            let (done, ()) = tokio::join!(client.request(method, json!({ "uri": "x:y" })), async {
                let request = server.expect(method).await;
                assert!(request.params["_meta"].get(TASK).is_none() && request.params.get("task").is_none());
                server.answer(&request, json!({ "contents": [] })).await;
            });
            assert_eq!(value(&done.expect("a result").raw)["contents"], json!([]), "{method} {version}");
        }
        let always = CallRequest { task: Some(TaskUse::Always), ..CallRequest::request(method, json!({})) };
        let refused = client.call_with(always).result().await;
        assert!(matches!(refused, Err(CallError::Unsupported(_))), "{refused:?}");
        let (failed, ()) = tokio::join!(client.request(method, json!({ "uri": "no tool" })), async {
            let request = server.expect(method).await;
            server.fail(&request, -32602, "Unknown tool").await;
        });
        assert!(matches!(failed, Err(CallError::Rpc(_))), "{failed:?}");
        let broken = client.request(method, json!([1])).result().await;
        assert!(matches!(broken, Err(CallError::Params(_))), "{broken:?}");
    }
}

/// The list of this generation is read as well, where tasks are asked for in its way.
#[tokio::test(start_paused = true)]
async fn tasks_are_listed() {
    for version in ["2025-03-26", OLD] {
        let (client, mut server, _script) = first(version).await;
        let (listed, ()) = tokio::join!(client.list(), async {
            let request = server.expect("tasks/list").await;
            let tasks = [state("a", "submitted"), state("b", "failed"), json!({ "keepAlive": 1 })];
            server.answer(&request, json!({ "tasks": tasks, "nextCursor": "2" })).await;
            let request = server.expect("tasks/list").await;
            assert_eq!(request.params["cursor"], "2");
            server.answer(&request, json!({ "tasks": [] })).await;
        });
        let listed = listed.expect("tasks");
        let seen: Vec<_> = listed.iter().map(|task| (task.task.as_str(), task.status.clone())).collect();
        assert_eq!(seen, [("a", TaskStatus::Working), ("b", TaskStatus::Failed)], "{version}");
        assert_eq!(listed[0].poll_interval, Some(Duration::from_millis(500)));
    }
    let (client, _server, _script) = open("2025-06-18").await;
    assert!(matches!(client.list().await, Err(CallError::Unsupported(_))));
}
