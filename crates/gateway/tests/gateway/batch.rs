//! Batches: arrays of messages, which 2025-03-26 has and no other version.

use serde_json::{Value, json};

use crate::harness::http::send;
use crate::harness::{Board, Era, Old, Pipe, Server, accept, form, logs, serve, soon, steps};

/// A client that sends lines of its own making and sees everything that comes back for one.
enum Client {
    Http { server: Server, old: Box<Old>, accept: &'static str },
    Stdio(Box<Pipe>),
}

impl Client {
    /// One for each way to be answered: as a stream, as one array, and over stdio.
    async fn all(server: &Server, version: &str) -> [Client; 3] {
        let able = json!({"elicitation": {}});
        let http = |old, accept| Client::Http { server: server.clone(), old: Box::new(old), accept };
        let mut pipe = Pipe::start(&server.gateway);
        pipe.initialize(version, able.clone()).await.result();
        [
            http(Old::with(server, version, able.clone()).await, "application/json, text/event-stream"),
            http(Old::with(server, version, able).await, "application/json"),
            Client::Stdio(Box::new(pipe)),
        ]
    }

    /// Sends a text and returns what comes back: the messages, and whether they came as parts of a batch.
    async fn send(&mut self, text: &str) -> (Vec<Value>, bool) {
        let whole = match self {
            Client::Http { server, old, accept } => {
                let headers = [("Mcp-Session-Id", old.session.as_str()), ("Accept", *accept)];
                let mut response = send(server.addr, "POST", &headers, text.as_bytes()).await;
                if response.is_stream() {
                    let mut events = Vec::new();
                    while let Some(event) = response.event().await {
                        events.push(serde_json::from_str(&event).expect("JSON"));
                    }
                    return (events, true);
                }
                let (status, text) = (response.status, response.text().await);
                if text.is_empty() {
                    assert_eq!(status, 202);
                    return (Vec::new(), true);
                }
                let whole: Value = serde_json::from_str(&text).expect("JSON");
                // Only where nobody asked anything is the whole body refused.
                let all = whole.as_array().map_or(std::slice::from_ref(&whole), Vec::as_slice);
                let asked = all.iter().any(|one| !one["id"].is_null());
                assert_eq!(status, if asked { 200 } else { 400 }, "{text}");
                whole
            }
            Client::Stdio(pipe) => {
                pipe.write(format!("{text}\n").as_bytes()).await;
                let mut before = Vec::new();
                loop {
                    match pipe.message().await {
                        Value::Array(all) => return (before.into_iter().chain(all).collect(), true),
                        one if one.get("method").is_some() => before.push(one),
                        one => break one,
                    }
                }
            }
        };
        match whole {
            Value::Array(all) => (all, true),
            one => (vec![one], false),
        }
    }

    /// Sends a text that gets no answer.
    async fn tell(&mut self, text: &str) {
        match self {
            Client::Http { .. } => assert_eq!(self.send(text).await.0, Vec::<Value>::new(), "{text}"),
            Client::Stdio(pipe) => pipe.write(format!("{text}\n").as_bytes()).await,
        }
        self.lives().await;
    }

    /// A ping of its own is answered as ever, and with nothing else before it.
    async fn lives(&mut self) {
        let want = json!({"jsonrpc": "2.0", "id": "alive", "result": {}});
        let (answers, _) = self.send(r#"{"jsonrpc":"2.0","id":"alive","method":"ping"}"#).await;
        assert_eq!(answers, [want]);
    }
}

fn request(id: impl Into<Value>, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})
}

fn call(id: impl Into<Value>, what: &Value) -> Value {
    let meta = json!({"progressToken": "p"});
    request(id, "tools/call", json!({"name": "never", "arguments": steps(what), "_meta": meta}))
}

/// The answers by id, with the code of an error or `ok`, in an order of their own.
fn outcomes(answers: &[Value]) -> Vec<(String, String)> {
    let mut all: Vec<_> = answers
        .iter()
        .filter(|message| message.get("method").is_none())
        .map(|message| {
            let code = message["error"]["code"].as_i64();
            (message["id"].to_string(), code.map_or("ok".to_owned(), |code| code.to_string()))
        })
        .collect();
    all.sort();
    all
}

fn pairs(want: &[(&str, &str)]) -> Vec<(String, String)> {
    want.iter().map(|(id, what)| ((*id).to_owned(), (*what).to_owned())).collect()
}

