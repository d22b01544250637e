//! Multi round-trip requests of 2026-07-28: how a caller is asked, what its state opens, and what it does not.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use taskgate_gateway::{Gateway, MemoryStore, Store};

use crate::harness::{
    Answer, Board, Era, Life, Modern, Old, Pipe, Server, accept, builder, form, policies, serve, steps,
};
use crate::input::next;

/// Requests that may be answered with questions, as params for these steps.
fn askable(what: &Value) -> [(&'static str, Value); 3] {
    [
        ("tools/call", json!({"name": "never", "arguments": steps(what)})),
        ("prompts/get", json!({"name": "never", "arguments": steps(what)})),
        // A resource has no arguments; the fake reads its steps from an unknown member.
        ("resources/read", json!({"uri": "never", "arguments": steps(what)})),
    ]
}

/// The steps that ask A and B in the way of this era and return the answers.
fn asking(era: Era) -> Value {
    match era {
        Era::Modern => {
            json!([{"count": "body"}, {"round": {"a": form("A?"), "b": form("B?")}}, {"answers": true}])
        }
        _ => json!([{"count": "body"}, {"ask": [form("A?"), form("B?")]}, {"answers": true}]),
    }
}

/// The request again, with the state and the answers.
fn again(params: &Value, state: &Value, answers: Value) -> Value {
    let mut params = params.clone();
    params["requestState"] = state.clone();
    params["inputResponses"] = answers;
    params
}

/// Every question of an answer, accepted.
fn all_answers(asked: &Value) -> Value {
    let mut answers = json!({});
    for (key, request) in asked["inputRequests"].as_object().expect("requests") {
        answers[key] = accept(request["params"]["message"].as_str().expect("a message"));
    }
    answers
}

#[track_caller]
fn unknown(answer: &Answer, what: &str) {
    let want = json!({"code": -32602, "message": "Unknown or expired requestState for this request"});
    assert_eq!(answer.error(), &want, "{what}");
}

/// A state opens for its own request of its own owner, once: whatever else is tried gets one and the same error, and
/// nothing runs. It does not show what it holds.
#[tokio::test(flavor = "multi_thread")]
async fn a_state_opens_for_its_own_request_and_once() {
    for era in [Era::Session, Era::Modern] {
        let board = Board::new(era);
        let server = serve(&board).await;
        let modern = Modern::new(&server);
        let mut local = Pipe::start(&server.gateway);
        for (method, params) in askable(&asking(era)) {
            let asked = modern.ask(method, params.clone()).await.result().clone();
            assert_eq!(asked["resultType"], "input_required", "{method}");
            assert_eq!(asked["inputRequests"].as_object().map(|all| all.len()), Some(2), "{method}");
            let (state, answers) = (asked["requestState"].clone(), all_answers(&asked));
            let text = state.as_str().expect("a state");
            let before = (board.count("calls"), board.count("body"));
            let swapped = |at: usize| {
                let mut bytes = text.as_bytes().to_vec();
                bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
                String::from_utf8(bytes).expect("ASCII")
            };
            for forged in [
                String::new(),
                "forged".to_owned(),
                "round-1".to_owned(),
                format!("taskgate-call-{}", "0".repeat(32)),
                swapped(0),
                swapped(text.len() / 2),
                // The last character may hold unused bits only; the one before it does not.
                swapped(text.len() - 2),
                text[1..].to_owned(),
                text[..text.len() - 1].to_owned(),
                format!("{text}A"),
                format!("{text}="),
                format!(" {text}"),
                text.to_uppercase(),
                text.repeat(2),
                "x".repeat(1 << 20),
                "é😀".to_owned(),
            ] {
                let answer = modern.ask(method, again(&params, &json!(forged), answers.clone())).await;
                unknown(&answer, &format!("{method} {}", &forged.chars().take(80).collect::<String>()));
            }
            for wrong in [json!(7), json!({}), json!([text]), json!(false)] {
                let answer = modern.ask(method, again(&params, &wrong, answers.clone())).await;
                assert_eq!(answer.code(), -32602, "{method} {wrong}");
            }
            // On another request.
            let mut others: Vec<(&str, Value)> = askable(&json!([{"count": "body"}])).into_iter().collect();
            others.extend(askable(&asking(era)).into_iter().filter(|(other, _)| *other != method));
            let mut renamed = params.clone();
            let name = if method == "resources/read" { "uri" } else { "name" };
            renamed[name] = json!("do");
            others.push((method, renamed));
            for (other, params) in others {
                let answer = modern.ask(other, again(&params, &state, answers.clone())).await;
                unknown(&answer, &format!("{method} on {other} {params}"));
            }
            // Of another owner.
            let foreign = local.ask_modern(method, again(&params, &state, answers.clone())).await;
            unknown(&foreign, &format!("{method} of a foreigner"));
            assert_eq!((board.count("calls"), board.count("body")), before, "{method}: nothing ran");

            let answer = modern.ask(method, again(&params, &state, answers.clone())).await;
            assert!(answer.text().contains("A?") && answer.text().contains("B?"), "{}", answer.raw);
            if era == Era::Modern {
                // The upstream gets its own state back.
                let call = board.heard(method).last().expect("a call")["params"].clone();
                assert_eq!((&call["requestState"], &call["inputResponses"]), (&json!("round-1"), &answers));
            }
            let after = board.count("calls");
            for _ in 0..3 {
                unknown(&modern.ask(method, again(&params, &state, answers.clone())).await, "a replay");
            }
            assert_eq!((board.count("calls"), board.running()), (after, 0), "{method}: nothing ran again");
        }
    }
}

/// A running call of an older upstream: a part of the answers asks for the rest, under a new state.
#[tokio::test(flavor = "multi_thread")]
async fn a_part_of_the_answers_asks_for_the_rest() {
    let board = Board::new(Era::Session);
    let server = serve(&board).await;
    let modern = Modern::new(&server);
    for (round, (method, params)) in askable(&asking(Era::Session)).into_iter().enumerate() {
        let asked = modern.ask(method, params.clone()).await.result().clone();
        let keys: Vec<String> =
            asked["inputRequests"].as_object().expect("requests").keys().cloned().collect();
        let mut state = asked["requestState"].clone();
        // Wrong keys, answers that are no objects, and none at all leave everything open.
        for nothing in
            [json!({"wrong": accept("x")}), json!({&keys[0]: "text"}), json!({&keys[0]: null}), json!({})]
        {
            let same = modern.ask(method, again(&params, &state, nothing.clone())).await.result().clone();
            assert_eq!(same["inputRequests"], asked["inputRequests"], "{nothing}");
            unknown(&modern.ask(method, again(&params, &state, nothing)).await, "an old state");
            assert_ne!(state, same["requestState"]);
            state = same["requestState"].clone();
        }
        let part = json!({&keys[0]: accept("a"), "unknown": {}});
        let rest = modern.ask(method, again(&params, &state, part)).await.result().clone();
        assert_eq!(rest["inputRequests"], json!({&keys[1]: form("B?")}));
        let answers = json!({&keys[1]: accept("b")});
        let done = modern.ask(method, again(&params, &rest["requestState"], answers)).await;
        assert_eq!(done.text(), json!([accept("a"), accept("b")]).to_string());
        assert_eq!((board.count("body"), board.running()), (round + 1, 0));
    }
}

/// A state of an upstream that keeps nothing needs nothing of ours but the store's secret: another node carries it on, and
/// so does this one after a crash. A gateway with another store has another secret.
#[tokio::test(flavor = "multi_thread")]
async fn a_state_of_a_modern_upstream_opens_on_any_node_with_the_secret() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let node = |board: &Board, store: Arc<dyn Store>| {
        let builder = policies(Gateway::builder().add(board.spec("upstream"))).shared_store(store);
        async move { Server::start(builder.build().await.expect("gateway")).await }
    };
    let boards = [Board::new(Era::Modern), Board::new(Era::Modern), Board::new(Era::Modern)];
    let first = node(&boards[0], store.clone()).await;
    let second = node(&boards[1], store).await;
    let stranger = node(&boards[2], Arc::new(MemoryStore::new())).await;
    for (method, params) in askable(&asking(Era::Modern)) {
        let asked = Modern::new(&first).ask(method, params.clone()).await.result().clone();
        let retry = again(&params, &asked["requestState"], all_answers(&asked));
        unknown(&Modern::new(&stranger).ask(method, retry.clone()).await, "another secret");
        let done = Modern::new(&second).ask(method, retry).await;
        assert_eq!(done.text(), json!({"a": accept("A?"), "b": accept("B?")}).to_string());
    }
    assert_eq!(boards.map(|board| board.count("calls")), [3, 3, 0]);

    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("tasks.db");
    let board = Board::new(Era::Modern);
    let start = || {
        let board = board.clone();
        Life::start(&file, move || builder(&board))
    };
    let life = start().await;
    let (method, params) = askable(&asking(Era::Modern))[0].clone();
    let asked = Modern::new(life.server()).ask(method, params.clone()).await.result().clone();
    life.kill().await;
    let life = start().await;
    let retry = again(&params, &asked["requestState"], all_answers(&asked));
    assert!(Modern::new(life.server()).ask(method, retry).await.text().contains("A?"));
}

