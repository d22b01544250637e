//! Transcripts of every verb in every generation, compared with `golden/<version>/<verb>.jsonl`.
//!
//! What differs from run to run is masked. `UPDATE_GOLDEN=1` writes the files anew; read the difference before you
//! commit it. A transcript holds what was sent and what came back in the order of the script: messages that may
//! overtake each other on the wire stand where the script takes them.

mod d2025_10_20;
mod d2025_11_25;
mod d2026_07_28;
mod earlier;
mod hosts;
mod mask;
mod polled;
mod translated;

use std::fs;

use serde_json::{Value, json};
use taskgate_proof::stdio::Pipe;
use taskgate_proof::{modern, programs, session, wait};

use crate::serve::fixtures_stdio;
use mask::Mask;

/// The fixtures behind taskgate, at the end of a pipe.
fn fixtures() -> Pipe {
    Pipe::start(fixtures_stdio())
}

/// Whether a message may be there without being part of the transcript.
type Ignored = fn(&Value) -> bool;

/// A conversation with a fresh server, and its record.
struct Transcript {
    file: String,
    pipe: Pipe,
    lines: Vec<String>,
    mask: Mask,
    next_id: u64,
    ignored: Ignored,
}

impl Transcript {
    /// A conversation of this name in this version.
    fn new(version: &str, name: &str) -> Transcript {
        Transcript::through(&format!("{version}/{name}"), fixtures())
    }

    /// A conversation with whatever is at the end of this pipe.
    fn through(file: &str, pipe: Pipe) -> Transcript {
        Transcript {
            file: format!("{file}.jsonl"),
            pipe,
            lines: Vec::new(),
            mask: Mask::default(),
            next_id: 0,
            ignored: |message| message["method"] == "notifications/tasks/status",
        }
    }

    /// A conversation in a session of this version; opening it is not part of the record.
    fn session(version: &str, name: &str) -> Transcript {
        let mut transcript = Transcript::new(version, name);
        transcript.pipe.initialize(version);
        transcript
    }

    /// Status notifications are part of the record too.
    fn with_status(mut self) -> Transcript {
        self.ignored = |_| false;
        self
    }

    fn note(&mut self, direction: &str, message: &Value) {
        self.lines.push(line(direction, message, &mut self.mask));
    }

    /// Writes a line that need not be a message, and takes the answer.
    fn raw(&mut self, line: &str) -> Value {
        self.lines.push(json!({ "send line": line }).to_string());
        self.pipe.write(line);
        self.take("an answer to a line", |message| message.get("method").is_none())
    }

    fn send(&mut self, message: &Value) {
        self.note("send", message);
        self.pipe.send(message);
    }

    fn take(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let ignored = self.ignored;
        let message = self.pipe.take(what, |message| !ignored(message) && fits(message));
        self.note("receive", &message);
        message
    }

    fn take_answer(&mut self, id: &Value) -> Result<Value, Value> {
        let message = self.take(&format!("the answer to {id}"), |message| {
            message["id"] == *id && message.get("method").is_none()
        });
        modern::answer(&message.to_string())
    }

    fn take_notification(&mut self, method: &str) -> Value {
        self.take(method, |message| message["method"] == method)
    }

    fn fresh_id(&mut self) -> Value {
        self.next_id += 1;
        json!(self.next_id)
    }

    /// Sends a request of a session; its answer is taken later.
    fn begin(&mut self, method: &str, params: Value) -> Value {
        let id = self.fresh_id();
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// A request of a session and its answer.
    fn ask(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let id = self.begin(method, params);
        self.take_answer(&id)
    }

    /// Sends a request of 2026-07-28 with these capabilities; its answer is taken later.
    fn begin_modern(&mut self, method: &str, params: Value, capabilities: &Value) -> Value {
        let id = self.fresh_id();
        self.send(&modern::request(id.clone(), method, params, capabilities));
        id
    }

    /// A request of 2026-07-28 with these capabilities, and its answer.
    fn ask_with(&mut self, method: &str, params: Value, capabilities: &Value) -> Result<Value, Value> {
        let id = self.begin_modern(method, params, capabilities);
        self.take_answer(&id)
    }

    /// A request of 2026-07-28 that declares everything, and its answer.
    fn ask_modern(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        self.ask_with(method, params, &modern::capabilities())
    }

    /// Polls, outside of the record, until the task has this status.
    fn until(&mut self, task: &Value, status: &str) {
        let mut polls = 0;
        wait::until(&format!("{status} of {task}"), || {
            polls += 1;
            let id = json!(format!("poll {polls} for {status} of {task}"));
            let params = json!({ "taskId": task });
            self.pipe.send(&modern::request(id.clone(), "tasks/get", params, &modern::capabilities()));
            let now = self.pipe.answer(&id).expect("the task is known");
            (now["status"] == status).then_some(())
        });
    }

    /// Ends the conversation and compares its record with the file.
    #[track_caller]
    fn finish(self) {
        let Transcript { file, pipe, lines, ignored, .. } = self;
        let rest: Vec<Value> = pipe.close().into_iter().filter(|message| !ignored(message)).collect();
        assert!(rest.is_empty(), "{file}: messages that the transcript does not expect: {rest:#?}");
        compare(&file, &lines);
    }

    /// Records what `tools/list` says of tasks: each of the task tools, and what its `execution` is.
    fn record_tools(&mut self, listed: &Value) {
        let tools = listed["tools"].as_array().expect("tools");
        let said: serde_json::Map<String, Value> = tools
            .iter()
            .map(|tool| (tool["name"].as_str().expect("a name").to_owned(), tool["execution"].clone()))
            .filter(|(name, _)| {
                ["greet", "slow_compute", "failing_job", "confirm_delete"].contains(&name.as_str())
            })
            .collect();
        self.lines.push(json!({ "execution in tools/list": said }).to_string());
    }

    /// Opens a session on the record.
    fn initialize(&mut self, version: &str) {
        self.ask("initialize", session::initialize(version)).expect("initialize is accepted");
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    }
}

/// A message as it stands in a transcript.
fn line(direction: &str, message: &Value, mask: &mut Mask) -> String {
    let mut masked = mask.apply(message);
    // Requests of the server that are made at the same time are numbered in any order.
    let asks = direction == "receive" && message.get("method").is_some() && message.get("id").is_some();
    if asks || (direction == "send" && message.get("method").is_none()) {
        masked["id"] = json!("<question>");
    }
    json!({ direction: masked }).to_string()
}

/// Compares a record with its file.
#[track_caller]
fn compare(file: &str, lines: &[String]) {
    let path = programs::repository().join("proof/golden").join(file);
    let now = lines.join("\n") + "\n";
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::create_dir_all(path.parent().expect("a folder")).expect("golden can be written");
        fs::write(&path, now).expect("golden can be written");
        return;
    }
    let golden = fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; UPDATE_GOLDEN=1 writes it", path.display()));
    for (number, (golden, now)) in golden.lines().zip(now.lines()).enumerate() {
        assert!(golden == now, "{file}:{}\n golden: {golden}\n    now: {now}", number + 1);
    }
    assert_eq!(golden.lines().count(), now.lines().count(), "{file} has another length");
}

/// An answer to the question that stands in this request of the server.
fn accept(question: &Value, content: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "accept", "content": content } })
}
