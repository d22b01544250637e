//! Requests that are well-formed messages and wrong all the same, and bytes of a body: the exact error over both
//! transports, nothing runs, and the next request works. `framing.rs` has what is no message at all.

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::harness::http::{read_head, send};
use crate::harness::pipe::modern_meta;
use crate::harness::{Board, Era, Modern, Old, Pipe, accept, form, logs, modern, serve, steps};
use crate::input::next;

/// Requests of 2026-07-28 that have everything but what is right: method, params without `_meta`, and the code.
fn wrong_params(known: &str) -> Vec<(&'static str, Value, i64)> {
    let mut wrong = vec![
        ("tools/call", json!({}), -32602),
        ("tools/call", json!({"arguments": {}}), -32602),
        ("tools/call", json!({"name": "", "arguments": {}}), -32602),
        ("tools/call", json!({"name": "no such tool", "arguments": {}}), -32602),
        ("tools/call", json!({"name": "NEVER", "arguments": {}}), -32602),
        ("tools/call", json!({"name": "x".repeat(100_000)}), -32602),
        ("tasks/get", json!({}), -32602),
        ("tasks/get", json!({"taskId": "no such task"}), -32602),
        ("tasks/get", json!({"taskId": known.to_uppercase() + "0"}), -32602),
        ("tasks/cancel", json!({"taskId": ""}), -32602),
        ("tasks/update", json!({"taskId": known}), -32602),
        ("tasks/update", json!({"taskId": "no such task", "inputResponses": {}}), -32602),
        ("subscriptions/listen", json!({}), -32602),
        ("no/such/method", json!({}), -32601),
        ("", json!({}), -32601),
    ];
    for value in [json!(7), json!(true), json!([]), json!({}), json!(1.5)] {
        wrong.push(("tools/call", json!({"name": value}), -32602));
        wrong.push(("tasks/get", json!({"taskId": value}), -32602));
        wrong.push(("tasks/cancel", json!({"taskId": value}), -32602));
        wrong.push(("tools/call", json!({"name": "never", "arguments": {}, "requestState": value}), -32602));
        wrong.push(("prompts/get", json!({"name": "greet", "requestState": value}), -32602));
    }
    for value in [json!(7), json!(true), json!([]), json!("x"), json!([{}])] {
        wrong.push(("tools/call", json!({"name": "never", "arguments": value}), -32602));
        wrong.push(("tools/call", json!({"name": "never", "inputResponses": value}), -32602));
        wrong.push(("tasks/update", json!({"taskId": known, "inputResponses": value}), -32602));
        wrong.push(("subscriptions/listen", json!({"notifications": value}), -32602));
        wrong.push((
            "subscriptions/listen",
            json!({"notifications": {"taskIds": value.to_string()}}),
            -32602,
        ));
        wrong.push(("subscriptions/listen", json!({"notifications": {"resourceSubscriptions": 7}}), -32602));
        wrong.push(("subscriptions/listen", json!({"notifications": {"toolsListChanged": "yes"}}), -32602));
    }
    wrong
}

