//! Sessions of 2025-11-25 in front of a server that is spoken to in 2026-07-28: what each era says in its own way.

use std::process::Command;

use serde_json::json;
use taskgate_proof::programs;
use taskgate_proof::stdio::Pipe;

use super::{Transcript, accept};

/// A conversation through `taskgate wrap` with the fixtures as a plain server, which speaks both eras and so is spoken to
/// in the newer one.
fn transcript(name: &str) -> Transcript {
    let mut command = Command::new(programs::taskgate());
    command.args(["wrap", "--tasks", "never", "--store", "memory", "--"]);
    command.arg(programs::example("conformance")).arg("--plain");
    let mut transcript =
        Transcript::through(&format!("2025-11-25/over-2026-07-28-{name}"), Pipe::start(command));
    transcript.pipe.initialize("2025-11-25");
    transcript
}

/// A call that its server ends to ask is one call with a question on its way.
#[test]
fn a_round_is_a_question_on_the_way() {
    let mut transcript = transcript("input");
    let call = transcript.begin("tools/call", json!({ "name": "test_input_required_result_elicitation" }));
    let question = transcript.take("a question", |message| message["method"] == "elicitation/create");
    let answer = accept(&question, &json!({ "name": "Ada" }));
    transcript.send(&answer);
    transcript.take_answer(&call).expect("a result");
    transcript.finish();
}

/// The session's level is said on each request.
#[test]
fn a_level_of_the_session_is_one_of_each_request() {
    let mut transcript = transcript("logging");
    transcript.ask("logging/setLevel", json!({ "level": "info" })).expect("it is set");
    let call = transcript.begin("tools/call", json!({ "name": "test_logging_tool" }));
    transcript.take_notification("notifications/message");
    transcript.take_answer(&call).expect("a result");
    transcript.finish();
}

/// Subscribing is listening, and an unknown resource has another code.
#[test]
fn resources_in_the_words_of_the_session() {
    let mut transcript = transcript("resources");
    transcript.ask("resources/list", json!({})).expect("a list");
    transcript.ask("resources/subscribe", json!({ "uri": "test://watched-resource" })).expect("subscribed");
    transcript
        .ask("resources/unsubscribe", json!({ "uri": "test://watched-resource" }))
        .expect("unsubscribed");
    transcript
        .ask("resources/read", json!({ "uri": "test://nowhere" }))
        .expect_err("there is no such resource");
    transcript.finish();
}
