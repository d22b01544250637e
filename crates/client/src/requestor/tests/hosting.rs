use super::*;

fn hosting() -> Hosting {
    Hosting { most: 2, max_ttl: Duration::from_secs(600), ..Hosting::default() }
}

/// A client that hosts tasks, its server, and a call of it that is under way.
async fn hosts() -> (Client, Server, PendingCall, Request, Script) {
    let mut script = Script::new();
    let builder = script.builder().answers(Answers { sampling: true, ..Answers::ELICITATION });
    let builder = builder.host_tasks(hosting()).prefer(crate::Version::V2025_11_25);
    let (client, (mut server, declared)) = tokio::join!(builder.connect(), async {
        let mut server = script.next().await;
        let request = server.expect("initialize").await;
        let said = json!({ "protocolVersion": OLD, "capabilities": { "tools": {} } });
        server.answer(&request, said).await;
        (server, request.params["capabilities"].clone())
    });
    let requests = json!({ "elicitation": { "create": {} }, "sampling": { "createMessage": {} } });
    assert_eq!(declared["tasks"], json!({ "list": {}, "cancel": {}, "requests": requests }));
    let client = client.expect("connect");
    let call = client.call("t", json!({}));
    let request = server.expect("tools/call").await;
    (client, server, call, request, script)
}

fn question(ttl: Option<u64>) -> Value {
    let task = ttl.map_or_else(|| json!({}), |ttl| json!({ "ttl": ttl }));
    json!({ "message": "A?", "requestedSchema": {}, "task": task })
}

impl Server {
    /// Asks something and takes the answer.
    async fn asks(&mut self, id: u64, method: &str, params: Value, origin: &Request) -> Result<Value, Value> {
        self.ask(id, method, params, origin).await;
        let (answered, answer) = self.response().await;
        assert_eq!(answered, Id::number(id));
        answer
    }

