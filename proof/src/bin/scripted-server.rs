//! An MCP server of 2025-11-25 that does what its arguments say. It ends with its stdin.
//!
//! `scripted-server FOLDER`: every call that begins is written to `FOLDER/begun`, every one whose answer is out to
//! `FOLDER/answered`, one label a line; calls of `hold` end when `FOLDER/open` exists. Its own start is written to
//! `FOLDER/started`, and it reads nothing while `FOLDER/stall` exists.

use std::fs::OpenOptions;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

/// What a result looks like that only survives as text: odd spacing, numbers that no float holds, a doubled member.
const ODD: &str = r#""structuredContent": {"pi":3.1400,"big":123456789012345678901234567890,"e":1E+2, "twice":1,"twice":2,"line":"\u00e9\ud83d\ude00\/"}"#;

type Waiting = Arc<Mutex<Vec<(String, Sender<Value>)>>>;

fn main() {
    let folder = PathBuf::from(std::env::args().nth(1).expect("scripted-server FOLDER"));
    note(&folder, "started", "server");
    while folder.join("stall").exists() {
        std::thread::sleep(Duration::from_millis(20));
    }
    let waiting = Waiting::default();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        let Some(id) = message.get("id").cloned() else { continue };
        match message["method"].as_str() {
            Some("tools/call") => {
                let (folder, waiting) = (folder.clone(), waiting.clone());
                std::thread::spawn(move || call(&folder, &waiting, &id, &message["params"]));
            }
            Some(method) => answer(&id, method),
            None => {
                let mut waiting = waiting.lock().expect("nobody panics with it");
                if let Some(place) = waiting.iter().position(|(asked, _)| Some(asked.as_str()) == id.as_str())
                {
                    let _ = waiting.remove(place).1.send(message["result"].clone());
                }
            }
        }
    }
}

fn answer(id: &Value, method: &str) {
    let result = match method {
        "initialize" => json!({
            "protocolVersion": "2025-11-25",
            "capabilities": { "tools": {}, "logging": {}, "resources": { "subscribe": true } },
            "serverInfo": { "name": "scripted", "version": "1" },
        }),
        "tools/list" => {
            let schema = json!({ "type": "object" });
            let tools = ["work", "hold", "hold_again", "ask", "ask_again", "log", "tell", "refuse"];
            let tools = tools.map(|name| json!({ "name": name, "description": name, "inputSchema": schema }));
            json!({ "tools": tools })
        }
        "ping" | "logging/setLevel" | "resources/unsubscribe" => json!({}),
        // The resource changes as soon as somebody wants to hear of it.
        "resources/subscribe" => {
            say(&json!({ "jsonrpc": "2.0", "id": id, "result": {} }).to_string());
            let params = json!({ "uri": "scripted://a" });
            let changed =
                json!({ "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params });
            return say(&changed.to_string());
        }
        "resources/list" => json!({ "resources": [{ "name": "a", "uri": "scripted://a" }] }),
        "resources/templates/list" => json!({ "resourceTemplates": [] }),
        "resources/read" => {
            let error =
                json!({ "code": -32002, "message": "Resource not found", "data": { "uri": "scripted://b" } });
            return say(&json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string());
        }
        _ => {
            let error = json!({ "code": -32601, "message": "Method not found" });
            return say(&json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string());
        }
    };
    say(&json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string());
}

fn call(folder: &Path, waiting: &Waiting, id: &Value, params: &Value) {
    let arguments = &params["arguments"];
    let label = arguments["label"].as_str().unwrap_or("unnamed");
    note(folder, "begun", label);
    let text = match params["name"].as_str() {
        Some("work") => {
            std::thread::sleep(Duration::from_millis(arguments["millis"].as_u64().unwrap_or(0)));
            format!("{label} is done")
        }
        Some("log") => {
            let params = json!({ "level": "info", "logger": "scripted", "data": label });
            say(&json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": params }).to_string());
            format!("{label} is logged")
        }
        Some("refuse") => {
            let error = json!({ "code": -32001, "message": label, "data": { "about": label } });
            return say(&json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string());
        }
        Some(name @ ("hold" | "hold_again" | "tell")) => {
            if name == "tell" {
                let token = &params["_meta"]["progressToken"];
                let params = json!({ "progressToken": token, "progress": 1, "message": label });
                say(&json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params })
                    .to_string());
            }
            while !folder.join("open").exists() {
                std::thread::sleep(Duration::from_millis(20));
            }
            format!("{label} is done")
        }
        Some("ask" | "ask_again") => {
            let (sender, answer) = channel();
            let asked = format!("ask {label}");
            waiting.lock().expect("nobody panics with it").push((asked.clone(), sender));
            let params =
                json!({ "message": label, "requestedSchema": { "type": "object", "properties": {} } });
            say(&json!({ "jsonrpc": "2.0", "id": asked, "method": "elicitation/create", "params": params })
                .to_string());
            let Ok(answer) = answer.recv() else { return };
            format!("{label} got {answer}")
        }
        other => format!("there is no tool {other:?}"),
    };
    let (id, text) = (id.to_string(), json!(text).to_string());
    say(&format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result": {{ "content":[{{"text":{text},"type":"text" }}],{ODD} }} }}"#
    ));
    note(folder, "answered", label);
}

fn note(folder: &Path, file: &str, line: &str) {
    let mut notes = OpenOptions::new().create(true).append(true).open(folder.join(file)).expect("FOLDER");
    notes.write_all(format!("{line}\n").as_bytes()).expect("FOLDER can be written");
}

fn say(message: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(format!("{message}\n").as_bytes());
    let _ = stdout.flush();
}
