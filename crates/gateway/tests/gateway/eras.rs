//! What is said differently before and since 2026-07-28: log levels, errors, members of results. And what is not: progress
//! and cancellation of every request that is passed on.

use serde_json::{Value, json};
use taskgate_gateway::Gateway;

use crate::harness::modern::everything;
use crate::harness::{Board, Era, Modern, Offers, Old, Pipe, Server, eventually, logs, policies, serve};

fn board(era: Era) -> Board {
    let mut offers = Offers::all(&["p"], &["x://1"], &[]);
    offers.tools = vec![json!({"name": "never", "inputSchema": {"type": "object"}})];
    Board::with(era, offers)
}

/// Steps that log once at each of these levels.
fn logging(levels: &[&str]) -> Value {
    levels.iter().map(|level| json!({"log_at": level})).collect()
}

fn levels(before: &[Value]) -> Vec<&str> {
    let logged = before.iter().filter(|message| message["method"] == "notifications/message");
    logged.map(|message| message["params"]["level"].as_str().expect("a level")).collect()
}

const ALL: [&str; 4] = ["debug", "info", "warning", "emergency"];

/// `logging/setLevel` of a session: an upstream of its era is told, one of 2026-07-28 sees it on each request, and the session
/// gets no more than it asked for from either.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_sets_its_level_on_any_upstream() {
    for era in [Era::Session, Era::Modern] {
        let board = board(era);
        let server = serve(&board).await;
        let old = Old::open(&server).await;
        let answer = old.tool("never", logging(&ALL)).await;
        assert_eq!(levels(&answer.before), ALL, "without a level it is up to the server");
        let set = old.ask("logging/setLevel", json!({"level": "warning", "x": 1})).await;
        match era {
            Era::Modern => {
                assert_eq!(set.result(), &json!({}));
                assert!(board.heard("logging/setLevel").is_empty());
            }
            _ => {
                assert_eq!(set.result(), &json!({"x-level": "warning"}));
                assert_eq!(board.heard("logging/setLevel")[0]["params"]["x"], 1);
            }
        }
        for method in ["tools/call", "prompts/get", "custom/any"] {
            let params = json!({"name": "never", "arguments": {"steps": logging(&ALL)}});
            assert_eq!(
                levels(&old.ask(method, params).await.before),
                ["warning", "emergency"],
                "{era:?} {method}"
            );
            let heard = board.heard(method).pop().expect("a request")["params"]["_meta"].clone();
            let sent = heard.get("io.modelcontextprotocol/logLevel");
            assert_eq!(sent, (era == Era::Modern).then_some(&json!("warning")), "{method}");
        }
        assert_eq!(old.ask("logging/setLevel", json!({"level": "loud"})).await.code(), -32602);
        assert_eq!(old.ask("logging/setLevel", json!({})).await.code(), -32602);
    }
}

/// The log level of a 2026-07-28 request: an upstream of its era sees it as it is, an earlier one is set to it in time, and the
/// request gets what it asked for and nothing if it did not ask.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_says_its_level_to_any_upstream() {
    for era in [Era::Session, Era::Modern] {
        let board = board(era);
        let server = serve(&board).await;
        let modern = Modern::new(&server);
        assert!(levels(&modern.tool("never", logging(&ALL)).await.before).is_empty());
        assert!(board.heard("logging/setLevel").is_empty());
        for (level, want) in [("info", &ALL[1..]), ("emergency", &ALL[3..]), ("debug", &ALL[..])] {
            let meta = json!({"io.modelcontextprotocol/logLevel": level});
            let params = json!({"name": "never", "arguments": {"steps": logging(&ALL)}, "_meta": meta});
            assert_eq!(levels(&modern.ask("tools/call", params).await.before), want, "{era:?} {level}");
        }
        let set: Vec<Value> =
            board.heard("logging/setLevel").iter().map(|heard| heard["params"]["level"].clone()).collect();
        assert_eq!(set, if era == Era::Session { vec!["info", "debug"] } else { vec![] });
        let meta = json!({"io.modelcontextprotocol/logLevel": "loud"});
        assert_eq!(modern.ask("prompts/list", json!({"_meta": meta})).await.code(), -32602);
    }
}

