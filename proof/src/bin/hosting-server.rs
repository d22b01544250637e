//! An MCP server of 2026-07-28 that hosts tasks, and keeps them where they outlive it: `hosting-server FOLDER`.
//!
//! A task is a folder in `FOLDER/tasks`: what was called, and an answer and a cancel when there are such. Tasks of `hold` and
//! `hold_again` end when `FOLDER/open` exists, those of `ask` when they are answered. What is heard is written to
//! `FOLDER/heard`, a line for each request about a task or to make one: its method and the label of the call. While
//! `FOLDER/hush` holds a request's method, that is heard and neither done nor answered.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use taskgate_proof::TASKS_EXTENSION;
use taskgate_proof::modern::VERSION;

fn main() {
    let folder = PathBuf::from(std::env::args().nth(1).expect("hosting-server FOLDER"));
    let mut out = std::io::stdout();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        let (Some(id), Some(method)) = (message.get("id"), message["method"].as_str()) else { continue };
        let Some(answer) = answer(&folder, method, &message["params"]) else { continue };
        let (member, what) = match answer {
            Ok(result) => ("result", result),
            Err(error) => ("error", error),
        };
        let _ = writeln!(out, "{}", json!({ "jsonrpc": "2.0", "id": id, member: what }));
        let _ = out.flush();
    }
}

/// `None` if it is not answered.
fn answer(folder: &Path, method: &str, params: &Value) -> Option<Result<Value, Value>> {
    let unknown = || Err(json!({ "code": -32601, "message": "Method not found" }));
    Some(Ok(match method {
        "server/discover" => json!({
            "resultType": "complete",
            "supportedVersions": [VERSION],
            "capabilities": { "tools": {}, "extensions": { TASKS_EXTENSION: {} } },
            "serverInfo": { "name": "hosting", "version": "1" },
        }),
        "tools/list" => {
            let tool = |(name, idempotent): (&str, bool)| {
                let (schema, hints) = (json!({ "type": "object" }), json!({ "idempotentHint": idempotent }));
                json!({ "name": name, "description": name, "inputSchema": schema, "annotations": hints })
            };
            let tools = [("hold", false), ("hold_again", true), ("ask", false)].map(tool);
            json!({ "resultType": "complete", "tools": tools })
        }
        "tools/call" | "tasks/get" | "tasks/update" | "tasks/cancel" => {
            let task = match Task::of(folder, method, params) {
                Some(task) => task,
                None => return Some(Err(json!({ "code": -32602, "message": "Unknown task" }))),
            };
            note(folder, &format!("{method} {}", task.label));
            let hush = fs::read_to_string(folder.join("hush")).unwrap_or_default();
            if hush == method {
                return None;
            }
            task.done(method, params)
        }
        _ => return Some(unknown()),
    }))
}

struct Task {
    id: String,
    tool: String,
    label: String,
    folder: PathBuf,
    is_open: bool,
}

impl Task {
    /// The task that is spoken of; the next one, for a call.
    fn of(folder: &Path, method: &str, params: &Value) -> Option<Task> {
        let all = folder.join("tasks");
        fs::create_dir_all(&all).expect("FOLDER can be written");
        let is_open = folder.join("open").exists();
        if method == "tools/call" {
            let id = format!("far-{}", fs::read_dir(&all).expect("FOLDER can be read").count() + 1);
            let label = params["arguments"]["label"].as_str().unwrap_or("unnamed").to_owned();
            let tool = params["name"].as_str().unwrap_or_default().to_owned();
            return Some(Task { folder: all.join(&id), id, tool, label, is_open });
        }
        let id = params["taskId"].as_str()?.to_owned();
        let folder = all.join(&id);
        let (tool, label) = (read(&folder, "tool")?, read(&folder, "label")?);
        Some(Task { id, tool, label, folder, is_open })
    }

    fn done(&self, method: &str, params: &Value) -> Value {
        match method {
            "tools/call" => {
                fs::create_dir(&self.folder).expect("FOLDER can be written");
                self.write("tool", &self.tool);
                self.write("label", &self.label);
            }
            "tasks/update" => {
                if let Some(answer) = params["inputResponses"].get("go")
                    && read(&self.folder, "answer").is_none()
                {
                    self.write("answer", answer["content"]["value"].as_str().unwrap_or_default());
                }
            }
            "tasks/cancel" => self.write("cancelled", ""),
            _ => {}
        }
        if matches!(method, "tasks/update" | "tasks/cancel") {
            return json!({ "resultType": "complete" });
        }
        let mut shape = self.shape();
        shape["resultType"] = json!(if method == "tools/call" { "task" } else { "complete" });
        shape
    }

    fn shape(&self) -> Value {
        let mut shape = json!({
            "taskId": self.id,
            "createdAt": "2026-01-01T00:00:00Z",
            "lastUpdatedAt": "2026-01-01T00:00:00Z",
            "ttlMs": null,
            "pollIntervalMs": 50,
            "status": "working",
        });
        let text = match (self.tool.as_str(), read(&self.folder, "answer")) {
            _ if read(&self.folder, "cancelled").is_some() => {
                shape["status"] = json!("cancelled");
                return shape;
            }
            ("ask", None) => {
                let schema = json!({ "type": "object", "properties": { "value": { "type": "string" } } });
                let question = json!({ "mode": "form", "message": self.label, "requestedSchema": schema });
                shape["status"] = json!("input_required");
                shape["inputRequests"] =
                    json!({ "go": { "method": "elicitation/create", "params": question } });
                return shape;
            }
            ("ask", Some(answer)) => format!("{} got {answer}", self.label),
            _ if !self.is_open => return shape,
            _ => format!("{} is done", self.label),
        };
        shape["status"] = json!("completed");
        shape["result"] = json!({ "resultType": "complete", "content": [{ "type": "text", "text": text }] });
        shape
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.join(name), text).expect("FOLDER can be written");
    }
}

fn read(folder: &Path, name: &str) -> Option<String> {
    fs::read_to_string(folder.join(name)).ok()
}

fn note(folder: &Path, line: &str) {
    let notes = OpenOptions::new().create(true).append(true).open(folder.join("heard"));
    notes.expect("FOLDER").write_all(format!("{line}\n").as_bytes()).expect("FOLDER can be written");
}
