//! Core tasks of 2025-11-25.

use serde_json::{Value, json};

use super::{Transcript, accept};

const VERSION: &str = "2025-11-25";

fn session(name: &str) -> Transcript {
    Transcript::session(VERSION, name)
}

impl Transcript {
    /// Calls a tool as a task, on the record; returns the id.
    fn create(&mut self, tool: &str, arguments: Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments, "task": { "ttl": 60000 } });
        self.ask("tools/call", params).expect("a task")["task"]["taskId"].clone()
    }

    fn get(&mut self, task: &Value) {
        self.ask("tasks/get", json!({ "taskId": task })).expect("the task is known");
    }

    /// Cancels off the record, so that the server's end need not wait for the work.
    fn drop_task(&mut self, task: &Value) {
        self.pipe.in_session("tasks/cancel", json!({ "taskId": task })).expect("it runs");
    }
}

/// CASES 24 and 25: the capability with its innermost object, `execution.taskSupport` on the tools.
#[test]
fn initialize() {
    let mut transcript = Transcript::new(VERSION, "initialize");
    transcript.initialize(VERSION);
    let listed = transcript.pipe.in_session("tools/list", json!({})).expect("tools");
    transcript.record_tools(&listed);
    transcript.ask("ping", json!({})).expect("pong");
    transcript.finish();
}

/// CASES 7 and 26: only `params.task` makes a task, and only where the tool allows it.
#[test]
fn create() {
    let mut transcript = session("create");
    let slow = transcript.create("slow_compute", json!({ "seconds": 300 }));
    transcript.drop_task(&slow);
    let plain = |name: &str| json!({ "name": name, "arguments": { "name": "Ada", "seconds": 0 } });
    let mut augmented = plain("greet");
    augmented["task"] = json!({});
    transcript.ask("tools/call", plain("greet")).expect("a result");
    transcript.ask("tools/call", plain("slow_compute")).expect("a result");
    transcript.ask("tools/call", augmented).expect_err("greet is never a task");
    transcript.ask("tools/call", plain("failing_job")).expect_err("failing_job is always a task");
    transcript.finish();
}

/// Every status as `tasks/get` shows it. CASE 6: an error of the tool is `failed`.
#[test]
fn get() {
    let mut transcript = session("get");
    let slow = transcript.create("slow_compute", json!({ "seconds": 300 }));
    transcript.get(&slow);
    transcript.drop_task(&slow);
    transcript.get(&slow);
    for (tool, arguments, end) in [
        ("slow_compute", json!({ "seconds": 0.1, "label": "x" }), "completed"),
        ("failing_job", json!({}), "completed"),
        ("protocol_error_job", json!({}), "failed"),
    ] {
        let task = transcript.create(tool, arguments);
        transcript.until(&task, end);
        transcript.get(&task);
    }
    let asking = transcript.create("confirm_delete", json!({ "filename": "a.txt" }));
    transcript.until(&asking, "input_required");
    transcript.get(&asking);
    // The client has seen that input is wanted but opens no stream for it: the question comes by itself.
    let question = transcript.take_notification("elicitation/create");
    transcript.send(&accept(&question, &json!({ "confirm": true })));
    transcript.until(&asking, "completed");
    transcript.get(&asking);
    transcript.finish();
}

/// CASES 6 and 15: exactly what the call would have been answered, plus the related task.
#[test]
fn result() {
    let mut transcript = session("result");
    for (tool, arguments) in [
        ("slow_compute", json!({ "seconds": 0.1, "label": "x" })),
        ("failing_job", json!({})),
        ("protocol_error_job", json!({})),
    ] {
        let task = transcript.create(tool, arguments);
        // It blocks until the end, and can be asked again.
        let first = transcript.ask("tasks/result", json!({ "taskId": task }));
        let second = transcript.ask("tasks/result", json!({ "taskId": task }));
        assert_eq!(first, second);
    }
    let task = transcript.create("slow_compute", json!({ "seconds": 300 }));
    transcript.drop_task(&task);
    transcript.ask("tasks/result", json!({ "taskId": task })).expect_err("it was cancelled");
    transcript.finish();
}

