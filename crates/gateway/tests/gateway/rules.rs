//! The rules of Streamable HTTP: headers that must agree with the body, origins and hosts, what can be read.

use std::time::Duration;

use base64::Engine;
use serde_json::{Value, json};
use taskgate_gateway::{Gateway, Settings};

use crate::harness::http::{read_head, send, send_on};
use crate::harness::{Answer, Board, Era, Modern, Old, Server, builder, logs, policies, serve, soon};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

type Headers = Vec<(String, String)>;
/// Arguments, headers beside the standard ones, and whether that is fine.
type Case = (Value, Vec<(&'static str, &'static str)>, bool);

async fn post(server: &Server, headers: &Headers, body: &Value) -> Answer {
    let headers: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    send(server.addr, "POST", &headers, body.to_string().as_bytes()).await.answer().await
}

fn set(headers: &Headers, name: &str, value: Option<&str>) -> Headers {
    let mut headers: Headers =
        headers.iter().filter(|(n, _)| !n.eq_ignore_ascii_case(name)).cloned().collect();
    headers.extend(value.map(|value| (name.to_owned(), value.to_owned())));
    headers
}

fn base64(text: &str) -> String {
    format!("=?base64?{}?=", base64::engine::general_purpose::STANDARD.encode(text))
}

/// Case 34: each standard header missing, wrong, in another case, encoded, doubled, for a call and for a task verb;
/// nothing runs on a mismatch.
#[tokio::test(flavor = "multi_thread")]
async fn headers_must_agree_with_the_body() {
    let board = Board::new(Era::Both);
    let server = serve(&board).await;
    let modern = Modern::new(&server);
    let id = modern.task("always", json!([])).await;
    modern.until(&id, "completed").await;
    let ran = board.count("calls");
    let call = modern.request("tools/call", json!({"name": "never", "arguments": {}}));
    let get = modern.request("tasks/get", json!({"taskId": id}));
    let mut good = 0;
    for ((headers, body), name, optional) in [(&call, "never", false), (&get, id.as_str(), true)] {
        let method = body["method"].as_str().expect("a method");
        let encoded = base64(name);
        let upper = name.to_uppercase();
        let table: Vec<(&str, Option<&str>, bool)> = vec![
            ("MCP-Protocol-Version", None, false),
            ("MCP-Protocol-Version", Some("2025-11-25"), false),
            ("MCP-Protocol-Version", Some("2026-07-28"), true),
            ("mcp-protocol-version", Some("2026-07-28"), true),
            ("Mcp-Method", None, false),
            ("Mcp-Method", Some("tools/list"), false),
            ("Mcp-Method", Some("Tools/Call"), false),
            ("MCP-METHOD", Some(method), true),
            ("Mcp-Name", None, optional),
            ("Mcp-Name", Some("other"), false),
            ("Mcp-Name", Some(""), false),
            ("Mcp-Name", Some(&upper), false),
            ("MCP-NAME", Some(name), true),
            ("Mcp-Name", Some(&encoded), true),
            ("Mcp-Name", Some("=?base64?!!?="), false),
            ("Mcp-Name", Some("=?base64?bmV2ZXI"), false),
            ("Mcp-Name", Some("=?BASE64?bmV2ZXI=?="), false),
        ];
        for (header, value, fine) in table {
            let answer = post(&server, &set(headers, header, value), body).await;
            if fine {
                answer.result();
                good += usize::from(method == "tools/call");
            } else {
                assert_eq!((answer.status, answer.code()), (400, -32020), "{method} {header} {value:?}");
                assert_eq!(answer.json["id"], body["id"]);
            }
        }
        // Two values that disagree, in either order.
        for order in [[name, "other"], ["other", name]] {
            let mut headers = set(headers, "Mcp-Name", None);
            headers.extend(order.map(|value| ("Mcp-Name".to_owned(), value.to_owned())));
            assert_eq!(post(&server, &headers, body).await.code(), -32020, "{order:?}");
        }
    }
    assert_eq!(board.count("calls"), ran + good);
    // A tool whose name looks like an encoded one must be encoded.
    let odd = Board::with_tools(
        Era::Both,
        vec![json!({"name": "=?base64?bmV2ZXI=?=", "inputSchema": {"type": "object"}})],
    );
    let server = serve(&odd).await;
    let modern = Modern::new(&server);
    let (headers, body) =
        modern.request("tools/call", json!({"name": "=?base64?bmV2ZXI=?=", "arguments": {}}));
    assert_eq!(
        post(&server, &set(&headers, "Mcp-Name", Some("=?base64?bmV2ZXI=?=")), &body).await.code(),
        -32020
    );
    assert_eq!(odd.count("calls"), 0);
    post(&server, &headers, &body).await.result();
}

