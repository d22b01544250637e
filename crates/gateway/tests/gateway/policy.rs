//! Who may call which tool: in lists and in calls of every dialect, and again when work is begun later.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use taskgate_gateway::access::rules::{Effect, Pattern, Rule, Rules};
use taskgate_gateway::access::{AccessConfig, Resource, Rights, StaticToken, TokenHash};
use taskgate_gateway::{Gateway, GatewayBuilder, LimitSettings, Reloaded, Settings};

use crate::harness::{
    Board, Era, Life, Modern, Old, Pipe, Server, builder, form, policies, quick, settings, steps,
};

/// Ann, who has all scopes, and Bob, who has one.
fn auth() -> AccessConfig {
    let token = |name: &str, scopes: &[&str]| StaticToken {
        name: name.to_owned(),
        hash: TokenHash::of(&format!("{name}-secret")),
        scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
    };
    AccessConfig {
        resource: Resource::parse("https://gate.example/mcp").expect("an address"),
        issuers: Vec::new(),
        tokens: vec![token("ann", &["admin"]), token("bob", &["mcp"])],
        proxy: None,
        rights: Rights {
            includes: BTreeMap::from([("admin".to_owned(), vec!["write".to_owned()])]),
            ..Rights::default()
        },
        certificates: None,
        reach: Default::default(),
    }
}

fn all(texts: &[&str]) -> Vec<Pattern> {
    texts.iter().map(|text| Pattern::new(text)).collect()
}

fn deny(tools: &[&str]) -> Rule {
    Rule { effect: Effect::Deny, tools: all(tools), ..Rule::default() }
}

fn allow_first(rules: Vec<Rule>, default: Effect) -> Option<Rules> {
    Some(Rules { rules, default })
}

fn guarded(builder: GatewayBuilder) -> GatewayBuilder {
    builder.settings(Settings { auth: Some(auth()), ..settings() })
}

async fn serve(builder: GatewayBuilder) -> Server {
    Server::start(builder.build().await.expect("gateway")).await
}

fn names(result: &Value) -> Vec<String> {
    let tools = result["tools"].as_array().expect("tools").iter();
    tools.map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
}

/// `never` is kept from whoever has no `write`, `headed` from everybody with words, and `do` from Bob.
fn rules() -> Option<Rules> {
    let with_write =
        Rule { effect: Effect::Allow, tools: all(&["never"]), scopes: all(&["write"]), ..Rule::default() };
    let reason = Rule { reason: Some("it is being mended".to_owned()), ..deny(&["headed"]) };
    let not_bob = Rule { owners: all(&["token bob"]), ..deny(&["do"]) };
    allow_first(vec![with_write, deny(&["never"]), reason, not_bob], Effect::Allow)
}

/// What an answer is without what a caller has put in itself.
fn bare(answer: &crate::harness::Answer, name: &str) -> Value {
    let error = answer.json.get("error").unwrap_or_else(|| panic!("no error: {}", answer.raw));
    serde_json::from_str(&error.to_string().replace(name, "NAME")).expect("JSON")
}

