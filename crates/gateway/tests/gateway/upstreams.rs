//! Upstreams that clash, die, come back, or never were.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use taskgate_gateway::{Gateway, StdioCommand, UpstreamKind, UpstreamSpec};

use crate::harness::{Board, Era, Modern, Old, Server, eventually, logs, policies, quick, serve, steps};

fn names(list: &Value) -> Vec<String> {
    let tools = list["tools"].as_array().expect("tools");
    tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
}

fn tool(name: &str) -> Value {
    json!({"name": name, "inputSchema": {"type": "object"}})
}

/// Tool names are prefixed only where two upstreams clash, or where it is configured; calls reach the right one under its
/// own name; other features go to the upstream that has them.
#[tokio::test(flavor = "multi_thread")]
async fn clashing_tools_are_told_apart() {
    let one = Board::with_tools(Era::Both, vec![tool("same"), tool("only_one")]);
    let two = Board::with_tools(Era::Session, vec![tool("same"), tool("only_two")]);
    let three = Board::with_tools(Era::Modern, vec![tool("same")]);
    let mut prefixed = three.spec("three");
    prefixed.prefix = Some("p".to_owned());
    let builder = Gateway::builder().add(one.spec("one")).add(two.spec("two")).add(prefixed);
    let server = Server::start(policies(builder).build().await.expect("gateway")).await;
    let modern = Modern::new(&server);
    let old = Old::open(&server).await;
    let want = ["one_same", "only_one", "two_same", "only_two", "p_same"];
    assert_eq!(names(modern.ask("tools/list", json!({})).await.result()), want);
    assert_eq!(names(old.ask("tools/list", json!({})).await.result()), want);
    for (name, board, own) in [
        ("one_same", &one, "same"),
        ("two_same", &two, "same"),
        ("p_same", &three, "same"),
        ("only_two", &two, "only_two"),
    ] {
        modern.tool(name, json!([])).await.result();
        assert_eq!(board.heard("tools/call").last().expect("a call")["params"]["name"], own, "{name}");
        let id = old.augmented(name, json!([])).await.task();
        old.until(&id, "completed").await;
    }
    for unknown in ["same", "three_same", "one_only_one", "one_", "p_", "_same", ""] {
        assert_eq!(modern.tool(unknown, json!([])).await.code(), -32602, "{unknown}");
    }
    assert_eq!((one.count("calls"), two.count("calls"), three.count("calls")), (2, 4, 2));
    assert_eq!(modern.ask("prompts/list", json!({})).await.result()["prompts"][0]["name"], "one_greet");
    assert_eq!(modern.ask("unknown/method", json!({})).await.code(), -32601);
}

/// A name clashes with what is known: as long as another server has not started, it is as its own server has it. A prefix
/// stays.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_clashes_once_the_other_server_is_known() {
    let one = Board::with_tools(Era::Both, vec![tool("same")]);
    let two = Board::with_tools(Era::Both, vec![tool("same")]);
    let three = Board::with_tools(Era::Both, vec![tool("same")]);
    two.drop_links(true).await;
    let mut prefixed = three.spec("three");
    prefixed.prefix = Some("p".to_owned());
    let builder = Gateway::builder().add(one.spec("one")).add(two.spec("two")).add(prefixed);
    let server = Server::start(policies(builder).build().await.expect("gateway")).await;
    let modern = Modern::new(&server);
    assert_eq!(names(modern.ask("tools/list", json!({})).await.result()), ["same", "p_same"]);
    modern.tool("same", json!([])).await.result();
    two.accept_links();
    let want = ["one_same", "two_same", "p_same"];
    eventually("the other server", || async {
        (names(modern.ask("tools/list", json!({})).await.result()) == want).then_some(())
    })
    .await;
    assert_eq!(modern.tool("same", json!([])).await.code(), -32602);
    modern.tool("p_same", json!([])).await.result();
}

/// One dead upstream among others: the rest is listed and works, its tools fail at once and say why.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_upstream_does_not_take_the_others_with_it() {
    let alive = Board::with_tools(Era::Both, vec![tool("alive")]);
    let dying = Board::with_tools(Era::Both, vec![tool("dying")]);
    let never = StdioCommand::new("/nonexistent/program");
    let builder =
        Gateway::builder().add(alive.spec("alive")).add(dying.spec("dying")).upstream_command("never", never);
    let server = Server::start(policies(builder).build().await.expect("gateway")).await;
    let modern = Modern::new(&server);
    let old = Old::open(&server).await;
    let want = ["alive", "dying"];
    assert_eq!(names(modern.ask("tools/list", json!({})).await.result()), want);
    let running = old
        .ask("tools/call", json!({"name": "dying", "arguments": steps(&json!([{"wait": "x"}])), "task": {}}))
        .await
        .task();
    dying.until("it runs", |board| board.running() == 1).await;
    dying.drop_links(true).await;
    let failed = modern.until(&running, "failed").await;
    assert_eq!(failed["error"]["code"], -32603);
    let since = Instant::now();
    let answer = modern.tool("dying", json!([])).await;
    assert_eq!(answer.code(), -32603);
    assert!(
        answer.error()["message"].as_str().expect("words").contains("\"dying\" is not available"),
        "{}",
        answer.raw
    );
    assert!(since.elapsed() < Duration::from_secs(1));
    assert_eq!(names(modern.ask("tools/list", json!({})).await.result()), want);
    modern.tool("alive", json!([])).await.result();
    // It comes back by itself, with the same tools.
    dying.accept_links();
    eventually("its return", || async { modern.tool("dying", json!([])).await.json.get("result").cloned() })
        .await;
    assert_eq!(names(modern.ask("tools/list", json!({})).await.result()), want);
    logs::clean();
}

