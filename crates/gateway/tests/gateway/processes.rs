//! Upstreams that are processes of their own.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use taskgate_gateway::{
    Gateway, GatewayBuilder, Settings, StdioCommand, TaskMode, ToolPolicy, UpstreamState,
};

use crate::harness::{Child, Life, Modern, Old, Server, accept, eventually, logs, quick, settings};

fn builder(command: StdioCommand) -> GatewayBuilder {
    let always = ToolPolicy { tasks: TaskMode::Always, ..quick() };
    let settings = Settings { max_message: 32 << 20, ..settings() };
    // `act` is called plainly, `reread` as a task.
    Gateway::builder()
        .upstream_command("child", command)
        .policy(quick())
        .tool("reread", always)
        .settings(settings)
}

async fn serve(child: &Child) -> Server {
    Server::start(builder(child.command("lives")).build().await.expect("gateway")).await
}

async fn act(modern: &Modern, arguments: Value) -> crate::harness::Answer {
    modern.ask("tools/call", json!({"name": "act", "arguments": arguments})).await
}

/// A task on the child; its tool says that it may be run again, which a death of the child does not do by itself.
async fn task(modern: &Modern, arguments: Value) -> String {
    modern.ask("tools/call", json!({"name": "reread", "arguments": arguments})).await.task()
}

/// Case 5: a child that dies in the middle of a call ends it at once and says how it died; it is not called again. One
/// that is merely silent is left alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_dies_ends_its_calls_at_once() {
    let child = Child::new();
    let server = serve(&child).await;
    let modern = Modern::new(&server);
    let old = Old::open(&server).await;
    for (how, words) in [("kill", "signal 9"), ("exit", "the last words")] {
        // The server is restarted after a pause.
        eventually("the child", || async {
            act(&modern, json!({"do": "length", "text": ""})).await.json.get("result").cloned()
        })
        .await;
        let silent = task(&modern, json!({"do": "silence"})).await;
        let noted = if how == "kill" { 1 } else { 2 };
        eventually("the silent call", || async { (child.notes("silent").len() == noted).then_some(()) })
            .await;
        let since = Instant::now();
        let dying =
            old.ask("tools/call", json!({"name": "act", "arguments": {"do": how}, "task": {}})).await.task();
        let dead = modern.until(&dying, "failed").await;
        assert!(since.elapsed() < Duration::from_secs(1), "{:?}", since.elapsed());
        assert!(dead["statusMessage"].as_str().expect("words").contains(words), "{dead}");
        assert_eq!(modern.until(&silent, "failed").await["error"]["code"], -32603);
        let error = old.ask("tasks/result", json!({"taskId": dying})).await;
        assert!(error.error()["message"].as_str().expect("words").contains(words));
    }
    let silent = eventually("a task", || async {
        let answer =
            modern.ask("tools/call", json!({"name": "reread", "arguments": {"do": "silence"}})).await;
        let id = answer.task();
        tokio::time::sleep(Duration::from_millis(300)).await;
        (modern.get(&id).await["status"] == "working").then_some(id)
    })
    .await;
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(modern.get(&silent).await["status"], "working");
    modern.ask("tasks/cancel", json!({"taskId": silent})).await.result();
    // Case 17, on a pipe: one cancel, with the id the child knows.
    eventually("the cancel", || async { (child.notes("cancelled").len() == 1).then_some(()) }).await;
    logs::clean();
}

/// Case 31: large arguments and large results pass in both directions at once; what is over the limit is a typed error
/// that says which limit, and the next call works.
#[tokio::test(flavor = "multi_thread")]
async fn large_messages_neither_block_nor_kill() {
    let child = Child::new();
    let server = serve(&child).await;
    let modern = Modern::new(&server);
    let text = "x".repeat(1 << 20);
    assert_eq!(act(&modern, json!({"do": "shout", "text": text})).await.text(), "1048576");
    let many = (0..4).map(|_| act(&modern, json!({"do": "length", "text": text})));
    for answer in futures_util::future::join_all(many).await {
        assert_eq!(answer.text(), "1048576");
    }
    let size = 50 << 20;
    let id = task(&modern, json!({"do": "big", "size": size})).await;
    let done = modern.until(&id, "completed").await;
    assert_eq!(done["result"]["content"][0]["text"].as_str().expect("a text").len(), size);
    logs::clean();
}

/// Case 31: an answer over the child's line limit ends its call with an error that says so, wherever its id stands.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_over_the_limit_is_an_error() {
    let child = Child::new();
    let command = StdioCommand { line_limit: 1 << 20, ..child.command("lives") };
    let server = Server::start(builder(command).build().await.expect("gateway")).await;
    let modern = Modern::new(&server);
    for how in ["big", "big_id_last"] {
        let answer = act(&modern, json!({"do": how, "size": 2 << 20})).await;
        assert_eq!(answer.code(), -32603, "{how}");
        assert!(answer.error()["message"].as_str().expect("words").contains("1048576"), "{}", answer.raw);
        let id = task(&modern, json!({"do": how, "size": 2 << 20})).await;
        let failed = modern.until(&id, "failed").await;
        assert!(failed["error"]["message"].as_str().expect("words").contains("1048576"), "{failed}");
        assert_eq!(act(&modern, json!({"do": "length", "text": "abc"})).await.text(), "3");
    }
    logs::clean();
}