/// While the upstream is away a state is not used up: the caller tries again with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_state_outlives_a_restart_of_the_upstream() {
    let board = Board::new(Era::Modern);
    let server = serve(&board).await;
    let modern = Modern::new(&server);
    let (method, params) = askable(&asking(Era::Modern))[0].clone();
    let asked = modern.ask(method, params.clone()).await.result().clone();
    let retry = again(&params, &asked["requestState"], all_answers(&asked));
    board.drop_links(true).await;
    crate::harness::eventually("the upstream is down", || async {
        let down = matches!(server.gateway.upstream_states()[0].1, taskgate_gateway::UpstreamState::Up(_));
        (!down).then_some(())
    })
    .await;
    assert_eq!(modern.ask(method, retry.clone()).await.code(), -32603);
    board.accept_links();
    let done = crate::harness::eventually("its return", || async {
        let answer = modern.ask(method, retry.clone()).await;
        answer.json.get("result").cloned()
    })
    .await;
    assert_eq!(done["content"][0]["text"], json!({"a": accept("A?"), "b": accept("B?")}).to_string());
}

/// Nobody comes back: after ten minutes the waiting call is stopped, and its state opens nothing.
#[tokio::test(start_paused = true)]
async fn a_call_that_nobody_answers_is_stopped() {
    let board = Board::new(Era::Session);
    let gateway = builder(&board).build().await.expect("gateway");
    let mut pipe = Pipe::start(&gateway);
    let (method, params) = askable(&asking(Era::Session))[0].clone();
    let asked = pipe.ask_modern(method, params.clone()).await.result().clone();
    tokio::time::sleep(Duration::from_secs(590)).await;
    assert_eq!(board.running(), 1);
    tokio::time::sleep(Duration::from_secs(20)).await;
    board.until("the call is stopped", |board| board.running() == 0).await;
    let late = pipe.ask_modern(method, again(&params, &asked["requestState"], all_answers(&asked))).await;
    unknown(&late, "too late");
    assert_eq!(board.count("calls"), 1);
}

