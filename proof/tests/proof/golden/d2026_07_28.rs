//! The tasks extension of 2026-07-28.

use serde_json::{Value, json};
use taskgate_proof::modern;

use super::Transcript;

const VERSION: &str = "2026-07-28";

fn transcript(name: &str) -> Transcript {
    Transcript::new(VERSION, name)
}

fn call(tool: &str, arguments: Value) -> Value {
    json!({ "name": tool, "arguments": arguments })
}

impl Transcript {
    /// Calls a tool that becomes a task, on the record; returns the id.
    fn create_modern(&mut self, tool: &str, arguments: Value) -> Value {
        let created = self.ask_modern("tools/call", call(tool, arguments)).expect("a task");
        assert_eq!(created["resultType"], "task");
        created["taskId"].clone()
    }

    fn get_modern(&mut self, task: &Value) -> Value {
        self.ask_modern("tasks/get", json!({ "taskId": task })).expect("the task is known")
    }

    /// Cancels off the record, so that the server's end need not wait for the work.
    fn drop_modern(&mut self, task: &Value) {
        self.pipe.modern("tasks/cancel", json!({ "taskId": task })).expect("it is acknowledged");
        self.until(task, "cancelled");
    }
}

/// CASE 24: the extension with exactly `{}`, and nothing of the older generation.
#[test]
fn discover() {
    let mut transcript = transcript("discover");
    transcript.ask_modern("server/discover", json!({})).expect("a description");
    let listed = transcript.pipe.modern("tools/list", json!({})).expect("tools");
    transcript.record_tools(&listed);
    transcript.finish();
}

/// CASE 7: a task only for who declares the extension on this very request; `params.task` is ignored.
#[test]
fn create() {
    let mut transcript = transcript("create");
    let slow = transcript.create_modern("slow_compute", json!({ "seconds": 300 }));
    transcript.drop_modern(&slow);
    transcript.ask_modern("tools/call", call("greet", json!({ "name": "Ada" }))).expect("a result");
    let plain = json!({ "elicitation": {} });
    let mut augmented = call("slow_compute", json!({ "seconds": 0, "label": "x" }));
    augmented["task"] = json!({ "ttl": 1000 });
    transcript.ask_with("tools/call", augmented.clone(), &plain).expect("a result");
    augmented["name"] = json!("greet");
    augmented["arguments"] = json!({ "name": "Ada" });
    transcript.ask_modern("tools/call", augmented).expect("a result");
    transcript
        .ask_with("tools/call", call("failing_job", json!({})), &plain)
        .expect_err("it is always a task");
    // The older generation's capability declares nothing here.
    let older = json!({ "tasks": { "requests": { "tools": { "call": {} } } } });
    transcript
        .ask_with("tools/call", call("failing_job", json!({})), &older)
        .expect_err("nothing is declared");
    transcript.finish();
}

/// Every status as `tasks/get` shows it. CASES 6 and 15: an error of the tool is a result, an error of the protocol not.
#[test]
fn get() {
    let mut transcript = transcript("get");
    let slow = transcript.create_modern("slow_compute", json!({ "seconds": 300 }));
    transcript.get_modern(&slow);
    transcript.drop_modern(&slow);
    transcript.get_modern(&slow);
    for (tool, arguments, end) in [
        ("slow_compute", json!({ "seconds": 0.1, "label": "x" }), "completed"),
        ("failing_job", json!({}), "completed"),
        ("protocol_error_job", json!({}), "failed"),
        ("confirm_delete", json!({ "filename": "a.txt" }), "input_required"),
    ] {
        let task = transcript.create_modern(tool, arguments);
        transcript.until(&task, end);
        transcript.get_modern(&task);
    }
    transcript.finish();
}

/// CASE 8: answers reach the waiting work, whatever else is acknowledged and changes nothing.
#[test]
fn update() {
    let mut transcript = transcript("update");
    let task = transcript.create_modern("multi_input", json!({}));
    transcript.until(&task, "input_required");
    let asking = transcript.get_modern(&task);
    let keys: Vec<String> = asking["inputRequests"].as_object().expect("questions").keys().cloned().collect();
    assert_eq!(keys.len(), 2, "both are there at once");
    let answer = |transcript: &mut Transcript, responses: Value| {
        let params = json!({ "taskId": task, "inputResponses": responses });
        transcript.ask_modern("tasks/update", params).expect("it is acknowledged");
    };
    let accepted = json!({ "action": "accept", "content": { "name": "Ada", "confirm": true } });
    answer(&mut transcript, json!({ "unknown": accepted }));
    transcript.get_modern(&task);
    answer(&mut transcript, json!({ &keys[0]: accepted }));
    transcript.get_modern(&task);
    answer(&mut transcript, json!({ &keys[0]: { "action": "cancel" }, &keys[1]: accepted }));
    transcript.until(&task, "completed");
    transcript.get_modern(&task);
    answer(&mut transcript, json!({ &keys[1]: accepted }));
    transcript.ask_modern("tasks/update", json!({ "taskId": task })).expect_err("no answers at all");
    transcript.finish();
}

