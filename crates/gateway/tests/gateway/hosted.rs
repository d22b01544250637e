//! Upstreams that host tasks themselves: our call follows theirs, through whatever happens to either side. The clock is
//! paused.

use std::time::Duration;

use serde_json::{Value, json};
use taskgate_gateway::{Gateway, MemoryStore, TaskMode, ToolPolicy, UpstreamSpec, UpstreamTasks};

use crate::harness::{Board, Era, Offers, Pipe, accept, form, logs, paused_store, quick, settings, steps};

pub const ERAS: [Era; 2] = [Era::Session, Era::Modern];

/// A gateway on this store in front of an upstream that hosts tasks.
pub async fn gateway_on(board: &Board, store: &MemoryStore, wanted: UpstreamTasks) -> Gateway {
    let spec = UpstreamSpec { upstream_tasks: wanted, ..board.spec("far") };
    let policy = ToolPolicy { inline_for: Duration::from_secs(3600), ..quick() };
    let always = ToolPolicy { tasks: TaskMode::Always, ..quick() };
    let builder = Gateway::builder().add(spec).policy(policy).tool("always", always);
    builder.store(store.clone()).settings(settings()).build().await.expect("gateway")
}

/// The same with a store of its own and a client.
pub async fn open(era: Era, wanted: UpstreamTasks) -> (Board, Pipe) {
    let board = Board::with(era, Offers::hosting());
    let gateway = gateway_on(&board, &paused_store(), wanted).await;
    (board, Pipe::open(&gateway).await)
}

async fn get(pipe: &mut Pipe, id: &str) -> Value {
    pipe.ask("tasks/get", json!({"taskId": id})).await.result().clone()
}

