//! Whatever arrives: no panic, the connection lives, a ping is answered.

use serde_json::{Value, json};
use taskgate_gateway::Settings;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::dice::Dice;
use crate::harness::http::send;
use crate::harness::{Board, Era, Modern, Old, Pipe, builder, logs, serve, settings, soon};

const METHODS: &[&str] = &[
    "initialize",
    "ping",
    "tools/list",
    "tools/call",
    "tasks/get",
    "tasks/result",
    "tasks/list",
    "tasks/cancel",
    "tasks/update",
    "server/discover",
    "resources/read",
    "prompts/get",
    "prompts/list",
    "logging/setLevel",
    "completion/complete",
    "resources/subscribe",
    "notifications/cancelled",
    "notifications/initialized",
    "tasks/delete",
    "",
];

const KEYS: &[&str] = &[
    "name",
    "arguments",
    "task",
    "taskId",
    "ttl",
    "cursor",
    "inputResponses",
    "requestState",
    "uri",
    "_meta",
    "protocolVersion",
    "capabilities",
    "clientInfo",
    "requestId",
    "progressToken",
    "steps",
    "io.modelcontextprotocol/protocolVersion",
    "io.modelcontextprotocol/clientCapabilities",
    "io.modelcontextprotocol/related-task",
    "extensions",
    "é\u{0}",
];

/// A value of any kind, not too deep.
fn value(dice: &mut Dice, known: &[String], depth: usize) -> Value {
    match dice.below(if depth == 0 { 10 } else { 14 }) {
        0 => Value::Null,
        1 => json!(dice.below(2) == 0),
        2 => json!(dice.roll()),
        3 => json!(-(dice.below(1000) as i64)),
        4 => json!(f64::from_bits(dice.roll() & 0x7fef_ffff_ffff_ffff)),
        5 => json!("x".repeat(dice.below(300))),
        6 => json!(*dice.pick(&[
            "2026-07-28",
            "2025-11-25",
            "always",
            "do",
            "never",
            "at_once",
            "headed",
            "",
            "\u{0}",
            "😀"
        ])),
        7 => json!(*dice.pick(METHODS)),
        8 | 9 => dice.pick(known).clone().into(),
        10 => (0..dice.below(4)).map(|_| value(dice, known, depth - 1)).collect(),
        _ => object(dice, known, depth - 1),
    }
}

fn object(dice: &mut Dice, known: &[String], depth: usize) -> Value {
    let mut object = json!({});
    for _ in 0..dice.below(5) {
        object[*dice.pick(KEYS)] = value(dice, known, depth);
    }
    // Steps that the upstream understands, now and then none.
    if dice.below(3) == 0 {
        object["arguments"] = json!({"steps": [{"sleep": dice.below(3)}]});
        object["name"] =
            json!(*dice.pick(&["always", "never", "do", "at_once", "patient", "reader", "headed"]));
    } else if let Some(arguments) = object.get_mut("arguments").and_then(Value::as_object_mut) {
        arguments.remove("steps");
    }
    object
}

/// A message: well-formed in most parts, wrong in some.
fn message(dice: &mut Dice, known: &[String], modern: bool) -> Value {
    let mut message = json!({"jsonrpc": "2.0", "id": dice.below(50), "method": *dice.pick(METHODS)});
    if dice.below(8) != 0 {
        message["params"] = object(dice, known, 3);
        if modern && dice.below(6) != 0 {
            message["params"]["_meta"] =
                crate::harness::pipe::modern_meta(crate::harness::modern::everything());
        }
    }
    for _ in 0..dice.below(3) {
        match dice.below(5) {
            0 => message["id"] = value(dice, known, 1),
            1 => message["method"] = value(dice, known, 0),
            2 => message["params"] = value(dice, known, 2),
            3 => message["result"] = value(dice, known, 2),
            _ => {
                let key = *dice.pick(&["id", "jsonrpc", "method", "params"]);
                message.as_object_mut().expect("an object").shift_remove(key);
            }
        }
    }
    message
}

