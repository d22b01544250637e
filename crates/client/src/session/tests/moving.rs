//! Questions that may be another call's: where they go first, and where next.

use super::attribution::{ASK, calls, question, refusal};
use super::*;

const YES: &str = r#"{"action":"accept"}"#;

async fn ask(server: &Server, id: u64) {
    server.ask(id, "elicitation/create", ASK, None).await;
}

/// Asks, and waits until the question has arrived: a pong says so.
async fn ask_and_wait(server: &mut Server, id: u64) {
    ask(server, id).await;
    server.ask(99, "ping", "{}", None).await;
    assert!(matches!(server.next().await, Message::Response { .. }));
}

/// The server gets `YES` for its question.
async fn answered(server: &mut Server, id: u64) {
    assert_eq!(server.next().await, Message::Response { id: Id::number(id), result: json(YES) });
}

/// The next message says that the call was cancelled.
async fn cancelled(server: &mut Server) {
    let message = server.next().await;
    assert!(matches!(&message, Message::Notification { method, .. } if method == "notifications/cancelled"));
}

/// Two calls that ask get one question each, whichever asked first; three questions do not pile up on one call.
#[tokio::test]
async fn calls_of_one_owner_are_asked_in_turn() {
    let (session, mut server) = legacy(8).await;
    let [mut old, mut middle, mut new] = calls(&session, &mut server, [Some("a"); 3]).await;
    for id in 5..9 {
        ask(&server, id).await;
    }
    let mut asked = Vec::new();
    for call in [&mut new, &mut middle, &mut old] {
        asked.push(question(call).await);
    }
    asked.push(question(&mut new).await);
    assert_eq!(asked.iter().map(|asked| asked.id.clone()).collect::<Vec<_>>(), [5, 6, 7, 8].map(Id::number));
    // Each answer goes to the question it answers, in any order; an answered question no longer counts.
    asked.remove(1).reply.answer(json(YES));
    answered(&mut server, 6).await;
    ask(&server, 9).await;
    asked.push(question(&mut middle).await);
    for asked in asked.into_iter().rev() {
        let id = asked.id.as_number().expect("ours");
        asked.reply.answer(json(YES));
        answered(&mut server, id).await;
    }
}