/// Lets time pass until this is so.
pub async fn until(what: &str, mut is: impl AsyncFnMut() -> bool) {
    for _ in 0..10_000 {
        if is().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{what} never happened");
}

/// What the upstream was told when it was to make a task of a call: the wanted ttl, or `true` in 2026-07-28.
fn wish(call: &Value) -> Value {
    let declared = &call["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"];
    match &declared["io.modelcontextprotocol/tasks"] {
        Value::Null => call["params"]["task"]["ttl"].clone(),
        _ => json!(true),
    }
}

/// What the upstream wants a model to be told as soon as it has made a task is told as soon as we have.
#[tokio::test(start_paused = true)]
async fn what_the_upstream_says_at_once_is_passed_on() {
    let board = Board::with(Era::Session, Offers::hosting());
    let spec = UpstreamSpec { upstream_tasks: UpstreamTasks::Always, ..board.spec("far") };
    let policy = ToolPolicy { inline_for: Duration::from_millis(500), ..quick() };
    let builder = Gateway::builder().add(spec).policy(policy).store(paused_store()).settings(settings());
    let mut pipe = Pipe::open(&builder.build().await.expect("gateway")).await;
    let what = json!([{"immediate": "Far away."}, {"wait": "go"}]);
    let call = json!({"name": "optional", "arguments": steps(&what)});
    let created = pipe.ask_modern("tools/call", call).await.result().clone();
    assert_eq!((&created["resultType"], &created["statusMessage"]), (&json!("task"), &json!("Far away.")));
    board.open("go");
}

/// Case 15, and 14 for the lines for people: the result is the tool's own, its way there is told, the tool is called once.
#[tokio::test(start_paused = true)]
async fn a_call_follows_the_task_of_its_upstream() {
    for era in ERAS {
        let (board, mut pipe) = open(era, UpstreamTasks::Always).await;
        let body = json!({"content": [{"type": "text", "text": "é"}], "n": 1.5, "_meta": {"x/y": 1}});
        let what = json!([{"wait": "begun"}, {"say": "half way"}, {"wait": "go"}, {"return": body}]);
        let id = pipe.task("optional", what).await;
        let wanted = if era == Era::Session { json!(24 * 3600 * 1000) } else { json!(true) };
        assert_eq!(wish(&board.heard("tools/call")[0]), wanted);
        board.open("begun");
        until("its line", async || get(&mut pipe, &id).await["statusMessage"] == "half way").await;
        assert_eq!(get(&mut pipe, &id).await["status"], "working");
        assert!(board.heard("tasks/result").is_empty());
        board.open("go");
        pipe.until(&id, "completed").await;
        let mut result = pipe.ask("tasks/result", json!({"taskId": id})).await.result().clone();
        let meta = result["_meta"].as_object_mut().expect("its own").clone();
        assert_eq!(meta["io.modelcontextprotocol/related-task"], json!({"taskId": id}));
        result["_meta"] = if era == Era::Session { json!({"x/y": 1}) } else { json!({"x/y": meta["x/y"]}) };
        // The fake replaces `_meta` where 2025-11-25 demands some of its own.
        let own = if era == Era::Session { json!(null) } else { json!(1) };
        assert_eq!(meta.get("x/y").cloned().unwrap_or_default(), own);
        assert_eq!((&result["content"], &result["n"]), (&body["content"], &body["n"]));
        assert_eq!((board.count("calls"), board.heard("tasks/cancel").len()), (1, 0));
        assert_eq!(board.heard("tasks/result").len(), usize::from(era == Era::Session));
    }
    logs::clean();
}

/// Case 26: a tool that must be a task can be called by anybody; others are asked for one only where that is worth
/// something, and never where that is not allowed.
#[tokio::test(start_paused = true)]
async fn only_calls_that_need_it_or_are_to_last_ask_for_a_task() {
    use UpstreamTasks::{Always, Auto, Never};
    for era in ERAS {
        let modern = era == Era::Modern;
        for (wanted, tool, as_task, asks) in [
            (Auto, "required", true, true),
            (Auto, "required", false, true),
            (Auto, "optional", true, false),
            (Auto, "plain", true, false),
            (Always, "required", false, true),
            (Always, "optional", true, true),
            (Always, "optional", false, false),
            // In 2026-07-28 a definition does not say it.
            (Always, "plain", true, modern),
            (Never, "optional", true, false),
        ] {
            let (board, mut pipe) = open(era, wanted).await;
            let mut params =
                json!({"name": tool, "arguments": steps(&json!([{"return": {"content": [], "n": 7}}]))});
            if as_task {
                params["task"] = json!({});
            }
            let answer = pipe.ask("tools/call", params).await;
            let result = if as_task {
                let id = answer.task();
                pipe.until(&id, "completed").await;
                pipe.ask("tasks/result", json!({"taskId": id})).await.result().clone()
            } else {
                answer.result().clone()
            };
            let case = format!("{era:?} {wanted:?} {tool} {as_task}");
            assert_eq!(result["n"], 7, "{case}");
            let calls = board.heard("tools/call");
            let last = wish(calls.last().expect("called"));
            assert_eq!(!last.is_null(), asks, "{case}: {calls:?}");
            assert_eq!(board.count("calls"), 1, "{case}");
        }
        let (board, mut pipe) = open(era, Never).await;
        let refused = pipe.ask("tools/call", json!({"name": "required", "arguments": {}})).await;
        assert!(refused.json["error"].is_object(), "{}", refused.raw);
        assert_eq!(board.count("calls"), 0);
    }
    // A server of 2026-07-28 says only once that it needs it.
    let (board, mut pipe) = open(Era::Modern, Auto).await;
    for _ in 0..2 {
        pipe.ask("tools/call", json!({"name": "required", "arguments": {}})).await.result();
    }
    let wishes: Vec<bool> = board.heard("tools/call").iter().map(|call| !wish(call).is_null()).collect();
    assert_eq!(wishes, [false, true, true]);
    // A stray `task` of a caller for whom it means nothing does not reach a server for whom it would.
    let (board, mut pipe) = open(Era::Session, Auto).await;
    pipe.ask_modern("tools/call", json!({"name": "optional", "arguments": {}, "task": {}})).await.result();
    assert!(board.heard("tools/call")[0]["params"].get("task").is_none());
}

/// What a client sees of a tool is what this gateway makes of it.
#[tokio::test(start_paused = true)]
async fn our_own_word_on_tasks_is_told() {
    let (_board, mut pipe) = open(Era::Session, UpstreamTasks::Auto).await;
    let listed = pipe.ask("tools/list", json!({})).await.result()["tools"].clone();
    let support = |index: usize| listed[index]["execution"]["taskSupport"].clone();
    assert_eq!([support(0), support(1), support(2)], ["optional", "optional", "optional"]);
}

/// Case 9: a question of the upstream's task is put to whoever holds ours, and the answer goes back.
#[tokio::test(start_paused = true)]
async fn questions_of_the_upstreams_task_are_asked_and_answered() {
    for era in ERAS {
        let (board, mut pipe) = open(era, UpstreamTasks::Always).await;
        let what = json!([{"ask": {"a": form("A?"), "b": form("B?")}}, {"ask": {"c": form("C?")}}, {"answers": true}]);
        let id = pipe.task("optional", what).await;
        for message in ["A?", "B?", "C?"] {
            let asked = pipe.find(|said| said["params"]["message"] == message).await;
            let related = &asked["params"]["_meta"]["io.modelcontextprotocol/related-task"];
            assert_eq!(*related, json!({"taskId": id}));
            assert_eq!(get(&mut pipe, &id).await["status"], "input_required");
            pipe.respond(&asked["id"], accept(message)).await;
        }
        let done = pipe.ask("tasks/result", json!({"taskId": id})).await;
        assert_eq!(done.text(), json!({"c": accept("C?")}).to_string());
        let task = board.hosted("hosted-1").expect("there");
        assert_eq!(task.questions["a"].1, Some(accept("A?")));
        assert_eq!((task.questions.len(), board.count("calls")), (3, 1));
    }
    logs::clean();
}

/// The same in a call that is no task, asked on the spot.
#[tokio::test(start_paused = true)]
async fn a_waiting_caller_is_asked_on_the_spot() {
    for era in ERAS {
        let (_board, mut pipe) = open(era, UpstreamTasks::Auto).await;
        let what = steps(&json!([{"ask": {"a": form("A?")}}, {"answers": true}]));
        let call = pipe.begin("tools/call", json!({"name": "required", "arguments": what})).await;
        let asked = pipe.find(|said| said["params"]["message"] == "A?").await;
        assert!(
            asked["params"].get("_meta").is_none_or(|meta| meta.as_object().expect("an object").is_empty())
        );
        pipe.respond(&asked["id"], accept("x")).await;
        assert_eq!(pipe.answer(call).await.text(), json!({"a": accept("x")}).to_string());
    }
}

/// Case 6, and each other way a task can end.
#[tokio::test(start_paused = true)]
async fn every_end_of_the_upstreams_task_is_an_end_of_ours() {
    for era in ERAS {
        let (board, mut pipe) = open(era, UpstreamTasks::Always).await;
        let error = json!({"code": -32050, "message": "no paper", "data": [1.5]});
        let failed = json!({"content": [{"type": "text", "text": "jam"}], "isError": true, "n": 1});
        for (end, status, line) in [
            (json!({"error": error}), "failed", "no paper"),
            (json!({"return": failed}), "failed", "jam"),
            (
                json!({"cancelled": "by its operator"}),
                "failed",
                "The server cancelled its task: by its operator",
            ),
        ] {
            let id = pipe.task("optional", json!([end])).await;
            let ended = pipe.until(&id, status).await;
            assert_eq!(ended["statusMessage"], line);
            let answer = pipe.ask("tasks/result", json!({"taskId": id})).await;
            if end["error"].is_object() {
                assert_eq!(*answer.error(), error);
            } else if end["return"].is_object() {
                assert_eq!((&answer.result()["isError"], &answer.result()["n"]), (&json!(true), &json!(1)));
            } else {
                assert_eq!(answer.code(), -32603);
            }
        }
        let id = pipe.task("optional", json!([{"wait": "never"}])).await;
        board.forget_hosted();
        let ended = pipe.until(&id, "failed").await;
        assert_eq!(
            ended["statusMessage"],
            "The server no longer knows the task it made of this call: Task not found"
        );
        assert!(board.heard("tasks/cancel").is_empty());
    }
    logs::clean();
}

/// Case 17: cancelling ours cancels the upstream's, once and by its own id.
#[tokio::test(start_paused = true)]
async fn a_cancel_reaches_the_upstreams_task() {
    for era in ERAS {
        let (board, mut pipe) = open(era, UpstreamTasks::Always).await;
        let id = pipe.task("optional", json!([{"wait": "never"}])).await;
        until("it is followed", async || !board.heard("tasks/get").is_empty()).await;
        let cancelled = pipe.ask("tasks/cancel", json!({"taskId": id})).await;
        assert_eq!(cancelled.result()["status"], "cancelled");
        until("it is cancelled", async || board.hosted("hosted-1").expect("there").status == "cancelled")
            .await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        let told = board.heard("tasks/cancel");
        assert_eq!((told.len(), &told[0]["params"]["taskId"]), (1, &json!("hosted-1")));
    }
    logs::clean();
}

/// Case 18: a cancel before the upstream has named its task is not lost.
#[tokio::test(start_paused = true)]
async fn a_cancel_that_comes_before_the_handle_waits_for_it() {
    for era in ERAS {
        let (board, mut pipe) = open(era, UpstreamTasks::Always).await;
        board.hold_handles();
        let id = pipe.task("optional", json!([{"wait": "never"}])).await;
        until("it is called", async || board.count("calls") == 1).await;
        pipe.ask("tasks/cancel", json!({"taskId": id})).await.result();
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(board.heard("tasks/cancel").is_empty());
        let told = board.heard("notifications/cancelled");
        assert_eq!(told.len(), usize::from(era == Era::Modern), "{told:?}");
        board.open("handles");
        until("it is cancelled", async || board.hosted("hosted-1").expect("there").status == "cancelled")
            .await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(board.heard("tasks/cancel").len(), 1);
    }
    logs::clean();
}

/// A caller who has no handle and gives its call up leaves nothing behind.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_given_up_cancels_the_upstreams_task() {
    for era in ERAS {
        let (board, mut pipe) = open(era, UpstreamTasks::Auto).await;
        let what = steps(&json!([{"wait": "never"}]));
        let call = pipe.begin("tools/call", json!({"name": "required", "arguments": what})).await;
        until("it is followed", async || !board.heard("tasks/get").is_empty()).await;
        let gone =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": call}});
        pipe.write(format!("{gone}\n").as_bytes()).await;
        until("it is cancelled", async || board.hosted("hosted-1").expect("there").status == "cancelled")
            .await;
        assert_eq!(board.heard("tasks/cancel").len(), 1);
    }
}