/// Case 19: each message of a batch is handled as its own, the good ones whatever the others are.
#[tokio::test(flavor = "multi_thread")]
async fn every_message_of_a_batch_has_its_answer() {
    let board = Board::new(Era::Both);
    let server = serve(&board).await;
    for mut client in Client::all(&server, "2025-03-26").await {
        let batch = json!([
            request(1, "ping", json!({})),
            call("two", &json!([{"progress": {"progress": 1, "message": "half"}}])),
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            7,
            {"jsonrpc": "2.0", "id": 3, "method": 7},
            request(4, "unknown/method", json!({})),
            request(5, "initialize", json!({"protocolVersion": "2025-03-26", "capabilities": {}})),
            request(6, "tasks/get", json!({"taskId": "x"})),
            request(7, "server/discover", json!({"_meta": crate::harness::pipe::modern_meta(json!({}))})),
            {"jsonrpc": "2.0", "id": 8, "method": "ping", "params": []},
        ]);
        let (answers, batched) = client.send(&batch.to_string()).await;
        assert!(batched);
        let want = [
            ("\"two\"", "ok"),
            ("1", "ok"),
            ("3", "-32600"),
            ("4", "-32601"),
            ("5", "-32600"),
            ("6", "-32601"),
            ("7", "-32600"),
            ("8", "-32602"),
            ("null", "-32600"),
        ];
        assert_eq!(outcomes(&answers), pairs(&want));
        let place = |fits: &dyn Fn(&Value) -> bool| answers.iter().position(fits);
        let progress = place(&|message| message["method"] == "notifications/progress");
        match &client {
            // Progress has nowhere to go where the answer is one array.
            Client::Http { accept: "application/json", .. } => assert_eq!(progress, None),
            _ => {
                let answer = place(&|message| message["id"] == "two");
                assert!(progress.is_some() && progress < answer, "{answers:#?}");
            }
        }
        client.lives().await;
    }
    assert_eq!(board.count("calls"), 3);
    logs::clean();
}

/// What wants no answer gets none, and a batch of such messages neither.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_asks_nothing_is_not_answered() {
    let server = serve(&Board::new(Era::Both)).await;
    for mut client in Client::all(&server, "2025-03-26").await {
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let answer = json!({"jsonrpc": "2.0", "id": 77, "result": {}});
        let error = json!({"jsonrpc": "2.0", "id": null, "error": {"code": 1, "message": "m"}});
        for batch in [json!([initialized, initialized]), json!([answer, answer]), json!([error, initialized])]
        {
            client.tell(&batch.to_string()).await;
        }
    }
}

/// Case 19: a batch that is none as a whole has one error with a null id, and nothing of it is done.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_batch_is_refused_as_a_whole() {
    let board = Board::new(Era::Both);
    let server = serve(&board).await;
    let many = |count: usize| Value::from(vec![call(1, &json!([])); count]).to_string();
    for mut client in Client::all(&server, "2025-03-26").await {
        for (text, code) in [
            ("[]".to_owned(), -32600),
            (" [ ] ".to_owned(), -32600),
            (many(101), -32600),
            (many(10_000), -32600),
            (format!("[{}", many(2)), -32700),
            (format!("{}]", many(2)), -32700),
            (format!("[{},]", call(1, &json!([]))), -32700),
            (format!("{}{}", many(2), many(2)), -32700),
            ("[".repeat(100_000), -32700),
        ] {
            let (answers, batched) = client.send(&text).await;
            assert!(!batched, "{}", &text[..text.len().min(100)]);
            assert_eq!(outcomes(&answers), pairs(&[("null", &code.to_string())]));
            client.lives().await;
        }
    }
    assert_eq!(board.count("calls"), 0);
    logs::clean();
}

/// Batches within batches, members without meaning and ids that are used twice harm nothing.
#[tokio::test(flavor = "multi_thread")]
async fn hostile_members_harm_nothing() {
    let board = Board::new(Era::Both);
    let server = serve(&board).await;
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let ping = request(1, "ping", json!({}));
    for mut client in Client::all(&server, "2025-03-26").await {
        let nested = format!("[[{ping}],{deep},[],{ping}]");
        let (answers, _) = client.send(&nested).await;
        let null = ("null", "-32600");
        assert_eq!(outcomes(&answers), pairs(&[("1", "ok"), null, null, null]));

        let (answers, batched) = client.send("[1,null,\"x\",{},true]").await;
        assert!(batched);
        assert_eq!(outcomes(&answers), pairs(&[null; 5]));

        // As with single messages of one id, each is carried out and answered.
        let same = [ping.clone(), call(1, &json!([])), call(1, &json!([])), ping.clone()];
        let (answers, _) = client.send(&Value::from(same.to_vec()).to_string()).await;
        assert_eq!(outcomes(&answers), pairs(&[("1", "ok"); 4]));

        let full = Value::from(vec![ping.clone(); 100]).to_string();
        assert_eq!(client.send(&full).await.0.len(), 100);
        client.lives().await;
    }
    assert_eq!(board.count("calls"), 6);
    logs::clean();
}