/// Nobody comes back, and a caller of another owner is refused its question because of that: such a call is stopped after two
/// minutes, counted from when its caller was last there. The other one can be asked from then on. The clock is only paused
/// while nothing is sent.
#[tokio::test]
async fn a_call_that_nobody_answers_does_not_keep_others_from_being_asked_for_long() {
    let board = Board::new(Era::Session);
    let server = serve(&board).await;
    let modern = Modern::new(&server);
    let mut pipe = Pipe::open(&server.gateway).await;
    let after = async |seconds| {
        tokio::time::pause();
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        tokio::time::resume();
    };
    let asks = |message: &str| json!([{"ask_unnamed": [form(message)]}, {"answers": true}]);
    let call = |message: &str| json!({"name": "never", "arguments": steps(&asks(message))});
    let refused = async |pipe: &mut Pipe| {
        let answer = pipe.ask("tools/call", call("B?")).await;
        assert!(answer.text().contains("which caller"), "{}", answer.raw);
    };
    let asked = modern.ask("tools/call", call("A?")).await.result().clone();
    refused(&mut pipe).await;
    after(110).await;
    let asked = modern.ask("tools/call", again(&call("A?"), &asked["requestState"], json!({}))).await;
    let asked = asked.result().clone();
    // It has come back, and nobody was refused since.
    after(150).await;
    assert_eq!(board.running(), 1);
    refused(&mut pipe).await;
    after(10).await;
    board.until("the call is stopped", |board| board.running() == 0).await;
    let id = pipe.begin("tools/call", call("B?")).await;
    let question = pipe.find(|said| said["method"] == "elicitation/create").await;
    pipe.respond(&question["id"], accept("b")).await;
    assert_eq!(pipe.answer(id).await.text(), json!([accept("b")]).to_string());
    let late =
        modern.ask("tools/call", again(&call("A?"), &asked["requestState"], all_answers(&asked))).await;
    unknown(&late, "too late");
}

