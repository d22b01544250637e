//! Questions of a 2025-11-25 task on the stream of a poll, which only HTTP has.

use serde_json::{Value, json};
use taskgate_proof::modern::Modern;
use taskgate_proof::programs;
use taskgate_proof::session::Session;

use super::{accept, compare, line, mask::Mask};
use crate::urls::Scene;

/// CASE 9: what is due stands before the answer of the poll, and the next poll is plain.
#[test]
fn input_with_get() {
    let scene = Scene::new();
    let top = "single_user = true\nstream_task_questions = \"get\"\n";
    let server = format!("command = [{:?}, \"--plain\"]", programs::example("conformance"));
    let (program, address) =
        scene.gateway_of(top, &server, "[upstream.tools.confirm_delete]\ntasks = \"always\"\n");
    let (mut session, mut modern) = (Session::open(address), Modern::new(address));
    let mut record = Record::default();
    let call =
        json!({ "name": "confirm_delete", "arguments": { "filename": "a.txt" }, "task": { "ttl": 60000 } });
    let task = record.ask(&mut session, 1, "tools/call", call)[0]["result"]["task"]["taskId"].clone();
    let id = task.as_str().expect("an id");
    modern.until(id, "input_required");
    let polled = record.ask(&mut session, 2, "tasks/get", json!({ "taskId": task }));
    assert_eq!(polled.len(), 2, "a question and the answer: {polled:?}");
    record.ask(&mut session, 3, "tasks/get", json!({ "taskId": task }));
    let answer = accept(&polled[0], &json!({ "confirm": true }));
    record.lines.push(line("send", &answer, &mut record.mask));
    assert_eq!(session.post(&answer).status, 202);
    modern.until(id, "completed");
    record.ask(&mut session, 4, "tasks/result", json!({ "taskId": task }));
    compare("2025-11-25/input-with-get.jsonl", &record.lines);
    program.terminate();
}

#[derive(Default)]
struct Record {
    mask: Mask,
    lines: Vec<String>,
}

impl Record {
    /// A request and all that comes back for it, on the record.
    fn ask(&mut self, session: &mut Session, id: u64, method: &str, params: Value) -> Vec<Value> {
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.lines.push(line("send", &message, &mut self.mask));
        let (is_stream, answers) = session.stream(&message);
        self.lines.push(json!({ "answered with a stream": is_stream }).to_string());
        self.lines.extend(answers.iter().map(|answer| line("receive", answer, &mut self.mask)));
        answers
    }
}