    /// Makes a task of a question.
    async fn hosted(&mut self, id: u64, ttl: Option<u64>, origin: &Request) -> Value {
        let answer = self.asks(id, "elicitation/create", question(ttl), origin).await.expect("a handle");
        let task = answer["task"].clone();
        assert_eq!(answer["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], task["taskId"]);
        task
    }
}

/// A question becomes a task of the client's, which is asked about, waited for, listed, and tells its result, whatever becomes of
/// the call that it came by.
#[tokio::test(start_paused = true)]
async fn a_question_can_be_a_task() {
    let (_client, mut server, mut call, request, _script) = hosts().await;
    let task = server.hosted(1, None, &request).await;
    let id = task["taskId"].as_str().expect("an id").to_owned();
    assert!(id.len() >= 32 && task["status"] == "working" && task["ttl"] == 600_000, "{task}");
    assert_eq!((&task["pollInterval"], task["createdAt"].is_string()), (&json!(5000), true));
    let input = asked(&mut call).await;
    assert!(input.params.as_ref().is_some_and(|params| !params.as_str().contains("task")));
    let about = json!({ "taskId": id });
    assert_eq!(server.asks(2, "tasks/get", about.clone(), &request).await.expect("a state"), task);
    let listed = server.asks(3, "tasks/list", json!({}), &request).await.expect("a list");
    assert_eq!(listed["tasks"], json!([task]));
    server.answer(&request, result("done")).await;
    call.result().await.expect("a result");
    // It blocks until there is an answer.
    server.ask(4, "tasks/result", about.clone(), &request).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(
        server.asks(5, "tasks/get", about.clone(), &request).await.expect("a state")["status"],
        "working"
    );
    input.answer(json!({ "x": 1 }));
    let (answered, answer) = server.response().await;
    let answer = answer.expect("a result");
    assert_eq!(
        (answered, &answer["action"], &answer["content"]),
        (Id::number(4), &json!("accept"), &json!({ "x": 1 }))
    );
    assert_eq!(answer["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], id);
    assert_eq!(
        server.asks(6, "tasks/get", about.clone(), &request).await.expect("a state")["status"],
        "completed"
    );
    let again = server.asks(7, "tasks/result", about.clone(), &request).await.expect("a result");
    assert_eq!(again, answer);
    // What is over stays as it is.
    let late = server.asks(8, "tasks/cancel", about, &request).await.expect_err("over");
    assert_eq!(late["code"], -32602);
}

/// A task that its server cancels is nobody's any more, and whoever waits for it hears that.
#[tokio::test(start_paused = true)]
async fn a_hosted_task_can_be_cancelled() {
    let (_client, mut server, mut call, request, _script) = hosts().await;
    let task = server.hosted(1, None, &request).await;
    let mut input = asked(&mut call).await;
    let about = json!({ "taskId": task["taskId"] });
    server.ask(2, "tasks/result", about.clone(), &request).await;
    server.ask(3, "tasks/cancel", about.clone(), &request).await;
    let mut answers = [server.response().await, server.response().await];
    answers.sort_by_key(|(id, _)| id.as_number());
    let [(_, waited), (_, cancelled)] = answers;
    assert_eq!(cancelled.expect("cancelled")["status"], "cancelled");
    assert_eq!(waited.expect_err("cancelled")["code"], -32603);
    input.withdrawn().await;
    input.answer(json!({}));
    assert_eq!(server.asks(4, "tasks/get", about, &request).await.expect("a state")["status"], "cancelled");
}

/// There is a limit to tasks and to their time. What has expired is unknown, for whoever waits for it too, and makes room.
#[tokio::test(start_paused = true)]
async fn hosted_tasks_are_limited_and_expire() {
    let (_client, mut server, mut call, request, _script) = hosts().await;
    let short = server.hosted(1, Some(10_000), &request).await;
    let long = server.hosted(2, Some(u64::MAX), &request).await;
    assert_eq!((&short["ttl"], &long["ttl"]), (&json!(10_000), &json!(600_000)));
    let refused = server.asks(3, "elicitation/create", question(None), &request).await.expect_err("too many");
    assert_eq!(refused["code"], -32603);
    let mut input = asked(&mut call).await;
    server.ask(4, "tasks/result", json!({ "taskId": short["taskId"] }), &request).await;
    let (_, waited) = server.response().await;
    let unknown = server.asks(5, "tasks/get", json!({ "taskId": "unknown" }), &request).await;
    assert_eq!(waited, unknown);
    assert_eq!(unknown.expect_err("unknown")["code"], -32602);
    input.withdrawn().await;
    server.hosted(6, None, &request).await;
}

/// Whoever says no to a form has answered it; a model that says nothing has failed; a question that does not ask for a task is
/// none.
#[tokio::test(start_paused = true)]
async fn a_refusal_is_the_end_of_a_task() {
    let (_client, mut server, mut call, request, _script) = hosts().await;
    let form = server.hosted(1, None, &request).await;
    asked(&mut call).await.decline();
    let answer = server.asks(2, "tasks/result", json!({ "taskId": form["taskId"] }), &request).await;
    assert_eq!(answer.expect("a result")["action"], "decline");
    let sample = json!({ "messages": [], "task": {} });
    let task =
        server.asks(3, "sampling/createMessage", sample, &request).await.expect("a handle")["task"].clone();
    drop(asked(&mut call).await);
    let about = json!({ "taskId": task["taskId"] });
    let answer = server.asks(4, "tasks/result", about.clone(), &request).await;
    assert_eq!(answer.expect_err("failed")["code"], -1);
    assert_eq!(server.asks(5, "tasks/get", about, &request).await.expect("a state")["status"], "failed");
    server.ask(6, "elicitation/create", json!({ "message": "B?" }), &request).await;
    asked(&mut call).await.cancel();
    assert_eq!(server.response().await, (Id::number(6), Ok(json!({ "action": "cancel" }))));
}

/// A server that comes back finds the tasks that are hosted for it; a handler answers them, too.
#[tokio::test(start_paused = true)]
async fn hosted_tasks_outlast_a_connection() {
    let mut script = Script::new();
    let builder = script.builder().prefer(crate::Version::V2025_11_25).host_tasks(hosting());
    let builder = builder.input_handler(|_| async {
        tokio::time::sleep(Duration::from_secs(30)).await;
        InputAnswer::Accept(json!({ "x": 1 }))
    });
    let (client, mut server) = tokio::join!(builder.connect(), async {
        let mut server = script.next().await;
        server.initialize(OLD).await;
        server
    });
    let client = client.expect("connect");
    let call = client.call("t", json!({}));
    let request = server.begin(OLD, 1000).await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    server.state("input_required", json!({})).await;
    let waiting = server.expect("tasks/result").await;
    let task = server.hosted(1, None, &waiting).await;
    server.close().await;
    let mut server = script.next().await;
    server.initialize(OLD).await;
    server.ask(2, "tasks/result", json!({ "taskId": task["taskId"] }), &request).await;
    let answer = loop {
        match server.message().await.expect("the client is there") {
            Message::Response { id, result } if id == Id::number(2) => break value(&result),
            Message::Error { error, .. } => panic!("{error:?}"),
            Message::Request { id, method, .. } if method == "tasks/get" => {
                let state = payload(&json!({ "taskId": "T", "status": "working" }));
                server.say(Message::Response { id, result: state }).await;
            }
            _ => {}
        }
    };
    assert_eq!(answer["content"], json!({ "x": 1 }));
    server.complete(OLD).await;
    call.await.expect("a result");
}

/// Who hosts none says so: nothing is declared, and nothing is answered.
#[tokio::test(start_paused = true)]
async fn whoever_hosts_no_tasks_has_none() {
    let (client, mut server, _script) = open("2025-06-18").await;
    let mut call = client.call("t", json!({}));
    let request = server.expect("tools/call").await;
    let refused = server.asks(1, "tasks/get", json!({ "taskId": "x" }), &request).await;
    assert_eq!(refused.expect_err("refused")["code"], -32601);
    // A wish that was not offered is nothing.
    server.ask(2, "elicitation/create", question(None), &request).await;
    asked(&mut call).await.answer(json!({}));
    assert_eq!(server.response().await.1.expect("a result")["action"], "accept");
}

const TASK: &str = "modelcontextprotocol.io/task";
const RELATED: &str = "modelcontextprotocol.io/related-task";

/// A question that is to be the task of this name (2025-10-20).
fn named(task: &str, keep_alive: u64) -> Value {
    let meta = json!({ TASK: { "taskId": task, "keepAlive": keep_alive }, "x/y": 1.0 });
    json!({ "message": "A?", "requestedSchema": {}, "_meta": meta })
}

fn about_named(task: &str) -> Value {
    json!({ "taskId": task, "_meta": { RELATED: { "taskId": task } } })
}

/// The first dialect: a server names the task itself, hears that it is there, asks about it, and gets its question answered all the same.
#[tokio::test(start_paused = true)]
async fn a_server_can_name_the_task_of_its_question() {
    let (_client, mut server, mut call, request, _script) = hosts().await;
    server.ask(1, "elicitation/create", named("mine", 5000), &request).await;
    assert_eq!(server.hear("notifications/tasks/created").await["_meta"][RELATED]["taskId"], "mine");
    let input = asked(&mut call).await;
    let shown = input.params.as_ref().map_or(Value::Null, value);
    assert_eq!(shown["_meta"], json!({ "x/y": 1.0 }), "the wish is nothing to whoever is asked");
    let state = server.asks(2, "tasks/get", about_named("mine"), &request).await.expect("a state");
    assert_eq!(
        (&state["taskId"], &state["status"], &state["keepAlive"], &state["_meta"][RELATED]["taskId"]),
        (&json!("mine"), &json!("working"), &json!(5000), &json!("mine"))
    );
    assert!(state["pollFrequency"].is_u64() && state.get("ttl").is_none(), "{state}");
    let early = server.asks(3, "tasks/result", about_named("mine"), &request).await.expect_err("not yet");
    assert_eq!(early["code"], -32602);
    let again = server.asks(4, "sampling/createMessage", named("mine", 5000), &request).await;
    assert_eq!(again.expect_err("it is there")["code"], -32602);
    input.answer(json!({ "name": "x" }));
    let (id, answer) = server.response().await;
    let answer = answer.expect("the answer to the question itself");
    assert_eq!((id, &answer["content"]["name"]), (Id::number(1), &json!("x")));
    assert_eq!(answer["_meta"][RELATED]["taskId"], "mine");
    let result = server.asks(5, "tasks/result", about_named("mine"), &request).await.expect("a result");
    assert_eq!(result, answer);
    let listed = server.asks(6, "tasks/list", json!({}), &request).await.expect("a list");
    assert_eq!((&listed["tasks"][0]["status"], &listed["tasks"][1]), (&json!("completed"), &Value::Null));
    // `keepAlive` counts from the end.
    tokio::time::sleep(Duration::from_millis(4900)).await;
    server.asks(7, "tasks/get", about_named("mine"), &request).await.expect("still there");
    tokio::time::sleep(Duration::from_millis(200)).await;
    let gone = server.asks(8, "tasks/get", about_named("mine"), &request).await.expect_err("gone");
    assert_eq!(gone["code"], -32602);
}

/// Such a task is cancelled by taking its question back, and deleted by its own verb; what makes no sense is refused.
#[tokio::test(start_paused = true)]
async fn a_named_task_is_cancelled_by_its_question() {
    let (_client, mut server, mut call, request, _script) = hosts().await;
    server.ask(1, "elicitation/create", named("one", 5000), &request).await;
    server.hear("notifications/tasks/created").await;
    let _input = asked(&mut call).await;
    server.notify("notifications/cancelled", json!({ "requestId": 1 })).await;
    let mut status = json!("working");
    for number in 2.. {
        if status != "working" {
            break;
        }
        status =
            server.asks(number, "tasks/get", about_named("one"), &request).await.expect("a state")["status"]
                .clone();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(status, "cancelled");
    let result = server.asks(100, "tasks/result", about_named("one"), &request).await.expect_err("none");
    assert_eq!(result["code"], -32602);
    let deleted = server.asks(101, "tasks/delete", about_named("one"), &request).await.expect("deleted");
    assert_eq!(deleted["_meta"][RELATED]["taskId"], "one");
    server.asks(102, "tasks/get", about_named("one"), &request).await.expect_err("gone");
    for wrong in [json!({}), json!({ "taskId": 7 }), json!({ "taskId": "" }), json!("x")] {
        let params = json!({ "message": "A?", "requestedSchema": {}, "_meta": { TASK: wrong } });
        let refused = server.asks(103, "elicitation/create", params, &request).await.expect_err("no sense");
        assert_eq!(refused["code"], -32602, "{refused}");
    }
    // As many as there may be, and no more.
    for (id, name) in [(110, "a"), (111, "b")] {
        server.ask(id, "elicitation/create", named(name, 5000), &request).await;
        server.hear("notifications/tasks/created").await;
    }
    let full = server.asks(112, "elicitation/create", named("c", 5000), &request).await.expect_err("full");
    assert_eq!(full["code"], -32603);
}

#[cfg(feature = "ledger")]
mod kept {
    use std::path::Path;

    use super::super::ledger::{file, life};
    use super::*;
    use crate::Ledger;

    /// A client that keeps the tasks that it hosts, with a handler that answers like this, if it has one; and its server.
    async fn keeps(file: &Path, answer: Option<Option<&'static str>>) -> (Client, Server, Script) {
        let mut script = Script::new();
        let ledger = Ledger::open(file).expect("a ledger");
        let builder = script.builder().answers(Answers::ELICITATION).prefer(crate::Version::V2025_11_25);
        let mut builder = builder.host_tasks(hosting()).keep_hosted_tasks(ledger);
        if let Some(answer) = answer {
            builder = builder.input_handler(move |input| async move {
                assert!(matches!(input.kind(), InputKind::Form { message, .. } if message == "A?"));
                match answer {
                    Some(answer) => InputAnswer::Accept(json!({ "x": answer })),
                    None => std::future::pending().await,
                }
            });
        }
        let (client, server) = tokio::join!(builder.connect(), async {
            let mut server = script.next().await;
            server.initialize(OLD).await;
            server
        });
        (client.expect("connect"), server, script)
    }

    /// The client makes a task of a question in this life of it, and dies when it has its answer, or before. Gives the task.
    fn first_life(file: &Path, answer: Option<&'static str>) -> Value {
        life(async {
            let (client, mut server, _script) = keeps(file, Some(answer)).await;
            let _call = client.call("t", json!({}));
            server.tools("forbidden").await;
            let request = server.expect("tools/call").await;
            let task = server.hosted(1, None, &request).await;
            if answer.is_some() {
                let about = json!({ "taskId": task["taskId"] });
                server.asks(2, "tasks/result", about, &request).await.expect("a result");
            }
            json!({ "taskId": task["taskId"] })
        })
    }

    fn asked_before() -> Request {
        Request { id: Id::number(0), params: Value::Null }
    }

    /// What was answered is answered for a server that comes back after the client has died: its state, its result, its place in
    /// the list. It cannot be cancelled any more, and it is asked of nobody.
    #[test]
    fn a_hosted_task_that_is_over_outlasts_the_client() {
        let (_folder, file) = file();
        let about = first_life(&file, Some("first"));
        for _ in 0..2 {
            life(async {
                let (_client, mut server, _script) = keeps(&file, Some(Some("again"))).await;
                let origin = asked_before();
                let state = server.asks(1, "tasks/get", about.clone(), &origin).await.expect("a state");
                assert_eq!((&state["status"], &state["ttl"]), (&json!("completed"), &json!(600_000)));
                let answer = server.asks(2, "tasks/result", about.clone(), &origin).await.expect("a result");
                assert_eq!(answer["content"], json!({ "x": "first" }));
                let listed = server.asks(3, "tasks/list", json!({}), &origin).await.expect("a list");
                assert_eq!(listed["tasks"], json!([state]));
                let late = server.asks(4, "tasks/cancel", about.clone(), &origin).await.expect_err("over");
                assert_eq!(late["code"], -32602);
            });
        }
    }

    /// A question that was being thought about when the client died is asked of the handler again.
    #[test]
    fn a_question_of_an_earlier_life_is_asked_again() {
        let (_folder, file) = file();
        let about = first_life(&file, None);
        life(async {
            let (_client, mut server, _script) = keeps(&file, Some(Some("second"))).await;
            let answer = server.asks(1, "tasks/result", about.clone(), &asked_before()).await;
            assert_eq!(answer.expect("a result")["content"], json!({ "x": "second" }));
        });
    }

    /// Where there is no handler, whoever was asked is gone: the task has failed, and stays so.
    #[test]
    fn without_a_handler_a_question_of_an_earlier_life_has_failed() {
        let (_folder, file) = file();
        let about = first_life(&file, None);
        for answer in [None, Some(Some("too late"))] {
            life(async {
                let (_client, mut server, _script) = keeps(&file, answer).await;
                let state =
                    server.asks(1, "tasks/get", about.clone(), &asked_before()).await.expect("a state");
                assert_eq!(state["status"], "failed");
                assert!(state["statusMessage"].as_str().is_some_and(|why| why.contains("anew")), "{state}");
                let answer = server.asks(2, "tasks/result", about.clone(), &asked_before()).await;
                assert_eq!(answer.expect_err("failed")["code"], -1);
            });
        }
    }

    /// A task whose time is over while nobody is there is unknown afterwards, and a cancelled one stays cancelled.
    #[test]
    fn what_has_expired_meanwhile_is_unknown() {
        let (_folder, file) = file();
        let (expired, cancelled) = (first_life(&file, Some("x")), first_life(&file, None));
        life(async {
            let (_client, mut server, _script) = keeps(&file, Some(None)).await;
            let state = server.asks(1, "tasks/cancel", cancelled.clone(), &asked_before()).await;
            assert_eq!(state.expect("a state")["status"], "cancelled");
        });
        let db = rusqlite::Connection::open(&file).expect("a file");
        let id = expired["taskId"].as_str().expect("an id");
        let moved = db.execute("UPDATE hosted SET created = created - 600000 WHERE id = ?1", [id]);
        assert_eq!(moved.expect("a row"), 1);
        drop(db);
        life(async {
            let (_client, mut server, _script) = keeps(&file, Some(Some("x"))).await;
            let unknown = server.asks(1, "tasks/get", expired, &asked_before()).await.expect_err("unknown");
            assert_eq!(unknown["code"], -32602);
            let state = server.asks(2, "tasks/get", cancelled, &asked_before()).await.expect("a state");
            assert_eq!(state["status"], "cancelled");
        });
    }
}
