//! An MCP server whose tools leave traces: `effect-server FOLDER NODE session|modern`.
//!
//! Every tool notes its effects in FOLDER (see `effects.rs`), then works for `millis`, and for as long as `hold` names a file
//! in FOLDER that does not exist; its result names the effect. Every answer that is out is written to FOLDER/answered. With `session` it speaks 2025-11-25, with `modern` 2026-07-28,
//! where the tools named `ask…` end their call to ask and are called again with the answer. It ends with its stdin.

use std::fs::OpenOptions;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
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
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let [_, folder, node, era] = words.as_slice() else { panic!("effect-server FOLDER NODE session|modern") };
    let born =
        std::fs::metadata("/proc/self").and_then(|me| me.modified()).expect("a process has a beginning");
    let born = born.duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_nanos();
    let server = Arc::new(Server {
        folder: PathBuf::from(folder),
        node: node.clone(),
        is_modern: era == "modern",
        life: format!("{}.{born}", std::process::id()),
        count: AtomicU64::new(0),
    });
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        let (Some(id), Some(method)) = (message.get("id").cloned(), message["method"].as_str()) else {
            continue;
        };
        if method == "tools/call" {
            let server = server.clone();
            std::thread::spawn(move || {
                say(&id, Ok(server.call(&message["params"])));
                note_answered(&server.folder, &message["params"]["arguments"]);
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
                    &["work_live", "work_repeatable"]
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
        let label = arguments["label"].as_str().unwrap_or("unnamed");
        let answer = params["inputResponses"]["go"]["content"]["value"].as_str();
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

    fn work(&self, arguments: &Value) {
        std::thread::sleep(Duration::from_millis(arguments["millis"].as_u64().unwrap_or(0)));
        let Some(gate) = arguments["hold"].as_str() else { return };
        while !self.folder.join(gate).exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Whoever reads this and then has something else from this process has had the answer before it.
fn note_answered(folder: &Path, arguments: &Value) {
    let label = arguments["label"].as_str().unwrap_or("unnamed");
    let notes = OpenOptions::new().create(true).append(true).open(folder.join("answered"));
    notes.expect("FOLDER").write_all(format!("{label}\n").as_bytes()).expect("FOLDER can be written");
}

fn say(id: &Value, answer: Result<Value, Value>) {
    let mut message = json!({ "jsonrpc": "2.0", "id": id });
    match answer {
        Ok(result) => message["result"] = result,
        Err(error) => message["error"] = error,
    }
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(format!("{message}\n").as_bytes());
    let _ = stdout.flush();
}
