//! The audit log: what is written, by whom it was caused, and that nothing of what is sent or answered is in it.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use taskgate_gateway::access::{AccessConfig, Resource, Rights, StaticToken, TokenHash};
use taskgate_gateway::{
    AuditPlace, AuditSettings, Gateway, HostSettings, LimitSettings, OnAuditFailure, Settings,
};

use crate::harness::http::send;
use crate::harness::{Board, Era, Host, Modern, Old, Pipe, Server, builder, eventually, settings, steps};

fn audited(path: &Path) -> Settings {
    let to = AuditPlace::File(path.to_owned());
    let audit = Some(AuditSettings { to, on_failure: OnAuditFailure::Log });
    Settings { audit, single_user: true, ..settings() }
}

async fn gateway(board: &Board, settings: Settings) -> Gateway {
    builder(board).settings(settings).build().await.expect("gateway")
}

/// What stands in the file by now.
fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// The lines once there is one that fits.
async fn until(path: &Path, fits: impl Fn(&Value) -> bool) -> Vec<Value> {
    eventually("the line", || async {
        let lines = lines(path);
        lines.iter().any(&fits).then_some(lines)
    })
    .await
}

/// A line without what differs from one time to the next.
fn settled(mut line: Value) -> Value {
    for (key, length) in [("time", 24), ("task", 16), ("node", 16)] {
        if let Some(value) = line.get_mut(key) {
            assert_eq!(value.as_str().map(str::len), Some(length), "{key}: {value}");
            *value = json!("…");
        }
    }
    line
}

fn is(line: &Value, event: &str, task: &str) -> bool {
    line["event"] == event && line["task"].as_str().is_some_and(|half| task.starts_with(half))
}

/// What whoever reads the log can rely on, word by word.
#[tokio::test(flavor = "multi_thread")]
async fn the_lines_of_a_task_are_these() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("audit.jsonl");
    let board = Board::new(Era::Both);
    let server = Server::start(gateway(&board, audited(&path)).await).await;
    let modern = Modern::new(&server);
    let id = modern
        .task(
            "always",
            json!([{"wait": "go"}, {"return": {"content": [{"type": "text", "text": "sesame"}]}}]),
        )
        .await;
    board.open("go");
    until(&path, |line| line["to"] == "completed").await;
    modern.ask("tasks/get", json!({"taskId": id})).await.result();
    assert_eq!(modern.ask("tasks/get", json!({"taskId": "00"})).await.code(), -32602);
    let written = until(&path, |line| line["event"] == "refusal").await;
    assert!(id.starts_with(written[0]["task"].as_str().expect("a task")));
    let text = std::fs::read_to_string(&path).expect("read");
    assert!(!text.contains(&id) && !text.contains("sesame"), "{text}");
    let asked = |method: &str, id: &str, event: &str| {
        json!({
            "time": "…", "event": event, "owner": "local", "method": method, "request_id": id, "protocol": "2026-07-28",
            "dialect": "2026-07-28", "client": "test", "client_version": "1", "peer": "127.0.0.1", "node": "…",
        })
    };
    let with = |mut line: Value, more: Value| {
        let more = more.as_object().expect("an object").clone();
        line.as_object_mut().expect("an object").extend(more);
        line
    };
    let of_task = json!({"task": "…", "upstream": "upstream", "tool": "always"});
    let expected = [
        with(
            with(asked("tools/call", "1", "create"), of_task.clone()),
            json!({"who": "requestor", "to": "working", "version": 1, "why": "created"}),
        ),
        with(
            json!({"time": "…", "event": "transition", "owner": "local", "node": "…", "who": "runner"}),
            with(of_task, json!({"from": "working", "to": "completed", "version": 2, "why": "result"})),
        ),
        with(asked("tasks/get", "2", "retrieval"), json!({"task": "…"})),
        with(
            asked("tasks/get", "3", "refusal"),
            json!({"given_id": "00", "reason": "unknown_task", "code": -32602}),
        ),
    ];
    assert_eq!(written.into_iter().map(settled).collect::<Vec<_>>(), expected);
}

