//! Hosts that know no tasks: they give up after 60 s, and their models do what they read.

use std::time::Duration;

use serde_json::{Value, json};
use taskgate_gateway::{Gateway, GatewayBuilder, HostSettings, Settings, TaskMode, ToolPolicy, WorkClass};

use crate::harness::host::told;
use crate::harness::{
    Board, Era, Host, Life, Modern, Offers, Old, Server, builder, form, paused_store, policies, quick,
    settings, steps,
};

const COMPANIONS: [&str; 3] = ["task_status", "task_result", "task_cancel"];
const VERSIONS: [&str; 5] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

/// A gateway with every default, whose time is the test's.
async fn gateway(board: &Board) -> Gateway {
    defaults(board).build().await.expect("gateway")
}

fn defaults(board: &Board) -> GatewayBuilder {
    Gateway::builder().store(paused_store()).single_user(true).add(board.spec("upstream"))
}

fn hosts(budget: Option<Duration>) -> Settings {
    Settings { hosts: HostSettings { budget, ..HostSettings::default() }, ..settings() }
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {result}"))
}

/// CASE 12: a job of ten minutes behind a host that gives up after one. The right answer arrives as it came, the tool ran
/// once, and the model made one call in each budget.
#[tokio::test(start_paused = true)]
async fn a_long_job_ends_with_its_result_in_a_host_without_tasks() {
    let result = json!({
        "content": [{"type": "text", "text": "42"}], "structuredContent": {"n": 1.0}, "isError": false, "x/y": [1],
    });
    for version in VERSIONS {
        let board = Board::new(Era::Session);
        let gateway = gateway(&board).await;
        let mut host = Host::open(&gateway, version, json!({})).await;
        let what = json!([{"count": "body"}, {"sleep": 600_000}, {"return": result}]);
        let mut got = host.work("do", steps(&what)).await;
        if version == "2026-07-28" {
            assert_eq!(got["resultType"].take(), "complete");
            got.as_object_mut().expect("a result").remove("resultType");
        }
        assert_eq!(got, result, "{version}");
        assert_eq!((board.count("body"), board.count("calls")), (1, 1), "{version}");
        // 45 s of the call itself, then as long of each further one.
        assert_eq!(host.calls, 1 + 13, "{version}");
    }
}

/// CASE 12: what ends within the budget is answered as ever, and a tool that is never a task is waited for.
#[tokio::test(start_paused = true)]
async fn within_the_budget_nothing_is_different() {
    let board = Board::new(Era::Session);
    let never = ToolPolicy { tasks: TaskMode::Never, ..quick() };
    let gateway = defaults(&board).tool("never", never).build().await.expect("gateway");
    let mut host = Host::open(&gateway, "2025-06-18", json!({})).await;
    assert_eq!(text(&host.call("do", steps(&json!([{"sleep": 44_000}]))).await), "done");
    assert_eq!(text(&host.call("never", steps(&json!([{"sleep": 59_000}]))).await), "done");
    assert_eq!(gateway.engine().carried(), 0);
}

/// The words hold what a model needs: the id, how it stands, the very call, what not to do, and what a restart costs.
#[tokio::test(start_paused = true)]
async fn the_words_say_what_to_do_next() {
    let board = Board::new(Era::Session);
    let repeatable = ToolPolicy { class: Some(WorkClass::Repeatable), ..quick() };
    let gateway = defaults(&board).tool("reader", repeatable).build().await.expect("gateway");
    let mut host = Host::open(&gateway, "2025-11-25", json!({})).await;
    let what = json!([{"progress": {"progress": 1, "message": "Half \nof it"}}, {"sleep": 50_000},
        {"progress": {"progress": 2, "message": "Most of it"}}, {"sleep": 50_000}]);
    let first = host.call("do", steps(&what)).await;
    assert_eq!(first["isError"], false);
    let (next, arguments) = told(&first).expect("a next call");
    assert_eq!(next, "task_result");
    let id = arguments["task"].as_str().expect("an id").to_owned();
    for part in [
        "not finished",
        "do",
        &id,
        "State: working",
        "Message: Half of it\n",
        "Do not call do again",
        "task_status with",
        "the work is lost",
    ] {
        assert!(text(&first).contains(part), "{part}: {first}");
    }
    let looked = host.call("task_status", json!({"task": id, "wait": false})).await;
    assert!(!text(&looked).contains("Most of it"), "{looked}");
    let waited = host.call("task_status", json!({"task": id})).await;
    assert!(
        text(&waited).contains("Message: Most of it") && text(&waited).contains("State: working"),
        "{waited}"
    );
    let ended = host.call("task_status", json!({"task": id})).await;
    assert!(text(&ended).contains("State: completed"), "{ended}");
    assert_eq!(told(&ended), Some(("task_result".to_owned(), json!({"task": id}))));
    let kept = host.call("reader", steps(&json!([{"sleep": 50_000}]))).await;
    assert!(!text(&kept).contains("the work is lost"), "{kept}");
}