/// CASE 9: both questions come on the waiting `tasks/result`, each once, with the related task.
#[test]
fn input() {
    let mut transcript = session("input");
    let task = transcript.create("multi_input", json!({}));
    let waiting = transcript.begin("tasks/result", json!({ "taskId": task }));
    for (text, content) in
        [("What is your name?", json!({ "name": "Ada" })), ("Shall we go on?", json!({ "confirm": true }))]
    {
        let question = transcript.take(text, |message| {
            message["method"] == "elicitation/create" && message["params"]["message"] == text
        });
        transcript.send(&accept(&question, &content));
    }
    transcript.take_answer(&waiting).expect("a result");
    transcript.finish();
}

/// CASE 10: the list of a known user.
#[test]
fn list() {
    let mut transcript = session("list");
    transcript.ask("tasks/list", json!({})).expect("an empty list");
    let first = transcript.create("slow_compute", json!({ "seconds": 0 }));
    transcript.until(&first, "completed");
    let second = transcript.create("slow_compute", json!({ "seconds": 300 }));
    transcript.ask("tasks/list", json!({})).expect("two tasks");
    transcript.ask("tasks/list", json!({ "cursor": "nonsense" })).expect_err("no such cursor");
    transcript.drop_task(&second);
    transcript.finish();
}

/// CASE 3: a task is cancelled before the reply, and a terminal one cannot be.
#[test]
fn cancel() {
    let mut transcript = session("cancel");
    let task = transcript.create("slow_compute", json!({ "seconds": 300 }));
    transcript.ask("tasks/cancel", json!({ "taskId": task })).expect("it is cancelled");
    transcript.get(&task);
    transcript.ask("tasks/cancel", json!({ "taskId": task })).expect_err("it has ended");
    transcript.finish();
}

/// CASE 40: what a session hears of its task by itself.
#[test]
fn status() {
    let mut transcript = session("status").with_status();
    const STATUS: &str = "notifications/tasks/status";
    let task = transcript.create("slow_compute", json!({ "seconds": 0.2, "label": "x" }));
    transcript.take_notification(STATUS);
    transcript.get(&task);
    let task = transcript.create("confirm_delete", json!({ "filename": "a.txt" }));
    transcript.take(STATUS, |message| message["params"]["status"] == "input_required");
    transcript.get(&task);
    let question = transcript.take_notification("elicitation/create");
    transcript.send(&accept(&question, &json!({ "confirm": false })));
    transcript.take(STATUS, |message| message["params"]["status"] == "completed");
    // Whether it is told that the work goes on depends on how fast the work then ends.
    transcript.ignored = |message| message["params"]["status"] == "working";
    transcript.finish();
}

/// CASES 10 and 19: precise errors, and the connection stays up.
#[test]
fn errors() {
    let mut transcript = session("errors");
    for verb in ["tasks/get", "tasks/result", "tasks/cancel"] {
        for params in [json!({ "taskId": "unknown" }), json!({}), json!({ "taskId": 7 })] {
            transcript.ask(verb, params).expect_err("no such task");
        }
    }
    transcript.ask("tasks/update", json!({ "taskId": "unknown" })).expect_err("another generation's");
    transcript.ask("tasks/unknown", json!({})).expect_err("nobody's");
    transcript.ask("tools/call", json!({ "arguments": {} })).expect_err("no name");
    transcript.ask("tools/call", json!({ "name": "unknown" })).expect_err("no such tool");
    for task in [json!(1), json!({ "ttl": "long" }), json!({ "ttl": 1.5 }), json!({ "ttl": -1 })] {
        let params = json!({ "name": "slow_compute", "arguments": { "seconds": 0 }, "task": task });
        let _ = transcript.ask("tools/call", params);
    }
    for line in [
        "not JSON",
        "{",
        "[]",
        "[1]",
        "{\"jsonrpc\":\"2.0\",\"id\":\"x\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":\"y\",\"method\":\"tools/call\",\"params\":null}",
    ] {
        transcript.raw(line);
    }
    transcript.ask("ping", json!({})).expect("pong");
    transcript.finish();
}
