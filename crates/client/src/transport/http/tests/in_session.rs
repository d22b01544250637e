use super::*;

#[tokio::test]
async fn a_session_is_opened_used_and_ended() {
    let script = Script::start().await;
    let session = script.legacy(&script.server()).await;
    let calling = call(&session, LEGACY, "t");
    let asked = script.expect("tools/call").await;
    assert_eq!(asked.path, "/mcp?key=sesame");
    assert_eq!(asked.headers["mcp-session-id"], "s1");
    assert_eq!(asked.headers["mcp-protocol-version"], "2025-11-25");
    assert_eq!(asked.headers["accept"], "application/json, text/event-stream");
    assert!(!asked.headers.contains_key("mcp-method"), "a header of 2026-07-28");
    asked.answer(&json!({"content": []})).await;
    assert_eq!(outcome(calling).await, Ok(json!({"content": []})));
    drop(session);
    let end = script.next().await;
    assert_eq!((end.method.as_str(), end.headers["mcp-session-id"].as_str()), ("DELETE", "s1"));
    end.status("204 No Content").await;
}

/// A session of an earlier time is spoken in without opening it, by one connection for all who ask for it, and is not ended. One
/// that something goes on in is not ended either.
#[tokio::test]
async fn a_session_is_come_back_to() {
    let script = Script::start().await;
    let session = script.legacy(&script.server()).await;
    let resumed = [session.resumed("s0").expect("a session"), session.resumed("s0").expect("a session")];
    let mut ids = Vec::new();
    for session in &resumed {
        let calling = call(session, LEGACY, "t");
        let asked = script.expect("tools/call").await;
        assert_eq!(asked.headers["mcp-session-id"], "s0");
        assert_eq!(asked.headers["mcp-protocol-version"], "2025-11-25");
        ids.push(asked.id());
        asked.answer(&json!({"content": []})).await;
        assert_eq!(outcome(calling).await, Ok(json!({"content": []})));
    }
    assert_ne!(ids[0], ids[1], "they share a connection");
    drop(resumed);
    assert!(script.is_silent().await, "it was not ours to end");
    assert!(session.resumed("s\n0").is_none());
    let named = session.named().expect("it has a name").clone();
    assert_eq!(named.name().as_deref(), Some("s1"));
    named.hold();
    named.hold();
    named.release();
    drop(session);
    assert!(script.is_silent().await, "something goes on in it");
}

