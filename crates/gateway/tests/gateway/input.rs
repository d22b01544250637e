//! Questions of the upstream: where they go, who answers, what survives.

use serde_json::{Value, json};

use crate::harness::http::Response;
use crate::harness::{
    Board, Era, Modern, Old, Pipe, accept, eventually, form, logs, serve, serve_local, soon, steps,
};

pub async fn next(stream: &mut Response) -> Value {
    serde_json::from_str(&stream.event().await.expect("an event")).expect("JSON")
}

/// Case 8: a wrong key is acknowledged and changes nothing, a right one is accepted once, a part leaves the rest open.
#[tokio::test(flavor = "multi_thread")]
async fn answers_count_by_their_key() {
    for era in [Era::Session, Era::Modern] {
        let board = Board::new(era);
        let server = serve(&board).await;
        let modern = Modern::new(&server);
        let what = match era {
            Era::Session => json!([{"ask": [form("A?"), form("B?")]}, {"answers": true}]),
            _ => json!([{"round": {"a": form("A?"), "b": form("B?")}}, {"answers": true}]),
        };
        let id = modern.task("always", what).await;
        let asked = modern.until(&id, "input_required").await;
        let requests = asked["inputRequests"].as_object().expect("requests").clone();
        // Questions asked together appear together.
        assert_eq!(requests.values().collect::<Vec<_>>(), [&form("A?"), &form("B?")]);
        let keys: Vec<&String> = requests.keys().collect();
        for wrong in
            [json!({"wrong": accept("x")}), json!({}), json!({keys[0]: "text"}), json!({keys[0]: null})]
        {
            assert_eq!(modern.update(&id, wrong).await.result(), &json!({"resultType": "complete"}));
            assert_eq!(modern.get(&id).await, asked);
        }
        modern.update(&id, json!({keys[0]: accept("x"), "wrong": accept("y")})).await.result();
        let half = modern.get(&id).await;
        assert_eq!(half["status"], "input_required");
        assert_eq!(half["inputRequests"], json!({keys[1]: form("B?")}));
        // An answer is accepted once.
        modern.update(&id, json!({keys[0]: accept("late")})).await.result();
        modern.update(&id, json!({keys[1]: accept("z")})).await.result();
        let text = modern.until(&id, "completed").await["result"]["content"][0]["text"].clone();
        let answers: Value = serde_json::from_str(text.as_str().expect("a text")).expect("JSON");
        let answers: Vec<Value> = match answers {
            Value::Array(list) => list,
            other => other.as_object().expect("a map").values().cloned().collect(),
        };
        assert_eq!(answers, [accept("x"), accept("z")]);
        // Late answers to a task that has ended are acknowledged like unknown keys.
        modern.update(&id, json!({keys[1]: accept("later")})).await.result();
        for broken in [json!(null), json!([]), json!("x")] {
            assert_eq!(modern.update(&id, broken).await.code(), -32602);
        }
        assert_eq!(modern.ask("tasks/update", json!({"taskId": id})).await.code(), -32602);
    }
}

/// SEP-2663: keys are unique over a task's life, also when the upstream uses the same ones in every round.
#[tokio::test(flavor = "multi_thread")]
async fn keys_are_never_used_again() {
    for era in [Era::Session, Era::Modern] {
        let board = Board::new(era);
        let server = serve(&board).await;
        let modern = Modern::new(&server);
        let round = match era {
            Era::Session => json!({"ask": [form("Again?")]}),
            _ => json!({"round": {"same": form("Again?")}}),
        };
        let rounds: Vec<Value> = std::iter::repeat_n(round, 5).chain([json!({"answers": true})]).collect();
        let id = modern.task("always", Value::Array(rounds)).await;
        let mut seen: Vec<String> = Vec::new();
        for n in 0..5 {
            let asked = eventually("the next question", || async {
                let task = modern.get(&id).await;
                let key = task["inputRequests"].as_object().and_then(|all| all.keys().next().cloned());
                key.filter(|key| !seen.contains(key))
            })
            .await;
            modern.update(&id, json!({asked.clone(): accept(&n.to_string())})).await.result();
            seen.push(asked);
        }
        modern.until(&id, "completed").await;
        if era == Era::Modern {
            // The upstream gets its own keys back.
            for call in &board.heard("tools/call")[1..] {
                assert!(call["params"]["inputResponses"]["same"].is_object(), "{call}");
            }
        }
    }
}

/// A round without questions only wants to be called again; nothing is asked, the task stays working.
#[tokio::test(flavor = "multi_thread")]
async fn a_round_without_questions_is_called_again() {
    let board = Board::new(Era::Modern);
    let server = serve(&board).await;
    let modern = Modern::new(&server);
    let id =
        modern.task("always", json!([{"round": null}, {"round": {}}, {"round": {"a": form("A?")}}])).await;
    modern.until(&id, "input_required").await;
    assert_eq!(board.count("calls"), 3);
    modern.update(&id, json!({"a": accept("x")})).await.result();
    modern.until(&id, "completed").await;
}