/// What a request of 2026-07-28 may say of itself that is wrong: the `_meta`, the code over HTTP, and over stdio.
fn wrong_meta() -> Vec<(Value, i64, i64)> {
    let with = |key: &str, value: Option<Value>| {
        let mut meta = modern_meta(modern::everything());
        let members = meta.as_object_mut().expect("an object");
        match value {
            Some(value) => members.insert(format!("io.modelcontextprotocol/{key}"), value),
            None => members.remove(&format!("io.modelcontextprotocol/{key}")),
        };
        meta
    };
    let mut wrong = vec![
        (json!(7), -32602, -32602),
        (json!("x"), -32602, -32602),
        (json!([]), -32602, -32602),
        // Nothing says that this is 2026-07-28 but the header: over stdio it is a request before `initialize`.
        (json!({}), -32602, -32600),
        (with("protocolVersion", None), -32602, -32600),
        (with("protocolVersion", Some(json!("2024-11-05"))), -32020, -32022),
        (with("protocolVersion", Some(json!("2027-01-01"))), -32020, -32022),
        (with("clientCapabilities", None), -32602, -32602),
    ];
    for value in [json!(7), json!([]), json!("x"), json!(false)] {
        // A word is a version, if an unknown one.
        if !value.is_string() {
            wrong.push((with("protocolVersion", Some(value.clone())), -32602, -32602));
        }
        wrong.push((with("clientCapabilities", Some(value.clone())), -32602, -32602));
        for member in ["elicitation", "extensions"] {
            wrong.push((with("clientCapabilities", Some(json!({member: value}))), -32602, -32602));
        }
    }
    wrong
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_requests_get_the_exact_error_and_run_nothing() {
    let board = Board::new(Era::Both);
    let server = serve(&board).await;
    let modern = Modern::new(&server);
    let mut pipe = Pipe::start(&server.gateway);
    let known = modern.task("always", json!([])).await;
    modern.until(&known, "completed").await;
    let ran = board.count("calls");
    for (method, params, code) in wrong_params(&known) {
        let shown: String = format!("{method} {params}").chars().take(200).collect();
        for answer in
            [modern.ask(method, params.clone()).await, pipe.ask_modern(method, params.clone()).await]
        {
            assert_eq!(answer.code(), code, "{shown}: {}", answer.raw);
            let words = answer.error()["message"].as_str().expect("words");
            assert!((5..300).contains(&words.len()), "{shown}: {words}");
            if answer.status != 0 {
                assert_eq!(answer.status, if code == -32601 { 404 } else { 200 }, "{shown}");
            }
        }
        assert_eq!(modern.ask("server/discover", json!({})).await.status, 200, "after {shown}");
        pipe.ping_modern().await;
    }
    for (meta, http, stdio) in wrong_meta() {
        let (headers, mut body) = modern.request("tools/call", json!({"name": "never", "arguments": {}}));
        body["params"]["_meta"] = meta.clone();
        let headers: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        let answer = send(server.addr, "POST", &headers, body.to_string().as_bytes()).await.answer().await;
        assert_eq!((answer.status, answer.code()), (400, http), "{meta}");
        assert_eq!(answer.json["id"], body["id"], "{meta}");
        let answer = pipe.ask("tools/call", body["params"].clone()).await;
        assert_eq!(answer.code(), stdio, "{meta}: {}", answer.raw);
        assert_eq!(modern.ask("server/discover", json!({})).await.status, 200, "after {meta}");
        pipe.ping_modern().await;
    }
    assert_eq!(board.count("calls"), ran);
    logs::clean();
}

/// The same for sessions: each wrong type has one answer, whichever version the session has.
#[tokio::test(flavor = "multi_thread")]
async fn wrong_requests_in_a_session_run_nothing() {
    let board = Board::new(Era::Both);
    let server = serve(&board).await;
    let mut pipe = Pipe::open(&server.gateway).await;
    for version in ["2025-11-25", "2025-06-18", "2025-03-26"] {
        let old = Old::with(&server, version, json!({})).await;
        for value in [json!(7), json!(true), json!([]), json!("x")] {
            for params in [
                json!({"name": "never", "arguments": value}),
                json!({"name": [value], "arguments": {}}),
                json!({"name": "never", "_meta": value}),
            ] {
                assert_eq!(old.ask("tools/call", params.clone()).await.code(), -32602, "{version} {params}");
                assert_eq!(pipe.ask("tools/call", params.clone()).await.code(), -32602, "{params}");
            }
        }
        assert_eq!(old.ask("ping", json!({})).await.result(), &json!({}));
    }
    for value in
        [json!(true), json!("x"), json!([]), json!({"ttl": "1"}), json!({"ttl": -1}), json!({"ttl": 0.5})]
    {
        let params = json!({"name": "always", "arguments": {}, "task": value});
        assert_eq!(pipe.ask("tools/call", params).await.code(), -32602, "{value}");
    }
    pipe.ping().await;
    assert_eq!(board.count("calls"), 0);
    logs::clean();
}

/// Case 29 and the bad-input rows on sessions: answers nobody asked for are taken and change nothing; what another session
/// says under the same ids neither answers nor cancels anything here.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_do_not_speak_for_each_other() {
    let board = Board::new(Era::Session);
    let server = serve(&board).await;
    let (one, other) = (Old::open(&server).await, Old::open(&server).await);
    let what =
        json!({"name": "never", "arguments": steps(&json!([{"ask": [form("Name?")]}, {"answers": true}]))});
    let mut stream = one.begin("tools/call", what).await;
    let question = next(&mut stream).await;
    for id in
        [question["id"].clone(), json!(1), json!("1"), json!(0), json!(-1), json!(1.0), json!("x"), json!("")]
    {
        for body in [json!({"result": accept("foreign")}), json!({"error": {"code": -1, "message": "m"}})] {
            let mut message = json!({"jsonrpc": "2.0", "id": id});
            message.as_object_mut().expect("an object").extend(body.as_object().expect("an object").clone());
            assert_eq!(other.post(&message).await.status, 202, "{message}");
            let text = message.to_string();
            for (session, status) in [(None, 400), (Some("unknown"), 404)] {
                let headers: Vec<_> =
                    session.map(|session| ("Mcp-Session-Id", session)).into_iter().collect();
                let answer = send(server.addr, "POST", &headers, text.as_bytes()).await.answer().await;
                assert_eq!((answer.status, answer.code()), (status, -32600), "{message}");
            }
        }
    }
    for id in [json!(1), json!(2), json!("x"), question["id"].clone()] {
        let cancel =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
        assert_eq!(other.post(&cancel).await.status, 202);
    }
    assert_eq!(board.running(), 1);
    one.respond(&question["id"], accept("own")).await;
    // A second answer is one that nobody asked for.
    one.respond(&question["id"], accept("late")).await;
    assert_eq!(stream.answer().await.text(), json!([accept("own")]).to_string());
    assert_eq!(other.ask("ping", json!({})).await.result(), &json!({}));
    logs::clean();
}