/// What arrives on the stream of a call is that call's, whoever else has one in flight.
#[tokio::test]
async fn the_stream_says_which_call_something_belongs_to() {
    let script = Script::start().await;
    let session = script.legacy(&script.server()).await;
    let of = |owner: &str| {
        let options = CallOptions { owner: Some(owner.to_owned()), ..CallOptions::default() };
        session.call(LEGACY, "tools/call", Some(json(&json!({"name": owner})).as_raw()), options)
    };
    let (mut a, mut b) = (of("a"), of("b"));
    let (one, two) = (script.expect("tools/call").await, script.expect("tools/call").await);
    let (mut to_a, mut to_b) = if one.body["params"]["name"] == "a" { (one, two) } else { (two, one) };
    for (exchange, name) in [(&mut to_a, "a"), (&mut to_b, "b")] {
        exchange.stream().await;
        exchange.event(&json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": name}})).await;
        exchange.event(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": "lost", "progress": 1, "message": name}})).await;
        exchange.event(&json!({"jsonrpc": "2.0", "id": format!("q-{name}"), "method": "elicitation/create", "params": {"message": name, "requestedSchema": {}}})).await;
    }
    for (call, name) in [(&mut a, "a"), (&mut b, "b")] {
        let CallEvent::Log(log) = soon(call.next()).await else { panic!("no log") };
        assert!(log.as_str().contains(&format!("{name:?}")));
        let CallEvent::Progress(progress) = soon(call.next()).await else { panic!("no progress") };
        assert!(progress.as_str().contains(&format!("{name:?}")));
        let CallEvent::Question(question) = soon(call.next()).await else { panic!("no question") };
        assert!(question.params.as_ref().expect("params").as_str().contains(&format!("{name:?}")));
        question.reply.answer(json(&json!({"action": "accept", "content": {"who": name}})));
        let reply = script.next().await;
        assert_eq!(reply.body["id"], format!("q-{name}"));
        assert_eq!(reply.body["result"]["content"]["who"], name);
        assert_eq!(reply.headers["mcp-session-id"], "s1");
        reply.status("202 Accepted").await;
    }
    to_a.result(&json!({"n": 1})).await;
    to_b.result(&json!({"n": 2})).await;
    assert_eq!((outcome(a).await, outcome(b).await), (Ok(json!({"n": 1})), Ok(json!({"n": 2}))));
}

#[tokio::test]
async fn a_stream_that_breaks_is_asked_for_the_rest() {
    let script = Script::start().await;
    let session = script.legacy(&script.server()).await;
    let mut calling = call(&session, LEGACY, "t");
    let mut first = script.expect("tools/call").await;
    let id = first.id();
    first.stream().await;
    first.send("id: e1\nretry: 100\ndata: \n\n").await;
    first.send("id: e2\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":1}}\n\nid: e3\ndata: cut").await;
    drop(first);
    assert!(matches!(soon(calling.next()).await, CallEvent::Log(_)));
    // The next connection breaks before anything arrives, and the one after it answers with an error of a proxy.
    let second = script.next().await;
    assert_eq!((second.method.as_str(), second.headers["last-event-id"].as_str()), ("GET", "e2"));
    assert_eq!(second.headers["mcp-session-id"], "s1");
    drop(second);
    script.next().await.status("502 Bad Gateway").await;
    let mut third = script.next().await;
    assert_eq!(third.headers["last-event-id"], "e2");
    third.stream().await;
    third.event(&json!({"jsonrpc": "2.0", "id": id, "result": {"ok": true}})).await;
    assert_eq!(outcome(calling).await, Ok(json!({"ok": true})));
}

/// Servers that give out everything after an event, whosever it is, are about: the reference server is one.
#[tokio::test]
async fn what_a_resumed_stream_brings_for_others_reaches_nobody() {
    let script = Script::start().await;
    let session = script.legacy(&script.server()).await;
    let of = |owner: &str| {
        let options = CallOptions { owner: Some(owner.to_owned()), ..CallOptions::default() };
        session.call(LEGACY, "tools/call", Some(json(&json!({"name": owner})).as_raw()), options)
    };
    let mut mine = of("mine");
    let mut first = script.expect("tools/call").await;
    let _theirs = of("theirs");
    let held = script.expect("tools/call").await;
    first.stream().await;
    first.send("id: e1\nretry: 0\ndata: \n\n").await;
    let id = first.id();
    drop(first);
    let mut again = script.next().await;
    again.stream().await;
    again.event(&json!({"jsonrpc": "2.0", "id": held.id(), "result": {"secret": true}})).await;
    again.event(&json!({"jsonrpc": "2.0", "id": 9, "method": "roots/list"})).await;
    let refused = script.next().await;
    assert!(refused.body["error"]["message"].as_str().is_some_and(|why| why.contains("which caller")));
    refused.status("202 Accepted").await;
    again.event(&json!({"jsonrpc": "2.0", "id": id, "result": {"own": true}})).await;
    let CallEvent::Done(Ok(result)) = soon(mine.next()).await else { panic!("no answer") };
    assert_eq!(result.as_str(), r#"{"own":true}"#);
}

/// Case 29: what was in flight is not known, what is made on the old session was not looked at, and neither is sent again.
#[tokio::test]
async fn a_lost_session_is_told_and_nothing_is_sent_twice() {
    for (status, error) in [
        ("404 Not Found", json!({"code": -32001, "message": "Session not found"})),
        ("400 Bad Request", json!({"code": -32000, "message": "Bad Request: No valid session ID provided"})),
    ] {
        let script = Script::start().await;
        let session = script.legacy(&script.server()).await;
        let in_flight = call(&session, LEGACY, "t");
        let mut held = script.expect("tools/call").await;
        held.stream().await;
        drop(held);
        assert_eq!(failure(in_flight).await.kind, FailureKind::Interrupted);
        assert!(futures_pending(session.stale()).await, "one broken stream is no lost session");
        let next = call(&session, LEGACY, "t");
        script.expect("tools/call").await.fail(status, &error).await;
        assert_eq!(failure(next).await.kind, FailureKind::SessionLost);
        assert!(soon(session.stale()).await.to_string().contains("started anew"));
        drop(session);
        assert!(script.is_silent().await, "a session that is lost is not ended, and nothing is sent again");
    }
}

async fn futures_pending(future: impl Future) -> bool {
    tokio::time::timeout(Duration::from_millis(50), future).await.is_err()
}

#[tokio::test]
async fn a_session_lost_while_a_call_is_resumed_interrupts_it() {
    let script = Script::start().await;
    let session = script.legacy(&script.server()).await;
    let calling = call(&session, LEGACY, "t");
    let mut first = script.expect("tools/call").await;
    first.stream().await;
    first.send("id: e1\nretry: 0\ndata: \n\n").await;
    drop(first);
    script.next().await.status("404 Not Found").await;
    assert_eq!(failure(calling).await.kind, FailureKind::Interrupted);
    soon(session.stale()).await;
}

#[tokio::test]
async fn the_general_stream_is_kept_open() {
    let script = Script::start().await;
    let link = connect(&script.server()).expect("connect");
    let options = OpenOptions { prefer: Version::V2025_11_25, ..OpenOptions::new("test", "1") };
    let (session, mut general) = tokio::join!(Session::open(link, options), async {
        script.initialize("s1").await;
        script.next().await
    });
    let session = session.expect("open");
    let mut heard = session.notifications();
    assert_eq!((general.method.as_str(), general.headers["accept"].as_str()), ("GET", "text/event-stream"));
    general.stream().await;
    general.send("id: g1\nretry: 10\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n").await;
    assert!(soon(heard.next()).await.is_some());
    // A question there is nobody's for certain, and the only call in flight gets it.
    let mut calling = call(&session, LEGACY, "t");
    let asked = script.expect("tools/call").await;
    general.event(&json!({"jsonrpc": "2.0", "id": 1, "method": "roots/list"})).await;
    assert!(matches!(soon(calling.next()).await, CallEvent::Question(_)));
    script.next().await.status("202 Accepted").await;
    drop(general);
    let again = script.next().await;
    assert_eq!((again.method.as_str(), again.headers["last-event-id"].as_str()), ("GET", "g1"));
    again.status("404 Not Found").await;
    soon(session.stale()).await;
    drop(asked);
}

#[tokio::test]
async fn a_cancelled_call_is_told_and_let_go_of() {
    let script = Script::start().await;
    let session = script.legacy(&script.server()).await;
    let calling = call(&session, LEGACY, "t");
    let mut asked = script.expect("tools/call").await;
    asked.stream().await;
    drop(calling);
    let told = script.expect("notifications/cancelled").await;
    assert_eq!(told.body["params"]["requestId"], asked.id());
    told.status("202 Accepted").await;
    asked.gone().await;
}

/// 2025-03-26 has batches, and servers of that time may answer with one.
#[tokio::test]
async fn a_batch_is_taken_apart() {
    let script = Script::start().await;
    let session = script.legacy(&script.server()).await;
    let mut calling = call(&session, LEGACY, "t");
    let asked = script.expect("tools/call").await;
    let batch = json!([
        {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}},
        {"jsonrpc": "2.0", "id": asked.id(), "result": {"ok": 1}},
    ]);
    asked.respond("200 OK", "Content-Type: application/json\r\n", &batch.to_string()).await;
    assert!(matches!(soon(calling.next()).await, CallEvent::Log(_)));
    assert_eq!(outcome(calling).await, Ok(json!({"ok": 1})));
}

/// A server of before 2026-07-28 answers the probe in many ways, none of which is an end.
#[tokio::test]
async fn a_server_that_does_not_know_the_probe_is_opened_with_initialize() {
    let answers = [
        (
            "400 Bad Request",
            Some(json!({"code": -32000, "message": "Bad Request: Unsupported protocol version"})),
        ),
        ("404 Not Found", None),
        ("500 Internal Server Error", None),
        ("200 OK", Some(json!({"code": -32601, "message": "Method not found"}))),
    ];
    for (status, error) in answers {
        let script = Script::start().await;
        let link = connect(&script.server()).expect("connect");
        let (session, ()) = tokio::join!(Session::open(link, OpenOptions::new("test", "1")), async {
            let probe = script.expect("server/discover").await;
            match &error {
                Some(error) => probe.fail(status, error).await,
                None => probe.status(status).await,
            }
            script.initialize("s1").await;
        });
        assert_eq!(session.expect("open").lanes().legacy, Some(LEGACY), "{status}");
    }
}
