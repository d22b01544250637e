//! The client library against the gateway, over HTTP, in every generation.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use taskgate_client::transport::http::ServerUrl;
use taskgate_client::{
    Answers, CallError, CallRequest, CallResult, Client, Event, Hosting, HttpServer, InputAnswer, Pace,
    PendingCall, TaskStatus, TaskUse, Version,
};
use taskgate_gateway::{Settings, TaskQuestions};

use crate::harness::{Board, Era, Server, form, logs, serve_local, serve_with, settings, soon, steps};

const VERSIONS: [Version; 3] = [Version::V2025_06_18, Version::V2025_11_25, Version::V2026_07_28];
const WITH_TASKS: [Version; 2] = [Version::V2025_11_25, Version::V2026_07_28];

async fn connect(server: &Server, version: Version) -> Client {
    let url = ServerUrl::parse(&format!("http://{}/mcp", server.addr)).expect("a URL");
    let client = Client::builder(HttpServer::new(url))
        .prefer(version)
        .answers(Answers::ELICITATION)
        .pace(Pace { floor: Duration::from_millis(20), ..Pace::default() })
        .deadline(Duration::from_secs(30))
        .connect();
    let client = soon("a connection", client).await.expect("connect");
    assert_eq!(client.protocol_version(), Some(version.as_str()));
    client
}

fn call(client: &Client, tool: &str, what: &Value) -> PendingCall {
    client.call(tool, steps(what))
}

async fn done(call: PendingCall) -> CallResult {
    soon("a result", call.result()).await.expect("a result")
}

/// A call resolves the same in every version, whether it is a task or not.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_resolves_the_same() {
    for version in VERSIONS {
        let board = Board::new(Era::Session);
        let server = serve_local(&board).await;
        let client = connect(&server, version).await;
        let is_listed =
            client.tools().await.expect("tools").iter().any(|tool| tool.as_str().contains("patient"));
        assert!(is_listed);
        for tool in ["never", "patient", "do"] {
            assert_eq!(done(call(&client, tool, &json!([{"count": "run"}]))).await.text(), "done", "{tool}");
        }
        let what =
            json!([{"count": "run"}, {"progress": {"progress": 1, "message": "half"}}, {"sleep": 700}]);
        let mut pending = call(&client, "patient", &what);
        let (mut events, mut accepted) = (Vec::new(), 0);
        while let Some(event) = soon("an event", pending.next()).await {
            accepted += usize::from(matches!(event, Event::Accepted(_)));
            events.push(format!("{event:?}"));
        }
        assert_eq!(accepted, usize::from(WITH_TASKS.contains(&version)), "{version:?}");
        assert!(events.iter().any(|event| event.contains("half")), "{version:?} {events:?}");
        assert_eq!(done(pending).await.text(), "done");
        assert_eq!(board.count("run"), 4);
        client.close().await;
    }
    logs::clean();
}

/// Case 6: what went wrong is what the tool said, as a result or as an error.
#[tokio::test(flavor = "multi_thread")]
async fn failures_tell_what_failed() {
    for version in WITH_TASKS {
        let board = Board::new(Era::Session);
        let server = serve_local(&board).await;
        let client = connect(&server, version).await;
        let bad = json!({"content": [{"type": "text", "text": "E0277"}], "isError": true});
        let result = done(call(&client, "always", &json!([{"return": bad}]))).await;
        assert_eq!((result.is_error, result.text().as_str()), (true, "E0277"));
        let error = json!([{"error": {"code": -32099, "message": "broken"}}]);
        let failed = soon("an end", call(&client, "always", &error).result()).await;
        let Err(CallError::Failed { error: Some(error), .. }) = failed else { panic!("{failed:?}") };
        assert_eq!((error.code, error.message.as_str()), (-32099, "broken"));
        let missing = soon("an end", client.call("no_such_tool", json!({})).result()).await;
        assert!(matches!(missing, Err(CallError::ToolNotFound { .. })), "{missing:?}");
    }
}