/// An upstream has one level for all: the most talkative one that a session wants. Each session gets its own, and a restarted
/// upstream is told again.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_do_not_change_each_others_level() {
    let board = board(Era::Session);
    let server = serve(&board).await;
    let (quiet, chatty) = (Old::open(&server).await, Old::open(&server).await);
    chatty.ask("logging/setLevel", json!({"level": "debug"})).await.result();
    quiet.ask("logging/setLevel", json!({"level": "emergency"})).await.result();
    let set = || board.heard("logging/setLevel").pop().expect("a level")["params"]["level"].clone();
    assert_eq!(set(), "debug");
    assert_eq!(levels(&quiet.tool("never", logging(&ALL)).await.before), ["emergency"]);
    assert_eq!(levels(&chatty.tool("never", logging(&ALL)).await.before), ALL);
    chatty.end().await;
    quiet.ask("logging/setLevel", json!({"level": "warning"})).await.result();
    assert_eq!(set(), "warning");
    let times = board.heard("logging/setLevel").len();
    board.drop_links(false).await;
    board.until("the level again", |board| board.heard("logging/setLevel").len() > times).await;
    assert_eq!(set(), "warning");
    // One that is down is told when it is back.
    board.drop_links(true).await;
    eventually("its end", || async { quiet.ask("prompts/list", json!({})).await.json.get("error").cloned() })
        .await;
    assert_eq!(quiet.ask("logging/setLevel", json!({"level": "alert"})).await.code(), -32603);
    board.accept_links();
    board.until("the level of meanwhile", |_| set() == "alert").await;
    // Nobody has log messages: there is nothing to set.
    let mute = Board::with(Era::Session, Offers::default());
    let builder = Gateway::builder().add(mute.spec("one")).add(mute.spec("two"));
    let server = Server::start(policies(builder).build().await.expect("gateway")).await;
    assert_eq!(
        Old::open(&server).await.ask("logging/setLevel", json!({"level": "info"})).await.code(),
        -32601
    );
}

/// With several calls of one session in flight, a log message still reaches that session, on one of these calls' streams.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_message_reaches_its_caller_among_several_calls() {
    let board = board(Era::Session);
    let server = serve(&board).await;
    let old = Old::open(&server).await;
    let steps = json!({"name": "never", "arguments": {"steps": [{"wait": "go"}]}});
    let first = tokio::spawn({
        let old = old.clone();
        async move { old.ask("tools/call", steps).await }
    });
    board.until("it runs", |board| board.running() == 1).await;
    let second = old.tool("never", json!([{"log": "x"}])).await;
    assert_eq!(levels(&second.before), ["info"]);
    board.open("go");
    first.await.expect("no panic").result();
    logs::clean();
}

/// Codes that were renumbered, whoever calls whatever.
#[tokio::test(flavor = "multi_thread")]
async fn error_codes_are_those_of_the_callers_era() {
    for (era, code) in [(Era::Session, -32002), (Era::Modern, -32602)] {
        let board = board(era);
        let server = serve(&board).await;
        let (modern, old) = (Modern::new(&server), Old::open(&server).await);
        let (new, before) = (
            modern.ask("resources/read", json!({"uri": "x://none"})).await,
            old.ask("resources/read", json!({"uri": "x://none"})).await,
        );
        assert_eq!((new.code(), before.code()), (-32602, -32002), "{era:?}");
        for answer in [&new, &before] {
            assert_eq!(answer.error()["message"], "Resource not found");
            assert_eq!(answer.error()["data"], json!({"uri": "x://none"}));
        }
        // Codes that mean the same in both, and those that are nobody's, stay.
        for other in [-32603, -32000, 7] {
            let steps = json!([{"error": {"code": other, "message": "m", "data": {"n": 1}}}]);
            let want = json!({"code": other, "message": "m", "data": {"n": 1}});
            assert_eq!(modern.tool("never", steps.clone()).await.error(), &want, "{era:?}");
            assert_eq!(old.tool("never", steps).await.error(), &want, "{era:?}");
        }
        let steps = json!([{"error": {"code": code, "message": "m"}}]);
        assert_eq!(modern.tool("never", steps).await.code(), -32602, "{era:?}: the old code is gone");
        assert_eq!(old.ask("prompts/get", json!({"name": "none"})).await.code(), -32602, "{era:?}");
    }
}