/// With one upstream, whose pages are relayed, and with two, whose lists are one.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_denied_is_in_no_list_and_as_unknown_in_every_call() {
    for (era, upstreams) in [(Era::Session, 1), (Era::Modern, 1), (Era::Both, 2)] {
        let board = Board::new(era);
        let mut builder = guarded(builder(&board)).rules(rules());
        if upstreams == 2 {
            let other = Board::with_tools(
                Era::Both,
                vec![json!({"name": "other", "inputSchema": {"type": "object"}})],
            );
            builder = builder.add(other.spec("second"));
        }
        let server = serve(builder).await;
        let open = serve(guarded(crate::harness::builder(&Board::new(era)))).await;
        let plain = names(Modern::of(&open, "bob-secret").ask("tools/list", json!({})).await.result());
        for (token, kept) in [("ann-secret", vec!["headed"]), ("bob-secret", vec!["never", "headed", "do"])] {
            let (modern, old) = (Modern::of(&server, token), Old::of(&server, token).await);
            let session = Old::shown(&server, "2025-06-18", json!({}), Some(token)).await;
            let listed = modern.ask("tools/list", json!({})).await;
            let mut expected = plain.clone();
            expected.retain(|name| !kept.contains(&name.as_str()));
            if upstreams == 2 {
                expected.push("other".to_owned());
            }
            assert_eq!(names(listed.result()), expected);
            assert_eq!(listed.result()["cacheScope"], "private", "others see another one");
            assert_eq!(names(old.ask("tools/list", json!({})).await.result()), expected);
            // One that knows no tasks has the companions, whatever the rules say of tools.
            let without = names(session.ask("tools/list", json!({})).await.result());
            assert_eq!(without[..expected.len()], expected);
            assert_eq!(without[expected.len()..], ["task_status", "task_result", "task_cancel"]);
            for name in kept {
                let call = |name: &str| json!({"name": name, "arguments": steps(&json!([]))});
                let with = |name: &str, key: &str, value: Value| {
                    let mut call = call(name);
                    call[key] = value;
                    call
                };
                let first = |name: &str| {
                    with(name, "_meta", json!({"modelcontextprotocol.io/task": {"taskId": "mine"}}))
                };
                let keyed = |name: &str| with(name, "_meta", json!({"io.taskgate/idempotency-key": "k"}));
                let task = |name: &str| with(name, "task", json!({}));
                let mut answers = vec![
                    (
                        modern.ask("tools/call", call(name)).await,
                        modern.ask("tools/call", call("nothing")).await,
                    ),
                    (
                        modern.ask("tools/call", keyed(name)).await,
                        modern.ask("tools/call", keyed("nothing")).await,
                    ),
                    (old.ask("tools/call", call(name)).await, old.ask("tools/call", call("nothing")).await),
                    (old.ask("tools/call", task(name)).await, old.ask("tools/call", task("nothing")).await),
                    (old.ask("tools/call", first(name)).await, old.ask("tools/call", first("nothing")).await),
                ];
                answers.push((
                    session.ask("tools/call", call(name)).await,
                    session.ask("tools/call", call("nothing")).await,
                ));
                for (denied, unknown) in answers {
                    assert_eq!(denied.code(), -32602, "{}", denied.raw);
                    if name == "headed" {
                        let error = denied.error();
                        let words = format!("The tool {name} is not allowed: it is being mended");
                        assert_eq!(error["message"], words);
                        assert_eq!(error["data"], json!({"reason": "denied"}));
                    } else {
                        assert_eq!(bare(&denied, name), bare(&unknown, "nothing"));
                        assert_eq!(denied.status, unknown.status);
                    }
                }
            }
            modern.tool("reader", json!([])).await.result();
        }
        assert_eq!(board.count("calls"), 2, "nothing that was denied has been called");
        Modern::of(&server, "ann-secret").tool("never", json!([])).await.result();
    }
}

/// Where nothing is allowed but what is said, by a tool's own words; and a caller over stdio, who need show nothing.
#[tokio::test(flavor = "multi_thread")]
async fn only_what_is_allowed_is_there() {
    let board = Board::new(Era::Both);
    let reads =
        Rule { effect: Effect::Allow, read_only: Some(true), owners: all(&["local"]), ..Rule::default() };
    let scoped = Rule { effect: Effect::Allow, scopes: all(&["*"]), ..Rule::default() };
    let rules = allow_first(vec![reads, scoped], Effect::Deny);
    let gateway = builder(&board).rules(rules).build().await.expect("gateway");
    let mut pipe = Pipe::open(&gateway).await;
    assert_eq!(names(pipe.ask("tools/list", json!({})).await.result()), ["reader"]);
    pipe.ask("tools/call", json!({"name": "reader", "arguments": steps(&json!([]))})).await.result();
    assert_eq!(
        pipe.ask("tools/call", json!({"name": "do", "arguments": steps(&json!([]))})).await.code(),
        -32602
    );
    let server = Server::start(gateway).await;
    assert!(names(Modern::new(&server).ask("tools/list", json!({})).await.result()).is_empty(), "anonymous");
}

/// A batch of 2025-03-26 is no way around.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_no_way_around() {
    let board = Board::new(Era::Both);
    let server = serve(guarded(builder(&board)).rules(rules())).await;
    let bob = Old::shown(&server, "2025-03-26", json!({}), Some("bob-secret")).await;
    let call = |id: u64, name: &str| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name, "arguments": steps(&json!([]))}});
    let mut response = bob.post(&json!([call(91, "do"), call(92, "reader")])).await;
    let mut answers = BTreeMap::new();
    while answers.len() < 2 {
        let said: Value = serde_json::from_str(&response.event().await.expect("an answer")).expect("JSON");
        answers.insert(said["id"].as_u64().expect("an id"), said);
    }
    assert_eq!(answers[&91]["error"]["code"], -32602);
    assert!(answers[&92]["result"].is_object());
    assert_eq!(board.count("calls"), 1);
}