/// Case 33, and what else children write: banners, invalid bytes, one byte at a time, answers that are none.
#[tokio::test(flavor = "multi_thread")]
async fn whatever_a_child_writes_harms_only_itself() {
    let child = Child::new();
    let server = serve(&child).await;
    let modern = Modern::new(&server);
    let old = Old::open(&server).await;
    assert!(act(&modern, json!({"do": "garbage"})).await.result()["content"].is_array());
    let text = "é漢字😀한국어";
    assert_eq!(act(&modern, json!({"do": "drip", "text": text})).await.text(), text);
    assert_eq!(act(&modern, json!({"do": "twice"})).await.text(), "first");
    assert_eq!(act(&modern, json!({"do": "string_id"})).await.text(), "as a string");
    let deep =
        modern.open("tools/call", json!({"name": "act", "arguments": {"do": "deep"}})).await.text().await;
    assert!(deep.contains(&"[".repeat(100_000)));
    for how in ["null", "list", "both", "neither", "future"] {
        let answer = act(&modern, json!({"do": how})).await;
        assert_eq!(answer.code(), -32603, "{how}: {}", answer.raw);
        assert_eq!(
            old.ask("tools/call", json!({"name": "act", "arguments": {"do": how}})).await.code(),
            -32603,
            "{how}"
        );
        let id = task(&modern, json!({"do": how})).await;
        modern.until(&id, "failed").await;
    }
    // As a task the deep result is kept and read like any other.
    let id = task(&modern, json!({"do": "deep"})).await;
    eventually("its end", || async {
        let raw = modern.open("tasks/get", json!({"taskId": id})).await.text().await;
        raw.contains("\"status\":\"completed\"").then_some(())
    })
    .await;
    logs::clean();
}

/// Case 30: a child that exits at once is started at most 8 times in a minute. The first seconds tell: the pauses double.
#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_exits_is_not_restarted_at_full_speed() {
    let child = Child::new();
    let gateway = builder(child.command("dies")).build().await.expect("gateway");
    tokio::time::sleep(Duration::from_millis(4800)).await;
    let starts = child.notes("start").len();
    // 0, 0.5, 1.5 and 3.5 s, and once more for a server that might only dislike the first question.
    assert!((2..=5).contains(&starts), "{starts} starts");
    assert!(!matches!(gateway.upstream_states()[0].1, UpstreamState::Up(_)));
    let server = Server::start(gateway).await;
    let since = Instant::now();
    assert_eq!(act(&Modern::new(&server), json!({"do": "length"})).await.code(), -32603);
    assert!(since.elapsed() < Duration::from_secs(1));
}

/// Some servers end when they are asked something before `initialize`: they are started again and not asked.
#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_ends_at_the_probe_is_spoken_to_differently() {
    let child = Child::new();
    let server =
        Server::start(builder(child.command("exits_on_probe")).build().await.expect("gateway")).await;
    let modern = Modern::new(&server);
    assert_eq!(act(&modern, json!({"do": "length", "text": "abcd"})).await.text(), "4");
    assert_eq!(child.notes("start").len(), 2);
    // After a crash it is not asked again.
    assert_eq!(act(&modern, json!({"do": "kill"})).await.code(), -32603);
    eventually("the child", || async {
        act(&modern, json!({"do": "length", "text": ""})).await.json.get("result").cloned()
    })
    .await;
    assert_eq!(child.notes("start").len(), 3);
}

/// Case 20: the gateway is killed while the child asks. Work of class `live` fails as interrupted; repeatable work runs
/// again, asks again under another key, and completes.
#[tokio::test(flavor = "multi_thread")]
async fn a_crash_while_asking_is_decided_by_the_class() {
    let child = Child::new();
    let file = child.path("tasks.db");
    let start = |command: StdioCommand| move || builder(command);
    let life = Life::start(&file, start(child.command("lives"))).await;
    let modern = Modern::new(life.server());
    let old = Old::open(life.server()).await;
    let live =
        old.ask("tools/call", json!({"name": "act", "arguments": {"do": "ask"}, "task": {}})).await.task();
    modern.until(&live, "input_required").await;
    life.kill().await;
    let life = Life::start(&file, start(child.command("lives"))).await;
    let modern = Modern::new(life.server());
    let failed = modern.until(&live, "failed").await;
    assert_eq!(failed["error"]["data"]["reason"], "interrupted");
    assert_eq!((child.notes("before").len(), child.notes("after").len()), (1, 0));
    let again = task(&modern, json!({"do": "ask"})).await;
    let asked = modern.until(&again, "input_required").await["inputRequests"].clone();
    life.kill().await;
    let life = Life::start(&file, start(child.command("lives"))).await;
    let modern = Modern::new(life.server());
    let second = modern.until(&again, "input_required").await["inputRequests"].clone();
    let key =
        |requests: &Value| requests.as_object().expect("requests").keys().next().expect("a key").clone();
    assert_ne!(key(&asked), key(&second));
    modern.update(&again, json!({key(&asked): accept("to the dead")})).await.result();
    assert_eq!(modern.get(&again).await["status"], "input_required");
    modern.update(&again, json!({key(&second): accept("x")})).await.result();
    modern.until(&again, "completed").await;
    assert_eq!((child.notes("before").len(), child.notes("after").len()), (3, 1));
    logs::clean();
}

/// Case 16, for upstreams: when the gateway ends, the child and what it started are gone.
#[tokio::test(flavor = "multi_thread")]
async fn no_process_is_left_behind() {
    let child = Child::new();
    let server = serve(&child).await;
    let pids = act(&Modern::new(&server), json!({"do": "grandchild"})).await.text().to_owned();
    server.stop();
    server.stopped().await;
    drop(server);
    for pid in pids.split(' ') {
        eventually("the end of the process", || async {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let state = stat.rsplit(')').next().and_then(|rest| rest.trim().chars().next());
            matches!(state, None | Some('Z')).then_some(())
        })
        .await;
    }
}