/// Case 9: a question goes out on the `tasks/result` stream; a dropped stream makes it due again; it is answered once.
#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_result_stream_asks_again_on_the_next_one() {
    let board = Board::new(Era::Session);
    let server = serve(&board).await;
    let old = Old::open(&server).await;
    let id = old.augmented("always", json!([{"ask": [form("Name?")]}, {"answers": true}])).await.task();
    old.until(&id, "input_required").await;
    let mut first = old.begin("tasks/result", json!({"taskId": id})).await;
    let question = next(&mut first).await;
    assert_eq!(question["method"], "elicitation/create");
    assert_eq!(question["params"]["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], json!(id));
    drop(first);
    assert_eq!(old.get(&id).await["status"], "input_required");
    let mut second = old.begin("tasks/result", json!({"taskId": id})).await;
    let again = next(&mut second).await;
    assert_eq!(again["params"], question["params"]);
    old.respond(&again["id"], accept("Luca")).await;
    // An answer to the question that broke off is too late.
    old.respond(&question["id"], accept("late")).await;
    let answer = second.answer().await;
    assert_eq!(answer.text(), json!([accept("Luca")]).to_string());
    assert!(answer.before.is_empty(), "{:?}", answer.before);
    logs::clean();
}

/// Case 9: a client that never calls `tasks/result` is asked on the general stream, once it has seen the status.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_only_polls_is_asked_on_the_general_stream() {
    let board = Board::new(Era::Session);
    let server = serve(&board).await;
    let old = Old::open(&server).await;
    let mut stream = old.stream().await;
    let id = old.augmented("always", json!([{"ask": [form("Name?")]}, {"answers": true}])).await.task();
    old.until(&id, "input_required").await;
    let question = loop {
        let message = next(&mut stream).await;
        if message["method"] == "elicitation/create" {
            break message;
        }
    };
    assert_eq!(question["params"]["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], json!(id));
    old.respond(&question["id"], accept("Luca")).await;
    old.until(&id, "completed").await;
}

/// Case 9 over stdio: the question comes on the pipe; a refused one is a cancelled elicitation.
#[tokio::test(flavor = "multi_thread")]
async fn questions_of_a_task_come_over_stdio() {
    let board = Board::new(Era::Session);
    let server = serve(&board).await;
    let mut pipe = Pipe::open(&server.gateway).await;
    for refuse in [false, true] {
        let id = pipe.task("always", json!([{"ask": [form("Name?")]}, {"answers": true}])).await;
        pipe.until(&id, "input_required").await;
        let question = pipe.find(|message| message["method"] == "elicitation/create").await;
        if refuse {
            let error =
                json!({"jsonrpc": "2.0", "id": question["id"], "error": {"code": -1, "message": "no"}});
            pipe.write(format!("{error}\n").as_bytes()).await;
        } else {
            pipe.respond(&question["id"], accept("Luca")).await;
        }
        let answer = pipe.ask("tasks/result", json!({"taskId": id})).await;
        let want = if refuse { json!([{"action": "cancel"}]) } else { json!([accept("Luca")]) };
        assert_eq!(answer.text(), want.to_string());
    }
}

/// A task of one dialect is answered through the other: asked by 2025-11-25, answered with `tasks/update`.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_can_be_answered_through_the_other_dialect() {
    for era in [Era::Session, Era::Modern] {
        let board = Board::new(era);
        let server = serve(&board).await;
        let old = Old::open(&server).await;
        let modern = Modern::new(&server);
        let asks = if era == Era::Session {
            json!({"ask": [form("N?")]})
        } else {
            json!({"round": {"n": form("N?")}})
        };
        let id = old.augmented("always", json!([asks, {"answers": true}])).await.task();
        let mut stream = old.begin("tasks/result", json!({"taskId": id})).await;
        let question = next(&mut stream).await;
        let task = modern.until(&id, "input_required").await;
        let key = task["inputRequests"].as_object().expect("requests").keys().next().expect("a key").clone();
        modern.update(&id, json!({key: accept("modern")})).await.result();
        assert!(stream.answer().await.text().contains("modern"));
        old.respond(&question["id"], accept("too late")).await;
        // And the other way round.
        let asks = if era == Era::Session {
            json!({"ask": [form("N?")]})
        } else {
            json!({"round": {"n": form("N?")}})
        };
        let id = modern.task("always", json!([asks, {"answers": true}])).await;
        let mut stream = old.begin("tasks/result", json!({"taskId": id})).await;
        let question = next(&mut stream).await;
        old.respond(&question["id"], accept("old")).await;
        assert!(stream.answer().await.text().contains("old"));
    }
}

/// Case 14: the token an upstream put on its question is between it and us; the rest of `_meta` is the client's.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_leaves_its_progress_token_behind() {
    let marked = |meta: Value| {
        let mut question = form("A?");
        question["params"]["_meta"] = meta;
        question
    };
    let (token, more) = (json!({"progressToken": 7}), json!({"progressToken": 7, "x/y": 1}));
    for era in [Era::Session, Era::Modern] {
        let server = serve(&Board::new(era)).await;
        let modern = Modern::new(&server);
        let what = match era {
            Era::Session => json!([{"ask": [marked(token.clone()), marked(more.clone())]}]),
            _ => json!([{"round": {"a": marked(token.clone()), "b": marked(more.clone())}}]),
        };
        let id = modern.task("always", what).await;
        let asked = modern.until(&id, "input_required").await;
        let asked = asked["inputRequests"].as_object().expect("requests");
        assert_eq!(asked.values().collect::<Vec<_>>(), [&form("A?"), &marked(json!({"x/y": 1}))]);
    }
}