/// Rules count again when work is resumed after a restart, by what was kept of the call; reads and cancelling stay its owner's.
#[tokio::test(flavor = "multi_thread")]
async fn work_is_not_resumed_by_whom_may_not_call_any_more() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("tasks.db");
    let board = Board::new(Era::Both);
    let start = |rules: Option<Rules>| {
        let board = board.clone();
        move || guarded(builder(&board)).rules(rules)
    };
    // Everybody may, but on account of the scope: so the scopes are kept.
    let scoped = |effect, scope: &str| Rule { scopes: all(&[scope]), effect, ..deny(&["reader"]) };
    let before = allow_first(vec![scoped(Effect::Allow, "*")], Effect::Allow);
    let life = Life::start(&file, start(before)).await;
    let what = json!([{"count": "runs"}, {"wait": "go"}]);
    let bob = Old::of(life.server(), "bob-secret").await;
    let of_ann = Old::of(life.server(), "ann-secret").await.augmented("reader", what.clone()).await.task();
    let of_bob = bob.augmented("reader", what.clone()).await.task();
    let cancelled = bob.augmented("reader", what).await.task();
    board.until("all run", |board| board.running() == 3).await;
    bob.ask("tasks/cancel", json!({"taskId": cancelled})).await.result();
    life.kill().await;

    let why = Rule { reason: Some("readers are writers now".to_owned()), ..scoped(Effect::Deny, "*") };
    let after = allow_first(vec![scoped(Effect::Allow, "write"), why], Effect::Allow);
    let life = Life::start(&file, start(after)).await;
    let (ann, bob) = (Modern::of(life.server(), "ann-secret"), Modern::of(life.server(), "bob-secret"));
    let failed = bob.until(&of_bob, "failed").await;
    let message =
        "The call is not begun, as its caller is no longer allowed to make it: readers are writers now";
    assert_eq!(failed["error"], json!({"code": -32602, "message": message, "data": {"reason": "denied"}}));
    assert_eq!(bob.get(&cancelled).await["status"], "cancelled");
    board.open("go");
    ann.until(&of_ann, "completed").await;
    // Two before, one that was cancelled, and Ann's once more.
    assert_eq!(board.count("runs"), 4);
}

/// What is not kept of a call that was made before there were rules counts against it.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_not_kept_counts_against_the_call() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("tasks.db");
    let board = Board::new(Era::Both);
    let start = |rules: Option<Rules>| {
        let board = board.clone();
        move || guarded(builder(&board)).rules(rules)
    };
    let life = Life::start(&file, start(None)).await;
    let ann = Old::of(life.server(), "ann-secret").await;
    let bob = Old::of(life.server(), "bob-secret").await;
    let what = json!([{"wait": "go"}]);
    let (of_ann, of_bob) =
        (ann.augmented("reader", what.clone()).await.task(), bob.augmented("reader", what).await.task());
    board.until("both run", |board| board.running() == 2).await;
    life.kill().await;
    // Who Ann is was kept, and what Bob may was not.
    let named = Rule { effect: Effect::Allow, owners: all(&["token ann"]), ..Rule::default() };
    let scoped = Rule { effect: Effect::Allow, scopes: all(&["mcp"]), ..Rule::default() };
    let life = Life::start(&file, start(allow_first(vec![named, scoped], Effect::Deny))).await;
    board.open("go");
    let bob = Modern::of(life.server(), "bob-secret");
    bob.until(&of_bob, "failed").await;
    bob.tool("reader", json!([])).await.result();
    Modern::of(life.server(), "ann-secret").until(&of_ann, "completed").await;
}