/// Case 30: a server that dies at once is started at most 8 times in a minute, however it is spoken to, and is then called
/// a crash loop; calls meanwhile fail fast; the mended server comes back with the same tools. The clock is paused, so the
/// minute takes no time.
#[tokio::test(start_paused = true)]
async fn a_crash_loop_is_slow_and_heals() {
    let board = Board::new(Era::Both);
    board.drop_links(true).await;
    let gateway = policies(Gateway::builder().add(board.spec("u"))).build().await.expect("gateway");
    tokio::time::sleep(Duration::from_secs(60)).await;
    let tried = board.count("connections");
    assert!((5..=8).contains(&tried), "{tried} starts in a minute");
    assert!(matches!(gateway.upstream_states()[0].1, taskgate_gateway::UpstreamState::CrashLoop(_)));
    board.accept_links();
    tokio::time::sleep(Duration::from_secs(40)).await;
    assert!(matches!(gateway.upstream_states()[0].1, taskgate_gateway::UpstreamState::Up(_)));
    // The pause shrinks only after a time of health.
    board.drop_links(true).await;
    let before = board.count("connections");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(board.count("connections") - before <= 3, "{} more", board.count("connections") - before);
    board.accept_links();
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert!(matches!(gateway.upstream_states()[0].1, taskgate_gateway::UpstreamState::Up(_)));
}

/// An upstream that never answers keeps a first call waiting for its start, not for ever, and the gateway itself answers.
#[tokio::test(start_paused = true)]
async fn a_silent_upstream_is_given_up() {
    let silent = || {
        let (link, far) = taskgate_client::transport::memory::pair(16);
        // The far end lives and says nothing.
        tokio::spawn(async move {
            let mut far = far;
            while far.inbox.recv().await.is_some() {}
        });
        link
    };
    let kind = UpstreamKind::InProcess(std::sync::Arc::new(silent));
    let gateway =
        Gateway::builder().add(UpstreamSpec::new("u", kind)).policy(quick()).build().await.expect("gateway");
    let mut pipe = crate::harness::Pipe::start(&gateway);
    let since = tokio::time::Instant::now();
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": crate::harness::pipe::modern_meta(json!({}))}});
    pipe.write(format!("{call}\n").as_bytes()).await;
    let line = tokio::time::timeout(Duration::from_secs(120), pipe.read_line_patiently())
        .await
        .expect("an answer in time");
    let answer: Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!(answer["error"]["code"], -32603, "{answer}");
    assert!(since.elapsed() < Duration::from_secs(120));
}

/// An upstream that lives but no longer lists its tools holds nobody up for long: the rest is listed and called, and so
/// are the tools it had. One that never lists them is not up, and is started again.
#[tokio::test(start_paused = true)]
async fn an_upstream_that_does_not_list_its_tools_holds_nobody_up() {
    let alive = Board::with_tools(Era::Both, vec![tool("alive")]);
    let stuck = Board::with_tools(Era::Both, vec![tool("stuck")]);
    let never = Board::with_tools(Era::Both, vec![tool("never_listed")]);
    never.hush_lists(true);
    let builder =
        Gateway::builder().add(alive.spec("alive")).add(stuck.spec("stuck")).add(never.spec("never"));
    let gateway = policies(builder).build().await.expect("gateway");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(never.count("connections") > 1, "it is started again");
    stuck.hush_lists(true);
    let mut pipe = crate::harness::Pipe::start(&gateway);
    let limit = Duration::from_secs(15);
    let patiently = async {
        let list = pipe.ask_modern("tools/list", json!({})).await;
        assert_eq!(names(list.result()), ["alive", "stuck"]);
        let call = |name: &str| json!({"name": name, "arguments": {}});
        assert_eq!(pipe.ask_modern("tools/call", call("unknown")).await.code(), -32602);
        pipe.ask_modern("tools/call", call("stuck")).await.result();
    };
    tokio::time::timeout(limit, patiently).await.expect("in time");
}

/// The gateway and the upstream's own list: cursors and unknown members of a single upstream pass through.
#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_appears_later_is_found() {
    let board = Board::new(Era::Both);
    let server = serve(&board).await;
    let modern = Modern::new(&server);
    modern.tool("never", json!([])).await.result();
    let lists = board.heard("tools/list").len();
    assert_eq!(modern.tool("new", json!([])).await.code(), -32602);
    assert_eq!(board.heard("tools/list").len(), lists + 1, "an unknown tool is looked for, once");
    let lists = board.heard("tools/list").len();
    board.say("notifications/tools/list_changed", None).await;
    board.until("it was listed again", |board| board.heard("tools/list").len() > lists).await;
}