/// The error that asks for a visit to a URL exists in 2025-11-25 only; since then that is a question.
#[tokio::test(flavor = "multi_thread")]
async fn a_url_that_must_be_visited_becomes_a_question() {
    let board = board(Era::Session);
    let server = serve(&board).await;
    let visit =
        json!({"mode": "url", "elicitationId": "e", "url": "https://a.example/", "message": "Sign in"});
    let error = json!({"code": -32042, "message": "Visit", "data": {"elicitations": [visit]}});
    let steps = json!([{"error": error}]);
    assert_eq!(Old::open(&server).await.tool("never", steps.clone()).await.error(), &error);
    let able = Modern::with(&server, json!({"elicitation": {"url": {}}}));
    let answer = able.tool("never", steps.clone()).await;
    let params = json!({"mode": "url", "url": "https://a.example/", "message": "Sign in"});
    let want = json!({
        "resultType": "input_required",
        "inputRequests": {"elicitation-1": {"method": "elicitation/create", "params": params}},
    });
    assert_eq!(answer.result(), &want);
    // The client calls again when the user has been there.
    let again = json!({
        "name": "never", "arguments": {"steps": []},
        "inputResponses": {"elicitation-1": {"action": "accept"}},
    });
    assert_eq!(able.ask("tools/call", again).await.text(), "done");
    let unable = Modern::with(&server, json!({"elicitation": {}})).tool("never", steps).await;
    assert_eq!((unable.code(), unable.status), (-32021, 400));
    assert_eq!(unable.error()["data"], json!({"requiredCapabilities": {"elicitation": {"url": {}}}}));
}

/// Members that one era demands and the other does not know, for every result that is passed on.
#[tokio::test(flavor = "multi_thread")]
async fn results_have_the_members_of_the_callers_era() {
    for era in [Era::Session, Era::Modern] {
        let board = board(era);
        board.offer(|offers| {
            offers.hints = (era == Era::Modern).then_some((5000, "public"));
            offers.methods.push("custom/any".to_owned());
        });
        let server = serve(&board).await;
        let (modern, old) = (Modern::new(&server), Old::open(&server).await);
        for (method, params, cacheable) in [
            ("tools/list", json!({}), true),
            ("prompts/list", json!({}), true),
            ("resources/list", json!({}), true),
            ("resources/templates/list", json!({}), true),
            ("resources/read", json!({"uri": "x://1"}), true),
            ("prompts/get", json!({"name": "p"}), false),
            ("completion/complete", json!({"ref": {"type": "ref/prompt", "name": "p"}}), false),
            ("custom/any", json!({}), false),
        ] {
            let new = modern.ask(method, params.clone()).await.result().clone();
            assert_eq!(new["resultType"], "complete", "{era:?} {method}");
            assert_eq!(new.get("ttlMs").is_some_and(Value::is_u64), cacheable, "{era:?} {method}");
            assert_eq!(new.get("cacheScope").is_some_and(Value::is_string), cacheable, "{era:?} {method}");
            let before = old.ask(method, params).await.result().clone();
            for member in ["resultType", "ttlMs", "cacheScope"] {
                assert!(before.get(member).is_none(), "{era:?} {method} {member}");
            }
        }
        let ttl = modern.ask("prompts/list", json!({})).await.result()["ttlMs"].clone();
        assert_eq!(ttl, if era == Era::Modern { 5000 } else { 0 });
    }
}

/// What is unknown to everybody stays as it is: members, metadata, content blocks, annotations.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_unknown_passes_through() {
    let result = json!({
        "content": [{"type": "hologram", "x": [1.0, null]}, {"type": "text", "text": "t", "annotations": {"audience": ["user"], "y": 1}}],
        "_meta": {"traceparent": "00-1-2-01", "a/b": {"n": 1}}, "structuredContent": [1, 2], "other": {"icons": [{"src": "data:,"}]},
    });
    for era in [Era::Session, Era::Modern] {
        let board = board(era);
        let server = serve(&board).await;
        let (modern, old) = (Modern::new(&server), Old::open(&server).await);
        for method in ["tools/call", "prompts/get", "resources/read", "custom/any"] {
            let target = if method == "resources/read" { "uri" } else { "name" };
            let params = json!({
                target: "never", "arguments": {"steps": [{"return": result}], "q": [1.5]}, "steps": [{"return": result}],
                "unknown": {"deep": [true]}, "_meta": {"traceparent": "00-3-4-01", "baggage": "k=v", "c/d": 1},
            });
            let mut new = modern.ask(method, params.clone()).await.result().clone();
            for member in ["resultType", "ttlMs", "cacheScope"] {
                new.as_object_mut().expect("an object").remove(member);
            }
            assert_eq!(new, result, "{era:?} {method}");
            assert_eq!(old.ask(method, params.clone()).await.result(), &result, "{era:?} {method}");
            for heard in board.heard(method) {
                let heard = &heard["params"];
                assert_eq!(heard["unknown"], params["unknown"], "{method}");
                assert_eq!(heard["arguments"], params["arguments"], "{method}");
                for key in ["traceparent", "baggage", "c/d"] {
                    assert_eq!(heard["_meta"][key], params["_meta"][key], "{method} {key}");
                }
            }
        }
    }
}

