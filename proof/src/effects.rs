//! What the tools of `effect-server` really did: one line for each effect, on disk before the tool goes on.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use serde_json::{Value, json};

/// The file in the folder of an `effect-server`.
const FILE: &str = "effects";

/// Something a tool did to the world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effect {
    /// The label in the arguments of the call; each call that a client makes has its own.
    pub label: String,
    /// What may become of the work after a crash: `live`, `repeatable`, `resumable` or `external`.
    pub class: String,
    /// Which of the work's effects it is. Work without steps has only `done`; resumable work counts from 1.
    pub step: String,
    /// A name that no other effect has.
    pub nonce: String,
    /// On which node.
    pub node: String,
    /// The answer that led to it, if the work had asked.
    pub answer: Option<String>,
}

impl Effect {
    /// Writes it down. Lines of several processes do not mix: each is one write at the end of the file.
    pub fn note(&self, folder: &Path) -> io::Result<()> {
        let line = json!({
            "label": self.label, "class": self.class, "step": self.step, "nonce": self.nonce, "node": self.node,
            "answer": self.answer,
        });
        let mut file = OpenOptions::new().create(true).append(true).open(folder.join(FILE))?;
        file.write_all(format!("{line}\n").as_bytes())?;
        file.sync_data()
    }

    fn parse(line: &str) -> Option<Effect> {
        let value: Value = serde_json::from_str(line).ok()?;
        let text = |name: &str| value[name].as_str().map(str::to_owned);
        Some(Effect {
            label: text("label")?,
            class: text("class")?,
            step: text("step")?,
            nonce: text("nonce")?,
            node: text("node")?,
            answer: text("answer"),
        })
    }
}

/// Every effect in this folder, in the order in which they happened.
pub fn read(folder: &Path) -> Vec<Effect> {
    let text = match fs::read_to_string(folder.join(FILE)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => panic!("the effects cannot be read: {error}"),
    };
    let effect = |line| Effect::parse(line).unwrap_or_else(|| panic!("not an effect: {line}"));
    text.lines().map(effect).collect()
}
