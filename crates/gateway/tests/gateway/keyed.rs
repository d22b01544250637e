//! Calls that are sent again under one idempotency key.

use serde_json::{Value, json};

use crate::harness::{Board, Era, Modern, Old, http, logs, serve, serve_local, steps};

fn keyed(tool: &str, key: &str, what: &Value) -> Value {
    json!({"name": tool, "arguments": steps(what), "_meta": {"io.taskgate/idempotency-key": key}})
}

/// Case 13: a caller whose answer was lost sends its call again, and finds the task of the first; the tool runs once.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_answer_was_lost_is_found_again() {
    let board = Board::new(Era::Both);
    let server = serve_local(&board).await;
    let modern = Modern::new(&server);
    let call = keyed("patient", "k", &json!([{"count": "run"}, {"wait": "go"}]));
    let lost = tokio::spawn({
        let (modern, call) = (modern.clone(), call.clone());
        async move { modern.ask("tools/call", call).await }
    });
    board.until("it runs", |board| board.count("run") == 1).await;
    lost.abort();
    let _ = lost.await;
    let (first, second) =
        tokio::join!(modern.ask("tools/call", call.clone()), modern.ask("tools/call", call.clone()));
    assert_eq!(first.task(), second.task());
    board.open("go");
    assert_eq!(modern.until(&first.task(), "completed").await["result"]["content"][0]["text"], "done");
    // What has ended is answered directly, as a call that ends in time is.
    assert_eq!(modern.ask("tools/call", call).await.text(), "done");
    // The arguments are the same however their members are ordered; what is beside them does not count.
    let other = keyed("patient", "k", &json!([{"count": "run"}]));
    let conflict = modern.ask("tools/call", other).await;
    assert_eq!(conflict.code(), -32602);
    assert!(
        conflict.error()["message"].as_str().expect("words").contains("other arguments"),
        "{}",
        conflict.raw
    );
    assert_eq!(board.count("run"), 1);
    logs::clean();
}