/// Cases 14 and 17: progress under the caller's own token, and exactly one cancel upstream, for everything that is passed on
/// and whichever era meets whichever.
#[tokio::test(flavor = "multi_thread")]
async fn every_request_has_progress_and_can_be_cancelled() {
    for era in [Era::Session, Era::Modern] {
        let board = board(era);
        let server = serve(&board).await;
        let (modern, old) = (Modern::new(&server), Old::open(&server).await);
        let mut pipe = Pipe::open(&server.gateway).await;
        let mut cancelled = 0;
        for method in [
            "tools/list",
            "prompts/list",
            "prompts/get",
            "resources/read",
            "completion/complete",
            "custom/any",
        ] {
            let steps = json!([{"progress": {"progress": 1, "x": 1.5}}, {"wait": method}]);
            let target = if method == "resources/read" { "uri" } else { "name" };
            let params = |token: &Value| {
                json!({
                    target: "p", "ref": {"type": "ref/prompt", "name": "p"}, "steps": steps,
                    "_meta": {"progressToken": token},
                })
            };
            let progress = |token: &Value| json!({"progress": 1, "x": 1.5, "progressToken": token});
            // 2026-07-28 over HTTP: the stream is closed.
            let token = json!("mine");
            let mut stream = modern.open(method, params(&token)).await;
            let told: Value = serde_json::from_str(&stream.event().await.expect("progress")).expect("JSON");
            assert_eq!(told["params"], progress(&token), "{era:?} {method}");
            drop(stream);
            cancelled += 1;
            let seen = |count| move |board: &Board| board.heard("notifications/cancelled").len() == count;
            board.until(&format!("{method} cancelled by closing"), seen(cancelled)).await;
            // A session over HTTP, and both eras over stdio: a notification.
            let id = format!("call {method}");
            let call = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params(&json!(7))});
            let mut stream = old.post(&call).await;
            let told: Value = serde_json::from_str(&stream.event().await.expect("progress")).expect("JSON");
            assert_eq!(told["params"], progress(&json!(7)), "{era:?} {method}");
            let cancel =
                json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
            assert_eq!(old.post(&cancel).await.status, 202);
            assert_eq!(stream.event().await, None, "{era:?} {method}: no answer to what was cancelled");
            cancelled += 1;
            board.until(&format!("{method} cancelled in a session"), seen(cancelled)).await;
            for stateless in [false, true] {
                let mut params = params(&json!(8));
                if stateless {
                    params["_meta"].as_object_mut().expect("an object").extend(
                        crate::harness::pipe::modern_meta(everything())
                            .as_object()
                            .expect("an object")
                            .clone(),
                    );
                }
                let id = pipe.begin(method, params).await;
                let told = pipe.find(|message| message["method"] == "notifications/progress").await;
                assert_eq!(told["params"], progress(&json!(8)), "{era:?} {method}");
                let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
                pipe.write(format!("{cancel}\n").as_bytes()).await;
                cancelled += 1;
                board.until(&format!("{method} cancelled over stdio"), seen(cancelled)).await;
            }
        }
        board.until("nothing runs", |board| board.running() == 0).await;
    }
}

/// A request that only a server and its client know reaches a client in a session, and its answer the server; where there is
/// no way to put it to the caller, the server hears that nobody knows it.
#[tokio::test(flavor = "multi_thread")]
async fn a_servers_own_requests_reach_a_session() {
    let board = board(Era::Session);
    let server = serve(&board).await;
    let steps = json!([{"ask": [{"method": "custom/question", "params": {"n": 1, "x": {"y": 1.5}}}]}, {"answers": null}]);
    let mut pipe = Pipe::open(&server.gateway).await;
    let call = json!({"name": "never", "arguments": {"steps": steps}});
    let id = pipe.begin("tools/call", call.clone()).await;
    let asked = pipe.find(|message| message["method"] == "custom/question").await;
    assert_eq!(asked["params"], json!({"n": 1, "x": {"y": 1.5}}));
    pipe.respond(&asked["id"], json!({"own": [1]})).await;
    assert_eq!(pipe.answer(id).await.text(), r#"[{"own":[1]}]"#);
    let answer = pipe.ask_modern("tools/call", call).await;
    assert!(answer.text().contains("-32601"), "{}", answer.raw);
}