/// Cases 8 and 9: questions reach their caller in every version, and each answer its question.
#[tokio::test(flavor = "multi_thread")]
async fn questions_are_answered() {
    for era in [Era::Session, Era::Modern] {
        for version in VERSIONS {
            let board = Board::new(era);
            let server = serve_local(&board).await;
            let client = connect(&server, version).await;
            let ask = match era {
                Era::Session => {
                    json!([{"count": "run"}, {"ask": [form("A?"), form("B?")]}, {"answers": true}])
                }
                _ => json!([{"round": {"a": form("A?"), "b": form("B?")}}, {"answers": true}]),
            };
            for tool in ["do", "at_once"] {
                let mut pending = call(&client, tool, &ask);
                let mut asked = 0;
                while let Some(event) = soon("an event", pending.next()).await {
                    if let Event::Asked(input) = event {
                        asked += 1;
                        match input.params.as_ref().is_some_and(|params| params.as_str().contains("A?")) {
                            true => input.answer(json!({"name": "x"})),
                            false => input.decline(),
                        }
                    }
                }
                let text = done(pending).await.text();
                assert_eq!(asked, 2, "{era:?} {version:?} {tool}");
                assert!(
                    text.contains("\"x\"") && text.contains("decline"),
                    "{era:?} {version:?} {tool} {text}"
                );
            }
        }
    }
}

/// Case 9: questions that come before the answer to a poll are asked once, and the call goes on to its result.
#[tokio::test(flavor = "multi_thread")]
async fn questions_of_a_poll_are_answered() {
    let mut polled = Settings { single_user: true, ..settings() };
    polled.streams.task_questions = TaskQuestions::Get;
    let board = Board::new(Era::Session);
    let server = serve_with(&board, polled).await;
    let client = connect(&server, Version::V2025_11_25).await;
    let what = json!([{"count": "run"}, {"ask": [form("A?"), form("B?")]}, {"ask": [form("C?")]}, {"answers": true}]);
    let mut pending = call(&client, "always", &what);
    let mut asked = 0;
    while let Some(event) = soon("an event", pending.next()).await {
        if let Event::Asked(input) = event {
            asked += 1;
            input.answer(json!({"name": "x"}));
        }
    }
    assert!(done(pending).await.text().contains("\"x\""));
    assert_eq!((asked, board.count("run")), (3, 1));
    client.close().await;
    logs::clean();
}

/// Cases 17 and 18: a call is cancelled in the way of its version, before it is a task and after; the work stops.
#[tokio::test(flavor = "multi_thread")]
async fn cancelling_stops_the_work() {
    for version in VERSIONS {
        let board = Board::new(Era::Session);
        let server = serve_local(&board).await;
        let client = connect(&server, version).await;
        for tool in ["do", "always"] {
            if tool == "always" && !WITH_TASKS.contains(&version) {
                continue;
            }
            let pending = call(&client, tool, &json!([{"count": "run"}, {"wait": "never"}]));
            board.until("it runs", |board| board.running() == 1).await;
            let cancelled = soon("the end", pending.cancel()).await;
            assert!(
                matches!(cancelled, Err(CallError::Cancelled { .. })),
                "{version:?} {tool} {cancelled:?}"
            );
            board.until(&format!("the end of {tool} in {version:?}"), |board| board.running() == 0).await;
        }
        client.close().await;
    }
}

/// Cases 1 and 29: the handle leads back to the task from another client, in its own generation or the other one.
#[tokio::test(flavor = "multi_thread")]
async fn a_handle_leads_back() {
    for version in WITH_TASKS {
        let board = Board::new(Era::Session);
        let server = serve_local(&board).await;
        let client = connect(&server, version).await;
        let mut pending = call(&client, "always", &json!([{"count": "run"}, {"wait": "go"}]));
        while pending.handle().is_none() {
            soon("an event", pending.next()).await;
        }
        let handle = pending.detach().expect("a handle");
        client.close().await;
        for reader in WITH_TASKS {
            let client = connect(&server, reader).await;
            assert_eq!(client.get(&handle).await.expect("a state").status, TaskStatus::Working);
            assert_eq!(client.list().await.is_ok(), reader == Version::V2025_11_25);
        }
        let client = connect(&server, Version::V2026_07_28).await;
        let pending = client.resume(handle.clone());
        board.open("go");
        assert_eq!(done(pending).await.text(), "done");
        client.cancel(&handle).await.expect("over, which is no failure");
        assert_eq!(board.count("run"), 1);
        let unknown = taskgate_client::Handle { task: "unknown".to_owned(), ..handle };
        assert!(matches!(client.get(&unknown).await, Err(CallError::Expired { .. })));
    }
}