/// Other rules while the gateway serves: clients are told, what runs goes on, and what waits for its turn or for answers does not begin.
#[tokio::test(flavor = "multi_thread")]
async fn other_rules_count_for_what_has_not_begun() {
    let board = Board::new(Era::Both);
    let spec = || {
        let mut spec = board.spec("upstream");
        spec.policy = quick();
        spec
    };
    let kept = spec();
    let limits = LimitSettings { owner_calls: Some(1), ..LimitSettings::default() };
    let settings = Settings { auth: Some(auth()), reloads: true, limits, ..settings() };
    let server =
        serve(policies(Gateway::builder().add(kept.clone())).policy(quick()).settings(settings)).await;
    let (ann, bob) = (Modern::of(&server, "ann-secret"), Old::of(&server, "bob-secret").await);
    let mut stream = bob.stream().await;
    let asks = json!([{"round": {"q": form("?")}}]);
    let asking = ann.task("always", asks).await;
    ann.until(&asking, "input_required").await;
    let hold = json!([{"count": "runs"}, {"wait": "go"}]);
    let running = bob.augmented("do", hold.clone()).await.task();
    board.until("it runs", |board| board.running() == 1).await;
    let queued = bob.augmented("do", hold).await.task();

    let rules = allow_first(vec![deny(&["do"]), deny(&["always"])], Effect::Allow);
    let reloaded = server.gateway.reload_with_rules(vec![kept.clone()], rules.clone()).expect("reloaded");
    assert!(reloaded.rules, "{reloaded:?}");
    let told: Value = serde_json::from_str(&stream.event().await.expect("news")).expect("JSON");
    assert_eq!(told["method"], "notifications/tools/list_changed");
    let again = server.gateway.reload_with_rules(vec![kept.clone()], rules).expect("reloaded");
    assert_eq!(again, Reloaded { rules: false, ..again.clone() });
    assert!(!names(bob.ask("tools/list", json!({})).await.result()).contains(&"do".to_owned()));
    assert_eq!(bob.get(&running).await["status"], "working");
    board.open("go");
    bob.until(&running, "completed").await;
    let failed = bob.until(&queued, "failed").await;
    assert!(
        failed["statusMessage"].as_str().is_some_and(|why| why.contains("no longer allowed")),
        "{failed}"
    );
    assert_eq!(board.count("runs"), 1);
    ann.update(&asking, json!({"q": {"action": "decline"}})).await.result();
    ann.until(&asking, "failed").await;
    assert_eq!(board.count("calls"), 2);
    // A reload without rules keeps them, and one that says there are none takes them away.
    server.gateway.reload(vec![kept.clone()]).expect("reloaded");
    assert_eq!(bob.tool("do", json!([])).await.code(), -32602);
    server.gateway.reload_with_rules(vec![kept], None).expect("reloaded");
    bob.tool("do", json!([])).await.result();
}

/// A tool is meant by its own name and by the one with its server's before it, however clients see it at the moment: which of them that is
/// another server decides.
#[tokio::test(flavor = "multi_thread")]
async fn a_tool_is_meant_by_either_name() {
    let work =
        || Board::with_tools(Era::Both, vec![json!({"name": "work", "inputSchema": {"type": "object"}})]);
    let (one, two) = (work(), work());
    for (denied, alone, both) in [
        ("work", vec![], vec![]),
        ("one_work", vec![], vec!["two_work"]),
        ("two_*", vec!["work"], vec!["one_work"]),
    ] {
        let with = |builder: GatewayBuilder| {
            guarded(builder.add(one.spec("one"))).rules(allow_first(vec![deny(&[denied])], Effect::Allow))
        };
        for (server, expected) in [
            (serve(with(Gateway::builder())).await, alone),
            (serve(with(Gateway::builder().add(two.spec("two")))).await, both),
        ] {
            let bob = Modern::of(&server, "bob-secret");
            assert_eq!(names(bob.ask("tools/list", json!({})).await.result()), expected, "{denied}");
            for name in ["work", "one_work", "two_work"] {
                let answer = bob.tool(name, json!([])).await;
                assert_eq!(
                    answer.json.get("result").is_some(),
                    expected.contains(&name),
                    "{denied}: {}",
                    answer.raw
                );
            }
        }
    }
}

/// A scope that is asked for says nothing of a tool that is denied.
#[tokio::test(flavor = "multi_thread")]
async fn a_denied_tool_asks_for_no_scope() {
    let board = Board::new(Era::Both);
    let mut auth = auth();
    auth.rights.tools = BTreeMap::from([("never".to_owned(), vec!["secrets".to_owned()])]);
    let mut spec = board.spec("upstream");
    spec.prefix = Some("p".to_owned());
    let settings = Settings { auth: Some(auth), ..settings() };
    let server = serve(Gateway::builder().add(spec).settings(settings).rules(rules())).await;
    let bob = Modern::of(&server, "bob-secret");
    let (denied, unknown) = (bob.tool("p_never", json!([])).await, bob.tool("p_nothing", json!([])).await);
    assert_eq!((denied.status, bare(&denied, "p_never")), (unknown.status, bare(&unknown, "p_nothing")));
    assert_eq!(Modern::of(&server, "ann-secret").tool("p_never", json!([])).await.status, 403);
}