/// Case 29: work on a server whose connection breaks is found again, however often; the tool is called once.
#[tokio::test(start_paused = true)]
async fn a_lost_connection_costs_nothing() {
    for era in ERAS {
        let (board, mut pipe) = open(era, UpstreamTasks::Always).await;
        let id = pipe
            .task(
                "optional",
                json!([{"count": "begun"}, {"wait": "go"}, {"return": {"content": [], "n": 3}}]),
            )
            .await;
        // More often than work may be started that never comes further.
        for round in 1..=8 {
            until("it is followed", async || board.heard("tasks/get").len() >= round).await;
            board.drop_links(round % 2 == 0).await;
            tokio::time::sleep(Duration::from_secs(10)).await;
            if round % 2 == 0 {
                let waiting = get(&mut pipe, &id).await["statusMessage"].clone();
                assert!(waiting.as_str().expect("a line").starts_with("Waiting for the server"), "{waiting}");
            }
            board.accept_links();
            let asked = board.heard("tasks/get").len();
            until("it is found again", async || board.heard("tasks/get").len() > asked).await;
            assert_eq!(get(&mut pipe, &id).await["status"], "working");
        }
        board.open("go");
        pipe.until(&id, "completed").await;
        let result = pipe.ask("tasks/result", json!({"taskId": id})).await;
        assert_eq!(result.result()["n"], 3);
        assert_eq!((board.count("begun"), board.heard("tools/call").len()), (1, 1));
    }
    logs::clean();
}

