use super::*;

pub(super) const ASK: &str = r#"{"message":"name?","requestedSchema":{"type":"object","properties":{}}}"#;

pub(super) async fn question(call: &mut PendingCall) -> Question {
    let event = tokio::time::timeout(std::time::Duration::from_secs(10), call.next()).await;
    match event.expect("in time") {
        CallEvent::Question(question) => question,
        other => panic!("not a question: {other:?}"),
    }
}

/// The refusal's code and text.
pub(super) async fn refusal(server: &mut Server) -> (i64, String) {
    match server.next().await {
        Message::Error { error, .. } => {
            let error = value(&error);
            (error["code"].as_i64().expect("code"), error["message"].as_str().expect("text").to_owned())
        }
        other => panic!("not refused: {other:?}"),
    }
}

/// Starts calls of these owners and reads them on the server's side.
pub(super) async fn calls<const N: usize>(
    session: &Session,
    server: &mut Server,
    owners: [Option<&str>; N],
) -> [PendingCall; N] {
    let calls = owners.map(|owner| call(session, owner));
    for call in &calls {
        assert_eq!(&server.request().await.0, call.id());
    }
    calls
}

#[tokio::test]
async fn the_only_call_in_flight_is_asked_and_its_answer_goes_back() {
    let (session, mut server) = legacy(8).await;
    let [mut only] = calls(&session, &mut server, [None]).await;
    server.ask(0, "elicitation/create", ASK, None).await;
    let asked = question(&mut only).await;
    assert_eq!((asked.method.as_str(), asked.params), ("elicitation/create", Some(json(ASK))));
    asked.reply.answer(json(r#"{"action":"decline"}"#));
    let result = json(r#"{"action":"decline"}"#);
    assert_eq!(server.next().await, Message::Response { id: Id::number(0), result });
    server.ask(1, "sampling/createMessage", "{}", None).await;
    question(&mut only).await.reply.refuse(json(r#"{"code":-1,"message":"no"}"#));
    assert_eq!(refusal(&mut server).await.0, -1);
}

#[tokio::test]
async fn with_several_callers_in_flight_nobody_is_asked() {
    let (session, mut server) = legacy(8).await;
    for owners in [[Some("a"), Some("b")], [None, None], [Some("a"), None]] {
        let mut both = calls(&session, &mut server, owners).await;
        server.ask(5, "elicitation/create", ASK, None).await;
        let (code, text) = refusal(&mut server).await;
        assert_eq!(code, -32603);
        assert!(text.contains("which caller"), "{text}");
        let ids = both.each_ref().map(|call| call.id().clone());
        for (call, id) in both.iter_mut().zip(&ids) {
            server.answer(id, "{}").await;
            assert!(matches!(call.next().await, CallEvent::Done(Ok(_))));
        }
    }
}

/// A server may ask twice at a time: that a call waits for an answer does not make the next question another owner's, whoever
/// came first. Whoever holds the waiting call learns that others are refused because of it.
#[tokio::test]
async fn a_call_that_waits_for_an_answer_may_still_have_asked_the_next_question() {
    let (session, mut server) = legacy(8).await;
    let [mut waiting] = calls(&session, &mut server, [Some("a")]).await;
    server.ask(5, "elicitation/create", ASK, None).await;
    let asked = question(&mut waiting).await;
    assert_eq!(session.ambiguous_at(), None);
    let [mut other] = calls(&session, &mut server, [Some("b")]).await;
    let before = tokio::time::Instant::now();
    server.ask(6, "elicitation/create", ASK, None).await;
    assert!(refusal(&mut server).await.1.contains("which caller"));
    assert!(session.ambiguous_at().is_some_and(|at| at >= before));
    for call in [&mut waiting, &mut other] {
        server.answer(&call.id().clone(), "{}").await;
        assert!(matches!(call.next().await, CallEvent::Done(Ok(_))));
    }
    drop(asked);
}

#[tokio::test]
async fn calls_of_one_owner_are_told_apart_by_age() {
    let (session, mut server) = legacy(8).await;
    let [_old, mut new] = calls(&session, &mut server, [Some("a"), Some("a")]).await;
    let _listen = session.call(MODERN, "subscriptions/listen", None, CallOptions::default());
    server.request().await;
    server.ask(5, "elicitation/create", ASK, None).await;
    assert_eq!(question(&mut new).await.id, Id::number(5));
}

#[tokio::test]
async fn an_origin_beats_every_guess() {
    let (session, mut server) = legacy(8).await;
    let [mut first, _second] = calls(&session, &mut server, [Some("a"), Some("b")]).await;
    let origin = first.id().clone();
    server.ask(5, "elicitation/create", ASK, Some(&origin)).await;
    assert_eq!(question(&mut first).await.id, Id::number(5));
    // The question was dropped: that is a refusal. And an origin that is over is not replaced by a guess.
    assert!(refusal(&mut server).await.1.contains("dropped"));
    drop(first);
    server.next().await;
    server.ask(6, "elicitation/create", ASK, Some(&origin)).await;
    assert_eq!(refusal(&mut server).await.0, -32603);
}

#[tokio::test]
async fn a_question_of_a_task_goes_to_who_waits_for_that_task() {
    let (session, mut server) = legacy(8).await;
    let params = |task: &str| json(&format!(r#"{{"taskId":"{task}"}}"#));
    let wait = |task: &str| {
        let options = CallOptions { owner: Some(task.to_owned()), ..CallOptions::default() };
        session.call(LEGACY, "tasks/result", Some(params(task).as_raw()), options)
    };
    let (mut one, _two) = (wait("one"), wait("two"));
    server.request().await;
    server.request().await;
    let ask = |task: &str| {
        format!(r#"{{"_meta":{{"io.modelcontextprotocol/related-task":{{"taskId":"{task}"}}}}}}"#)
    };
    server.ask(5, "elicitation/create", &ask("one"), None).await;
    assert_eq!(question(&mut one).await.id, Id::number(5));
    // Let go of, it stays open: the task still waits for an answer, and is waited for again.
    assert!(server.is_silent());
    server.ask(6, "elicitation/create", &ask("three"), None).await;
    assert_eq!(refusal(&mut server).await.0, -32603);
    server.ask(7, "elicitation/create", &ask("one"), None).await;
    server.ask(8, "ping", "{}", None).await;
    assert!(matches!(server.next().await, Message::Response { .. }));
    drop(one);
    let Message::Notification { method, .. } = server.next().await else { panic!("not told") };
    assert_eq!(method, "notifications/cancelled");
    assert!(server.is_silent());
    let mut again = wait("one");
    server.request().await;
    server.ask(9, "elicitation/create", &ask("one"), None).await;
    question(&mut again).await.reply.answer(json("{}"));
    let result = json("{}");
    assert_eq!(server.next().await, Message::Response { id: Id::number(9), result });
}

/// Waiting for a task takes minutes, and tools are listed at any time by anybody; it must not make every other caller's question ambiguous in the meantime.
#[tokio::test]
async fn bookkeeping_and_waiting_do_not_make_a_question_ambiguous() {
    let (session, mut server) = legacy(8).await;
    let params = json(r#"{"taskId":"one"}"#);
    let start = |method: &str| session.call(LEGACY, method, Some(params.as_raw()), CallOptions::default());
    let (mut waiting, _get) = (start("tasks/result"), start("tasks/get"));
    server.request().await;
    server.request().await;
    server.ask(5, "elicitation/create", ASK, None).await;
    question(&mut waiting).await;
    server.next().await;
    let [mut plain] = calls(&session, &mut server, [Some("a")]).await;
    let _list = start("tools/list");
    server.request().await;
    server.ask(6, "elicitation/create", ASK, None).await;
    assert_eq!(question(&mut plain).await.id, Id::number(6));
}

#[tokio::test]
async fn a_withdrawn_question_can_no_longer_be_answered() {
    let (session, mut server) = legacy(8).await;
    let [mut only] = calls(&session, &mut server, [None]).await;
    server.ask(5, "elicitation/create", ASK, None).await;
    let asked = question(&mut only).await;
    server.notify("notifications/cancelled", r#"{"requestId":5,"reason":"timeout"}"#).await;
    let CallEvent::QuestionWithdrawn { id, reason } = only.next().await else { panic!() };
    assert_eq!((id, reason.as_deref()), (Id::number(5), Some("timeout")));
    asked.reply.answer(json("{}"));
    // The same id may be used again, and an old handle does not answer the new question.
    server.ask(5, "elicitation/create", ASK, None).await;
    question(&mut only).await.reply.answer(json(r#"{"second":true}"#));
    let result = json(r#"{"second":true}"#);
    assert_eq!(server.next().await, Message::Response { id: Id::number(5), result });
    assert!(server.is_silent());
}

#[tokio::test]
async fn a_cancelled_call_refuses_its_open_questions() {
    let (session, mut server) = legacy(8).await;
    let [only] = calls(&session, &mut server, [None]).await;
    server.ask(5, "elicitation/create", ASK, None).await;
    server.ask(6, "ping", "{}", None).await;
    assert!(matches!(server.next().await, Message::Response { .. }));
    drop(only);
    let mut rest = [server.next().await, server.next().await];
    rest.sort_by_key(|message| matches!(message, Message::Error { .. }));
    assert!(matches!(&rest[0], Message::Notification { method, .. } if method == "notifications/cancelled"));
    assert!(matches!(&rest[1], Message::Error { id: Some(id), .. } if *id == Id::number(5)));
}

/// A request that only a server and its client know goes where a question would; without a call nobody could know it. Tasks
/// are not asked for by servers here.
#[tokio::test]
async fn other_requests_of_a_server_need_a_call() {
    let (session, mut server) = legacy(8).await;
    server.ask(4, "custom/question", "{}", None).await;
    assert_eq!(refusal(&mut server).await.0, -32601);
    let [mut only] = calls(&session, &mut server, [None]).await;
    server.ask(5, "tasks/get", "{}", None).await;
    assert_eq!(refusal(&mut server).await.0, -32601);
    server.ask(7, "custom/question", r#"{"n":1.0}"#, None).await;
    let asked = question(&mut only).await;
    assert_eq!((asked.method.as_str(), asked.params), ("custom/question", Some(json(r#"{"n":1.0}"#))));
    asked.reply.answer(json("{}"));
    assert_eq!(server.next().await, Message::Response { id: Id::number(7), result: json("{}") });
    server.ask(6, "ping", "{}", None).await;
    assert_eq!(server.next().await, Message::Response { id: Id::number(6), result: json("{}") });
}
