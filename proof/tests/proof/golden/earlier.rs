//! Sessions of the versions before tasks.

use serde_json::json;

use super::Transcript;

/// CASE 25: these versions hear nothing of tasks, and `params.task` is a member that nobody knows.
#[test]
fn sessions_before_2025_11_25_know_no_tasks() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18"] {
        let mut transcript = Transcript::new(version, "initialize");
        transcript.initialize(version);
        let listed = transcript.pipe.in_session("tools/list", json!({})).expect("tools");
        transcript.record_tools(&listed);
        let params = json!({ "name": "greet", "arguments": { "name": "Ada" }, "task": { "ttl": 1000 } });
        transcript.ask("tools/call", params).expect("a result");
        transcript.ask("tasks/get", json!({ "taskId": "any" })).expect_err("there are no tasks");
        transcript.ask("tasks/list", json!({})).expect_err("there are no tasks");
        transcript.finish();
    }
}
