//! The reference server of the MCP project, which knows nothing of tasks, behind the real `taskgate`.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use taskgate_proof::modern::Modern;
use taskgate_proof::program::{Program, nothing_left_of};
use taskgate_proof::stdio::Pipe;
use taskgate_proof::{peers, programs, wait};

const LONG: &str = "trigger-long-running-operation";
const ELICIT: &str = "trigger-elicitation-request";
const SAMPLE: &str = "trigger-sampling-request";

const RELATED: &str = "io.modelcontextprotocol/related-task";

/// `taskgate wrap` in front of the server, as a desktop host would start it.
struct Wrapped {
    pipe: Pipe,
    folder: tempfile::TempDir,
}

impl Wrapped {
    fn start() -> Wrapped {
        let folder = tempfile::Builder::new().prefix("taskgate-everything-").tempdir().expect("a folder");
        let mut command = Command::new(programs::taskgate());
        command.args(["wrap", "--inline-for", "300ms"]);
        for tool in [ELICIT, SAMPLE] {
            command.args(["--tool", &format!("{tool}=always")]);
        }
        command.arg("--store").arg(folder.path().join("tasks.db")).arg("--").args(server());
        // The server takes no further argument; this one marks its process.
        command.arg(folder.path());
        Wrapped { pipe: Pipe::start(command), folder }
    }

    /// Polls until the task is as wanted.
    #[track_caller]
    fn until(&mut self, task: &Value, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        wait::until(what, || {
            let now = self.pipe.modern("tasks/get", json!({ "taskId": task })).expect("the task is known");
            fits(&now).then_some(now)
        })
    }

    /// Calls a tool as 2026-07-28 does; it must become a task. Returns the task's id.
    #[track_caller]
    fn create(&mut self, tool: &str, arguments: Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments });
        let created = self.pipe.modern("tools/call", params).expect("the call is accepted");
        assert_eq!(created["resultType"], "task", "{created:#}");
        created["taskId"].clone()
    }

    /// Calls a tool as 2025-11-25 does, as a task. Returns the task's id.
    #[track_caller]
    fn create_in_session(&mut self, tool: &str, arguments: Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments, "task": {} });
        let created = self.pipe.in_session("tools/call", params).expect("the call is accepted");
        assert_eq!(created["task"]["status"], "working", "{created:#}");
        created["task"]["taskId"].clone()
    }

    /// Answers the one open question of a task as 2026-07-28 does, and returns the result.
    #[track_caller]
    fn answer(&mut self, task: &Value, method: &str, answer: Value) -> Value {
        let asking = self.until(task, "a question", |now| now["status"] == "input_required");
        let open = asking["inputRequests"].as_object().expect("questions");
        let (key, question) = open.iter().next().expect("a question");
        assert!(open.len() == 1 && question["method"] == method, "{asking:#}");
        let params = json!({ "taskId": task, "inputResponses": { key: answer } });
        let acknowledged = self.pipe.modern("tasks/update", params).expect("the answer is accepted");
        assert_eq!(acknowledged, json!({ "resultType": "complete" }));
        self.until(task, "the end", |now| now["status"] == "completed")["result"].clone()
    }

    /// Answers the question that arrives on the session, and returns the result of the task.
    #[track_caller]
    fn answer_in_session(&mut self, task: &Value, method: &str, answer: &Value) -> Value {
        let question = self.pipe.take(method, |message| message["method"] == method);
        assert_eq!(question["params"]["_meta"][RELATED]["taskId"], *task, "{question:#}");
        self.pipe.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": answer }));
        self.result(task)
    }

    #[track_caller]
    fn result(&mut self, task: &Value) -> Value {
        let result = self.pipe.in_session("tasks/result", json!({ "taskId": task })).expect("a result");
        assert_eq!(result["_meta"][RELATED]["taskId"], *task, "{result:#}");
        result
    }

    #[track_caller]
    fn close(self) {
        self.pipe.close();
        nothing_left_of(self.folder.path().to_str().expect("a plain path"));
    }
}

/// The command line of the server.
pub fn server() -> [std::ffi::OsString; 3] {
    let script = peers::npm("@modelcontextprotocol/server-everything/dist/index.js");
    [peers::node().into(), script.into(), "stdio".into()]
}

fn texts(result: &Value) -> String {
    let blocks = result["content"].as_array().into_iter().flatten();
    blocks.filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
}