/// The client of a session that is there and says nothing has as long as the call may run.
#[tokio::test(start_paused = true)]
async fn a_session_that_is_there_has_as_long_as_its_call() {
    let board = Board::new(Era::Session);
    let gateway = builder(&board).build().await.expect("gateway");
    let mut pipe = Pipe::open(&gateway).await;
    let (method, params) = askable(&asking(Era::Session))[0].clone();
    let id = pipe.begin(method, params).await;
    pipe.find(|said| said["method"] == "elicitation/create").await;
    tokio::time::sleep(Duration::from_secs(23 * 3600)).await;
    assert_eq!(board.running(), 1);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(pipe.answer(id).await.error()["message"].as_str().expect("words").contains("run limit"));
    board.until("the call is stopped", |board| board.running() == 0).await;
}

/// A client of 2025-11-25 is asked by requests on the call's own stream, and the call is repeated with its answers, for
/// everything a 2026-07-28 upstream may answer with questions.
#[tokio::test(flavor = "multi_thread")]
async fn an_older_client_is_asked_on_the_stream_of_its_call() {
    let board = Board::new(Era::Modern);
    let server = serve(&board).await;
    let old = Old::open(&server).await;
    let mut pipe = Pipe::open(&server.gateway).await;
    let what = json!([{"round": {"a": form("A?")}}, {"round": {"b": form("B?")}}, {"answers": true}]);
    for (method, params) in askable(&what) {
        let calls = board.count("calls");
        let mut stream = old.begin(method, params.clone()).await;
        for message in ["A?", "B?"] {
            let question = next(&mut stream).await;
            assert_eq!(
                (&question["method"], &question["params"]),
                (&json!("elicitation/create"), &form(message)["params"])
            );
            old.respond(&question["id"], accept(message)).await;
        }
        let done = stream.answer().await;
        assert_eq!(done.text(), json!({"b": accept("B?")}).to_string(), "{method}");
        assert!(done.result().get("resultType").is_none(), "{method}: {}", done.raw);
        let id = pipe.begin(method, params).await;
        for message in ["A?", "B?"] {
            let question = pipe.find(|said| said["method"] == "elicitation/create").await;
            pipe.respond(&question["id"], accept(message)).await;
        }
        assert_eq!(pipe.answer(id).await.text(), json!({"b": accept("B?")}).to_string(), "{method}");
        // Three calls each: the upstream is called anew with every round of answers.
        assert_eq!(board.count("calls") - calls, 6, "{method}");
    }
}

/// Server requirement of the same page: only three requests may be answered with questions. An older upstream that asks
/// during another one is told that nobody answers, and the request goes on.
#[tokio::test(flavor = "multi_thread")]
async fn other_requests_are_never_answered_with_questions() {
    let board = Board::new(Era::Session);
    let server = serve(&board).await;
    let modern = Modern::new(&server);
    for method in ["completion/complete", "x/custom"] {
        let params = json!({"arguments": steps(&asking(Era::Session)), "requestState": "its own"});
        let answer = modern.ask(method, params).await;
        assert!(answer.text().contains("did not answer"), "{}", answer.raw);
        assert_eq!(board.heard(method)[0]["params"]["requestState"], "its own");
    }
}

/// Server requirement: nothing is asked that the client did not declare, whichever generation the upstream speaks; the
/// call ends with -32021.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_asked_that_was_not_declared() {
    for era in [Era::Session, Era::Modern] {
        let board = Board::new(era);
        let server = serve(&board).await;
        let mute = Modern::with(&server, json!({"sampling": {}}));
        for (method, params) in askable(&asking(era)) {
            let answer = mute.ask(method, params).await;
            assert_eq!((answer.code(), answer.status), (-32021, 400), "{method}");
            assert_eq!(answer.error()["data"], json!({"requiredCapabilities": {"elicitation": {}}}));
            board.until("the call was stopped", |board| board.running() == 0).await;
        }
    }
}