/// A host whose user is asked, and takes longer than the host waits: the question is taken back, asked again in the next call,
/// and the work goes on with the answer. In each generation of servers and hosts.
#[tokio::test(start_paused = true)]
async fn a_question_outlives_the_call_it_was_asked_in() {
    for version in ["2025-06-18", "2025-11-25", "2026-07-28"] {
        for (era, what) in [
            (
                Era::Session,
                json!([{"count": "body"}, {"ask": [form("Name?")]}, {"sleep": 100_000}, {"answers": null}]),
            ),
            (
                Era::Modern,
                json!([{"count": "body"}, {"round": {"name": form("Name?")}}, {"sleep": 100_000}, {"answers": null}]),
            ),
        ] {
            let board = Board::new(era);
            let gateway = gateway(&board).await;
            let mut host = Host::open(&gateway, version, json!({"elicitation": {}})).await;
            if version != "2026-07-28" {
                host.thinks = vec![Duration::from_secs(70), Duration::from_secs(50)];
            }
            let got = host.work("do", steps(&what)).await;
            assert!(text(&got).contains("Ada"), "{version} {era:?}: {got}");
            let asked = if version == "2026-07-28" { 1 } else { 2 };
            assert_eq!(host.asked.len(), asked, "{version} {era:?}: {:?}", host.asked);
            assert!(host.calls <= 8, "{version} {era:?}: {}", host.calls);
            // A server that ends its call to ask is called again with the answers.
            let calls = if matches!(era, Era::Modern) { 2 } else { 1 };
            assert_eq!((board.count("calls"), board.count("body")), (calls, calls), "{version} {era:?}");
        }
    }
}

/// A question that comes when the work is a task already is asked on the stream of the companion's call; where the host cannot
/// be asked, its model is told in words, once, and not to poll.
#[tokio::test(start_paused = true)]
async fn what_a_task_asks_is_asked_in_the_call_of_a_companion() {
    for version in ["2025-06-18", "2025-11-25", "2026-07-28"] {
        let what = json!([{"sleep": 50_000}, {"ask": [form("Which name?")]}, {"answers": null}]);
        let board = Board::new(Era::Session);
        let gateway = gateway(&board).await;
        let mut host = Host::open(&gateway, version, json!({"elicitation": {}})).await;
        let got = host.work("do", steps(&what)).await;
        assert!(text(&got).contains("Ada"), "{version}: {got}");
        assert_eq!((host.asked.len(), host.calls, board.count("calls")), (1, 2, 1), "{version}");
        // The same task, seen from another host of its owner's.
        let first = host.call("do", steps(&what)).await;
        let (next, arguments) = told(&first).expect("a next call");
        let mut mute = Host::open(&gateway, version, json!({})).await;
        let got = mute.work(&next, arguments).await;
        assert!(text(&got).contains("Which name?") && text(&got).contains("Do not poll"), "{version}: {got}");
        assert_eq!((mute.asked.len(), mute.calls), (0, 1), "{version}");
    }
}

/// A crash in the middle of a tool that may be repeated: the model goes on with the same words and gets its answer.
#[tokio::test(flavor = "multi_thread")]
async fn the_words_outlive_a_crash_of_the_gateway() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("tasks.db");
    let board = Board::new(Era::Session);
    let start = |board: Board| {
        move || {
            policies(Gateway::builder().add(board.spec("upstream")))
                .settings(Settings { single_user: true, ..hosts(Some(Duration::from_millis(50))) })
        }
    };
    let life = Life::start(&file, start(board.clone())).await;
    let mut host = Host::open(&life.server().gateway, "2025-06-18", json!({})).await;
    let first = host.call("reader", steps(&json!([{"count": "body"}, {"wait": "go"}]))).await;
    let (next, arguments) = told(&first).expect("a next call");
    drop(host);
    life.kill().await;
    board.until("the work was stopped", |board| board.running() == 0).await;
    let life = Life::start(&file, start(board.clone())).await;
    board.until("it runs again", |board| board.count("body") == 2).await;
    let mut host = Host::open(&life.server().gateway, "2025-06-18", json!({})).await;
    assert_eq!(told(&host.call(&next, arguments.clone()).await), Some((next.clone(), arguments.clone())));
    board.open("go");
    assert_eq!(text(&host.work(&next, arguments).await), "done");
    assert_eq!(board.count("body"), 2);
}