/// Case 34: `Mcp-Param-*` headers, from the very first request on, when the tool is not even known yet.
#[tokio::test(flavor = "multi_thread")]
async fn parameter_headers_must_agree_with_the_arguments() {
    let board = Board::new(Era::Both);
    let server = serve(&board).await;
    let modern = Modern::new(&server);
    let cases: Vec<Case> = vec![
        (json!({"region": "eu"}), vec![], false),
        (json!({"region": "eu"}), vec![("Mcp-Param-Region", "us")], false),
        (json!({"region": "eu"}), vec![("Mcp-Param-Region", "eu")], true),
        (json!({"region": "eu"}), vec![("mcp-param-REGION", "=?base64?ZXU=?=")], true),
        (json!({"region": "eu"}), vec![("Mcp-Param-Region", "EU")], false),
        (json!({"region": "eu"}), vec![("Mcp-Param-Region", "eu"), ("Mcp-Param-Region", "us")], false),
        (json!({"region": null}), vec![], true),
        (json!({"region": null}), vec![("Mcp-Param-Region", "null")], false),
        (json!({}), vec![("Mcp-Param-Region", "eu")], false),
        (json!({}), vec![("Mcp-Param-Unknown", "eu")], true),
        (json!({"region": "é"}), vec![("Mcp-Param-Region", "=?base64?w6k=?=")], true),
        (json!({"region": "é"}), vec![("Mcp-Param-Region", "é")], false),
        (json!({"region": " x "}), vec![("Mcp-Param-Region", "x")], false),
        (json!({"size": 42}), vec![("Mcp-Param-Size", "42")], true),
        (json!({"size": 42}), vec![("Mcp-Param-Size", "42.0")], true),
        (json!({"size": 42.0}), vec![("Mcp-Param-Size", "42")], true),
        (json!({"size": 42}), vec![("Mcp-Param-Size", "43")], false),
        (json!({"size": 9_007_199_254_740_992_u64}), vec![("Mcp-Param-Size", "9007199254740993")], false),
        (json!({"size": "42"}), vec![("Mcp-Param-Size", "42")], true),
        (json!({"flag": true}), vec![("Mcp-Param-Flag", "true")], true),
        (json!({"flag": true}), vec![("Mcp-Param-Flag", "True")], false),
        (json!({"deep": {"er": "x"}}), vec![("Mcp-Param-Deep", "x")], true),
        (json!({"deep": {"er": "x"}}), vec![], false),
        (json!({"er": "x"}), vec![("Mcp-Param-Deep", "x")], false),
        (json!({"deep": "x"}), vec![], true),
    ];
    let mut ran = 0;
    for (arguments, said, fine) in cases {
        let (mut headers, body) =
            modern.request("tools/call", json!({"name": "headed", "arguments": arguments}));
        headers.extend(said.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let answer = post(&server, &headers, &body).await;
        if fine {
            answer.result();
            ran += 1;
        } else {
            assert_eq!((answer.status, answer.code()), (400, -32020), "{arguments} {said:?}");
        }
        assert_eq!(board.count("calls"), ran);
    }
}

/// Case 35: who may come from where, and what they may read; a refused request does nothing.
#[tokio::test(flavor = "multi_thread")]
async fn origins_hosts_and_kinds_are_checked_before_any_work() {
    let board = Board::new(Era::Both);
    let settings = Settings {
        allowed_hosts: vec!["mcp.example".to_owned(), "[fd00::1]".to_owned()],
        allowed_origins: vec!["https://app.example".to_owned()],
        ..crate::harness::settings()
    };
    let server = Server::start(builder(&board).settings(settings).build().await.expect("gateway")).await;
    let modern = Modern::new(&server);
    let (headers, body) = modern.request("tools/call", json!({"name": "never", "arguments": {}}));
    let mut ran = 0;
    for (name, value, status) in [
        ("Origin", "https://evil.example", 403),
        ("Origin", "null", 403),
        ("Origin", "", 403),
        ("Origin", "http://localhost.evil.example", 403),
        ("Origin", "http://localhost@evil.example", 403),
        ("Origin", "https://app.example.evil", 403),
        ("Origin", "http://app.example", 403),
        ("Origin", "file://", 403),
        ("Origin", "http://localhost", 200),
        ("Origin", "http://localhost:5173", 200),
        ("Origin", "http://127.0.0.1:1", 200),
        ("Origin", "http://[::1]:1", 200),
        ("Origin", "https://app.example", 200),
        ("Host", "evil.example", 403),
        ("Host", "localhost.evil.example:80", 403),
        ("Host", "127.0.0.1.nip.io", 403),
        ("Host", "mcp.example", 200),
        ("Host", "MCP.example:8443", 200),
        ("Host", "[fd00::1]", 200),
        ("Host", "[fd00::1]:8443", 200),
        ("Host", "[fd00::2]", 403),
        ("Host", "localhost", 200),
        ("Host", "[::1]:80", 200),
        ("Accept", "application/json", 200),
        ("Accept", "text/event-stream", 200),
        ("Accept", "*/*", 200),
        ("Accept", "application/json;q=0.9, text/event-stream;q=0.1", 200),
        ("Accept", "text/html", 200),
    ] {
        let answer = post(&server, &set(&headers, name, Some(value)), &body).await;
        assert_eq!(answer.status, status, "{name}: {value}");
        if status == 200 {
            ran += 1;
            answer.result();
        } else {
            let setting = if name == "Host" { "allowed_hosts" } else { "allowed_origins" };
            assert!(answer.error()["message"].as_str().expect("words").contains(setting), "{}", answer.raw);
        }
        assert_eq!(board.count("calls"), ran, "{name}: {value}");
    }
    post(&server, &set(&headers, "Accept", None), &body).await.result();
    let evil = [("Origin", "https://evil.example"), ("Mcp-Session-Id", "x")];
    for verb in ["GET", "DELETE", "POST"] {
        assert_eq!(send(server.addr, verb, &evil, b"{}").await.status, 403);
    }
}

/// Case 35: a client that reads JSON only gets JSON, however long it takes.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_reads_json_gets_json() {
    let board = Board::new(Era::Both);
    let server = serve(&board).await;
    let mut modern = Modern::new(&server);
    let what = json!({"name": "never", "arguments": {"steps": [{"progress": {"progress": 1}}, {"sleep": 1200}]}, "_meta": {"progressToken": 1}});
    let streamed = modern.open("tools/call", what.clone()).await;
    assert!(streamed.is_stream());
    assert_eq!(streamed.answer().await.before.len(), 1);
    modern.accept = "application/json".to_owned();
    let plain = modern.open("tools/call", what).await;
    assert_eq!(plain.header("content-type"), Some("application/json"));
    assert_eq!(plain.answer().await.text(), "done");
    // A subscription has no other form than a stream.
    assert!(modern.open("subscriptions/listen", json!({"notifications": {}})).await.is_stream());
    // A JSON-only client of 2025-11-25 cannot be asked; it neither blocks the task's questions nor waits for ever.
    let board = Board::new(Era::Session);
    let server = serve(&board).await;
    let mut old = Old::open(&server).await;
    old.accept = "application/json".to_owned();
    let id = old.augmented("always", json!([{"ask": [crate::harness::form("N?")]}])).await.task();
    old.until(&id, "input_required").await;
    let waiting = tokio::spawn({
        let (old, id) = (old.clone(), id.clone());
        async move { old.ask("tasks/result", json!({"taskId": id})).await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    old.accept = "text/event-stream".to_owned();
    let mut stream = old.begin("tasks/result", json!({"taskId": id})).await;
    let question: Value = serde_json::from_str(&stream.event().await.expect("a question")).expect("JSON");
    old.respond(&question["id"], crate::harness::accept("x")).await;
    assert_eq!(soon("the JSON answer", waiting).await.expect("no panic").text(), "done");
}

/// Sessions: unknown ones are 404, missing ones 400, ended ones 404; versions in headers are checked.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_told_apart() {
    let server = serve(&Board::new(Era::Both)).await;
    let ping = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let status = |verb: &'static str, headers: Vec<(&'static str, String)>, body: &'static [u8]| {
        let addr = server.addr;
        async move {
            let headers: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (*n, v.as_str())).collect();
            send(addr, verb, &headers, body).await.status
        }
    };
    assert_eq!(status("POST", vec![], ping).await, 400);
    for verb in ["POST", "GET", "DELETE"] {
        assert_eq!(status(verb, vec![("Mcp-Session-Id", "unknown".into())], ping).await, 404, "{verb}");
    }
    assert_eq!(status("GET", vec![], b"").await, 405);
    assert_eq!(status("DELETE", vec![], b"").await, 400);
    assert_eq!(status("PUT", vec![], b"").await, 405);
    let old = Old::open(&server).await;
    let session = ("Mcp-Session-Id", old.session.clone());
    for (version, want) in
        [("2025-11-25", 200), ("2025-06-18", 200), ("2024-11-05", 200), ("1999-01-01", 400), ("", 400)]
    {
        let headers = vec![session.clone(), ("MCP-Protocol-Version", version.to_owned())];
        assert_eq!(status("POST", headers, ping).await, want, "{version}");
    }
    let again = json!({"jsonrpc": "2.0", "id": 5, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}});
    assert_eq!(old.post(&again).await.answer().await.code(), -32600);
    assert_eq!(old.end().await, 204);
    assert_eq!(old.end().await, 404);
    assert_eq!(status("POST", vec![session], ping).await, 404);
}