/// Each dialect, each way of looking, over HTTP and stdio; and a host that has no tasks.
#[tokio::test(flavor = "multi_thread")]
async fn every_dialect_has_its_lines() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("audit.jsonl");
    let board = Board::new(Era::Both);
    let hosts = HostSettings { budget: Some(Duration::from_millis(50)), ..HostSettings::default() };
    let settings = Settings { hosts, ..audited(&path) };
    let server = Server::start(gateway(&board, settings).await).await;
    let result = json!([{"return": {"content": []}}]);

    let old = Old::open(&server).await;
    let made = old.augmented("always", result.clone()).await;
    let id = made.result()["task"]["taskId"].as_str().expect("an id").to_owned();
    old.ask("tasks/result", json!({"taskId": id})).await.result();
    old.ask("tasks/list", json!({})).await.result();
    assert_eq!(old.ask("tasks/cancel", json!({"taskId": id})).await.code(), -32602);
    assert_eq!(old.augmented("never", result.clone()).await.code(), -32601);
    old.tool("never", result.clone()).await.result();

    let mut pipe = Pipe::open(&server.gateway).await;
    let meta = json!({"modelcontextprotocol.io/task": {"taskId": "mine"}});
    let call = json!({"name": "do", "arguments": steps(&result), "_meta": meta});
    pipe.ask("tools/call", call).await.result();
    let about =
        json!({"taskId": "mine", "_meta": {"modelcontextprotocol.io/related-task": {"taskId": "mine"}}});
    pipe.ask("tasks/get", about.clone()).await.result();
    pipe.ask("tasks/delete", about).await.result();

    let modern = Modern::new(&server);
    let held = modern.task("always", json!([{"wait": "never"}])).await;
    modern.ask("tasks/cancel", json!({"taskId": held})).await.result();
    let listening = modern.listen(&[&held]).await;
    assert_eq!(Modern::without_tasks(&server).tool("always", result.clone()).await.code(), -32021);

    let mut host = Host::open(&server.gateway, "2025-06-18", json!({})).await;
    let told = host.call("patient", steps(&json!([{"wait": "never"}]))).await;
    let (status, arguments) = crate::harness::host::told(&told).expect("what to do next");
    host.call(&status, arguments).await;
    host.call("task_cancel", json!({"task": "nothing"})).await;

    let all = until(&path, |line| line["event"] == "refusal" && line["verb"] == "tasks/cancel").await;
    drop(listening);
    let find = |what: &str, fits: &dyn Fn(&Value) -> bool| {
        let found: Vec<&Value> = all.iter().filter(|line| fits(line)).collect();
        assert_eq!(found.len(), 1, "{what}: {all:#?}");
        found[0].clone()
    };
    let made = find("a creation of 2025-11-25", &|line| is(line, "create", &id));
    assert_eq!((&made["dialect"], &made["client"]), (&json!("2025-11-25"), &json!("test")));
    assert_eq!(find("its end", &|line| is(line, "transition", &id))["to"], "completed");
    find("its result", &|line| is(line, "retrieval", &id) && line["method"] == "tasks/result");
    find("a list", &|line| line["event"] == "retrieval" && line["method"] == "tasks/list");
    let late = find("a cancel that is too late", &|line| is(line, "refusal", &id));
    assert_eq!((&late["reason"], &late["code"]), (&json!("error"), &json!(-32602)));
    let policy = find("a tool without tasks", &|line| line["reason"] == "policy" && line["tool"] == "never");
    assert_eq!(policy["code"], Value::Null);
    find("a call that is no task", &|line| line["event"] == "call" && line["tool"] == "never");

    let first =
        find("a creation of 2025-10-20", &|line| line["event"] == "create" && line["given_id"] == "mine");
    assert_eq!((&first["dialect"], &first["peer"]), (&json!("2025-10-20"), &Value::Null));
    assert_eq!(first["request_id"], "2", "the first is initialize: {first}");
    let got =
        find("a look of 2025-10-20", &|line| line["event"] == "retrieval" && line["given_id"] == "mine");
    assert_eq!(got["dialect"], "2025-10-20");
    find("the wish to delete", &|line| line["event"] == "request" && line["method"] == "tasks/delete");
    find("the deletion", &|line| line["event"] == "delete" && line["given_id"] == "mine");

    find("a cancel", &|line| is(line, "request", &held) && line["method"] == "tasks/cancel");
    let cancelled = find("a cancelled task", &|line| is(line, "transition", &held));
    assert_eq!((&cancelled["who"], &cancelled["why"]), (&json!("requestor"), &json!("cancelled by request")));
    find("a subscription", &|line| line["method"] == "subscriptions/listen");
    find("a caller without tasks", &|line| line["reason"] == "policy" && line["tool"] == "always");

    let words = find("a creation for a host", &|line| line["event"] == "create" && line["tool"] == "patient");
    assert_eq!((&words["protocol"], &words["dialect"]), (&json!("2025-06-18"), &Value::Null));
    let asked = find("a look of a host", &|line| line["event"] == "retrieval" && line["verb"] != Value::Null);
    assert_eq!((&asked["task"], &asked["method"]), (&words["task"], &json!("tools/call")));
    find("an id of nobody", &|line| line["given_id"] == "nothing" && line["reason"] == "unknown_task");
}

