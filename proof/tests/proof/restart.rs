//! The restart drill: a client makes a task and goes, the gateway is killed, another one and another client take over.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use serde_json::{Value, json};
use taskgate_proof::modern::Modern;
use taskgate_proof::peers;
use taskgate_proof::program::Program;

use crate::clients::{ext_tasks, fastmcp};
use crate::serve::{fixtures, url};

/// The clients that can hand a task over to another process.
const CLIENTS: [&str; 3] = ["ext-tasks 2026-07-28", "ext-tasks 2025-11-25", "FastMCP 2026-07-28"];

/// A gateway that is killed and started again on the same file and at the same address.
struct Drill {
    folder: tempfile::TempDir,
    arguments: &'static [&'static str],
    address: SocketAddr,
    program: Option<Program>,
}

impl Drill {
    fn start(arguments: &'static [&'static str]) -> Drill {
        let folder = tempfile::tempdir().expect("a folder");
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut drill = Drill { folder, arguments, address: any, program: None };
        drill.start_again();
        drill
    }

    fn start_again(&mut self) {
        let mut command = fixtures(&self.address.to_string(), &self.folder.path().join("tasks.db"));
        command.args(self.arguments);
        let (program, address) = Program::serve(command);
        self.program = Some(program);
        self.address = address;
    }

    fn kill(&mut self) {
        self.program.take().expect("it runs").kill();
    }

    /// Every client creates a task of this many seconds and goes. Returns the tasks' ids.
    fn create(&self, seconds: f64) -> Vec<String> {
        self.with_every_client("create", seconds);
        CLIENTS.iter().map(|client| task_of(&self.reference(client))).collect()
    }

    /// Every client, started anew, follows its task to the end, which must be a result.
    fn resume(&self) {
        self.with_every_client("resume", 0.0);
    }

    fn with_every_client(&self, phase: &str, seconds: f64) {
        thread::scope(|scope| {
            for client in CLIENTS {
                scope.spawn(move || {
                    let mut command = command_of(client, &url(self.address));
                    command.args(["--phase", phase, "--ref"]).arg(self.reference(client));
                    command
                        .args(["--slow-args", &json!({ "seconds": seconds, "label": client }).to_string()]);
                    peers::passed(&format!("{client} {phase}"), command);
                });
            }
        });
    }

    fn reference(&self, client: &str) -> PathBuf {
        self.folder.path().join(client)
    }
}

fn command_of(client: &str, url: &str) -> Command {
    let mut command = match client {
        "FastMCP 2026-07-28" => fastmcp(),
        "ext-tasks 2026-07-28" => ext_tasks("modern"),
        _ => ext_tasks("legacy"),
    };
    if client.starts_with("ext-tasks") {
        command.arg("--url");
    }
    command.arg(url);
    command
}

/// The task id in the reference that a client has written down.
fn task_of(reference: &Path) -> String {
    fn find(value: &Value) -> Option<&str> {
        match value {
            Value::Object(members) => {
                members.get("taskId").and_then(Value::as_str).or_else(|| members.values().find_map(find))
            }
            _ => None,
        }
    }
    let text = std::fs::read_to_string(reference).expect("the client has written its reference");
    let value = serde_json::from_str(&text).expect("the reference is JSON");
    find(&value).unwrap_or_else(|| panic!("no task id in {text}")).to_owned()
}

/// CASE 1: a result outlives the process that made it, byte for byte, and the client that asked for it.
#[test]
fn a_result_from_before_the_kill_is_fetched_after_it() {
    let mut drill = Drill::start(&[]);
    let tasks = drill.create(0.2);
    let mut client = Modern::new(drill.address);
    let mut before = Vec::new();
    for task in &tasks {
        client.until(task, "completed");
        before.push(client.ask("tasks/get", json!({ "taskId": task })).expect("an answer").body);
    }
    drill.kill();
    drill.start_again();
    let mut client = Modern::new(drill.address);
    for (task, before) in tasks.iter().zip(&before) {
        assert_eq!(&client.ask("tasks/get", json!({ "taskId": task })).expect("an answer").body, before);
    }
    drill.resume();
}

/// CASE 4: work that may be repeated is run again from the start, and its clients never notice.
#[test]
fn repeatable_work_is_run_again_after_the_kill() {
    let mut drill = Drill::start(&["--repeatable"]);
    let tasks = drill.create(10.0);
    let mut client = Modern::new(drill.address);
    for task in &tasks {
        assert_eq!(client.get(task)["status"], "working");
    }
    drill.kill();
    drill.start_again();
    drill.resume();
}

/// CASE 4: other work fails as interrupted, and says so in both generations.
#[test]
fn live_work_fails_as_interrupted_after_the_kill() {
    let mut drill = Drill::start(&[]);
    let tasks = drill.create(300.0);
    let mut client = Modern::new(drill.address);
    for task in &tasks {
        assert_eq!(client.get(task)["status"], "working");
    }
    drill.kill();
    drill.start_again();
    let mut client = Modern::new(drill.address);
    let mut session = taskgate_proof::session::Session::open(drill.address);
    for task in &tasks {
        let modern = client.until(task, "failed");
        let says = |text: &Value| text.as_str().is_some_and(|text| text.contains("interrupted"));
        assert!(says(&modern["statusMessage"]) && says(&modern["error"]["message"]), "{modern:#}");
        let legacy = session.call("tasks/get", &json!({ "taskId": task })).expect("an answer");
        assert!(legacy["status"] == "failed" && says(&legacy["statusMessage"]), "{legacy:#}");
        let error = session.call("tasks/result", &json!({ "taskId": task })).expect_err("no result");
        assert!(says(&error["message"]), "{error:#}");
    }
}

/// CASES 4 and 20: a question of work that ended its call to ask survives the kill with its key; the answer
/// given to the next process ends the task.
#[test]
fn a_question_survives_the_kill() {
    let mut drill = Drill::start(&[]);
    let mut client = Modern::new(drill.address);
    let task = client.create("confirm_delete", json!({ "filename": "a.txt" })).expect("a handle");
    let asked = client.until(&task, "input_required");
    drill.kill();
    drill.start_again();
    let mut client = Modern::new(drill.address);
    let still = client.get(&task);
    assert_eq!(still["status"], "input_required");
    assert_eq!(still["inputRequests"], asked["inputRequests"]);
    let key = asked["inputRequests"].as_object().and_then(|open| open.keys().next()).expect("a question");
    let answers = json!({ key: { "action": "accept", "content": { "confirm": true } } });
    client.call("tasks/update", json!({ "taskId": task, "inputResponses": answers })).expect("accepted");
    let ended = client.until(&task, "completed");
    assert_eq!(ended["result"]["content"][0]["text"], "Deleted a.txt.");
}