/// A question can be answered by its key, from another client.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_answered_from_elsewhere() {
    for version in WITH_TASKS {
        let board = Board::new(Era::Session);
        let server = serve_local(&board).await;
        let client = connect(&server, version).await;
        let mut pending = call(&client, "always", &json!([{"ask": [form("A?")]}, {"answers": true}]));
        let input = loop {
            if let Some(Event::Asked(input)) = soon("a question", pending.next()).await {
                break input;
            }
        };
        let (key, handle) = (input.key.clone(), pending.handle().expect("a task"));
        drop(input);
        drop(pending);
        let other = connect(&server, version).await;
        let answer = InputAnswer::Accept(json!({"name": "x"}));
        soon("it is taken", other.answer(&handle, &key, answer)).await.expect("taken");
        let text = soon("a result", other.result_of(&handle)).await.expect("a result").text();
        assert!(text.contains("\"x\""), "{version:?} {text}");
    }
}

/// Case 40: with a long interval, what the gateway says by itself brings the result at once.
#[tokio::test(flavor = "multi_thread")]
async fn the_end_is_heard_at_once() {
    for version in WITH_TASKS {
        let board = Board::new(Era::Session);
        let slow = taskgate_gateway::ToolPolicy {
            poll_interval: Duration::from_secs(60),
            ..taskgate_gateway::ToolPolicy::always()
        };
        let gateway = crate::harness::builder(&board).tool("always", slow).single_user(true).build();
        let server = Server::start(gateway.await.expect("gateway")).await;
        let client = connect(&server, version).await;
        let begun = Instant::now();
        let pending = call(&client, "always", &json!([{"sleep": 1000}]));
        assert_eq!(done(pending).await.text(), "done");
        assert!(begun.elapsed() < Duration::from_secs(3), "{version:?} {:?}", begun.elapsed());
    }
}

/// Case 7: whoever wants no task gets none; whoever wants nothing else is told where there can be none.
#[tokio::test(flavor = "multi_thread")]
async fn tasks_are_used_as_wanted() {
    for version in VERSIONS {
        let board = Board::new(Era::Session);
        let server = serve_local(&board).await;
        let client = connect(&server, version).await;
        let with = |task| CallRequest {
            task: Some(task),
            ..CallRequest::new("patient", steps(&json!([{"sleep": 500}])))
        };
        let mut plain = client.call_with(with(TaskUse::Never));
        while let Some(event) = soon("an event", plain.next()).await {
            assert!(!matches!(event, Event::Accepted(_)), "{version:?}");
        }
        assert_eq!(done(plain).await.text(), "done");
        let always = soon("an end", client.call_with(with(TaskUse::Always)).result()).await;
        match always {
            Ok(result) => assert!(result.text() == "done" && WITH_TASKS.contains(&version)),
            Err(error) => {
                assert!(
                    matches!(error, CallError::Unsupported(_)) && !WITH_TASKS.contains(&version),
                    "{error}"
                );
            }
        }
    }
}