/// A plain call of a 2025-11-25 client is asked on its own stream, whatever the upstream speaks.
#[tokio::test(flavor = "multi_thread")]
async fn a_plain_call_is_asked_on_its_own_stream() {
    for era in [Era::Session, Era::Modern] {
        let board = Board::new(era);
        let server = serve(&board).await;
        let old = Old::open(&server).await;
        let what = match era {
            Era::Session => json!([{"ask": [form("A?"), form("B?")]}, {"answers": true}]),
            _ => json!([{"round": {"a": form("A?"), "b": form("B?")}}, {"answers": true}]),
        };
        let mut stream = old.begin("tools/call", json!({"name": "never", "arguments": steps(&what)})).await;
        let (first, second) = (next(&mut stream).await, next(&mut stream).await);
        assert!(first["params"].get("_meta").is_none(), "no task, no related task");
        old.respond(&second["id"], accept("b")).await;
        old.respond(&first["id"], accept("a")).await;
        let text = stream.answer().await.text().to_owned();
        assert!(text.contains("\"a\"") && text.contains("\"b\""), "{text}");
        // A client that cannot be asked: the upstream is told, or the call fails; nobody waits for ever.
        let mute = Old::with(&server, "2025-11-25", json!({})).await;
        let answer = mute.tool("never", json!([{"ask": [form("A?")]}, {"answers": true}])).await;
        assert!(answer.before.is_empty());
        assert!(answer.text().contains("error"), "{}", answer.raw);
    }
}

/// Questions within `inline_for` are asked on the spot and the call is no task; afterwards they belong to the task.
#[tokio::test(flavor = "multi_thread")]
async fn questions_before_the_handle_are_asked_at_once_later_ones_by_the_task() {
    let board = Board::new(Era::Session);
    let server = serve(&board).await;
    let modern = Modern::new(&server);
    let what = json!([{"ask": [form("Now?")]}, {"sleep": 600}, {"ask": [form("Later?")]}, {"answers": true}]);
    let params = json!({"name": "patient", "arguments": steps(&what)});
    let asked = modern.ask("tools/call", params.clone()).await.result().clone();
    assert_eq!(asked["resultType"], "input_required");
    let key = asked["inputRequests"].as_object().expect("requests").keys().next().expect("a key").clone();
    let mut again = params;
    again["requestState"] = asked["requestState"].clone();
    again["inputResponses"] = json!({key.clone(): accept("now")});
    let id = modern.ask("tools/call", again).await.task();
    let task = modern.until(&id, "input_required").await;
    let later = task["inputRequests"].as_object().expect("requests").keys().next().expect("a key").clone();
    assert_ne!(later, key);
    modern.update(&id, json!({later: accept("later")})).await.result();
    modern.until(&id, "completed").await;
    assert_eq!(board.count("calls"), 1);
}

/// Two sessions of one owner: a question is out on one stream at a time, and moves on when that session ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_asked_in_one_session_at_a_time() {
    let board = Board::new(Era::Session);
    let server = serve_local(&board).await;
    let first = Old::open(&server).await;
    let second = Old::open(&server).await;
    let id = first.augmented("always", json!([{"ask": [form("Name?")]}, {"answers": true}])).await.task();
    first.until(&id, "input_required").await;
    let mut one = first.begin("tasks/result", json!({"taskId": id})).await;
    assert_eq!(next(&mut one).await["method"], "elicitation/create");
    let mut two = second.begin("tasks/result", json!({"taskId": id})).await;
    let silent = tokio::time::timeout(std::time::Duration::from_millis(300), two.next_event()).await;
    assert!(silent.is_err(), "{silent:?}");
    assert_eq!(first.end().await, 204);
    let question = soon("the question", next(&mut two)).await;
    second.respond(&question["id"], accept("two")).await;
    assert!(two.answer().await.text().contains("two"));
}