/// The companions are at the end of the list of those who have no tasks, and of nobody else.
#[tokio::test(flavor = "multi_thread")]
async fn only_hosts_without_tasks_have_the_companions() {
    let server = Server::start(builder(&Board::new(Era::Both)).build().await.expect("gateway")).await;
    // A pipe that ends drains its gateway.
    let mut open = Vec::new();
    for version in VERSIONS {
        let mut host = Host::open(&server.gateway, version, json!({})).await;
        let tools = host.tools().await;
        assert_eq!(tools[tools.len() - 3..], COMPANIONS, "{version}");
        open.push(host);
    }
    let names = |list: &Value| -> Vec<String> {
        let tools = list["tools"].as_array().expect("tools").iter();
        tools.map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
    };
    // Those who declare tasks where their version has them.
    let modern = Modern::new(&server);
    assert!(!names(modern.ask("tools/list", json!({})).await.result()).contains(&COMPANIONS[0].to_owned()));
    assert_eq!(
        modern.ask("tools/call", json!({"name": "task_status", "arguments": {}})).await.code(),
        -32602
    );
    let declares = json!({"tasks": {"requests": {"elicitation": {"create": {}}}}});
    let mut declared = Host::open(&server.gateway, "2025-11-25", declares.clone()).await;
    assert!(!declared.tools().await.contains(&COMPANIONS[0].to_owned()));
    let mut cannot = Host::open(&server.gateway, "2025-06-18", declares).await;
    assert!(cannot.tools().await.contains(&COMPANIONS[0].to_owned()));
    // Those who show that they know them. What they were told before still helps.
    let old = Old::with(&server, "2025-11-25", json!({})).await;
    old.augmented("at_once", json!([])).await.task();
    assert!(!names(old.ask("tools/list", json!({})).await.result()).contains(&COMPANIONS[0].to_owned()));
    let params = json!({"name": "task_status", "arguments": {"task": "0"}});
    assert_eq!(old.ask("tools/call", params).await.result()["isError"], true);
    // Nobody, where it is off or no tool can be a task.
    for builder in [
        builder(&Board::new(Era::Both)).settings(hosts(None)),
        Gateway::builder().add(Board::new(Era::Both).spec("upstream")).policy(ToolPolicy::never()),
    ] {
        let gateway = builder.build().await.expect("gateway");
        let mut host = Host::open(&gateway, "2025-06-18", json!({})).await;
        assert!(!host.tools().await.contains(&COMPANIONS[0].to_owned()));
    }
}

/// Budgets by the names that clients give themselves, in sessions and without.
#[tokio::test(start_paused = true)]
async fn a_client_can_have_a_budget_of_its_own() {
    let second = Duration::from_secs(1);
    for (clients, seconds) in [
        (vec![("te*".to_owned(), Some(second))], 1),
        (vec![("te*".to_owned(), None), ("test".to_owned(), Some(second * 2))], 2),
        (vec![("other".to_owned(), None)], 45),
    ] {
        for version in ["2025-06-18", "2026-07-28"] {
            let board = Board::new(Era::Session);
            let settings = Settings {
                single_user: true,
                hosts: HostSettings { clients: clients.clone(), ..HostSettings::default() },
                ..settings()
            };
            let gateway = defaults(&board).settings(settings).build().await.expect("gateway");
            let mut host = Host::open(&gateway, version, json!({})).await;
            let since = tokio::time::Instant::now();
            let first = host.call("do", steps(&json!([{"sleep": 50_000}]))).await;
            assert!(told(&first).is_some(), "{first}");
            assert_eq!(since.elapsed().as_secs(), seconds, "{version} {clients:?}");
        }
    }
}