/// Who shows no token, one that does not allow it, or comes from elsewhere, and who asks too much.
#[tokio::test(flavor = "multi_thread")]
async fn who_is_not_let_in_has_a_line() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("audit.jsonl");
    let token = StaticToken {
        name: "ann".to_owned(),
        hash: TokenHash::of("ann-secret"),
        scopes: vec!["mcp".to_owned()],
    };
    let rights = Rights {
        methods: [("tasks/*".to_owned(), vec!["tasks".to_owned()])].into_iter().collect(),
        ..Rights::default()
    };
    let resource = Resource::parse("https://gate.example/mcp").expect("an address");
    let auth = AccessConfig {
        resource,
        issuers: Vec::new(),
        tokens: vec![token],
        proxy: None,
        rights,
        certificates: None,
        reach: Default::default(),
    };
    let limits = LimitSettings { owner_open_tasks: Some(1), ..LimitSettings::default() };
    let settings = Settings { auth: Some(auth), single_user: false, limits, ..audited(&path) };
    let server = Server::start(gateway(&Board::new(Era::Both), settings).await).await;
    assert_eq!(send(server.addr, "POST", &[], b"{}").await.status, 401);
    assert_eq!(
        send(server.addr, "POST", &[("Authorization", "Bearer wrong-sesame")], b"{}").await.status,
        401
    );
    assert_eq!(send(server.addr, "POST", &[("Origin", "https://evil.example")], b"{}").await.status, 403);
    let ann = Modern::of(&server, "ann-secret");
    assert_eq!(ann.ask("tasks/get", json!({"taskId": "00"})).await.status, 403);
    let hold = json!([{"wait": "never"}]);
    let _held = ann.task("always", hold.clone()).await;
    assert_eq!(ann.tool("always", hold).await.status, 429);
    // Who is turned away at the door is not kept until the line is written, so lines may come in another order.
    let count = |lines: &[Value]| lines.iter().filter(|line| line["event"] == "refusal").count();
    let written = eventually("five refusals", || async {
        let lines = lines(&path);
        (count(&lines) == 5).then_some(lines)
    })
    .await;
    let mut refusals: Vec<&Value> = written.iter().filter(|line| line["event"] == "refusal").collect();
    let rank = |line: &Value| {
        let order = ["unauthorized", "forbidden", "limit"];
        (order.iter().position(|reason| line["reason"] == *reason), line["owner"].to_string().len())
    };
    refusals.sort_by_key(|line| rank(line));
    let said: Vec<(&str, &Value)> =
        refusals.iter().map(|line| (line["reason"].as_str().expect("a reason"), &line["owner"])).collect();
    let owner = &refusals[3]["owner"];
    assert!(owner.as_str().is_some_and(|owner| owner.contains("ann")), "{owner}");
    assert_eq!(
        said,
        [
            ("unauthorized", &Value::Null),
            ("unauthorized", &Value::Null),
            ("forbidden", &Value::Null),
            ("forbidden", owner),
            ("limit", owner)
        ]
    );
    assert_eq!(
        (&refusals[2]["why"], &refusals[3]["method"]),
        (&json!("allowed_origins"), &json!("tasks/get"))
    );
    assert_eq!((&refusals[4]["why"], &refusals[4]["code"]), (&json!("owner_open_tasks"), &json!(-32603)));
    let text = std::fs::read_to_string(&path).expect("read");
    assert!(!text.contains("sesame") && !text.contains("ann-secret"), "{text}");
}

/// A name of a megabyte with line ends in it is one short line.
#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_name_stays_one_short_line() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("audit.jsonl");
    let gateway = gateway(&Board::new(Era::Both), audited(&path)).await;
    let mut pipe = Pipe::start(&gateway);
    let hostile = format!("a\n{{\"event\":\"create\"}}\n{}", "x".repeat(1 << 20));
    let info = json!({"name": hostile, "version": hostile});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {"tasks": {}}, "clientInfo": info});
    pipe.ask("initialize", params).await.result();
    let call = json!({"name": "always", "arguments": steps(&json!([])), "task": {}});
    pipe.ask("tools/call", call).await.result();
    assert_eq!(pipe.ask("tasks/get", json!({"taskId": hostile})).await.code(), -32602);
    let written = until(&path, |line| line["event"] == "refusal").await;
    assert_eq!(written.iter().filter(|line| line["event"] == "create").count(), 1, "{written:?}");
    let text = std::fs::read_to_string(&path).expect("read");
    assert!(text.lines().all(|line| line.len() < 4096));
}
