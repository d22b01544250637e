//! What is no proper message, on either transport: a precise answer, and the connection lives.

use serde_json::{Value, json};

use crate::harness::http::send;
use crate::harness::{Board, Era, Modern, Old, Pipe, Server, logs, serve, settings};

/// A message that is wrong, the code of its answer, and the id in the answer.
fn wrong() -> Vec<(Vec<u8>, i64, &'static str)> {
    let deep = |open: &str, close: &str| format!("{}{}", open.repeat(100_000), close.repeat(100_000));
    let text = |text: &str| text.as_bytes().to_vec();
    vec![
        (text("not json"), -32700, "null"),
        (text("{"), -32700, "null"),
        (text(r#"{"jsonrpc":"2.0","id":1,"method":"ping""#), -32700, "null"),
        (text(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}}"#), -32700, "null"),
        (
            text(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}{"jsonrpc":"2.0","id":2,"method":"ping"}"#),
            -32700,
            "null",
        ),
        (text("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"pi\u{1}ng\"}"), -32700, "null"),
        (b"\xff\xfe{}".to_vec(), -32700, "null"),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xc3\"}".to_vec(), -32700, "null"),
        (text("[]"), -32600, "null"),
        (text(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#), -32600, "null"),
        (text("null"), -32600, "null"),
        (text("7"), -32600, "null"),
        (text("\"ping\""), -32600, "null"),
        (text("{}"), -32600, "null"),
        (text(&deep("[", "]")), -32600, "null"),
        (text(r#"{"id":"a","method":"ping"}"#), -32600, "\"a\""),
        (text(r#"{"jsonrpc":"1.0","id":"a","method":"ping"}"#), -32600, "\"a\""),
        (text(r#"{"jsonrpc":2.0,"id":"a","method":"ping"}"#), -32600, "\"a\""),
        (text(r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#), -32600, "null"),
        (text(r#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#), -32600, "null"),
        (text(r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#), -32600, "null"),
        (text(r#"{"jsonrpc":"2.0","id":3}"#), -32600, "3"),
        (text(r#"{"jsonrpc":"2.0","id":3,"method":7}"#), -32600, "3"),
        (text(r#"{"jsonrpc":"2.0","id":3,"method":null}"#), -32600, "3"),
        (text(r#"{"jsonrpc":"2.0","id":3,"id":4,"method":"ping"}"#), -32600, "null"),
        (text(r#"{"jsonrpc":"2.0","id":3,"result":{},"error":{}}"#), -32600, "3"),
        (text(r#"{"jsonrpc":"2.0","id":3,"method":"ping","params":null}"#), -32602, "3"),
        (text(r#"{"jsonrpc":"2.0","id":3,"method":"ping","params":[1]}"#), -32602, "3"),
        (text(r#"{"jsonrpc":"2.0","id":3,"method":"ping","params":"x"}"#), -32602, "3"),
        (text(r#"{"jsonrpc":"2.0","id":3,"method":"tools/call"}"#), -32602, "3"),
        (text(r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":7}}"#), -32602, "3"),
        (
            text(r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"do","name":"do"}}"#),
            -32602,
            "3",
        ),
        (text(r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"unknown"}}"#), -32602, "3"),
        (text(r#"{"jsonrpc":"2.0","id":3,"method":"tasks/get","params":{}}"#), -32602, "3"),
        (
            text(r#"{"jsonrpc":"2.0","id":3,"method":"tasks/get","params":{"taskId":"a","taskId":"b"}}"#),
            -32602,
            "3",
        ),
        (text(r#"{"jsonrpc":"2.0","id":3,"method":"unknown/method"}"#), -32601, "3"),
        (text(r#"{"jsonrpc":"2.0","id":3,"method":""}"#), -32601, "3"),
    ]
}

/// Case 19: over stdio each bad line gets its own precise answer and a ping behind it is answered.
#[tokio::test(flavor = "multi_thread")]
async fn bad_lines_are_answered_and_the_pipe_lives() {
    let server = serve(&Board::new(Era::Both)).await;
    let mut pipe = Pipe::open(&server.gateway).await;
    for (bytes, code, id) in wrong() {
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(120)]).into_owned();
        pipe.write(&[bytes.as_slice(), b"\n"].concat()).await;
        let answer = pipe.message().await;
        assert_eq!(answer["error"]["code"], code, "{shown}: {answer}");
        assert_eq!(answer["id"].to_string(), id, "{shown}");
        assert!(answer["error"]["message"].as_str().is_some_and(|words| words.len() < 300), "{shown}");
        pipe.ping().await;
    }
    // What wants no answer gets none.
    for quiet in [
        "",
        "   ",
        r#"{"jsonrpc":"2.0","method":"notifications/unknown"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[]}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#,
        r#"{"jsonrpc":"2.0","id":77,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":"m"}}"#,
        r#"{"jsonrpc":"2.0","error":7}"#,
    ] {
        pipe.write(format!("{quiet}\n").as_bytes()).await;
        pipe.ping().await;
        assert!(pipe.others.is_empty(), "{quiet}: {:?}", pipe.others);
    }
    logs::clean();
}

/// Case 19: the same over HTTP, with a status that fits.
#[tokio::test(flavor = "multi_thread")]
async fn bad_bodies_are_answered_and_the_server_lives() {
    let server = serve(&Board::new(Era::Both)).await;
    let old = Old::open(&server).await;
    let headers = [("Mcp-Session-Id", old.session.as_str())];
    for (bytes, code, id) in wrong().into_iter().chain([(Vec::new(), -32700, "null")]) {
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(120)]).into_owned();
        let answer = send(server.addr, "POST", &headers, &bytes).await.answer().await;
        assert_eq!(answer.code(), code, "{shown}: {}", answer.raw);
        assert_eq!(answer.json["id"].to_string(), id, "{shown}");
        assert!(matches!(answer.status, 200 | 400), "{shown}: {}", answer.status);
        assert_eq!(old.ask("ping", json!({})).await.result(), &json!({}));
    }
    logs::clean();
}

/// Case 19: a line over the limit is dropped as a whole; its answer says which limit, and the next line is read.
#[tokio::test(flavor = "multi_thread")]
async fn an_endless_line_is_dropped() {
    let board = Board::new(Era::Both);
    let settings = taskgate_gateway::Settings { max_message: 1 << 20, ..settings() };
    let gateway = crate::harness::builder(&board).settings(settings).build().await.expect("gateway");
    let mut pipe = Pipe::open(&gateway).await;
    let chunk = vec![b'x'; 1 << 20];
    for _ in 0..200 {
        pipe.write(&chunk).await;
    }
    pipe.write(b"\n").await;
    let answer = pipe.message().await;
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&Value::Null, &json!(-32600)));
    assert!(answer["error"]["message"].as_str().expect("words").contains("1048576"), "{answer}");
    let data = json!({"limit": "max_message", "value": 1_048_576, "retryAfterMs": null});
    assert_eq!(answer["error"]["data"], data);
    pipe.ping().await;
}

/// Case 32: any line end and one byte order mark are accepted; what is written has line feeds only (see `Pipe::line`).
#[tokio::test(flavor = "multi_thread")]
async fn any_line_end_is_accepted() {
    let server = serve(&Board::new(Era::Both)).await;
    for (before, end) in
        [("", "\n"), ("", "\r\n"), ("\u{feff}", "\n"), ("\u{feff}", "\r\n"), ("", "\n\n"), ("\r\n\n", "\r\n")]
    {
        let mut pipe = Pipe::start(&server.gateway);
        let initialize = r#"{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#;
        pipe.write(format!("{before}{initialize}{end}").as_bytes()).await;
        assert_eq!(pipe.message().await["id"], "i", "{before:?} {end:?}");
        pipe.ping().await;
    }
    // The last line needs no end.
    let mut pipe = Pipe::start(&server.gateway);
    pipe.write(br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).await;
    pipe.close();
    let rest = pipe.ended().await;
    assert_eq!(rest, [json!({"jsonrpc": "2.0", "id": 1, "result": {}})]);
}

/// Case 33: characters cut at any border arrive whole, and a line of invalid bytes harms no other.
#[tokio::test(flavor = "multi_thread")]
async fn characters_stay_whole() {
    let board = Board::new(Era::Both);
    let server = serve(&board).await;
    let mut pipe = Pipe::open(&server.gateway).await;
    let text = "é漢字😀\u{2028}한국어";
    let what = json!([{"return": {"content": [{"type": "text", "text": text}]}}]);
    let call = json!({"jsonrpc": "2.0", "id": "é", "method": "tools/call", "params": {"name": "never", "arguments": {"steps": what}}});
    for byte in format!("{call}\n").as_bytes() {
        pipe.write(&[*byte]).await;
    }
    let answer = pipe.message().await;
    assert_eq!((&answer["id"], &answer["result"]["content"][0]["text"]), (&json!("é"), &json!(text)));
    assert_eq!(board.heard("tools/call")[0]["params"]["arguments"]["steps"], what);
    pipe.write(b"\xff\xfe\n").await;
    assert_eq!(pipe.message().await["error"]["code"], -32700);
    pipe.ping().await;
}

/// Relaying: ids come back as they were spelled, whatever they are.
#[tokio::test(flavor = "multi_thread")]
async fn ids_come_back_as_they_were_spelled() {
    let server = serve(&Board::new(Era::Both)).await;
    let old = Old::open(&server).await;
    let mut pipe = Pipe::open(&server.gateway).await;
    let long = format!("\"{}\"", "x".repeat(100_000));
    let digits = "9".repeat(400);
    for id in [
        "0",
        "-1",
        "-0",
        "1.0",
        "1e3",
        "1E+3",
        "9007199254740993",
        "18446744073709551616",
        "\"\"",
        "\"1\"",
        "\"\\u00e9\"",
        "\"é😀\"",
        "\"a\\\\b\\\"c\"",
        "\"\\ud83d\"",
        &long,
        &digits,
    ] {
        for (method, params) in
            [("ping", "{}"), ("tools/call", r#"{"name":"never","arguments":{}}"#), ("unknown", "{}")]
        {
            let message = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
            let headers = [("Mcp-Session-Id", old.session.as_str())];
            let raw = send(server.addr, "POST", &headers, message.as_bytes()).await.text().await;
            let want = format!(r#"{{"jsonrpc":"2.0","id":{id},"#);
            assert!(raw.starts_with(&want), "{method} {}", &raw[..raw.len().min(200)]);
            pipe.write(format!("{message}\n").as_bytes()).await;
            let raw = pipe.line().await.expect("an answer");
            assert!(raw.starts_with(&want), "{method} {}", &raw[..raw.len().min(200)]);
        }
    }
    logs::clean();
}

/// Nesting of 100,000 levels anywhere in the params is carried or refused, and never ends anything.
#[tokio::test(flavor = "multi_thread")]
async fn deep_nesting_harms_nothing() {
    let board = Board::new(Era::Both);
    let server = serve(&board).await;
    let old = Old::open(&server).await;
    let mut pipe = Pipe::open(&server.gateway).await;
    let modern = Modern::new(&server);
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let deeper = format!("{}1{}", "{\"a\":".repeat(100_000), "}".repeat(100_000));
    let id = modern.task("always", json!([{"ask": [crate::harness::form("?")]}])).await;
    for deep in [&deep, &deeper] {
        let bodies = [
            ("ping", format!(r#"{{"x":{deep}}}"#)),
            ("ping", format!(r#"{{"_meta":{{"x":{deep},"progressToken":{deep}}}}}"#)),
            ("tools/call", format!(r#"{{"name":"never","arguments":{{"x":{deep}}}}}"#)),
            ("tools/call", format!(r#"{{"name":{deep}}}"#)),
            (
                "tools/call",
                format!(r#"{{"name":"always","arguments":{deep},"task":{{"ttl":1000,"x":{deep}}}}}"#),
            ),
            ("tools/call", format!(r#"{{"name":"always","task":{deep}}}"#)),
            ("tools/call", format!(r#"{{"name":"always","task":{{"ttl":{deep}}}}}"#)),
            ("tasks/get", format!(r#"{{"taskId":{deep}}}"#)),
            ("tasks/list", format!(r#"{{"cursor":{deep}}}"#)),
            ("prompts/get", format!(r#"{{"name":"x","requestState":{deep}}}"#)),
            ("unknown", format!(r#"{{"x":{deep}}}"#)),
        ];
        for (method, params) in bodies {
            let message = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
            let headers = [("Mcp-Session-Id", old.session.as_str())];
            let answer = send(server.addr, "POST", &headers, message.as_bytes()).await.answer().await;
            assert_eq!(answer.json["id"], 1, "{method}: {}", &answer.raw[..answer.raw.len().min(200)]);
            pipe.write(format!("{message}\n").as_bytes()).await;
            pipe.answer(1).await;
            let meta = crate::harness::pipe::modern_meta(crate::harness::modern::everything()).to_string();
            let stateless = format!(r#"{{"_meta":{meta},{}"#, &params[1..]);
            let message = format!(r#"{{"jsonrpc":"2.0","id":2,"method":"{method}","params":{stateless}}}"#);
            pipe.write(format!("{message}\n").as_bytes()).await;
            pipe.answer(2).await;
        }
        let meta = crate::harness::pipe::modern_meta(crate::harness::modern::everything()).to_string();
        for (method, params) in [
            ("subscriptions/listen", format!(r#"{{"_meta":{meta},"notifications":{{"taskIds":{deep}}}}}"#)),
            ("tasks/update", format!(r#"{{"_meta":{meta},"taskId":"{id}","inputResponses":{deep}}}"#)),
            (
                "tasks/update",
                format!(
                    r#"{{"_meta":{meta},"taskId":"{id}","inputResponses":{{"elicitation-1":{{"a":{deep}}}}}}}"#
                ),
            ),
            (
                "tools/call",
                format!(
                    r#"{{"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{"extensions":{deep}}}}},"name":"do"}}"#
                ),
            ),
            (
                "tools/call",
                format!(
                    r#"{{"_meta":{{"io.modelcontextprotocol/protocolVersion":{deep},"io.modelcontextprotocol/clientCapabilities":{{}}}},"name":"do"}}"#
                ),
            ),
        ] {
            let message = format!(r#"{{"jsonrpc":"2.0","id":3,"method":"{method}","params":{params}}}"#);
            pipe.write(format!("{message}\n").as_bytes()).await;
            pipe.answer(3).await;
        }
    }
    pipe.ping().await;
    logs::clean();
}

/// Duplicate keys: what decides something is refused, what is merely passed on is passed on.
#[tokio::test(flavor = "multi_thread")]
async fn duplicate_keys_do_not_confuse() {
    let board = Board::new(Era::Both);
    let server: Server = serve(&board).await;
    let old = Old::open(&server).await;
    let headers = [("Mcp-Session-Id", old.session.as_str())];
    for (params, fine) in [
        (r#"{"name":"never","arguments":{"steps":[],"x":1,"x":2}}"#, true),
        (r#"{"name":"never","other":1,"other":2,"arguments":{}}"#, true),
        (r#"{"name":"never","name":"always","arguments":{}}"#, false),
        (r#"{"name":"never","n\u0061me":"always","arguments":{}}"#, false),
        (r#"{"name":"always","task":{"ttl":1},"task":{},"arguments":{}}"#, false),
        (r#"{"name":"never","arguments":{},"arguments":{}}"#, false),
        (r#"{"name":"never","_meta":{},"_meta":{},"arguments":{}}"#, false),
    ] {
        let message = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
        let answer = send(server.addr, "POST", &headers, message.as_bytes()).await.answer().await;
        if fine {
            answer.result();
        } else {
            assert_eq!(answer.code(), -32602, "{params}");
        }
    }
    assert_eq!(board.count("calls"), 2);
}
