//! Several upstreams as one server: lists, names, URIs, capabilities, and what a dead one leaves.

use serde_json::{Value, json};
use taskgate_gateway::Gateway;

use crate::harness::{Board, Era, Modern, Offers, Old, Pipe, Server, eventually, logs, policies};

/// Two upstreams of different eras that clash in everything, and one that has nothing but tools.
struct Three {
    one: Board,
    two: Board,
    server: Server,
}

async fn three() -> Three {
    let mut first = Offers::all(&["same", "only_one"], &["x://same", "x://one"], &["one://{path}", "{+any}"]);
    first.instructions = "I am one.".to_owned();
    first.hints = Some((5000, "public"));
    first.page = 1;
    first.capabilities["extensions"] = json!({"io.modelcontextprotocol/tasks": {}, "a/ext": {"n": 1}});
    let mut second =
        Offers::all(&["same", "only_two"], &["x://same", "x://two"], &["two://{path}", "one://special/{x}"]);
    second.instructions = "I am two.".to_owned();
    second.methods = vec!["custom/two".to_owned()];
    let (one, two) = (Board::with(Era::Modern, first), Board::with(Era::Session, second));
    let bare = Offers {
        prompts: Vec::new(),
        capabilities: json!({"tools": {}}),
        instructions: String::new(),
        ..Offers::default()
    };
    let builder = Gateway::builder()
        .add(one.spec("one"))
        .add(Board::with(Era::Session, bare).spec("bare"))
        .add(two.spec("two"));
    let server = Server::start(policies(builder).build().await.expect("gateway")).await;
    Three { one, two, server }
}

fn keys(list: &Value, member: &str, key: &str) -> Vec<String> {
    let listed = list[member].as_array().unwrap_or_else(|| panic!("no {member}: {list}"));
    listed.iter().map(|entry| entry[key].as_str().expect("a key").to_owned()).collect()
}

const LISTS: [(&str, &str, &str, &[&str]); 3] = [
    ("prompts/list", "prompts", "name", &["one_same", "only_one", "two_same", "only_two"]),
    ("resources/list", "resources", "uri", &["x://same", "x://one", "x://two"]),
    (
        "resources/templates/list",
        "resourceTemplates",
        "uriTemplate",
        &["one://{path}", "{+any}", "two://{path}", "one://special/{x}"],
    ),
];