/// The rest of a message that is no answer: too long, unreadable, or something else than a result.
fn malformed() -> Vec<(Vec<u8>, &'static str)> {
    let long = "x".repeat(2 << 20);
    vec![
        (format!("\"result\":{{\"x\":\"{long}\"}}").into_bytes(), "1048576"),
        (b"\"result\":{\"x\":\"\xff\"}".to_vec(), "UTF-8"),
        (b"\"result\":{},\"error\":{\"code\":1,\"message\":\"m\"}".to_vec(), "neither"),
        (b"\"results\":{}".to_vec(), "neither"),
        (b"\"result\":null".to_vec(), "no object"),
        (b"\"result\":[]".to_vec(), "no object"),
        (b"\"result\":\"accept\"".to_vec(), "no object"),
    ]
}

/// The next question, and its malformed answer.
async fn answer_badly(pipe: &mut Pipe, rest: &[u8]) -> Value {
    let question = pipe.find(|said| said["method"] == "elicitation/create").await;
    let head = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},", question["id"]).into_bytes();
    pipe.write(&[&head[..], rest, b"}\n"].concat()).await;
    question
}

/// Case 31, for answers: a malformed one loses nothing. Its question is asked again under a new id, and answered as if nothing
/// had been, whether a plain call asked it, a round of one, or a task. In 2026-07-28 it stays open.
#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_answer_is_asked_for_again() {
    for era in [Era::Session, Era::Modern] {
        let board = Board::new(era);
        let settings = taskgate_gateway::Settings { max_message: 1 << 20, ..crate::harness::settings() };
        let gateway = crate::harness::builder(&board).settings(settings).build().await.expect("gateway");
        let mut pipe = Pipe::open(&gateway).await;
        let what = match era {
            Era::Modern => json!([{"round": {"a": form("A?")}}, {"answers": true}]),
            _ => json!([{"ask": [form("A?")]}, {"answers": true}]),
        };
        let answered = match era {
            Era::Modern => json!({"a": accept("own")}),
            _ => json!([accept("own")]),
        };
        for (rest, _) in malformed() {
            for task in [false, true] {
                let id = if task {
                    let task = pipe.task("always", what.clone()).await;
                    pipe.begin("tasks/result", json!({"taskId": task})).await
                } else {
                    pipe.begin("tools/call", json!({"name": "never", "arguments": steps(&what)})).await
                };
                let first = answer_badly(&mut pipe, &rest).await;
                let again = pipe.find(|said| said["method"] == "elicitation/create").await;
                assert_ne!(first["id"], again["id"]);
                assert_eq!(first["params"], again["params"]);
                pipe.respond(&again["id"], accept("own")).await;
                assert_eq!(pipe.answer(id).await.text(), answered.to_string());
                pipe.ping().await;
            }
        }
        let ask = json!({"name": "always", "arguments": steps(&what)});
        let task = pipe.ask_modern("tools/call", ask).await.task();
        for answer in [json!(null), json!([]), json!("accept"), json!(7), accept("own")] {
            let asked = crate::harness::eventually_with(&mut pipe, "the question", async |pipe| {
                let task = pipe.ask_modern("tasks/get", json!({"taskId": task})).await.result().clone();
                task["inputRequests"].as_object().map(|asked| asked.keys().cloned().collect::<Vec<_>>())
            })
            .await;
            let answers = json!({"taskId": task, "inputResponses": {&asked[0]: answer}});
            pipe.ask_modern("tasks/update", answers).await.result();
        }
        pipe.until(&task, "completed").await;
    }
    logs::clean();
}

