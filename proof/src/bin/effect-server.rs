//! An MCP server whose tools leave traces: `effect-server FOLDER NODE session|modern|command`.
//!
//! Every tool notes its effects in FOLDER (see `effects.rs`), then works for `millis`, and for as long as `hold` names a file
//! in FOLDER that does not exist; its result names the effect. Every answer that is out is written to FOLDER/answered, every
//! cancelling of a call to FOLDER/cancelled. With `session` it speaks 2025-11-25, with `modern` 2026-07-28,
//! where the tools named `ask…` end their call to ask and are called again with the answer. It ends with its stdin.
//! With `command` it is no server, but does one call whose arguments are its stdin.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use taskgate_proof::effects::Effect;
use taskgate_proof::modern::VERSION;

struct Server {
    folder: PathBuf,
    node: String,
    is_modern: bool,
    /// Tells this process from every other.
    life: String,
    count: AtomicU64,
    /// Calls that have asked and go on when they are answered.
    asked: Mutex<HashMap<String, Sender<Value>>>,
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let [_, folder, node, era] = words.as_slice() else {
        panic!("effect-server FOLDER NODE session|modern|command")
    };
    let born =
        std::fs::metadata("/proc/self").and_then(|me| me.modified()).expect("a process has a beginning");
    let born = born.duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_nanos();
    let server = Arc::new(Server {
        folder: PathBuf::from(folder),
        node: node.clone(),
        is_modern: era == "modern",
        life: format!("{}.{born}", std::process::id()),
        count: AtomicU64::new(0),
        asked: Mutex::default(),
    });
    if era == "command" {
        let arguments: Value = serde_json::from_reader(std::io::stdin().lock()).expect("arguments");
        let result = server.call(&json!({ "name": "run_external", "arguments": arguments }));
        print!("{}", result["content"][0]["text"].as_str().unwrap_or_default());
        return;
    }
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        if message["method"] == "notifications/cancelled" {
            note(&server.folder, "cancelled", &server.node);
        }
        let Some(id) = message.get("id").cloned() else { continue };
        let Some(method) = message["method"].as_str() else {
            server.answered(&id, &message["result"]);
            continue;
        };
        if method == "tools/call" {
            let server = server.clone();
            std::thread::spawn(move || {
                say(&id, Ok(server.call(&message["params"])));
                // Whoever reads this and then has something else from this process has had the answer before it.
                note(&server.folder, "answered", label_of(&message["params"]));
            });
        } else {
            say(&id, server.answer(method));
        }
    }
}

impl Server {
    fn answer(&self, method: &str) -> Result<Value, Value> {
        Ok(match (method, self.is_modern) {
            ("initialize", false) => json!({
                "protocolVersion": "2025-11-25",
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "effects", "version": "1" },
            }),
            ("server/discover", true) => json!({
                "resultType": "complete",
                "supportedVersions": [VERSION],
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "effects", "version": "1" },
            }),
            ("tools/list", _) => {
                let names: &[&str] = if self.is_modern {
                    &["plain_live", "plain_repeatable", "ask_live", "ask_repeatable"]
                } else {
                    &["work_live", "work_repeatable", "elicit_live"]
                };
                let tool = |name: &&str| json!({ "name": name, "description": name, "inputSchema": { "type": "object" } });
                json!({ "resultType": "complete", "tools": names.iter().map(tool).collect::<Vec<_>>() })
            }
            ("ping", _) => json!({}),
            _ => return Err(json!({ "code": -32601, "message": "Method not found" })),
        })
    }

    fn call(&self, params: &Value) -> Value {
        let (name, arguments) = (params["name"].as_str().unwrap_or_default(), &params["arguments"]);
        let (kind, class) = name.split_once('_').unwrap_or((name, "live"));
        let label = label_of(params);
        let elicited = (kind == "elicit").then(|| self.elicit(label));
        let answer =
            elicited.as_ref().unwrap_or(&params["inputResponses"]["go"])["content"]["value"].as_str();
        let asks = kind == "ask" && answer.is_none();
        let effect = Effect {
            label: label.to_owned(),
            class: class.to_owned(),
            step: if asks { "asked" } else { "done" }.to_owned(),
            nonce: format!("{}-{}", self.life, self.count.fetch_add(1, Ordering::Relaxed)),
            node: self.node.clone(),
            answer: answer.map(str::to_owned),
        };
        effect.note(&self.folder).expect("FOLDER can be written");
        if !asks || arguments["hold_asking"] == true {
            self.work(arguments);
        }
        if asks {
            let schema = json!({ "type": "object", "properties": { "value": { "type": "string" } } });
            let question = json!({ "mode": "form", "message": label, "requestedSchema": schema });
            return json!({
                "resultType": "input_required",
                "requestState": label,
                "inputRequests": { "go": { "method": "elicitation/create", "params": question } },
            });
        }
        let text = format!("{label} by {}", effect.nonce);
        json!({ "resultType": "complete", "content": [{ "type": "text", "text": text }] })
    }

    /// Asks while the call goes on, and waits for the answer.
    fn elicit(&self, label: &str) -> Value {
        let (sender, answer) = channel();
        let id = format!("ask {label}");
        self.asked.lock().expect("nobody panics with it").insert(id.clone(), sender);
        let schema = json!({ "type": "object", "properties": { "value": { "type": "string" } } });
        let params = json!({ "message": label, "requestedSchema": schema });
        write(&json!({ "jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params }));
        answer.recv().expect("an answer")
    }

    fn answered(&self, id: &Value, answer: &Value) {
        let asked = id.as_str().and_then(|id| self.asked.lock().expect("nobody panics with it").remove(id));
        if let Some(asked) = asked {
            let _ = asked.send(answer.clone());
        }
    }

    fn work(&self, arguments: &Value) {
        std::thread::sleep(Duration::from_millis(arguments["millis"].as_u64().unwrap_or(0)));
        let Some(gate) = arguments["hold"].as_str() else { return };
        while !self.folder.join(gate).exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn label_of(params: &Value) -> &str {
    params["arguments"]["label"].as_str().unwrap_or("unnamed")
}

fn note(folder: &Path, file: &str, line: &str) {
    let notes = OpenOptions::new().create(true).append(true).open(folder.join(file));
    notes.expect("FOLDER").write_all(format!("{line}\n").as_bytes()).expect("FOLDER can be written");
}

fn say(id: &Value, answer: Result<Value, Value>) {
    let mut message = json!({ "jsonrpc": "2.0", "id": id });
    match answer {
        Ok(result) => message["result"] = result,
        Err(error) => message["error"] = error,
    }
    write(&message);
}

fn write(message: &Value) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(format!("{message}\n").as_bytes());
    let _ = stdout.flush();
}