/// Lists are merged in the order of the configuration, whatever the pages of the upstreams, in the words of the caller's
/// era: names of prompts are prefixed where they clash, a URI is listed once.
#[tokio::test(flavor = "multi_thread")]
async fn lists_are_one_list() {
    let Three { server, .. } = three().await;
    let (modern, old) = (Modern::new(&server), Old::open(&server).await);
    for (method, member, key, want) in LISTS {
        let new = modern.ask(method, json!({})).await;
        assert_eq!(keys(new.result(), member, key), want, "{method}");
        // Not everybody says how long it may be kept.
        assert_eq!(
            (&new.result()["resultType"], &new.result()["ttlMs"], &new.result()["cacheScope"]),
            (&json!("complete"), &json!(0), &json!("private"))
        );
        assert_eq!(new.result()["x-page"], 0, "unknown members: those of the first");
        let before = old.ask(method, json!({})).await;
        assert_eq!(keys(before.result(), member, key), want, "{method}");
        for name in ["resultType", "ttlMs", "cacheScope"] {
            assert!(before.result().get(name).is_none(), "{method} {name}");
        }
        for cursor in ["x", "", "from 1", "00000000"] {
            assert_eq!(
                modern.ask(method, json!({"cursor": cursor})).await.code(),
                -32602,
                "{method} {cursor}"
            );
        }
        assert_eq!(modern.ask(method, json!({"cursor": 7})).await.code(), -32602);
    }
    let prompts = modern.ask("prompts/list", json!({})).await;
    assert!(prompts.raw.contains(r#""x-own":1.0"#), "definitions keep their spelling: {}", prompts.raw);
    logs::clean();
}

/// A long merged list comes in pages whose cursors span the upstreams, and stay good when something is added meanwhile. A
/// cursor that was tampered with, or belongs to another list, is refused.
#[tokio::test(flavor = "multi_thread")]
async fn cursors_span_upstreams() {
    let uris = |from: usize, to: usize| -> Vec<Value> {
        (from..to).map(|n| json!({"uri": format!("x://{n}"), "name": "r"})).collect()
    };
    let mut first = Offers::all(&[], &[], &[]);
    first.resources = uris(0, 700);
    first.page = 300;
    let second = Offers { resources: uris(700, 1500), ..first.clone() };
    let (one, two) = (Board::with(Era::Both, first), Board::with(Era::Session, second));
    let builder = Gateway::builder().add(one.spec("one")).add(two.spec("two"));
    let server = Server::start(policies(builder).build().await.expect("gateway")).await;
    for round in 0..2 {
        let modern = Modern::new(&server);
        let begin = modern.ask("resources/list", json!({})).await.result().clone();
        let cursor = begin["nextCursor"].as_str().expect("a cursor").to_owned();
        let mut seen = keys(&begin, "resources", "uri");
        assert_eq!(seen.len(), 1000);
        let (start, end) = cursor.split_at(cursor.len() - 1);
        let tampered = format!("{start}{}", if end == "0" { "1" } else { "0" });
        for bad in [&tampered, &cursor[1..], &cursor.to_uppercase()] {
            assert_eq!(modern.ask("resources/list", json!({"cursor": bad})).await.code(), -32602, "{bad}");
        }
        assert_eq!(modern.ask("tools/list", json!({"cursor": cursor})).await.code(), -32602);
        if round == 1 {
            one.offer(|offers| offers.resources.insert(0, json!({"uri": "x://new", "name": "r"})));
            one.say("notifications/resources/list_changed", None).await;
            let lists = one.heard("resources/list").len();
            eventually("the new list", || async {
                modern.ask("resources/list", json!({"cursor": cursor})).await.result();
                (one.heard("resources/list").len() > lists).then_some(())
            })
            .await;
        }
        let rest = modern.ask("resources/list", json!({"cursor": cursor})).await.result().clone();
        assert!(rest.get("nextCursor").is_none());
        seen.extend(keys(&rest, "resources", "uri"));
        let want: Vec<String> = (0..1500).map(|n| format!("x://{n}")).collect();
        assert_eq!(seen, want, "round {round}");
    }
}

/// Prompts and completions reach the upstream that listed them, under its own name for them.
#[tokio::test(flavor = "multi_thread")]
async fn prompts_are_found_by_their_names() {
    let Three { one, two, server } = three().await;
    let modern = Modern::new(&server);
    // Nothing was listed yet.
    let get = |name: &str| json!({"name": name, "arguments": {"a": "b"}, "x": 1});
    for (name, board, own, from) in [
        ("one_same", &one, "same", "I am one."),
        ("two_same", &two, "same", "I am two."),
        ("only_one", &one, "only_one", "I am one."),
        ("only_two", &two, "only_two", "I am two."),
    ] {
        assert_eq!(modern.ask("prompts/get", get(name)).await.result()["x-from"], from, "{name}");
        let heard = board.heard("prompts/get").pop().expect("a request")["params"].clone();
        assert_eq!((&heard["name"], &heard["x"]), (&json!(own), &json!(1)), "{name}");
        let complete = json!({"ref": {"type": "ref/prompt", "name": name, "title": "T"}, "argument": {"name": "a", "value": "v"}});
        let answer = modern.ask("completion/complete", complete).await;
        assert_eq!(answer.result()["completion"]["values"], json!([from]), "{name}");
        let heard = board.heard("completion/complete").pop().expect("a request")["params"].clone();
        assert_eq!(heard["ref"], json!({"type": "ref/prompt", "name": own, "title": "T"}), "{name}");
    }
    for unknown in ["same", "bare_same", "one_only_one", ""] {
        assert_eq!(modern.ask("prompts/get", get(unknown)).await.code(), -32602, "{unknown}");
    }
    // One that appears later is found.
    two.offer(|offers| offers.prompts.push(json!({"name": "later"})));
    assert_eq!(modern.ask("prompts/get", get("later")).await.result()["x-from"], "I am two.");
}

/// A URI goes to the upstream that lists it, else to the one whose template fits best, else to all in order.
#[tokio::test(flavor = "multi_thread")]
async fn resources_are_found_by_their_uris() {
    let Three { one, two, server } = three().await;
    let (modern, old) = (Modern::new(&server), Old::open(&server).await);
    two.offer(|offers| offers.templates.push(json!({"uriTemplate": "unlisted://{x}", "name": "u"})));
    for (uri, from) in [
        ("x://same", "I am one."),
        ("x://two", "I am two."),
        ("one://a/b", "I am one."),
        ("two://a", "I am two."),
        ("one://special/x", "I am two."),
        // Fits no template that says anything of itself; whoever has it answers.
        ("unlisted://x", "I am two."),
    ] {
        for answer in [
            modern.ask("resources/read", json!({"uri": uri})).await,
            old.ask("resources/read", json!({"uri": uri})).await,
        ] {
            assert_eq!(answer.result()["contents"][0]["text"], from, "{uri}");
        }
    }
    for uri in ["x://none", "one://no", "two://none", ""] {
        let (new, before) = (
            modern.ask("resources/read", json!({"uri": uri})).await,
            old.ask("resources/read", json!({"uri": uri})).await,
        );
        assert_eq!((new.code(), before.code()), (-32602, -32002), "{uri}");
        assert_eq!((&new.error()["data"]["uri"], &before.error()["data"]["uri"]), (&json!(uri), &json!(uri)));
    }
    let reference = json!({"ref": {"type": "ref/resource", "uri": "two://{path}"}, "argument": {"name": "path", "value": "v"}});
    let answer = modern.ask("completion/complete", reference).await;
    assert_eq!(answer.result()["completion"]["values"], json!(["I am two."]));
    assert!(one.heard("completion/complete").is_empty());
}

/// What one can all can: features, switches and extensions together, instructions of several under their names.
#[tokio::test(flavor = "multi_thread")]
async fn capabilities_are_those_of_all() {
    let Three { server, .. } = three().await;
    let discovered = Modern::new(&server).ask("server/discover", json!({})).await.result().clone();
    let all = json!({
        "tools": {"listChanged": true}, "prompts": {"listChanged": true}, "completions": {}, "logging": {},
        "resources": {"subscribe": true, "listChanged": true},
    });
    let mut offered = discovered["capabilities"].clone();
    let extensions = offered.as_object_mut().expect("an object").remove("extensions");
    assert_eq!(offered, all);
    assert_eq!(extensions, Some(json!({"a/ext": {"n": 1}, "io.modelcontextprotocol/tasks": {}})));
    let text = json!("one:\nI am one.\n\ntwo:\nI am two.");
    assert_eq!(discovered["instructions"], text);
    let old = Old::open(&server).await;
    assert_eq!(old.initialized["instructions"], text);
    let mut offered = old.initialized["capabilities"].clone();
    offered.as_object_mut().expect("an object").remove("tasks").expect("our tasks");
    let extensions = offered.as_object_mut().expect("an object").remove("extensions");
    assert_eq!((offered, extensions), (all, Some(json!({"a/ext": {"n": 1}}))));
}

/// A method nobody knows but one upstream reaches that one, and comes back as it was; one that nobody knows is -32601.
#[tokio::test(flavor = "multi_thread")]
async fn custom_methods_find_their_server() {
    let Three { server, two, .. } = three().await;
    let (modern, old) = (Modern::new(&server), Old::open(&server).await);
    let params = json!({"deep": {"x": [1, {"y": null}]}, "_meta": {"traceparent": "00-1-2-01"}});
    for answer in
        [modern.ask("custom/two", params.clone()).await, old.ask("custom/two", params.clone()).await]
    {
        let echo = &answer.result()["echo"];
        assert_eq!(
            (&echo["deep"], &echo["_meta"]["traceparent"]),
            (&params["deep"], &params["_meta"]["traceparent"])
        );
    }
    assert_eq!(two.heard("custom/two").len(), 2);
    assert_eq!(modern.ask("custom/none", json!({})).await.code(), -32601);
    assert_eq!(old.ask("custom/none", json!({})).await.code(), -32601);
    // The same for notifications, to whoever is there.
    let mut pipe = Pipe::open(&server.gateway).await;
    pipe.write(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/custom\",\"params\":{\"n\":1}}\n").await;
    pipe.write(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/roots/list_changed\"}\n").await;
    pipe.ping().await;
    two.until("the notifications", |board| !board.heard("notifications/roots/list_changed").is_empty()).await;
    assert_eq!(two.heard("notifications/custom")[0]["params"], json!({"n": 1}));
    assert!(two.heard("notifications/initialized").len() <= 1, "its own handshake only");
    let headers = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "notifications/custom")];
    let body = json!({"jsonrpc": "2.0", "method": "notifications/custom", "params": {"n": 2}}).to_string();
    assert_eq!(crate::harness::http::send(server.addr, "POST", &headers, body.as_bytes()).await.status, 202);
    two.until("the second one", |board| board.heard("notifications/custom").len() == 2).await;
    // What asks for something is no notification, however it is written, and the other way round: nobody has looked whether it is allowed.
    for (method, params) in
        [("tools/call", json!({"name": "two"})), ("tools/list", json!({})), ("custom/two", json!({}))]
    {
        let body = json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string();
        let headers = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", method)];
        let heard = two.heard(method).len();
        assert_eq!(
            crate::harness::http::send(server.addr, "POST", &headers, body.as_bytes()).await.status,
            202
        );
        pipe.write(format!("{body}\n").as_bytes()).await;
        pipe.ping().await;
        assert_eq!(two.heard(method).len(), heard, "{method}");
    }
    let cancelled = json!({"requestId": 1});
    assert_eq!(modern.ask("notifications/cancelled", cancelled.clone()).await.code(), -32601);
    assert_eq!(old.ask("notifications/cancelled", cancelled).await.code(), -32601);
    // What a server says of tasks of its own means nothing to clients of ours.
    two.say("notifications/tasks/status", Some(json!({"taskId": "x", "status": "working"}))).await;
    two.say("notifications/custom/back", Some(json!({"n": 2}))).await;
    let told = pipe.find(|message| message["method"] == "notifications/custom/back").await;
    assert_eq!(told["params"], json!({"n": 2}));
    assert!(pipe.others.is_empty(), "{:?}", pipe.others);
}

