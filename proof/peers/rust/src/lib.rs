//! What the two servers have in common: their traces, and what their tools say.

use std::fs::OpenOptions;
use std::future::Future;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

/// Where the server is told to listen, and the folder of its traces: `PORT|stdio FOLDER`.
pub struct Place {
    /// `None`: stdin and stdout.
    pub port: Option<u16>,
    pub folder: PathBuf,
}

impl Place {
    /// Of the command line.
    pub fn new() -> Place {
        let mut arguments = std::env::args().skip(1);
        let port = arguments.next().expect("PORT|stdio").parse().ok();
        Place { port, folder: arguments.next().expect("FOLDER").into() }
    }
}

impl Default for Place {
    fn default() -> Self {
        Place::new()
    }
}

/// Leaves a line in `FOLDER/begun`, works until `FOLDER/open` exists and says so; leaves one in `FOLDER/stopped` and says nothing
/// if it is cancelled before.
pub async fn held(folder: &Path, label: &str, cancelled: impl Future<Output = ()>) -> Option<String> {
    note(folder, "begun", label);
    let opened = async {
        while !folder.join("open").exists() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::select! {
        () = opened => Some(format!("{label} is done")),
        () = cancelled => {
            note(folder, "stopped", label);
            None
        }
    }
}

fn note(folder: &Path, file: &str, line: &str) {
    let notes = OpenOptions::new().create(true).append(true).open(folder.join(file));
    notes.expect("FOLDER").write_all(format!("{line}\n").as_bytes()).expect("FOLDER can be written");
}

/// A form with one field, as both libraries read it.
pub fn form(message: &str, field: &str, kind: &str) -> Value {
    let schema = json!({ "type": "object", "properties": { field: { "type": kind } }, "required": [field] });
    json!({
        "method": "elicitation/create",
        "params": { "mode": "form", "message": message, "requestedSchema": schema },
    })
}

/// What becomes of an answer to `form`.
pub fn confirmed(filename: &str, answer: &Value) -> String {
    format!("{filename}: {} {}", answer["action"].as_str().unwrap_or("?"), answer["content"]["confirm"])
}

/// Every tool and the fields of its arguments.
pub const TOOLS: [(&str, &[(&str, &str)]); 8] = [
    ("greet", &[("name", "string")]),
    ("slow_compute", &[("seconds", "number"), ("label", "string")]),
    ("held", &[("label", "string")]),
    ("large", &[("size", "number")]),
    ("failing_job", &[]),
    ("protocol_error_job", &[]),
    ("confirm_delete", &[("filename", "string")]),
    ("multi_input", &[]),
];

/// The schema of these fields.
pub fn schema(fields: &[(&str, &str)]) -> Value {
    let properties: serde_json::Map<_, _> =
        fields.iter().map(|(name, kind)| ((*name).to_owned(), json!({ "type": kind }))).collect();
    let required: Vec<_> = fields.iter().map(|(name, _)| name).collect();
    json!({ "type": "object", "properties": properties, "required": required })
}