/// Case 13: the key may come as an HTTP header, as a quoted string or bare; what says two different things runs nothing.
#[tokio::test(flavor = "multi_thread")]
async fn the_key_may_be_a_header() {
    let board = Board::new(Era::Both);
    let server = serve_local(&board).await;
    let modern = Modern::new(&server);
    let plain = json!({"name": "always", "arguments": steps(&json!([{"count": "run"}]))});
    let sent = async |key: &[&str], params: &Value| {
        let (mut headers, body) = modern.request("tools/call", params.clone());
        headers.extend(key.iter().map(|key| ("Idempotency-Key".to_owned(), (*key).to_owned())));
        let headers: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        http::send(server.addr, "POST", &headers, body.to_string().as_bytes()).await.answer().await
    };
    let id = sent(&[r#""a \"b\" c""#], &plain).await.task();
    modern.until(&id, "completed").await;
    for (header, params) in [
        (r#"  a "b" c "#, &plain),
        (r#""a \"b\" c""#, &keyed("always", r#"a "b" c"#, &json!([{"count": "run"}]))),
    ] {
        assert_eq!(sent(&[header], params).await.task(), id, "{header}");
    }
    assert_eq!(
        modern.ask("tools/call", keyed("always", r#"a "b" c"#, &json!([{"count": "run"}]))).await.task(),
        id
    );
    for (headers, params) in [
        (&["a"][..], keyed("always", "b", &json!([{"count": "run"}]))),
        (&["a"], keyed("always", "", &json!([{"count": "run"}]))),
        (&["a", "a"], plain.clone()),
        (&["\u{e9}"], plain.clone()),
    ] {
        let refused = sent(headers, &params).await;
        assert_eq!((refused.status, refused.code()), (400, -32020), "{headers:?}");
    }
    assert_eq!(sent(&["\"\""], &plain).await.code(), -32602);
    assert_eq!(board.count("run"), 1);
    logs::clean();
}

/// Many at once, over both generations: one task, one run.
#[tokio::test(flavor = "multi_thread")]
async fn of_many_calls_with_one_key_one_runs() {
    let board = Board::new(Era::Both);
    let server = serve_local(&board).await;
    let (modern, old) = (Modern::new(&server), Old::open(&server).await);
    let what = json!([{"count": "run"}, {"wait": "go"}]);
    let calls = (0..12).map(|n| {
        let (modern, old, mut call) = (modern.clone(), old.clone(), keyed("at_once", "k", &what));
        tokio::spawn(async move {
            if n % 2 == 0 {
                modern.ask("tools/call", call).await.task()
            } else {
                call["task"] = json!({});
                old.ask("tools/call", call).await.task()
            }
        })
    });
    let mut ids = Vec::new();
    for call in calls.collect::<Vec<_>>() {
        ids.push(call.await.expect("no panic"));
    }
    ids.dedup();
    assert_eq!(ids.len(), 1);
    board.open("go");
    modern.until(&ids[0], "completed").await;
    assert_eq!(board.count("run"), 1);
    // Another tool and another key are other calls.
    for (tool, key) in [("always", "k"), ("at_once", "K")] {
        modern.ask("tools/call", keyed(tool, key, &what)).await.result();
    }
    board.until("the others run", |board| board.count("run") == 3).await;
    logs::clean();
}

/// A question of such a call belongs to its task from the beginning, so it is there for whoever comes again.
#[tokio::test(flavor = "multi_thread")]
async fn a_keyed_call_that_asks_is_a_task_that_asks() {
    for era in [Era::Session, Era::Modern] {
        let board = Board::new(era);
        let server = serve_local(&board).await;
        let modern = Modern::new(&server);
        let ask = if era == Era::Session {
            json!([{"ask": [crate::harness::form("A?")]}])
        } else {
            json!([{"round": {"a": crate::harness::form("A?")}}, {"answers": true}])
        };
        let call = keyed("do", "k", &ask);
        let id = modern.ask("tools/call", call.clone()).await.task();
        assert_eq!(modern.ask("tools/call", call).await.task(), id);
        let asking = modern.until(&id, "input_required").await;
        let (key, _) = asking["inputRequests"].as_object().expect("questions").iter().next().expect("one");
        modern.update(&id, json!({ key: crate::harness::accept("x") })).await.result();
        modern.until(&id, "completed").await;
    }
    logs::clean();
}

/// Where callers cannot be told apart, a guessed key would lead to somebody else's task.
#[tokio::test(flavor = "multi_thread")]
async fn keys_are_for_callers_who_are_known() {
    let board = Board::new(Era::Both);
    let anonymous = serve(&board).await;
    let refused = Modern::new(&anonymous).ask("tools/call", keyed("do", "k", &json!([]))).await;
    assert_eq!(refused.code(), -32602);
    let known = serve_local(&board).await;
    let modern = Modern::new(&known);
    for bad in [json!(5), json!(""), json!("x".repeat(257)), json!({})] {
        let mut call = keyed("do", "k", &json!([{"count": "bad"}]));
        call["_meta"]["io.taskgate/idempotency-key"] = bad.clone();
        let refused = modern.ask("tools/call", call).await;
        assert_eq!(refused.code(), -32602, "{bad}");
    }
    assert_eq!(board.count("bad"), 0);
    // Callers who cannot hold a task, and tools that are none, make no promise: the key is passed over.
    for (modern, tool) in [(Modern::without_tasks(&known), "do"), (modern, "never")] {
        for _ in 0..2 {
            modern.ask("tools/call", keyed(tool, "k", &json!([{"count": "plain"}]))).await.result();
        }
    }
    assert_eq!(board.count("plain"), 4);
}

/// Case 13 and 29: a call is found by its key alone, without its arguments, and nothing runs by looking: not where there is none,
/// and not where keys do not count.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_found_by_its_key_alone() {
    let board = Board::new(Era::Both);
    let server = serve_local(&board).await;
    let modern = Modern::new(&server);
    let old = Old::open(&server).await;
    let find = |key: &str| {
        let meta = json!({"io.taskgate/idempotency-key": key, "io.taskgate/idempotency-find": true});
        json!({"name": "patient", "_meta": meta})
    };
    let unknown = modern.ask("tools/call", find("k")).await;
    assert_eq!((unknown.code(), &unknown.error()["data"]["reason"]), (-32602, &json!("key_not_found")));
    let made =
        modern.ask("tools/call", keyed("patient", "k", &json!([{"count": "run"}, {"wait": "go"}]))).await;
    assert_eq!(modern.ask("tools/call", find("k")).await.task(), made.task());
    let mut as_task = find("k");
    as_task["task"] = json!({});
    assert_eq!(old.ask("tools/call", as_task).await.result()["task"]["taskId"], made.task());
    // A call that cannot be a task is not made by looking for it.
    let plain = old.ask("tools/call", find("k")).await;
    assert_eq!(plain.code(), -32602);
    assert_eq!(plain.error()["data"]["reason"], Value::Null);
    board.open("go");
    modern.until(&made.task(), "completed").await;
    assert_eq!(modern.ask("tools/call", find("k")).await.text(), "done");
    assert_eq!(board.count("run"), 1);
    logs::clean();
}

/// Whoever's keys count is told so, and nobody else.
#[tokio::test(flavor = "multi_thread")]
async fn callers_are_told_whether_keys_count() {
    let board = Board::new(Era::Both);
    for (server, counts) in [(serve_local(&board).await, true), (serve(&board).await, false)] {
        let said = Modern::new(&server).ask("server/discover", json!({})).await;
        let said = said.result()["capabilities"]["experimental"].clone();
        assert_eq!(said.get("io.taskgate/idempotency-key").is_some(), counts, "{said}");
    }
}

/// A caller that has made a call under a key hears its progress and its logs until the answer, as with any other call, also when that is a
/// handle; whoever finds the task later hears nothing, and the tool runs once.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_caller_hears_what_the_work_says() {
    let board = Board::new(Era::Both);
    let server = serve_local(&board).await;
    let modern = Modern::new(&server);
    let said = json!([{"count": "run"}, {"log": "one"}, {"progress": {"progress": 1, "message": "half"}}, {"log": "two"}]);
    for tool in ["patient", "do"] {
        let mut call = keyed(tool, "k", &said);
        call["_meta"]["progressToken"] = json!("mine");
        call["_meta"]["io.modelcontextprotocol/logLevel"] = json!("debug");
        let heard = async |call: &Value| {
            let (headers, body) = modern.request("tools/call", call.clone());
            let headers: Vec<_> =
                headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            let response = http::send(server.addr, "POST", &headers, body.to_string().as_bytes()).await;
            response.text().await
        };
        let first = heard(&call).await;
        let at = |what: &str| first.find(what).unwrap_or_else(|| panic!("{tool}: no {what} in {first}"));
        assert!(
            at("\"one\"") < at("half") && at("half") < at("\"two\"") && at("\"two\"") < at("\"result\""),
            "{first}"
        );
        assert!(first.contains(r#""progressToken":"mine""#), "{first}");
        let again = heard(&call).await;
        assert!(!again.contains("half") && again.contains("\"result\""), "{again}");
    }
    assert_eq!(board.count("run"), 2);
    logs::clean();
}
