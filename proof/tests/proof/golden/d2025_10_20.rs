//! Tasks as SEP-1686 first had them, in a session of an older version.

use serde_json::{Value, json};

use super::{Transcript, accept};

const TASK: &str = "modelcontextprotocol.io/task";
const RELATED: &str = "modelcontextprotocol.io/related-task";

fn session(name: &str) -> Transcript {
    let mut transcript = Transcript::through(&format!("2025-10-20/{name}"), super::fixtures());
    transcript.pipe.initialize("2025-06-18");
    transcript
}

fn about(id: &str) -> Value {
    json!({ "taskId": id, "_meta": { RELATED: { "taskId": id } } })
}

impl Transcript {
    /// Calls a tool as a task of this name; its answer is taken later.
    fn call_as(&mut self, id: &str, tool: &str, arguments: &Value) -> Value {
        let meta = json!({ TASK: { "taskId": id, "keepAlive": 60000 } });
        let request =
            self.begin("tools/call", json!({ "name": tool, "arguments": arguments, "_meta": meta }));
        self.take_notification("notifications/tasks/created");
        request
    }
}

/// From the first word to the last: it is there, it runs, the request is answered, the result is fetched again, and it goes.
#[test]
fn life() {
    let mut transcript = session("life");
    let request = transcript.call_as("mine", "slow_compute", &json!({ "seconds": 1, "label": "x" }));
    transcript.ask("tasks/get", about("mine")).expect("it is there");
    transcript.ask("tasks/result", about("mine")).expect_err("not yet");
    transcript.ask("tasks/delete", about("mine")).expect_err("it runs");
    transcript.take_answer(&request).expect("a result");
    transcript.ask("tasks/get", about("mine")).expect("it has ended");
    transcript.ask("tasks/result", about("mine")).expect("the same result");
    transcript.ask("tasks/list", json!({})).expect("one task");
    transcript.ask("tasks/delete", about("mine")).expect("gone");
    transcript.ask("tasks/get", about("mine")).expect_err("gone");
    transcript.finish();
}

/// SEP-1686, 7.2: an error of the tool is a result, an error of the protocol fails the task.
#[test]
fn failure() {
    let mut transcript = session("failure");
    for tool in ["failing_job", "protocol_error_job"] {
        let request = transcript.call_as(tool, tool, &json!({}));
        let _ = transcript.take_answer(&request);
        transcript.ask("tasks/get", about(tool)).expect("it has ended");
        let _ = transcript.ask("tasks/result", about(tool));
    }
    transcript.finish();
}

/// SEP-1686, 4.4: the question names the task.
#[test]
fn input() {
    let mut transcript = session("input");
    let request = transcript.call_as("mine", "confirm_delete", &json!({ "filename": "a.txt" }));
    let question = transcript.take_notification("elicitation/create");
    transcript.ask("tasks/get", about("mine")).expect("it wants input");
    transcript.send(&accept(&question, &json!({ "confirm": true })));
    transcript.take_answer(&request).expect("a result");
    transcript.finish();
}

/// SEP-1686, 4.8: cancelling the request cancels the task.
#[test]
fn cancel() {
    let mut transcript = session("cancel");
    let request = transcript.call_as("mine", "slow_compute", &json!({ "seconds": 300 }));
    let params = json!({ "requestId": request });
    transcript.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }));
    let mut polls = 0;
    taskgate_proof::wait::until("the end", || {
        polls += 1;
        let id = json!(format!("poll {polls}"));
        let params = about("mine");
        transcript.pipe.send(&json!({ "jsonrpc": "2.0", "id": id, "method": "tasks/get", "params": params }));
        let task = transcript.pipe.answer(&id).expect("it is known");
        (task["status"] == "cancelled").then_some(())
    });
    transcript.ask("tasks/get", about("mine")).expect("cancelled");
    transcript.ask("tasks/result", about("mine")).expect_err("there is none");
    transcript.finish();
}

/// What makes no sense, and what can be no task.
#[test]
fn errors() {
    let mut transcript = session("errors");
    let call = |asked: Value| json!({ "name": "slow_compute", "arguments": { "seconds": 0 }, "_meta": { TASK: asked } });
    for asked in [json!(1), json!({}), json!({ "taskId": 7 }), json!({ "taskId": "a", "keepAlive": -1 })] {
        transcript.ask("tools/call", call(asked)).expect_err("no such task can be");
    }
    let request = transcript.call_as("mine", "slow_compute", &json!({ "seconds": 0 }));
    transcript.take_answer(&request).expect("a result");
    transcript.ask("tools/call", call(json!({ "taskId": "mine" }))).expect_err("it is taken");
    let greet =
        json!({ "name": "greet", "arguments": { "name": "Ada" }, "_meta": { TASK: { "taskId": "b" } } });
    transcript.ask("tools/call", greet).expect("a plain result");
    for verb in ["tasks/get", "tasks/result", "tasks/delete", "tasks/cancel"] {
        transcript.ask(verb, about("unknown")).expect_err("no such task");
    }
    transcript.ask("tasks/list", json!({ "cursor": "nonsense" })).expect_err("no such cursor");
    transcript.finish();
}
