use super::*;
use crate::transport::{CloseCause, CloseReason};

async fn done(call: &mut PendingCall) -> Result<Payload, CallFailure> {
    match call.next().await {
        CallEvent::Done(outcome) => outcome,
        other => panic!("not the outcome: {other:?}"),
    }
}

#[tokio::test]
async fn a_call_carries_our_id_and_token_and_returns_the_result_byte_for_byte() {
    let (session, mut server) = legacy(8).await;
    let params = json(r#"{"name":"t","arguments":{"n":1.0},"_meta":{"progressToken":"theirs"}}"#);
    let mut pending = session.call(LEGACY, "tools/call", Some(params.as_raw()), CallOptions::default());
    let (id, method, sent) = server.request().await;
    assert_eq!((method.as_str(), &id), ("tools/call", pending.id()));
    assert_eq!(sent["_meta"], serde_json::json!({"progressToken": id.as_number()}));
    server.answer(&id, r#"{"content":[],"x":1.00}"#).await;
    assert_eq!(done(&mut pending).await.expect("result").as_str(), r#"{"content":[],"x":1.00}"#);
    assert_eq!(done(&mut pending).await, Err(CallFailure::Taken));
    drop(pending);
    assert!(server.is_silent());
}

#[tokio::test]
async fn a_modern_call_brings_its_own_identity_and_capabilities() {
    let (session, mut server) = legacy(8).await;
    let options = CallOptions {
        capabilities: Some(json(r#"{"sampling":{}}"#)),
        client_info: Some(json(r#"{"name":"caller","version":"3"}"#)),
        ..CallOptions::default()
    };
    let _pending = session.call(MODERN, "tools/list", None, options);
    let (_, _, sent) = server.request().await;
    let meta = &sent["_meta"];
    assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "caller");
    assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], serde_json::json!({"sampling": {}}));
}

#[tokio::test]
async fn an_error_passes_through_and_odd_spellings_of_the_id_are_understood() {
    let (session, mut server) = legacy(8).await;
    let mut pending = call(&session, None);
    let (id, ..) = server.request().await;
    server.fail(&id, r#"{"code":-1,"message":"m","data":[1.0]}"#).await;
    let failure = done(&mut pending).await.expect_err("error");
    assert_eq!(failure, CallFailure::Rpc(json(r#"{"code":-1,"message":"m","data":[1.0]}"#)));
    for odd in ["\"{}\"", "{}.0"] {
        let pending = call(&session, None);
        let (id, ..) = server.request().await;
        let spelled = json(&odd.replace("{}", id.as_str()));
        server.answer(&Id::from_raw(spelled.as_raw()).expect("id"), "{}").await;
        assert_eq!(pending.outcome().await.expect("result").as_str(), "{}");
    }
}

#[tokio::test]
async fn progress_and_log_messages_reach_their_call_in_order() {
    let (session, mut server) = legacy(8).await;
    let mut heard = session.notifications();
    let mut pending = call(&session, None);
    let (id, ..) = server.request().await;
    let progress = format!(r#"{{"progressToken":{id},"progress":1.0}}"#);
    server.notify("notifications/progress", &progress).await;
    server.notify("notifications/message", r#"{"level":"info","data":1}"#).await;
    server.answer(&id, "{}").await;
    assert!(matches!(pending.next().await, CallEvent::Progress(raw) if raw.as_str() == progress));
    assert!(matches!(pending.next().await, CallEvent::Log(_)));
    assert!(matches!(pending.next().await, CallEvent::Done(Ok(_))));
    // Without a call, or with two, a log message belongs to nobody; progress of a call that has returned neither.
    let _two = (call(&session, None), call(&session, None));
    server.notify("notifications/message", r#"{"level":"info","data":2}"#).await;
    server.notify("notifications/progress", &progress).await;
    server
        .say(Message::Notification { method: "notifications/tools/list_changed".to_owned(), params: None })
        .await;
    for expected in ["notifications/message", "notifications/progress", "notifications/tools/list_changed"] {
        assert!(matches!(heard.next().await, Some(Heard::Notification { method, .. }) if method == expected));
    }
    session.close().await;
    assert_eq!(heard.next().await, None);
}

#[tokio::test]
async fn dropping_a_call_cancels_it_once_even_when_the_channel_is_full() {
    let (session, mut server) = legacy(1).await;
    let calls: Vec<_> = (0..20).map(|_| call(&session, None)).collect();
    let ids: Vec<_> = calls.iter().map(|call| call.id().clone()).collect();
    for (place, call) in calls.into_iter().enumerate() {
        if place % 2 == 0 { drop(call) } else { call.cancel("had enough") }
    }
    for id in &ids {
        assert_eq!(&server.request().await.0, id);
    }
    for (place, id) in ids.iter().enumerate() {
        let Message::Notification { method, params: Some(params) } = server.next().await else { panic!() };
        assert_eq!(method, "notifications/cancelled");
        let reason = if place % 2 == 0 { "" } else { r#","reason":"had enough""# };
        assert_eq!(params.as_str(), format!(r#"{{"requestId":{id}{reason}}}"#));
    }
    // Late answers are ignored, and everything goes on.
    for id in &ids {
        server.answer(id, "{}").await;
    }
    let pending = call(&session, None);
    let (id, ..) = server.request().await;
    server.answer(&id, "{}").await;
    assert!(pending.outcome().await.is_ok());
    assert!(server.is_silent());
}

#[tokio::test]
async fn next_can_be_dropped_without_losing_an_event() {
    let (session, mut server) = legacy(8).await;
    let mut pending = call(&session, None);
    let (id, ..) = server.request().await;
    for step in 0..50 {
        tokio::select! {
            biased;
            _ = pending.next() => panic!("nothing was sent"),
            () = tokio::task::yield_now() => {}
        }
        server
            .notify("notifications/progress", &format!(r#"{{"progressToken":{id},"progress":{step}}}"#))
            .await;
        let CallEvent::Progress(raw) = pending.next().await else { panic!() };
        assert_eq!(value(&raw)["progress"], step);
    }
}

/// Case 5.
#[tokio::test]
async fn when_the_connection_ends_every_call_fails_with_the_reason() {
    let (session, server) = legacy(8).await;
    let calls: Vec<_> = (0..3).map(|_| call(&session, None)).collect();
    let reason = CloseReason { cause: CloseCause::Signalled(9), stderr: Some("oh no".into()) };
    server.0.out.send(Inbound::Closed(reason.clone())).await.expect("open");
    for call in calls {
        let failure = call.outcome().await.expect_err("closed");
        assert_eq!(failure, CallFailure::Closed(reason.clone()));
        let text = failure.to_string();
        assert!(text.contains("signal 9") && text.contains("oh no"), "{text}");
    }
    assert_eq!(session.closed().await, reason);
    assert_eq!(call(&session, None).outcome().await, Err(CallFailure::Closed(reason)));
}

#[tokio::test]
async fn the_connection_ends_with_the_last_handle_but_not_before() {
    let (session, mut server) = legacy(8).await;
    let pending = call(&session, None);
    drop(session);
    let (id, ..) = server.request().await;
    server.answer(&id, "{}").await;
    assert!(pending.outcome().await.is_ok());
    assert_eq!(server.0.inbox.recv().await, None);
    server.0.out.closed().await;
}

#[tokio::test]
async fn a_malformed_answer_fails_its_call_and_nothing_else() {
    let (session, mut server) = legacy(8).await;
    let (mut broken, fine) = (call(&session, None), call(&session, None));
    let (id, ..) = server.request().await;
    for line in ["Server started on stdio", "", &format!(r#"{{"id":{id},"result":{{}}}}"#)] {
        let malformed = Message::parse(line.as_bytes()).expect_err("malformed");
        server.0.out.send(Inbound::Malformed(malformed)).await.expect("open");
    }
    assert!(matches!(done(&mut broken).await, Err(CallFailure::Malformed(_))));
    let (id, ..) = server.request().await;
    server.answer(&id, "{}").await;
    assert!(fine.outcome().await.is_ok());
}

#[tokio::test]
async fn params_that_are_no_object_are_never_sent() {
    let (session, mut server) = legacy(8).await;
    let pending = session.call(LEGACY, "tools/call", Some(json("[]").as_raw()), CallOptions::default());
    assert!(matches!(pending.outcome().await, Err(CallFailure::Params(_))));
    assert!(server.is_silent());
}

#[tokio::test]
async fn a_subscription_gets_what_names_it_and_ends_when_the_server_says_so() {
    let (session, mut server) = legacy(8).await;
    let mut listen = session.call(MODERN, "subscriptions/listen", None, CallOptions::default());
    let (id, ..) = server.request().await;
    let params = format!(r#"{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}}}"#);
    server.notify("notifications/tools/list_changed", &params).await;
    assert!(
        matches!(listen.next().await, CallEvent::Notification { method, .. } if method.contains("tools"))
    );
    server.notify("notifications/cancelled", &format!(r#"{{"requestId":{id},"reason":"bye"}}"#)).await;
    assert_eq!(done(&mut listen).await, Err(CallFailure::Ended(Some("bye".to_owned()))));
    drop(listen);
    assert!(server.is_silent());
}

/// A caller who does not look keeps the newest progress and the outcome, not everything.
#[tokio::test]
async fn a_flood_of_progress_is_bounded() {
    let (session, mut server) = legacy(8).await;
    let mut pending = call(&session, None);
    let (id, ..) = server.request().await;
    for step in 0..3000 {
        server
            .notify("notifications/progress", &format!(r#"{{"progressToken":{id},"progress":{step}}}"#))
            .await;
    }
    server.answer(&id, "{}").await;
    // The pong proves that everything before it has been taken in.
    server.ask(1, "ping", "{}", None).await;
    server.next().await;
    let mut kept = Vec::new();
    while let CallEvent::Progress(raw) = pending.next().await {
        kept.push(value(&raw)["progress"].as_u64().expect("number"));
    }
    assert_eq!(kept, (3000 - 1024..3000).collect::<Vec<_>>());
}