/// One dead upstream does not empty a list: what it had stays listed and answers with an error that names it, the rest works,
/// and what nobody is known to have is not called unknown.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_upstream_leaves_its_entries() {
    let Three { one, two, server } = three().await;
    let (modern, old) = (Modern::new(&server), Old::open(&server).await);
    for (method, member, key, want) in LISTS {
        assert_eq!(keys(modern.ask(method, json!({})).await.result(), member, key), want);
    }
    two.drop_links(true).await;
    eventually("its end", || async {
        let answer = modern.ask("prompts/get", json!({"name": "only_two"})).await;
        (answer.json.get("error").is_some()).then_some(())
    })
    .await;
    for (method, member, key, want) in LISTS {
        assert_eq!(keys(modern.ask(method, json!({})).await.result(), member, key), want);
    }
    let complete =
        json!({"ref": {"type": "ref/prompt", "name": "two_same"}, "argument": {"name": "a", "value": "v"}});
    for (method, params) in [
        ("prompts/get", json!({"name": "two_same"})),
        ("completion/complete", complete),
        ("resources/read", json!({"uri": "x://two"})),
        ("resources/read", json!({"uri": "two://template"})),
        ("resources/read", json!({"uri": "x://nobody-knows"})),
        ("custom/two", json!({})),
    ] {
        let answer = old.ask(method, params.clone()).await;
        assert_eq!(answer.code(), -32603, "{method} {params}: {}", answer.raw);
        let words = answer.error()["message"].as_str().expect("words");
        assert!(words.contains("\"two\" is not available"), "{method} {params}: {words}");
    }
    assert_eq!(old.ask("resources/subscribe", json!({"uri": "x://two"})).await.code(), -32603);
    let unknown = old.ask("prompts/get", json!({"name": "nobody"})).await;
    assert_eq!(unknown.code(), -32602);
    assert!(
        unknown.error()["message"].as_str().expect("words").contains("not available: \"two\""),
        "{}",
        unknown.raw
    );
    assert_eq!(
        modern.ask("resources/read", json!({"uri": "x://same"})).await.result()["contents"][0]["text"],
        "I am one."
    );
    assert_eq!(modern.ask("prompts/get", json!({"name": "one_same"})).await.result()["x-from"], "I am one.");
    // What it can is not forgotten either.
    let discovered = modern.ask("server/discover", json!({})).await.result().clone();
    assert_eq!(discovered["instructions"], "one:\nI am one.\n\ntwo:\nI am two.");
    two.accept_links();
    eventually("its return", || async {
        modern.ask("prompts/get", json!({"name": "two_same"})).await.json.get("result").cloned()
    })
    .await;
    drop(one);
}

