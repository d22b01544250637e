//! Sessions of 2025-11-25 in front of a server that is spoken to in 2026-07-28, and callers of 2026-07-28 in front of a
//! server of 2025-11-25: what each era says in its own way.

use std::process::Command;

use serde_json::json;
use taskgate_proof::stdio::Pipe;
use taskgate_proof::{modern, programs};

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

/// A conversation of 2026-07-28 through `taskgate wrap` with the scripted server, which speaks 2025-11-25 only.
fn over_session(name: &str) -> (Transcript, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(programs::taskgate());
    command.args(["wrap", "--tasks", "never", "--store", "memory", "--"]);
    command.arg(env!("CARGO_BIN_EXE_scripted-server")).arg(folder.path());
    (Transcript::through(&format!("2026-07-28/over-2025-11-25-{name}"), Pipe::start(command)), folder)
}

/// A question on the way is a round of its own: the call waits under a sealed state.
#[test]
fn a_question_on_the_way_is_a_round() {
    let (mut transcript, _folder) = over_session("input");
    let able = json!({ "elicitation": {} });
    let mut call = json!({ "name": "ask", "arguments": { "label": "Name?" } });
    let asked = transcript.ask_with("tools/call", call.clone(), &able).expect("questions");
    let key = asked["inputRequests"].as_object().and_then(|asked| asked.keys().next()).expect("a question");
    call["inputResponses"] = json!({ key: { "action": "accept", "content": {} } });
    call["requestState"] = asked["requestState"].clone();
    transcript.ask_with("tools/call", call.clone(), &able).expect("a result");
    transcript.ask_with("tools/call", call, &able).expect_err("a state is good for one answer");
    transcript.finish();
}

/// The level that a request names is set at the server, and is this request's alone.
#[test]
fn a_level_of_a_request_is_set_at_the_server() {
    let (mut transcript, _folder) = over_session("logging");
    let call = json!({ "name": "log", "arguments": { "label": "once" } });
    transcript.ask_modern("tools/call", call.clone()).expect("nothing is said without a level");
    let mut message = modern::request(json!("with a level"), "tools/call", call, &json!({}));
    message["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = json!("info");
    transcript.send(&message);
    transcript.take_notification("notifications/message");
    transcript.take_answer(&json!("with a level")).expect("a result");
    transcript.finish();
}

/// Lists say how long they are good for, an unknown resource has another code, and listening subscribes.
#[test]
fn resources_in_the_words_of_the_caller() {
    let (mut transcript, _folder) = over_session("resources");
    transcript.ask_modern("resources/list", json!({})).expect("a list");
    transcript
        .ask_modern("resources/read", json!({ "uri": "scripted://b" }))
        .expect_err("there is no such one");
    let filter = json!({ "notifications": { "resourceSubscriptions": ["scripted://a"] } });
    let listening = transcript.begin_modern("subscriptions/listen", filter, &modern::capabilities());
    transcript.take_notification("notifications/subscriptions/acknowledged");
    transcript.take_notification("notifications/resources/updated");
    transcript.send(&json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": listening },
    }));
    transcript.ask_modern("resources/list", json!({})).expect("a list");
    transcript.finish();
}