/// Elicitation by URL: it needs to be declared by its own name, in every generation, and a session of 2025-11-25 gets the
/// `elicitationId` that 2026-07-28 no longer has; asked again, it is the same one.
#[tokio::test(flavor = "multi_thread")]
async fn an_elicitation_by_url_is_worded_for_each_generation() {
    let url = json!({"method": "elicitation/create",
        "params": {"mode": "url", "message": "Go?", "url": "https://example.com/"}});
    let able = json!({"elicitation": {"url": {}}, "extensions": {"io.modelcontextprotocol/tasks": {}}});
    let by_form = json!({"elicitation": {}});
    for era in [Era::Session, Era::Modern] {
        let board = Board::new(era);
        let server = serve(&board).await;
        let asks = |question: &Value| match era {
            Era::Modern => json!([{"round": {"a": question}}, {"answers": true}]),
            _ => json!([{"ask": [question]}, {"answers": true}]),
        };
        let what = asks(&url);
        let params = json!({"name": "never", "arguments": steps(&what)});
        let modern = Modern::with(&server, able.clone());
        let asked = modern.ask("tools/call", params.clone()).await.result().clone();
        let requests: Vec<&Value> = asked["inputRequests"].as_object().expect("requests").values().collect();
        assert_eq!(requests, [&url]);
        for (declared, question, required) in [
            (&by_form, &url, json!({"elicitation": {"url": {}}})),
            (&able, &form("A?"), json!({"elicitation": {"form": {}}})),
        ] {
            let answer = Modern::with(&server, declared.clone()).tool("never", asks(question)).await;
            assert_eq!((answer.code(), &answer.error()["data"]["requiredCapabilities"]), (-32021, &required));
        }
        let old = Old::with(&server, "2025-11-25", able.clone()).await;
        let mut stream = old.begin("tools/call", params).await;
        let question = next(&mut stream).await;
        assert!(question["params"]["elicitationId"].as_str().is_some_and(|id| id.len() >= 32), "{question}");
        old.respond(&question["id"], json!({"action": "accept"})).await;
        assert!(stream.answer().await.text().contains("accept"));
        let id = old.augmented("always", what.clone()).await.task();
        let mut asked = Vec::new();
        for _ in 0..2 {
            let mut stream = old.begin("tasks/result", json!({"taskId": id})).await;
            asked.push(next(&mut stream).await["params"]["elicitationId"].clone());
        }
        assert!(asked[0].is_string() && asked[0] == asked[1], "{asked:?}");
        modern.ask("tasks/cancel", json!({"taskId": id})).await.result();
        let mute = Old::with(&server, "2025-11-25", by_form.clone()).await;
        let answer = mute.tool("never", what).await;
        assert!(answer.before.is_empty() && answer.raw.contains("did not answer"), "{}", answer.raw);
    }
}

/// An upstream that asks without a state gets none: the retry is a new call that brings its answers.
#[tokio::test(flavor = "multi_thread")]
async fn questions_without_a_state_stay_without_one() {
    let board = Board::new(Era::Modern);
    let server = serve(&board).await;
    let modern = Modern::new(&server);
    let what =
        json!([{"return": {"resultType": "input_required", "inputRequests": {"a": form("A?")}, "x/y": 1.0}}]);
    for (method, params) in askable(&what) {
        let asked = modern.ask(method, params.clone()).await.result().clone();
        assert_eq!(asked, what[0]["return"], "{method}");
        let mut retry = params;
        retry["inputResponses"] = json!({"a": accept("x"), "unknown": [1]});
        modern.ask(method, retry.clone()).await.result();
        let heard = board.heard(method).last().expect("a call")["params"]["inputResponses"].clone();
        assert_eq!(heard, retry["inputResponses"], "{method}");
    }
}

/// Servers ask for the roots as soon as they are connected, and over stdio nothing says that this is no part of the call that
/// happens to be in flight: a caller without roots gets its result, and the server the answer of a client without roots.
#[tokio::test(flavor = "multi_thread")]
async fn a_stray_question_for_roots_does_not_fail_a_call() {
    let board = Board::new(Era::Session);
    let server = serve(&board).await;
    let mute = Modern::with(&server, json!({"elicitation": {}}));
    let roots = json!({"method": "roots/list", "params": {}});
    let answer = mute.tool("never", json!([{"ask_unnamed": [roots]}, {"answers": true}])).await;
    assert!(answer.text().contains("-32601"), "{}", answer.raw);
    // What else it asks is asked all the same.
    let both = json!([{"ask_unnamed": [roots, form("Name?")]}, {"answers": true}]);
    let asked = mute.tool("never", both).await;
    assert_eq!(
        asked.result()["inputRequests"].as_object().map(|asked| asked.len()),
        Some(1),
        "{}",
        asked.raw
    );
}