/// A client of 2025-03-26 whose answer in a batch is malformed is asked again, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_answer_in_a_batch_is_asked_for_again() {
    let board = Board::new(Era::Session);
    let gateway = crate::harness::builder(&board).build().await.expect("gateway");
    let mut pipe = Pipe::start(&gateway);
    pipe.initialize("2025-03-26", json!({"sampling": {}})).await.result();
    let what = json!([{"ask": [{"method": "sampling/createMessage", "params": {}}]}, {"answers": true}]);
    let id = pipe.begin("tools/call", json!({"name": "never", "arguments": steps(&what)})).await;
    for rest in ["", ",\"result\":7"] {
        let question = pipe.find(|said| said["method"] == "sampling/createMessage").await;
        let batch = format!("[{{\"jsonrpc\":\"2.0\",\"id\":{}{rest}}}]\n", question["id"]);
        pipe.write(batch.as_bytes()).await;
    }
    let question = pipe.find(|said| said["method"] == "sampling/createMessage").await;
    pipe.respond(&question["id"], json!({"model": "m"})).await;
    assert_eq!(pipe.answer(id).await.text(), json!([{"model": "m"}]).to_string());
}

/// A client that cannot do better is not asked for ever. Its server hears why there is no answer, and the task goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_whose_answers_are_all_malformed_is_not_asked_for_ever() {
    let board = Board::new(Era::Session);
    let settings = taskgate_gateway::Settings { max_message: 1 << 20, ..crate::harness::settings() };
    let gateway = crate::harness::builder(&board).settings(settings).build().await.expect("gateway");
    let mut pipe = Pipe::open(&gateway).await;
    let what = json!([{"ask": [form("A?")]}, {"answers": true}]);
    let params = json!({"name": "never", "arguments": steps(&what)});
    for (rest, words) in malformed() {
        let id = pipe.begin("tools/call", params.clone()).await;
        for _ in 0..3 {
            answer_badly(&mut pipe, &rest).await;
        }
        let answer = pipe.answer(id).await;
        assert!(answer.text().contains("-32603") && answer.text().contains(words), "{}", answer.raw);
        pipe.ping().await;
    }
    let task = pipe.task("always", what).await;
    let id = pipe.begin("tasks/result", json!({"taskId": task})).await;
    for _ in 0..3 {
        answer_badly(&mut pipe, b"\"result\":7").await;
    }
    assert_eq!(pipe.answer(id).await.text(), json!([{"action": "cancel"}]).to_string());
    logs::clean();
}