/// A request can be cancelled from within its own batch, and is not answered then.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_can_be_cancelled() {
    let board = Board::new(Era::Both);
    let server = serve(&board).await;
    for mut client in Client::all(&server, "2025-03-26").await {
        let cancel =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "c"}});
        let never = call("c", &json!([{"wait": "never"}]));
        let (answers, _) =
            client.send(&json!([never, cancel, request(1, "ping", json!({}))]).to_string()).await;
        assert_eq!(outcomes(&answers), pairs(&[("1", "ok")]));
        client.tell(&json!([never, cancel]).to_string()).await;
        board.until("nothing runs", |board| board.running() == 0).await;
    }
}

/// A question on the way of a batch is answered by another batch, of answers.
#[tokio::test(flavor = "multi_thread")]
async fn questions_of_a_batch_are_answered_by_a_batch() {
    let board = Board::new(Era::Session);
    let server = serve(&board).await;
    let what = json!([{"ask": [form("A?"), form("B?")]}, {"answers": true}]);
    let batch = json!([call(1, &what), request(2, "ping", json!({}))]);
    let answers = |questions: &[Value]| {
        Value::from_iter(
            questions
                .iter()
                .map(|asked| json!({"jsonrpc": "2.0", "id": asked["id"], "result": accept("Ada")})),
        )
    };
    let given = format!("[{0},{0}]", accept("Ada"));

    let old = Old::with(&server, "2025-03-26", json!({"elicitation": {}})).await;
    let mut stream = old.post(&batch).await;
    let (mut asked, mut text) = (Vec::new(), String::new());
    while let Some(event) = stream.event().await {
        let message: Value = serde_json::from_str(&event).expect("JSON");
        if message["method"] == "elicitation/create" {
            asked.push(message);
            if asked.len() == 2 {
                assert_eq!(old.post(&answers(&asked)).await.status, 202);
            }
        } else if message["id"] == 1 {
            text = message["result"]["content"][0]["text"].as_str().expect("a text").to_owned();
        }
    }
    assert_eq!(text, given);

    let mut pipe = Pipe::start(&server.gateway);
    pipe.initialize("2025-03-26", json!({"elicitation": {}})).await.result();
    pipe.write(format!("{batch}\n").as_bytes()).await;
    let asked = [pipe.message().await, pipe.message().await];
    pipe.write(format!("{}\n", answers(&asked)).as_bytes()).await;
    let got = pipe.message().await;
    assert_eq!(got[0]["result"]["content"][0]["text"], json!(given));
    assert_eq!(got[1], json!({"jsonrpc": "2.0", "id": 2, "result": {}}));
}

/// The end of the input does not take the answers of a batch away.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_before_the_end_of_the_input_is_answered() {
    let server = serve(&Board::new(Era::Both)).await;
    let mut pipe = Pipe::start(&server.gateway);
    pipe.initialize("2025-03-26", json!({})).await.result();
    let batch = json!([call(1, &json!([{"sleep": 50}])), request(2, "ping", json!({}))]);
    pipe.write(batch.to_string().as_bytes()).await;
    pipe.close();
    let rest = pipe.ended().await;
    assert_eq!(rest.len(), 1);
    assert_eq!(outcomes(rest[0].as_array().expect("an array")), pairs(&[("1", "ok"), ("2", "ok")]));
}

/// Case 19: the other versions take one message at a time, and so does who has not said a version yet.
#[tokio::test(flavor = "multi_thread")]
async fn other_versions_have_no_batches() {
    let board = Board::new(Era::Both);
    let server = serve(&board).await;
    let batch = json!([call(1, &json!([]))]).to_string();
    let refused = |answers: &[Value]| {
        assert_eq!(outcomes(answers), pairs(&[("null", "-32600")]));
        assert!(answers[0]["error"]["message"].as_str().expect("words").contains("one message at a time"));
    };
    for version in ["2024-11-05", "2025-06-18", "2025-11-25"] {
        for mut client in Client::all(&server, version).await {
            let (answers, batched) = client.send(&batch).await;
            assert!(!batched, "{version}");
            refused(&answers);
            client.lives().await;
        }
    }
    let initialize = request(1, "initialize", json!({"protocolVersion": "2025-03-26", "capabilities": {}}));
    let opening = json!([initialize]).to_string();
    let answer = send(server.addr, "POST", &[], opening.as_bytes()).await.answer().await;
    assert_eq!(answer.status, 400);
    refused(&[answer.json]);
    let mut pipe = Pipe::start(&server.gateway);
    pipe.write(format!("{opening}\n").as_bytes()).await;
    refused(&[pipe.message().await]);
    // A session that is gone is told apart, so that its client opens a new one.
    let gone = [("Mcp-Session-Id", "gone")];
    let answer = soon("an answer", send(server.addr, "POST", &gone, batch.as_bytes())).await.answer().await;
    assert_eq!((answer.status, answer.code()), (404, -32600));
    assert_eq!(board.count("calls"), 0);
}