/// A 2026-07-28 request brings its version and capabilities, and the version must be one that is served.
#[tokio::test(flavor = "multi_thread")]
async fn a_stateless_request_brings_everything() {
    let board = Board::new(Era::Both);
    let server = serve(&board).await;
    let modern = Modern::new(&server);
    let (headers, body) = modern.request("tools/call", json!({"name": "never", "arguments": {}}));
    let version = "io.modelcontextprotocol/protocolVersion";
    let capabilities = "io.modelcontextprotocol/clientCapabilities";
    let with = |key: &str, value: Option<Value>| {
        let mut body = body.clone();
        let meta = body["params"]["_meta"].as_object_mut().expect("meta");
        match value {
            Some(value) => meta.insert(key.to_owned(), value),
            None => meta.remove(key),
        };
        body
    };
    for (body, code) in [
        (with(version, None), -32602),
        (with(version, Some(json!(7))), -32602),
        (with(version, Some(json!("2025-11-25"))), -32020),
        (with(capabilities, None), -32602),
        (with(capabilities, Some(json!([]))), -32602),
        (with(capabilities, Some(json!("x"))), -32602),
        (with(capabilities, Some(json!({"extensions": 7}))), -32602),
        (with(capabilities, Some(json!({"elicitation": "yes"}))), -32602),
    ] {
        let answer = post(&server, &headers, &body).await;
        assert_eq!((answer.code(), answer.status), (code, 400), "{body}");
    }
    let body = with(version, Some(json!("2099-01-01")));
    let answer = post(&server, &set(&headers, "MCP-Protocol-Version", Some("2099-01-01")), &body).await;
    assert_eq!((answer.code(), answer.status), (-32022, 400));
    assert_eq!(answer.error()["data"]["requested"], "2099-01-01");
    assert_eq!(answer.error()["data"]["supported"][0], "2026-07-28");
    for meta in [json!(7), json!("x"), json!([])] {
        let mut body = body.clone();
        body["params"]["_meta"] = meta;
        assert_eq!(post(&server, &headers, &body).await.status, 400);
    }
    assert_eq!(board.count("calls"), 0);
}