/// A caller without a handle hears at once that its server is gone; what goes on there without an owner is stopped when it is back.
#[tokio::test(start_paused = true)]
async fn a_lost_call_without_a_handle_is_not_left_behind() {
    for era in ERAS {
        let (board, mut pipe) = open(era, UpstreamTasks::Auto).await;
        let what = steps(&json!([{"wait": "never"}]));
        let call = pipe.begin("tools/call", json!({"name": "required", "arguments": what})).await;
        until("it is followed", async || !board.heard("tasks/get").is_empty()).await;
        board.drop_links(false).await;
        let answer = pipe.answer(call).await;
        let said = answer.error()["message"].as_str().expect("a message");
        assert!(said.starts_with("The connection to the server was lost"), "{said}");
        until("it is cancelled", async || board.hosted("hosted-1").expect("there").status == "cancelled")
            .await;
        assert_eq!(board.count("calls"), 1);
    }
}

/// Cases 1 and 4: the same when the gateway is another one, even with a question that was open.
#[tokio::test(start_paused = true)]
async fn a_restarted_gateway_goes_on_with_the_handle() {
    for era in ERAS {
        let board = Board::with(era, Offers::hosting());
        let store = paused_store();
        let first = gateway_on(&board, &store, UpstreamTasks::Always).await;
        let mut pipe = Pipe::open(&first).await;
        let plain = pipe.task("optional", json!([{"wait": "go"}, {"return": {"content": [], "n": 4}}])).await;
        let asking = pipe.task("optional", json!([{"ask": {"a": form("A?")}}, {"answers": true}])).await;
        pipe.until(&asking, "input_required").await;
        first.drain().await;
        board.open("go");
        let second = gateway_on(&board, &store, UpstreamTasks::Always).await;
        let mut pipe = Pipe::open(&second).await;
        pipe.until(&plain, "completed").await;
        assert_eq!(pipe.ask("tasks/result", json!({"taskId": plain})).await.result()["n"], 4);
        let waiting = pipe.begin("tasks/result", json!({"taskId": asking})).await;
        let asked = pipe.find(|said| said["params"]["message"] == "A?").await;
        pipe.respond(&asked["id"], accept("x")).await;
        assert_eq!(pipe.answer(waiting).await.text(), json!({"a": accept("x")}).to_string());
        assert_eq!((board.count("calls"), board.heard("tasks/cancel").len()), (2, 0));
    }
    logs::clean();
}