/// Issue 2, Proof; CASES 7, 14 and 40: the long operation becomes a task, and its progress, which nobody has asked for
/// but the gateway, is the task's status message.
#[test]
fn the_long_operation_becomes_a_task_with_progress() {
    let mut wrapped = Wrapped::start();
    let arguments = json!({ "duration": 6, "steps": 12 });
    let task = wrapped.create(LONG, arguments.clone());
    let is_progress = |now: &Value| {
        let line = now["statusMessage"].as_str().unwrap_or_default();
        now["status"] == "working" && line.starts_with("Progress: ") && line.ends_with("/12")
    };
    wrapped.until(&task, "progress", is_progress);
    let ended = wrapped.until(&task, "the end", |now| now["status"] == "completed");
    let said = "Long running operation completed. Duration: 6 seconds, Steps: 12.";
    assert_eq!(texts(&ended["result"]), said);

    wrapped.pipe.initialize("2025-11-25");
    let task = wrapped.create_in_session(LONG, arguments);
    wait::until("progress", || {
        let now = wrapped.pipe.in_session("tasks/get", json!({ "taskId": task })).expect("the task is known");
        is_progress(&now).then_some(())
    });
    assert_eq!(texts(&wrapped.result(&task)), said);

    // What ends in time is answered directly.
    let params = json!({ "name": LONG, "arguments": { "duration": 0, "steps": 1 } });
    let quick = wrapped.pipe.modern("tools/call", params).expect("a result");
    assert_eq!(quick["resultType"], "complete", "{quick:#}");
    wrapped.close();
}

/// Issue 2, Proof; CASES 8 and 9: its form reaches `input_required`, and the answer reaches it, in both generations.
#[test]
fn the_elicitation_tool_asks_and_completes() {
    let mut wrapped = Wrapped::start();
    let form = json!({ "action": "accept", "content": { "name": "Ada", "check": true } });
    let task = wrapped.create(ELICIT, json!({}));
    let result = wrapped.answer(&task, "elicitation/create", form.clone());
    assert!(texts(&result).contains("- Name: Ada"), "{result:#}");

    wrapped.pipe.initialize("2025-11-25");
    let task = wrapped.create_in_session(ELICIT, json!({}));
    let result = wrapped.answer_in_session(&task, "elicitation/create", &form);
    assert!(texts(&result).contains("- Name: Ada"), "{result:#}");
    wrapped.close();
}

/// Issue 2, Proof; CASES 8 and 9: its prompt for the client's model likewise.
#[test]
fn the_sampling_tool_asks_and_completes() {
    let mut wrapped = Wrapped::start();
    let answer = json!({
        "role": "assistant", "model": "proof", "stopReason": "endTurn",
        "content": { "type": "text", "text": "forty-two" },
    });
    let prompt = json!({ "prompt": "What is six times seven?" });
    let task = wrapped.create(SAMPLE, prompt.clone());
    let result = wrapped.answer(&task, "sampling/createMessage", answer.clone());
    assert!(texts(&result).contains("forty-two"), "{result:#}");

    wrapped.pipe.initialize("2025-11-25");
    let task = wrapped.create_in_session(SAMPLE, prompt);
    let result = wrapped.answer_in_session(&task, "sampling/createMessage", &answer);
    assert!(texts(&result).contains("forty-two"), "{result:#}");
    wrapped.close();
}

/// The same server behind `taskgate serve`.
#[test]
fn the_long_operation_becomes_a_task_over_http() {
    let folder = tempfile::Builder::new().prefix("taskgate-everything-").tempdir().expect("a folder");
    let server = server().map(|word| word.into_string().expect("a plain path"));
    let config = format!(
        "listen = \"127.0.0.1:0\"\nstore = \"tasks.db\"\n[[upstream]]\nname = \"everything\"\ncommand = [{}, {:?}]\n\
         [upstream.tools.{LONG}]\ntasks = \"always\"\n",
        server.map(|word| format!("{word:?}")).join(", "),
        folder.path(),
    );
    let file = folder.path().join("taskgate.toml");
    fs::write(&file, config).expect("the folder can be written");
    let mut command = Command::new(programs::taskgate());
    command.args(["serve", "--config"]).arg(file);
    let (gateway, address) = Program::serve(command);
    let mut client = Modern::new(address);
    let task = client.create(LONG, json!({ "duration": 1, "steps": 2 })).expect("a handle");
    let ended = client.until(&task, "completed");
    assert_eq!(texts(&ended["result"]), "Long running operation completed. Duration: 1 seconds, Steps: 2.");
    gateway.terminate();
    nothing_left_of(folder.path().to_str().expect("a plain path"));
}