/// A body that would have to be unpacked is refused before it is there, and one that only says that it is plain is not.
#[tokio::test(flavor = "multi_thread")]
async fn an_encoded_body_is_refused_unread() {
    let server = serve(&Board::new(Era::Both)).await;
    for coding in ["gzip", "br", "identity, gzip", "GZIP", "zstd"] {
        let mut stream = TcpStream::connect(server.addr).await.expect("connected");
        // The body is announced and never comes.
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: {coding}\r\nContent-Length: 9000\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.expect("sent");
        let answer = read_head(stream).await;
        assert_eq!((answer.status, answer.header("connection")), (415, Some("close")), "{coding}");
        let said = answer.text().await;
        assert!(said.contains(&format!("Content-Encoding: {coding}")), "{said}");
    }
    let ping = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let plain = send(server.addr, "POST", &[("Content-Encoding", "identity")], ping).await;
    assert_eq!(plain.status, 400);
    assert!(plain.text().await.contains("Mcp-Session-Id"));
}

/// A body over the limit is 413, says which limit, and the next request works, whether the length was announced or not.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_over_the_limit_is_refused() {
    let board = Board::new(Era::Both);
    let server = serve(&board).await;
    let old = Old::open(&server).await;
    let big = json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": "x".repeat(20 << 20)}})
        .to_string();
    let answer =
        send(server.addr, "POST", &[("Mcp-Session-Id", &old.session)], big.as_bytes()).await.answer().await;
    assert_eq!(answer.status, 413);
    assert!(answer.error()["message"].as_str().expect("words").contains("max_message (16777216 bytes)"));
    assert_eq!(
        answer.error()["data"],
        json!({"limit": "max_message", "value": 16_777_216, "retryAfterMs": null})
    );
    // In chunks, without a length.
    let stream = TcpStream::connect(server.addr).await.expect("connected");
    let (read, mut write) = stream.into_split();
    let writer = tokio::spawn(async move {
        let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
        let _ = write.write_all(head.as_bytes()).await;
        let chunk =
            [format!("{:x}\r\n", 1 << 20).into_bytes(), vec![b' '; 1 << 20], b"\r\n".to_vec()].concat();
        for _ in 0..20 {
            if write.write_all(&chunk).await.is_err() {
                break;
            }
        }
        write
    });
    soon("a response", read.readable()).await.expect("readable");
    let write = soon("the writer", writer).await.expect("no panic");
    let response = read_head(read.reunite(write).expect("one stream")).await;
    assert_eq!(response.status, 413);
    // On the same connection as before, if it is still there, and on a new one.
    assert_eq!(old.ask("ping", json!({})).await.result(), &json!({}));
    logs::clean();
}

