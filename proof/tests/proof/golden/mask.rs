//! Masks what differs from run to run.

use serde_json::{Map, Value, json};

/// Remembers the ids it has seen, so that the same task has the same mask.
#[derive(Default)]
pub struct Mask {
    tasks: Vec<Value>,
}

impl Mask {
    /// The message with task ids numbered and times left out.
    pub fn apply(&mut self, message: &Value) -> Value {
        match message {
            Value::Object(members) => Value::Object(self.object(members)),
            Value::Array(items) => items.iter().map(|item| self.apply(item)).collect(),
            other => other.clone(),
        }
    }

    fn object(&mut self, members: &Map<String, Value>) -> Map<String, Value> {
        let status = members.get("status").and_then(Value::as_str).unwrap_or_default();
        let ended = ["completed", "failed", "cancelled"].contains(&status);
        let masked = members.iter().map(|(name, value)| {
            let masked = match name.as_str() {
                "taskId" | "task" if value.is_string() => self.task(value),
                // Words that name a task.
                "text" if value.is_string() => self.words(value.as_str().unwrap_or_default()),
                "taskIds" => value.as_array().into_iter().flatten().map(|id| self.task(id)).collect(),
                "createdAt" | "lastUpdatedAt" => json!("<time>"),
                // How long the work took is part of it once the work has ended.
                "ttl" | "ttlMs" if ended => json!("<milliseconds>"),
                "requestState" => json!("<state>"),
                "serverInfo" | "io.modelcontextprotocol/serverInfo" => {
                    let mut info = value.clone();
                    info["version"] = json!("<version>");
                    info
                }
                _ => self.apply(value),
            };
            (name.clone(), masked)
        });
        masked.collect()
    }

    fn words(&mut self, text: &str) -> Value {
        let is_id = |word: &str| word.len() == 48 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        let mut masked = text.to_owned();
        for id in text.split(|end: char| !end.is_ascii_alphanumeric()).filter(|word| is_id(word)) {
            let mask = self.task(&json!(id));
            masked = masked.replace(id, mask.as_str().unwrap_or_default());
        }
        json!(masked)
    }

    /// Ids that we made are long; what a test makes up stays.
    fn task(&mut self, id: &Value) -> Value {
        if id.as_str().is_none_or(|id| id.len() < 20) {
            return id.clone();
        }
        let known = self.tasks.iter().position(|known| known == id).unwrap_or_else(|| {
            self.tasks.push(id.clone());
            self.tasks.len() - 1
        });
        json!(format!("<task {}>", known + 1))
    }
}