/// Tasks by metadata (2025-10-20), in sessions of every version: the answer to the call is its result, questions and progress come with
/// it, its handle leads back to it from another client, and it is cancelled with its call.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_a_task_by_its_metadata() {
    for version in [Version::V2025_06_18, Version::V2025_11_25] {
        let board = Board::new(Era::Session);
        let server = serve_local(&board).await;
        let client = connect(&server, version).await;
        let begin = |what: &Value| {
            let task = Some(TaskUse::ByMetadata);
            client.call_with(CallRequest { task, ..CallRequest::new("do", steps(what)) })
        };
        let what = json!([{"count": "run"}, {"ask": [form("A?")]}, {"progress": {"progress": 1, "message": "half"}},
            {"wait": "go"}, {"answers": true}]);
        let mut call = begin(&what);
        let (mut is_half, mut is_asked) = (false, false);
        while !is_half {
            match soon("an event", call.next()).await.expect("it goes on") {
                Event::Asked(input) => {
                    is_asked = true;
                    input.answer(json!({"name": "x"}));
                }
                Event::Progress(progress) => is_half = progress.message.as_deref() == Some("half"),
                _ => {}
            }
        }
        assert!(is_asked, "{version:?}");
        let handle = call.handle().expect("a handle");
        assert_eq!(handle.version, "2025-10-20");
        // Whoever comes back to it gets the same result as whoever has stayed.
        let other = connect(&server, version).await;
        assert!(
            !soon("a state", other.get(&handle)).await.expect("a state").status.eq(&TaskStatus::Completed)
        );
        let resumed = other.resume(handle.clone());
        board.open("go");
        let (stayed, resumed) = (done(call).await.text(), done(resumed).await.text());
        assert!(stayed.contains("\"x\"") && stayed == resumed, "{version:?} {stayed} {resumed}");
        assert_eq!(board.count("run"), 1);
        soon("it is deleted", other.delete(&handle)).await.expect("deleted");
        let gone = soon("a state", other.get(&handle)).await;
        assert!(matches!(gone, Err(CallError::Expired { .. })), "{gone:?}");

        let mut call = begin(&json!([{"wait": "never"}]));
        while call.handle().is_none() {
            soon("an event", call.next()).await;
        }
        board.until("it runs", |board| board.running() == 1).await;
        let cancelled = soon("the end", call.cancel()).await;
        assert!(matches!(cancelled, Err(CallError::Cancelled { .. })), "{version:?} {cancelled:?}");
        board.until("the end", |board| board.running() == 0).await;
    }
    logs::clean();
}

/// Both sides host: the gateway asks its client for tasks when the tool asks people and models, polls them and fetches what was answered,
/// which reaches the tool.
#[tokio::test(flavor = "multi_thread")]
async fn questions_become_tasks_of_the_client() {
    let sampling = json!({"method": "sampling/createMessage", "params": {
        "messages": [{"role": "user", "content": {"type": "text", "text": "Q?"}}], "maxTokens": 10,
    }});
    let board = Board::new(Era::Session);
    let server = serve_local(&board).await;
    let url = ServerUrl::parse(&format!("http://{}/mcp", server.addr)).expect("a URL");
    let hosting = Hosting { poll_interval: Duration::from_millis(50), ..Hosting::default() };
    let client = Client::builder(HttpServer::new(url))
        .prefer(Version::V2025_11_25)
        .answers(Answers { sampling: true, ..Answers::ELICITATION })
        .host_tasks(hosting)
        .pace(Pace { floor: Duration::from_millis(20), ..Pace::default() })
        .deadline(Duration::from_secs(30))
        .connect();
    let client = soon("a connection", client).await.expect("connect");
    for tool in ["always", "never"] {
        let ask = json!([{"ask": [form("A?"), sampling]}, {"answers": true}]);
        let mut pending = call(&client, tool, &ask);
        let mut asked = Vec::new();
        while let Some(event) = soon("an event", pending.next()).await {
            let Event::Asked(input) = event else { continue };
            let params = input.params.as_ref().expect("params").as_str();
            assert!(
                !params.contains("\"task\""),
                "what asks for a task is no part of the question: {params}"
            );
            asked.push(input.method.clone());
            match input.method.as_str() {
                "elicitation/create" => input.answer(json!({"name": "x"})),
                _ => input.answer(
                    json!({"role": "assistant", "content": {"type": "text", "text": "said"}, "model": "m"}),
                ),
            }
        }
        asked.sort();
        assert_eq!(asked, ["elicitation/create", "sampling/createMessage"], "{tool}");
        let text = done(pending).await.text();
        assert!(text.contains("\"x\"") && text.contains("said"), "{tool} {text}");
    }
    logs::clean();
}