/// Over HTTP, too, a malformed answer is one of the session that it came in.
#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_answer_of_another_session_is_nobodys() {
    let board = Board::new(Era::Session);
    let server = serve(&board).await;
    let old = Old::open(&server).await;
    let what = json!([{"ask": [form("A?")]}, {"answers": true}]);
    let mut stream = old.begin("tools/call", json!({"name": "never", "arguments": steps(&what)})).await;
    let question = next(&mut stream).await;
    let body = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{\"x\":\"@\"}}}}", question["id"]);
    let body: Vec<u8> = body.bytes().map(|byte| if byte == b'@' { 0xff } else { byte }).collect();
    let other = Old::open(&server).await;
    let bad = async |session: &str| {
        let headers = [("Mcp-Session-Id", session)];
        assert_eq!(send(server.addr, "POST", &headers, &body).await.status, 400);
    };
    bad(&other.session).await;
    old.respond(&question["id"], json!(7)).await;
    let again = next(&mut stream).await;
    assert_eq!((&again["method"], &again["params"]), (&question["method"], &question["params"]));
    // The first one is over: only what answers the second one counts.
    bad(&old.session).await;
    old.respond(&again["id"], accept("own")).await;
    assert_eq!(stream.answer().await.text(), json!([accept("own")]).to_string());
    logs::clean();
}

/// Cases 32 and 33 over HTTP: a byte order mark, any white space and any borders are fine, other encodings are not.
#[tokio::test(flavor = "multi_thread")]
async fn bodies_may_be_cut_and_marked_but_not_encoded_otherwise() {
    let board = Board::new(Era::Both);
    let server = serve(&board).await;
    let old = Old::open(&server).await;
    let headers = [("Mcp-Session-Id", old.session.as_str())];
    let call = r#"{"jsonrpc":"2.0","id":"é","method":"tools/call","params":{"name":"never","arguments":{"steps":[{"return":{"content":[{"type":"text","text":"漢字😀"}]}}]}}}"#;
    let pretty = call.replace(',', ",\r\n\t");
    for (what, body) in [
        ("plain", call.to_owned()),
        ("a byte order mark", format!("\u{feff}{call}")),
        ("CRLF behind it", format!("{call}\r\n")),
        ("blank lines around it", format!("\r\n\n \t{call}\n\n")),
        ("lines within it", pretty),
        ("a mark and lines", format!("\u{feff}\r\n{call}\r\n")),
    ] {
        let answer = send(server.addr, "POST", &headers, body.as_bytes()).await.answer().await;
        assert_eq!(answer.text(), "漢字😀", "{what}");
        assert_eq!(answer.json["id"], "é", "{what}");
    }
    let wide = |bytes: fn(u16) -> [u8; 2]| call.encode_utf16().flat_map(bytes).collect::<Vec<u8>>();
    for (what, body) in [
        ("UTF-16", wide(u16::to_le_bytes)),
        ("UTF-16, the other way", wide(u16::to_be_bytes)),
        ("two marks", format!("\u{feff}\u{feff}{call}").into_bytes()),
        ("a mark alone", "\u{feff}".to_owned().into_bytes()),
        ("Latin-1", call.chars().map(|c| u8::try_from(u32::from(c)).unwrap_or(b'?')).collect()),
        ("half a character", call.as_bytes()[..call.find('漢').expect("there") + 1].to_vec()),
        ("white space", b" \r\n\t ".to_vec()),
    ] {
        let answer = send(server.addr, "POST", &headers, &body).await.answer().await;
        assert_eq!((answer.status, answer.code()), (400, -32700), "{what}");
    }
    // Byte by byte, in chunks.
    let mut stream = TcpStream::connect(server.addr).await.expect("connected");
    stream.set_nodelay(true).expect("nodelay");
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nMcp-Session-Id: {}\r\nTransfer-Encoding: chunked\r\n\r\n",
        old.session
    );
    stream.write_all(head.as_bytes()).await.expect("sent");
    for byte in call.as_bytes() {
        stream.write_all(&[b"1\r\n", &[*byte][..], b"\r\n"].concat()).await.expect("sent");
    }
    stream.write_all(b"0\r\n\r\n").await.expect("sent");
    assert_eq!(read_head(stream).await.answer().await.text(), "漢字😀");
    assert_eq!(board.count("calls"), 7);
    logs::clean();
}