/// Bytes near a message: cut, doubled, changed.
fn mutated(dice: &mut Dice, text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..dice.below(4) {
        let at = dice.below(bytes.len());
        match dice.below(5) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, u8::try_from(dice.below(256)).expect("a byte")),
            2 if at < bytes.len() => bytes[at] = u8::try_from(dice.below(256)).expect("a byte"),
            3 if at < bytes.len() => {
                bytes.remove(at);
            }
            _ => {
                let again = bytes[..at].to_vec();
                bytes.extend(again);
            }
        }
    }
    bytes.retain(|byte| *byte != b'\n');
    bytes
}

/// Random and mutated messages over stdio, in both eras on one pipe.
#[tokio::test(flavor = "multi_thread")]
async fn no_message_over_stdio_harms() {
    let board = Board::new(Era::Both);
    for seed in 0..4 {
        let mut dice = Dice(seed);
        let gateway = builder(&board).build().await.expect("gateway");
        let mut pipe = Pipe::open(&gateway).await;
        let known = vec![
            pipe.task("always", json!([])).await,
            pipe.task("always", json!([{"wait": "x"}])).await,
            "1".to_owned(),
        ];
        for round in 0..1500 {
            let modern = dice.below(2) == 0;
            let text = message(&mut dice, &known, modern).to_string();
            let bytes = if dice.below(3) == 0 { mutated(&mut dice, &text) } else { text.into_bytes() };
            pipe.write(&[bytes.as_slice(), b"\n"].concat()).await;
            if round % 25 == 24 {
                pipe.ping_under(&format!("ping {seed} {round}")).await;
            }
        }
        pipe.close();
        pipe.ended().await;
    }
    assert_eq!(logs::panics(), Vec::<String>::new());
}

/// Random batches, whole and mutated, in the version that has them.
#[tokio::test(flavor = "multi_thread")]
async fn no_batch_over_stdio_harms() {
    let board = Board::new(Era::Both);
    let gateway = builder(&board).build().await.expect("gateway");
    let mut pipe = Pipe::start(&gateway);
    pipe.initialize("2025-03-26", json!({"elicitation": {}})).await.result();
    let mut dice = Dice(11);
    let known = vec!["1".to_owned()];
    for round in 0..500 {
        let count = dice.below(6);
        let batch: Vec<Value> = (0..count)
            .map(|_| match dice.below(8) {
                0 => value(&mut dice, &known, 2),
                _ => message(&mut dice, &known, false),
            })
            .collect();
        let text = Value::from(batch).to_string();
        let bytes = if dice.below(3) == 0 { mutated(&mut dice, &text) } else { text.into_bytes() };
        pipe.write(&[bytes.as_slice(), b"\n"].concat()).await;
        if round % 25 == 24 {
            pipe.ping_under(&format!("ping {round}")).await;
        }
    }
    pipe.close();
    pipe.ended().await;
    assert_eq!(logs::panics(), Vec::<String>::new());
}

/// Messages over HTTP, with headers that fit, and with some that do not.
#[tokio::test(flavor = "multi_thread")]
async fn no_message_over_http_harms() {
    let board = Board::new(Era::Both);
    let server = serve(&board).await;
    let modern = Modern::new(&server);
    let known = vec![
        modern.task("always", json!([])).await,
        modern.task("always", json!([{"wait": "x"}])).await,
        "1".to_owned(),
    ];
    for seed in 100..102 {
        let mut dice = Dice(seed);
        let old = Old::open(&server).await;
        for round in 0..400 {
            let stateless = dice.below(2) == 0;
            let message = message(&mut dice, &known, stateless);
            let text = message.to_string();
            let bytes = if dice.below(3) == 0 { mutated(&mut dice, &text) } else { text.into_bytes() };
            let name = ["name", "uri", "taskId"].iter().find_map(|key| message["params"].get(*key)?.as_str());
            let name = taskgate_wire::header::encode(name.unwrap_or("x")).into_owned();
            let method = message["method"]
                .as_str()
                .filter(|method| !method.contains(['\u{0}', '\n', '😀']))
                .unwrap_or("x")
                .to_owned();
            let mut headers = vec![("Accept", "application/json, text/event-stream")];
            if stateless {
                headers.extend([
                    ("MCP-Protocol-Version", "2026-07-28"),
                    ("Mcp-Method", &method),
                    ("Mcp-Name", &name),
                ]);
            } else {
                headers.push(("Mcp-Session-Id", &old.session));
            }
            // `tasks/result` of the task that never ends waits, as it should.
            let response = tokio::time::timeout(
                std::time::Duration::from_millis(1500),
                send(server.addr, "POST", &headers, &bytes),
            )
            .await;
            if let Ok(response) = response {
                assert!(response.status < 500, "{} {}", response.status, String::from_utf8_lossy(&bytes));
            }
            if round % 25 == 24 {
                assert_eq!(old.ask("ping", json!({})).await.result(), &json!({}));
            }
        }
    }
    assert_eq!(logs::panics(), Vec::<String>::new());
    assert_eq!(modern.tool("never", json!([])).await.text(), "done");
}