/// A client that sends its request byte by byte is served, and holds up nobody.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_client_is_served_and_holds_up_nobody() {
    let board = Board::new(Era::Both);
    let server = serve(&board).await;
    let modern = Modern::new(&server);
    let (headers, body) = modern.request("tools/call", json!({"name": "never", "arguments": {}}));
    let body = body.to_string();
    let mut text = "POST /mcp HTTP/1.1\r\nHost: localhost\r\n".to_owned();
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
    let addr = server.addr;
    let slow = tokio::spawn(async move {
        let mut stream = TcpStream::connect(addr).await.expect("connected");
        for piece in text.as_bytes().chunks(16) {
            stream.write_all(piece).await.expect("sent");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        read_head(stream).await.answer().await
    });
    for _ in 0..20 {
        modern.tool("never", json!([])).await.result();
    }
    assert_eq!(soon("the slow answer", slow).await.expect("no panic").text(), "done");
    // A client that announces more than it sends and goes away leaves nothing behind.
    let mut stream = TcpStream::connect(addr).await.expect("connected");
    stream
        .write_all(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        .await
        .expect("sent");
    drop(stream);
    logs::clean();
}

/// Passes on what comes on a stream.
fn pump(mut stream: crate::harness::http::Response, to: tokio::sync::mpsc::UnboundedSender<Value>) {
    tokio::spawn(async move {
        while let Some(event) = stream.next_event().await {
            if to.send(serde_json::from_str(&event).expect("JSON")).is_err() {
                return;
            }
        }
    });
}

/// Many sessions at once, each with a task and a stream of its own.
#[tokio::test(flavor = "multi_thread")]
async fn many_sessions_are_served_at_once() {
    let board = Board::new(Era::Session);
    let server = serve(&board).await;
    let clients = (0..60).map(|n| {
        let server = server.clone();
        async move {
            let old = Old::open(&server).await;
            let (events, mut arriving) = tokio::sync::mpsc::unbounded_channel();
            pump(old.stream().await, events.clone());
            let what = json!([{"ask": [crate::harness::form(&format!("{n}?"))]}, {"answers": true}]);
            let id = old.augmented("always", what).await.task();
            // A client that is slow to call `tasks/result` is asked on the general stream, where its news come too.
            pump(old.begin("tasks/result", json!({"taskId": id})).await, events);
            let result = loop {
                let event: Value = arriving.recv().await.expect("an event");
                if event["method"] == "elicitation/create" {
                    assert_eq!(event["params"]["message"], format!("{n}?"));
                    old.respond(&event["id"], crate::harness::accept(&n.to_string())).await;
                } else if let Some(result) = event.get("result") {
                    break result.clone();
                }
            };
            let want = json!([crate::harness::accept(&n.to_string())]).to_string();
            assert_eq!(result["content"][0]["text"], want);
            assert_eq!(old.end().await, 204);
        }
    });
    soon("all of them", futures_util::future::join_all(clients)).await;
    logs::clean();
}

/// Two requests on one connection, one after the other, and two upstreams behind one endpoint path of one's own.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_is_used_again() {
    let board = Board::new(Era::Both);
    let gateway = policies(Gateway::builder().add(board.spec("u"))).build().await.expect("gateway");
    let server = Server::start(gateway).await;
    let mut stream = TcpStream::connect(server.addr).await.expect("connected");
    for (body, status) in
        [("nonsense", 400), ("[]", 400), (r#"{"jsonrpc":"2.0","method":"notifications/x"}"#, 202), ("{", 400)]
    {
        let response = send_on(stream, "POST", &[], body.as_bytes()).await;
        assert_eq!(response.status, status, "{body}");
        stream = response.drained().await;
    }
}