/// Work that was lost before the upstream had named its task is not begun a second time, and not left behind either.
#[tokio::test(start_paused = true)]
async fn a_call_without_a_handle_is_not_made_again() {
    for era in ERAS {
        let board = Board::with(era, Offers::hosting());
        let store = paused_store();
        let first = gateway_on(&board, &store, UpstreamTasks::Always).await;
        let mut pipe = Pipe::open(&first).await;
        board.hold_handles();
        let id = pipe.task("optional", json!([{"wait": "never"}])).await;
        until("it is called", async || board.count("calls") == 1).await;
        first.drain().await;
        let second = gateway_on(&board, &store, UpstreamTasks::Always).await;
        let mut pipe = Pipe::open(&second).await;
        let failed = pipe.until(&id, "failed").await;
        assert!(failed["statusMessage"].as_str().expect("a line").contains("interrupted"), "{failed}");
        let error = pipe.ask("tasks/result", json!({"taskId": id})).await;
        assert_eq!(error.error()["data"]["reason"], "interrupted");
        board.open("handles");
        until("it is cancelled", async || board.hosted("hosted-1").expect("there").status == "cancelled")
            .await;
        assert_eq!(board.heard("tools/call").len(), 1);
    }
}

/// A cancel finds a server that is away when it is back.
#[tokio::test(start_paused = true)]
async fn a_cancel_waits_for_a_server_that_is_away() {
    for era in ERAS {
        let (board, mut pipe) = open(era, UpstreamTasks::Always).await;
        let id = pipe.task("optional", json!([{"wait": "never"}])).await;
        until("it is followed", async || !board.heard("tasks/get").is_empty()).await;
        board.drop_links(true).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(pipe.ask("tasks/cancel", json!({"taskId": id})).await.result()["status"], "cancelled");
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert_eq!(board.hosted("hosted-1").expect("there").status, "working");
        board.accept_links();
        until("it is cancelled", async || board.hosted("hosted-1").expect("there").status == "cancelled")
            .await;
        assert_eq!(board.heard("tasks/cancel").len(), 1);
    }
}

/// Case 40: what the server says by itself makes the end known at once; what it does not say is found by asking.
#[tokio::test(start_paused = true)]
async fn a_word_of_the_server_makes_it_asked_at_once() {
    for era in ERAS {
        for tells in [true, false] {
            let (board, mut pipe) = open(era, UpstreamTasks::Always).await;
            let what = json!([{"poll": 30_000}, {"wait": "go"}, {"return": {"content": []}}]);
            let id = pipe.task("optional", what).await;
            until("it is followed", async || !board.heard("tasks/get").is_empty()).await;
            let since = tokio::time::Instant::now();
            board.open("go");
            board.wait_hosted("hosted-1", |task| task.status == "completed").await;
            if tells {
                board.tell_of("hosted-1", era == Era::Modern).await;
            }
            until("its end", async || get(&mut pipe, &id).await["status"] == "completed").await;
            let took = since.elapsed();
            assert_eq!(took < Duration::from_secs(2), tells, "{era:?} {took:?}");
            assert!(took < Duration::from_secs(31), "{era:?} {took:?}");
        }
    }
}

/// "The progressToken provided in the initial request remains valid throughout the task lifetime" (2025-11-25).
#[tokio::test(start_paused = true)]
async fn progress_of_the_upstreams_task_is_ours() {
    let (board, mut pipe) = open(Era::Session, UpstreamTasks::Auto).await;
    let what =
        steps(&json!([{"wait": "go"}, {"progress": {"progress": 5, "message": "five"}}, {"wait": "end"}]));
    let params = json!({"name": "required", "arguments": what, "_meta": {"progressToken": "mine"}});
    let call = pipe.begin("tools/call", params).await;
    until("it is followed", async || !board.heard("tasks/get").is_empty()).await;
    board.open("go");
    let said = pipe.find(|said| said["params"]["message"] == "five").await;
    assert_eq!(said["params"], json!({"progressToken": "mine", "progress": 5, "message": "five"}));
    board.open("end");
    pipe.answer(call).await.result();
}