/// The call that was asked ends first: its open question moves on, and is answered under the same id.
#[tokio::test]
async fn a_question_outlives_the_call_it_was_guessed_to_be_of() {
    let (session, mut server) = legacy(8).await;
    let [mut old, mut new] = calls(&session, &mut server, [Some("a"); 2]).await;
    ask(&server, 5).await;
    let first = question(&mut new).await;
    server.answer(new.id(), "{}").await;
    assert!(matches!(new.next().await, CallEvent::Done(Ok(_))));
    let again = question(&mut old).await;
    assert_eq!(
        (again.id.clone(), &again.method, &again.params),
        (first.id.clone(), &first.method, &first.params)
    );
    // What is left of the first one neither answers nor refuses.
    first.reply.answer(json(r#"{"action":"cancel"}"#));
    again.reply.answer(json(YES));
    answered(&mut server, 5).await;
    assert!(server.is_silent());
}

/// A call that is cancelled gives its question on, whether the call or the question is let go of first, and also if
/// nobody has looked at the question.
#[tokio::test]
async fn a_cancelled_call_gives_its_question_on() {
    let (session, mut server) = legacy(8).await;
    for order in 0..3 {
        let [mut old, mut new] = calls(&session, &mut server, [Some("a"); 2]).await;
        ask_and_wait(&mut server, 5).await;
        match order {
            0 => {
                let asked = question(&mut new).await;
                drop(asked);
                drop(new);
            }
            1 => {
                let asked = question(&mut new).await;
                drop(new);
                drop(asked);
            }
            _ => drop(new),
        }
        question(&mut old).await.reply.answer(json(YES));
        cancelled(&mut server).await;
        answered(&mut server, 5).await;
        drop(old);
        cancelled(&mut server).await;
        assert!(server.is_silent());
    }
}

/// Only calls of its owner that were there when it was asked can have asked it. When none is left it is refused.
#[tokio::test]
async fn a_question_never_moves_to_a_call_that_cannot_have_asked_it() {
    let (session, mut server) = legacy(8).await;
    let [mut old, new] = calls(&session, &mut server, [Some("a"); 2]).await;
    ask_and_wait(&mut server, 5).await;
    let [mut later, mut other] = calls(&session, &mut server, [Some("a"), Some("b")]).await;
    drop(new);
    let asked = question(&mut old).await;
    cancelled(&mut server).await;
    drop(old);
    cancelled(&mut server).await;
    drop(asked);
    assert!(refusal(&mut server).await.1.contains("dropped"));
    for call in [&mut later, &mut other] {
        server.answer(&call.id().clone(), "{}").await;
        assert!(matches!(call.next().await, CallEvent::Done(Ok(_))));
    }
    assert!(server.is_silent());
}

/// A call that lets go of a question without an answer is not asked it again.
#[tokio::test]
async fn a_question_is_put_to_each_call_once() {
    let (session, mut server) = legacy(8).await;
    let [mut old, mut new] = calls(&session, &mut server, [Some("a"); 2]).await;
    ask(&server, 5).await;
    drop(question(&mut new).await);
    drop(question(&mut old).await);
    assert!(refusal(&mut server).await.1.contains("dropped"));
    // A refusal is an answer: it was asked.
    ask(&server, 6).await;
    question(&mut new).await.reply.refuse(json(r#"{"code":-1,"message":"no"}"#));
    assert_eq!(refusal(&mut server).await.0, -1);
    assert!(server.is_silent());
}

/// Where the transport or the question says whose it is, there is nothing to move.
#[tokio::test]
async fn a_question_that_is_certain_ends_with_its_call() {
    let (session, mut server) = legacy(8).await;
    let [mut old, _new] = calls(&session, &mut server, [Some("a"); 2]).await;
    let origin = old.id().clone();
    server.ask(5, "elicitation/create", ASK, Some(&origin)).await;
    let asked = question(&mut old).await;
    server.answer(&origin, "{}").await;
    assert!(matches!(old.next().await, CallEvent::Done(Ok(_))));
    drop(asked);
    assert!(refusal(&mut server).await.1.contains("dropped"));
    assert!(server.is_silent());
}

/// Of one owner's calls the one whose client can be asked is asked, also if it is older or has more to answer.
#[tokio::test]
async fn a_client_that_can_be_asked_goes_first() {
    let (session, mut server) = legacy(8).await;
    let call = |capabilities: &str| {
        let (owner, capabilities) = (Some("a".to_owned()), Some(json(capabilities)));
        session.call(LEGACY, "tools/call", None, CallOptions { owner, capabilities, client_info: None })
    };
    let (mut able, mut mute) = (call(r#"{"elicitation":{}}"#), call("{}"));
    server.request().await;
    server.request().await;
    ask(&server, 5).await;
    ask(&server, 6).await;
    let asked = [question(&mut able).await, question(&mut able).await];
    // Where no client can, the newest call says so.
    server.ask(7, "roots/list", "{}", None).await;
    assert_eq!(question(&mut mute).await.id, Id::number(7));
    drop(asked);
}

/// A question that was taken back before its call looked is not shown.
#[tokio::test]
async fn what_is_over_before_it_was_seen_is_not_shown() {
    let (session, mut server) = legacy(8).await;
    let [mut only] = calls(&session, &mut server, [Some("a")]).await;
    ask(&server, 5).await;
    server.notify("notifications/cancelled", r#"{"requestId":5}"#).await;
    server.answer(only.id(), "{}").await;
    assert!(matches!(only.next().await, CallEvent::QuestionWithdrawn { .. }));
    assert!(matches!(only.next().await, CallEvent::Done(Ok(_))));
}
