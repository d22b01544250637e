//! A host that knows no tasks, in a session of an older version and without one.

use std::process::Command;

use serde_json::{Value, json};
use taskgate_proof::programs;
use taskgate_proof::stdio::Pipe;

use super::Transcript;

/// The fixtures behind `wrap`, whose host is let wait for a second.
fn wrapped() -> Pipe {
    let mut command = Command::new(programs::taskgate());
    command.args(["wrap", "--store", "memory", "--host-budget", "1s", "--"]);
    command.arg(programs::example("conformance")).arg("--plain");
    Pipe::start(command)
}

fn task(words: &Value) -> Value {
    let text = words["content"][0]["text"].as_str().expect("words");
    let task = text.lines().find_map(|line| line.strip_prefix("Task: ")).expect("a task");
    json!({ "task": task })
}

/// CASE 12: the tools of a host without tasks, a call that outlasts its budget, and every companion with every answer it has.
#[test]
fn a_host_without_tasks() {
    let mut transcript = Transcript::through("2025-06-18/hosts", wrapped());
    transcript.pipe.initialize("2025-06-18");
    let listed = transcript.pipe.in_session("tools/list", json!({})).expect("tools");
    let tools = listed["tools"].as_array().expect("tools");
    transcript.lines.push(json!({ "the end of tools/list": tools[tools.len() - 3..] }).to_string());
    let ask = |transcript: &mut Transcript, name: &str, arguments: &Value| {
        let params = json!({ "name": name, "arguments": arguments });
        transcript.ask("tools/call", params).expect("a result")
    };
    let words = ask(&mut transcript, "slow_compute", &json!({ "seconds": 8, "label": "x" }));
    let task_of = task(&words);
    let look = json!({ "task": task_of["task"], "wait": false });
    ask(&mut transcript, "task_status", &look);
    ask(&mut transcript, "task_result", &task_of);
    // How often it has to be asked depends on the machine, so that is not part of the transcript.
    let unfinished =
        |said: &Value| said["content"][0]["text"].as_str().is_some_and(|text| text.contains("not finished"));
    let again = json!({ "name": "task_status", "arguments": task_of });
    while unfinished(&transcript.pipe.in_session("tools/call", again.clone()).expect("words")) {}
    ask(&mut transcript, "task_status", &task_of);
    ask(&mut transcript, "task_result", &task_of);
    ask(&mut transcript, "task_cancel", &task_of);
    let endless = ask(&mut transcript, "slow_compute", &json!({ "seconds": 300 }));
    ask(&mut transcript, "task_cancel", &task(&endless));
    ask(&mut transcript, "task_result", &task(&endless));
    for name in ["task_status", "task_result", "task_cancel"] {
        ask(&mut transcript, name, &json!({ "task": "unknown" }));
        ask(&mut transcript, name, &json!({}));
    }
    transcript.finish();
}