/// An upstream's own tools win: the companions get another name, in the list as in the words, on the last page.
#[tokio::test(start_paused = true)]
async fn an_upstreams_own_tool_wins() {
    let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
    let tools = ["do", "task_result"].map(tool).into();
    let board = Board::with(Era::Session, Offers { tools, page: 1, ..Offers::default() });
    let gateway = gateway(&board).await;
    let mut host = Host::open(&gateway, "2025-06-18", json!({})).await;
    assert!(!host.tools().await.contains(&"taskgate_task_status".to_owned()), "there is another page");
    assert_eq!(text(&host.call("task_result", steps(&json!([]))).await), "done");
    assert_eq!(board.count("calls"), 1);
    let first = host.call("do", steps(&json!([{"sleep": 50_000}]))).await;
    let (next, arguments) = told(&first).expect("a next call");
    assert_eq!(next, "taskgate_task_result");
    assert_eq!(text(&host.work(&next, arguments).await), "done");
    assert_eq!(board.count("calls"), 2);
}

/// CASE 10: ids that are foreign or unknown have one answer, which says what to do; a task is stopped by its owner alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_its_owners() {
    let board = Board::new(Era::Session);
    let settings = hosts(Some(Duration::from_millis(50)));
    let gateway = builder(&board).settings(settings).build().await.expect("gateway");
    let mut host = Host::open(&gateway, "2025-06-18", json!({})).await;
    let what = steps(&json!([{"wait": "never"}]));
    let (_, mine) = told(&host.call("do", what.clone()).await).expect("a next call");
    let stranger = taskgate_task::TaskId::from_parts(1, [7; 16]).to_string();
    let mut answers = Vec::new();
    for name in COMPANIONS {
        for id in [&stranger, "", "guess"] {
            answers.push(host.call(name, json!({"task": id})).await);
        }
        let wrong = host.call(name, json!({"id": mine["task"]})).await;
        assert!(wrong["isError"] == true && text(&wrong).contains(name), "{wrong}");
    }
    assert_eq!(answers[0]["isError"], true);
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    // The same task, asked for by somebody else.
    let server = Server::start(gateway.clone()).await;
    let anonymous = Old::with(&server, "2025-06-18", json!({})).await;
    for name in COMPANIONS {
        let params = json!({"name": name, "arguments": mine});
        assert_eq!(*anonymous.ask("tools/call", params).await.result(), answers[0], "{name}");
    }
    let cancelled = host.call("task_cancel", mine.clone()).await;
    assert!(cancelled["isError"] == false && text(&cancelled).contains("cancelled"), "{cancelled}");
    board.until("the work was stopped", |board| board.running() == 0).await;
    let gone = host.work("task_result", mine.clone()).await;
    assert!(gone["isError"] == true && text(&gone).contains("was cancelled"), "{gone}");
    let again = host.call("task_cancel", mine).await;
    assert!(text(&again).contains("State: cancelled"), "{again}");
}

/// Errors come as they came: those of a tool, and those of the protocol.
#[tokio::test(start_paused = true)]
async fn errors_come_as_they_came() {
    let board = Board::new(Era::Session);
    let gateway = gateway(&board).await;
    let mut host = Host::open(&gateway, "2025-06-18", json!({})).await;
    let result = json!({"content": [{"type": "text", "text": "no"}], "structuredContent": {"why": 1}, "isError": true});
    let got = host.work("do", steps(&json!([{"sleep": 50_000}, {"return": result}]))).await;
    assert_eq!(got, result);
    let error = json!({"code": -32099, "message": "no", "data": {"x": 1.0}});
    let got = host.work("do", steps(&json!([{"sleep": 50_000}, {"error": error}]))).await;
    assert_eq!(got["error"], error);
}

/// Clients refuse a result without the structure that a tool promises, unless it is an error: the words of such a tool are one.
#[tokio::test(start_paused = true)]
async fn words_are_an_error_where_a_structure_is_promised() {
    let tool = json!({"name": "do", "inputSchema": {"type": "object"}, "outputSchema": {"type": "object"}});
    let board = Board::with_tools(Era::Session, vec![tool]);
    let gateway = gateway(&board).await;
    let mut host = Host::open(&gateway, "2025-06-18", json!({})).await;
    let first = host.call("do", steps(&json!([{"sleep": 50_000}]))).await;
    assert_eq!(first["isError"], true);
    assert!(told(&first).is_some());
}
