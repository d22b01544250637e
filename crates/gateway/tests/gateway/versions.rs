//! Versions and methods that are not there: the exact error of the versioning pages, over both transports.

use serde_json::{Value, json};

use crate::harness::http::send;
use crate::harness::pipe::modern_meta;
use crate::harness::{Board, Era, Modern, Old, Pipe, logs, serve, serve_local};

const SUPPORTED: [&str; 5] = ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
const VERSION: &str = "MCP-Protocol-Version";

#[track_caller]
fn unsupported(error: &Value, requested: &str) {
    assert_eq!(error["code"], -32022, "{requested}: {error}");
    assert_eq!(error["data"], json!({"supported": SUPPORTED, "requested": requested}));
}

/// Over HTTP: whatever names a version nobody serves is refused with 400 and the list of those that are, in a session or
/// without one, and nothing happens to the session.
#[tokio::test(flavor = "multi_thread")]
async fn an_unsupported_version_is_named_over_http() {
    let board = Board::new(Era::Both);
    let server = serve(&board).await;
    let old = Old::open(&server).await;
    let call = json!({"name": "never", "arguments": {}});
    for version in ["1999-01-01", "2099-12-31", "2026-07-29", "2025-11-25 ok", "1", "DRAFT-2026-v1", ""] {
        for body in [
            json!({"jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": call}),
            json!({"jsonrpc": "2.0", "id": "a", "method": "tools/list"}),
            json!({"jsonrpc": "2.0", "id": "a", "method": "ping"}),
            json!({"jsonrpc": "2.0", "id": "a", "method": "initialize",
                "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}}),
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
            json!({"jsonrpc": "2.0", "id": 1, "result": {}}),
        ] {
            let id = if body.get("method").is_some() { body.get("id").cloned() } else { None };
            for session in [None, Some(old.session.as_str())] {
                let mut headers = vec![(VERSION, version)];
                headers.extend(session.map(|session| ("Mcp-Session-Id", session)));
                let answer =
                    send(server.addr, "POST", &headers, body.to_string().as_bytes()).await.answer().await;
                assert_eq!(answer.status, 400, "{version} {body}");
                unsupported(answer.error(), version);
                assert_eq!(answer.json["id"], id.clone().unwrap_or(Value::Null), "{body}");
            }
        }
        for verb in ["GET", "DELETE"] {
            let headers = [(VERSION, version), ("Mcp-Session-Id", old.session.as_str())];
            let answer = send(server.addr, verb, &headers, b"").await.answer().await;
            assert_eq!(answer.status, 400, "{verb} {version}");
            unsupported(answer.error(), version);
        }
    }
    // A version that is served, under which the request cannot be made like this.
    let modern = Modern::new(&server);
    for version in &SUPPORTED[1..] {
        let (mut headers, mut body) = modern.request("tools/call", call.clone());
        body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(version);
        headers.retain(|(name, _)| name != VERSION);
        headers.push((VERSION.to_owned(), (*version).to_owned()));
        let headers: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        let answer = send(server.addr, "POST", &headers, body.to_string().as_bytes()).await.answer().await;
        assert_eq!(answer.status, 400);
        unsupported(answer.error(), version);
        assert!(answer.error()["message"].as_str().expect("words").contains("initialize"), "{}", answer.raw);
    }
    // Two headers that disagree; a header that no version can be.
    for (values, code) in [(["2025-11-25", "2025-06-18"], -32020), (["2025-11-25", "2025-11-25"], 0)] {
        let mut headers = vec![("Mcp-Session-Id", old.session.as_str())];
        headers.extend(values.map(|value| (VERSION, value)));
        let answer = send(server.addr, "POST", &headers, br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
        let answer = answer.await.answer().await;
        assert_eq!(answer.json["error"]["code"].as_i64().unwrap_or(0), code, "{}", answer.raw);
    }
    let headers = [("Mcp-Session-Id", old.session.as_str()), (VERSION, "2025-11-25é")];
    let answer = send(server.addr, "POST", &headers, br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).await;
    assert_eq!((answer.status, answer.answer().await.code()), (400, -32022));
    assert_eq!(old.ask("ping", json!({})).await.result(), &json!({}));
    assert_eq!(board.count("calls"), 0);
    logs::clean();
}

/// 2026-07-28 has neither the GET stream nor DELETE, ignores session ids, and takes no responses.
#[tokio::test(flavor = "multi_thread")]
async fn the_newest_version_has_no_sessions() {
    let server = serve(&Board::new(Era::Both)).await;
    let old = Old::open(&server).await;
    let headers = [(VERSION, "2026-07-28"), ("Mcp-Session-Id", old.session.as_str())];
    for verb in ["GET", "DELETE"] {
        assert_eq!(send(server.addr, verb, &headers, b"").await.status, 405, "{verb}");
    }
    let notification = br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    for session in [old.session.as_str(), "unknown"] {
        let headers = [(VERSION, "2026-07-28"), ("Mcp-Session-Id", session)];
        assert_eq!(send(server.addr, "POST", &headers, notification).await.status, 202);
        let response = br#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
        let answer = send(server.addr, "POST", &headers, response).await.answer().await;
        assert_eq!((answer.status, answer.code()), (400, -32600));
    }
    let modern = Modern::new(&server);
    let (mut headers, body) = modern.request("tools/list", json!({}));
    headers.push(("Mcp-Session-Id".to_owned(), "unknown".to_owned()));
    let headers: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    let response = send(server.addr, "POST", &headers, body.to_string().as_bytes()).await;
    assert!(response.header("mcp-session-id").is_none());
    response.answer().await.result();
    assert_eq!(old.ask("ping", json!({})).await.result(), &json!({}));
}

/// Over stdio the same codes: the version stands in `_meta` alone.
#[tokio::test(flavor = "multi_thread")]
async fn an_unsupported_version_is_named_over_stdio() {
    let board = Board::new(Era::Both);
    let server = serve(&board).await;
    let mut pipe = Pipe::open(&server.gateway).await;
    for version in ["1999-01-01", "2099-12-31", "", "2026-07-28 ", "2025-11-25", "2024-11-05"] {
        for method in ["tools/call", "server/discover", "initialize", "ping", "unknown"] {
            let mut meta = modern_meta(json!({}));
            meta["io.modelcontextprotocol/protocolVersion"] = json!(version);
            let answer = pipe.ask(method, json!({"name": "never", "arguments": {}, "_meta": meta})).await;
            unsupported(answer.error(), version);
        }
        pipe.ping().await;
    }
    let long = "9".repeat(10_000);
    let mut meta = modern_meta(json!({}));
    meta["io.modelcontextprotocol/protocolVersion"] = json!(long);
    let answer = pipe.ask("ping", json!({ "_meta": meta })).await;
    assert!(answer.code() == -32022 && answer.raw.len() < 500, "{}", answer.raw);
    for wrong in [json!(7), json!(true), json!(["2026-07-28"]), json!({})] {
        let mut meta = modern_meta(json!({}));
        meta["io.modelcontextprotocol/protocolVersion"] = wrong.clone();
        let answer = pipe.ask("tools/call", json!({"name": "never", "_meta": meta})).await;
        assert_eq!(answer.code(), -32602, "{wrong}");
    }
    assert_eq!(board.count("calls"), 0);
    logs::clean();
}

/// Methods a version does not have: -32601, with 404 where 2026-07-28 is spoken over HTTP; the upstream never sees them.
#[tokio::test(flavor = "multi_thread")]
async fn methods_a_version_does_not_have_are_not_found() {
    let board = Board::new(Era::Both);
    let server = serve_local(&board).await;
    let modern = Modern::new(&server);
    let undeclared = Modern::with(&server, json!({}));
    let mut pipe = Pipe::start(&server.gateway);
    let params = json!({"taskId": "x", "uri": "x", "level": "debug", "protocolVersion": "2026-07-28",
        "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}});
    for method in [
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "tasks/result",
        "tasks/list",
        "tasks/delete",
        "tasks/",
        "tasks/unknown",
    ] {
        for modern in [&modern, &undeclared] {
            let answer = modern.ask(method, params.clone()).await;
            assert_eq!((answer.status, answer.code()), (404, -32601), "{method}");
            assert!(answer.error()["message"].as_str().expect("words").contains(method));
        }
        assert_eq!(pipe.ask_modern(method, params.clone()).await.code(), -32601, "{method}");
        assert!(board.heard(method).iter().all(|said| said["params"]["taskId"].is_null()), "{method}");
    }
    // The upstream decides on what nobody here knows; its answer gets the same status.
    let answer = modern.ask("unknown/method", json!({})).await;
    assert_eq!((answer.status, answer.code()), (404, -32601));
    for version in &SUPPORTED[1..] {
        let old = Old::with(&server, version, json!({})).await;
        let mut missing = vec!["server/discover", "subscriptions/listen", "tasks/update", "tasks/delete"];
        if *version != "2025-11-25" {
            missing.extend(["tasks/get", "tasks/result", "tasks/list", "tasks/cancel"]);
        }
        for method in missing {
            let answer = old.ask(method, params.clone()).await;
            assert_eq!((answer.status, answer.code()), (200, -32601), "{version} {method}");
            assert!(board.heard(method).iter().all(|said| said["params"]["taskId"].is_null()), "{method}");
        }
        assert_eq!(old.ask("ping", json!({})).await.result(), &json!({}), "{version}");
    }
    logs::clean();
}

/// An `initialize` whose version is no text is refused over both transports, and nothing of it stays: the next one is taken.
#[tokio::test(flavor = "multi_thread")]
async fn an_initialize_without_a_version_is_refused() {
    let server = serve(&Board::new(Era::Both)).await;
    let info = json!({"name": "x", "version": "1"});
    for wrong in [json!(7), json!(null), json!(["2025-11-25"]), json!({}), json!(true)] {
        let mut params = json!({"protocolVersion": wrong, "capabilities": {}, "clientInfo": info});
        for _ in 0..2 {
            let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
            let answer = send(server.addr, "POST", &[], body.to_string().as_bytes()).await;
            assert!(answer.header("mcp-session-id").is_none(), "{params}");
            assert_eq!(answer.answer().await.code(), -32602, "{params}");
            let mut pipe = Pipe::start(&server.gateway);
            assert_eq!(pipe.ask("initialize", params.clone()).await.code(), -32602, "{params}");
            pipe.initialize("2025-11-25", json!({})).await.result();
            // Then without any.
            params.as_object_mut().expect("an object").remove("protocolVersion");
        }
    }
    // One that is a text and no version is answered with the newest that has a handshake.
    for odd in ["", "x", "2099-01-01", "2026-07-28"] {
        let params = json!({"protocolVersion": odd, "capabilities": {}, "clientInfo": info});
        let answered = Pipe::start(&server.gateway).ask("initialize", params).await;
        assert_eq!(answered.result()["protocolVersion"], "2025-11-25", "{odd}");
    }
}