/// CASE 3: the same empty acknowledgement for a running and for an ended task, whose status stays.
#[test]
fn cancel() {
    let mut transcript = transcript("cancel");
    let task = transcript.create_modern("slow_compute", json!({ "seconds": 300 }));
    transcript.ask_modern("tasks/cancel", json!({ "taskId": task })).expect("it is acknowledged");
    transcript.until(&task, "cancelled");
    transcript.ask_modern("tasks/cancel", json!({ "taskId": task })).expect("it is acknowledged");
    transcript.get_modern(&task);
    let done = transcript.create_modern("slow_compute", json!({ "seconds": 0, "label": "x" }));
    transcript.until(&done, "completed");
    transcript.ask_modern("tasks/cancel", json!({ "taskId": done })).expect("it is acknowledged");
    transcript.get_modern(&done);
    transcript.finish();
}

/// CASES 10 and 40: the part of the list that is ours is acknowledged, what is known comes first, the end by itself.
#[test]
fn listen() {
    let mut transcript = transcript("listen");
    const NEWS: &str = "notifications/tasks";
    let done = transcript.create_modern("slow_compute", json!({ "seconds": 0, "label": "x" }));
    transcript.until(&done, "completed");
    let running = transcript.create_modern("slow_compute", json!({ "seconds": 3, "label": "y" }));
    let filter = json!({ "notifications": { "taskIds": [done, running, "unknown"] } });
    let undeclared = json!({ "elicitation": {} });
    transcript.ask_with("subscriptions/listen", filter.clone(), &undeclared).expect_err("undeclared");
    let listening = transcript.begin_modern("subscriptions/listen", filter, &modern::capabilities());
    transcript.take_notification("notifications/subscriptions/acknowledged");
    transcript.take_notification(NEWS);
    transcript.take_notification(NEWS);
    transcript.take(NEWS, |message| {
        message["method"] == NEWS
            && message["params"]["taskId"] == running
            && message["params"]["status"] == "completed"
    });
    transcript.send(&json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": listening },
    }));
    // An ended subscription says nothing any more.
    transcript.create_modern("slow_compute", json!({ "seconds": 0 }));
    transcript.finish();
}

/// CASE 20: a tool that asks before it works is asked on the spot; what it then does becomes the task.
#[test]
fn ask_then_create() {
    let mut transcript = transcript("ask_then_create");
    let first =
        transcript.ask_modern("tools/call", call("test_tool_with_task", json!({}))).expect("a question");
    assert_eq!(first["resultType"], "input_required");
    let key = first["inputRequests"].as_object().and_then(|open| open.keys().next()).expect("a question");
    let mut again = call("test_tool_with_task", json!({}));
    again["inputResponses"] = json!({ key: { "action": "accept", "content": { "name": "Alice" } } });
    again["requestState"] = first["requestState"].clone();
    let created = transcript.ask_modern("tools/call", again).expect("a task");
    assert_eq!(created["resultType"], "task");
    transcript.until(&created["taskId"], "completed");
    transcript.get_modern(&created["taskId"]);
    transcript.finish();
}

/// CASES 7, 10 and 19: precise errors; the gate comes before the id.
#[test]
fn errors() {
    let mut transcript = transcript("errors");
    let undeclared = json!({ "elicitation": {} });
    for verb in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let params = json!({ "taskId": "unknown", "inputResponses": {} });
        transcript.ask_modern(verb, params.clone()).expect_err("no such task");
        transcript.ask_with(verb, params, &undeclared).expect_err("undeclared");
        transcript.ask_modern(verb, json!({ "inputResponses": {} })).expect_err("no id");
    }
    for verb in ["tasks/result", "tasks/list", "initialize", "ping", "unknown/method"] {
        transcript.ask_modern(verb, json!({ "taskId": "unknown" })).expect_err("not of this generation");
    }
    let mut other = modern::request(json!("v"), "tools/list", json!({}), &undeclared);
    other["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2999-01-01");
    transcript.send(&other);
    transcript.take_answer(&json!("v")).expect_err("no such version");
    transcript.finish();
}