/// A single upstream with a prefix: its prompts have it too, and everything else stays as it is, page by page.
#[tokio::test(flavor = "multi_thread")]
async fn a_single_upstream_is_relayed_page_by_page() {
    let mut offers = Offers::all(&["a", "b"], &["x://1", "x://2"], &[]);
    offers.page = 1;
    offers.hints = Some((5000, "public"));
    let board = Board::with(Era::Modern, offers);
    let mut spec = board.spec("only");
    spec.prefix = Some("p".to_owned());
    let server = Server::start(policies(Gateway::builder().add(spec)).build().await.expect("gateway")).await;
    let (modern, old) = (Modern::new(&server), Old::open(&server).await);
    let first = modern.ask("prompts/list", json!({})).await.result().clone();
    assert_eq!(keys(&first, "prompts", "name"), ["p_a"]);
    assert_eq!((&first["nextCursor"], &first["ttlMs"]), (&json!("from 1"), &json!(5000)));
    let second = old.ask("prompts/list", json!({"cursor": "from 1"})).await.result().clone();
    assert_eq!(second, json!({"prompts": [{"name": "p_b", "x-own": 1.0}], "x-page": 1}));
    assert_eq!(old.ask("resources/list", json!({"cursor": "nonsense"})).await.code(), -32602);
    old.ask("prompts/get", json!({"name": "p_b"})).await.result();
    assert_eq!(board.heard("prompts/get")[0]["params"]["name"], "b");
    assert_eq!(old.ask("prompts/get", json!({"name": "b"})).await.code(), -32602);
}

/// An upstream that has stopped answering holds a list up for a while, not for ever; what it had stays listed.
#[tokio::test(start_paused = true)]
async fn a_hung_upstream_does_not_keep_the_list() {
    let hung = Board::with(Era::Session, Offers::all(&["a"], &[], &[]));
    let fine = Board::with(Era::Session, Offers::all(&["b"], &[], &[]));
    let builder = Gateway::builder().add(hung.spec("hung")).add(fine.spec("fine"));
    let gateway = policies(builder).build().await.expect("gateway");
    let mut pipe = Pipe::open(&gateway).await;
    assert_eq!(keys(pipe.ask("prompts/list", json!({})).await.result(), "prompts", "name"), ["a", "b"]);
    hung.offer(|offers| offers.hangs = true);
    fine.offer(|offers| offers.prompts.push(json!({"name": "c"})));
    let since = tokio::time::Instant::now();
    assert_eq!(keys(pipe.ask("prompts/list", json!({})).await.result(), "prompts", "name"), ["a", "b", "c"]);
    assert!(since.elapsed() < std::time::Duration::from_secs(20));
}