/// Bytes that are no HTTP, or HTTP of a bad kind, end their own connection at most.
#[tokio::test(flavor = "multi_thread")]
async fn no_bytes_on_the_port_harm() {
    let board = Board::new(Era::Both);
    let settings = Settings { max_message: 1 << 20, ..settings() };
    let server =
        crate::harness::Server::start(builder(&board).settings(settings).build().await.expect("gateway"))
            .await;
    let mut dice = Dice(7);
    let mut random: Vec<Vec<u8>> = (0..40)
        .map(|_| (0..dice.below(3000)).map(|_| u8::try_from(dice.below(256)).expect("a byte")).collect())
        .collect();
    for text in [
        "GET /mcp HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.0\r\n\r\n",
        "POST /mcp HTTP/1.1\r\nHost: a\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}",
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n{}",
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n{}",
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}",
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n{}",
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n",
        "POST http://evil.example/mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        random.push(text.as_bytes().to_vec());
    }
    random.push(
        [b"GET /mcp HTTP/1.1\r\nHost: localhost\r\nX: ".as_slice(), &vec![b'x'; 1 << 20], b"\r\n\r\n"]
            .concat(),
    );
    for bytes in random {
        let mut stream = TcpStream::connect(server.addr).await.expect("connected");
        let _ = stream.write_all(&bytes).await;
        let _ = stream.shutdown().await;
        let mut rest = Vec::new();
        let _ = soon("the end of the connection", stream.read_to_end(&mut rest)).await;
    }
    assert_eq!(Modern::new(&server).tool("never", json!([])).await.text(), "done");
    logs::clean();
}

/// A client that floods, and reads nothing for a while, is answered in full afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_is_answered_in_full() {
    let board = Board::new(Era::Both);
    let server = serve(&board).await;
    let mut pipe = Pipe::open(&server.gateway).await;
    let mut ids = Vec::new();
    for _ in 0..3000 {
        ids.push(pipe.begin("ping", json!({})).await);
    }
    for _ in 0..300 {
        ids.push(pipe.begin("tools/call", json!({"name": "always", "arguments": {}, "task": {}})).await);
    }
    let mut answered = std::collections::HashSet::new();
    while answered.len() < ids.len() {
        let message = pipe.message().await;
        if let Some(id) = message["id"].as_u64() {
            assert!(answered.insert(id), "{message}");
        }
    }
    board.until("every call", |board| board.count("calls") == 300).await;
    logs::clean();
}

/// The same request id twice at a time: both are answered.
#[tokio::test(flavor = "multi_thread")]
async fn doubled_ids_are_both_answered() {
    let board = Board::new(Era::Both);
    let server = serve(&board).await;
    let mut pipe = Pipe::open(&server.gateway).await;
    for gate in ["a", "b"] {
        let call = json!({"jsonrpc": "2.0", "id": "same", "method": "tools/call",
            "params": {"name": "never", "arguments": {"steps": [{"wait": gate}]}}});
        pipe.write(format!("{call}\n").as_bytes()).await;
    }
    board.until("both run", |board| board.running() == 2).await;
    board.open("a");
    assert_eq!(pipe.message().await["id"], "same");
    // The second one can still be cancelled, or is answered; it is not forgotten.
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "same"}});
    pipe.write(format!("{cancel}\n").as_bytes()).await;
    board.until("the second stops", |board| board.running() == 0).await;
    pipe.ping().await;
}
