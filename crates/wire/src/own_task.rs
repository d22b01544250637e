//! Tasks that a client hosts for a server (2025-11-25), in the words of the wire.

use std::time::Duration;

use serde_json::{Value, json};
use taskgate_task::{Status, Timestamp};

use crate::dialect::{iso, millis};
use crate::meta::RELATED_TASK;

/// A task of a client.
#[derive(Debug, Clone)]
pub struct OwnTask {
    /// Its id.
    pub id: String,
    /// Where it stands.
    pub status: Status,
    /// A line for people.
    pub message: Option<String>,
    /// When it was made.
    pub created: Timestamp,
    /// When it last changed.
    pub updated: Timestamp,
    /// How long it is kept, from its making.
    pub ttl: Duration,
    /// How often it should be asked about.
    pub poll_interval: Duration,
}

impl OwnTask {
    /// The answer to `tasks/get` and `tasks/cancel`, and an entry of `tasks/list`.
    pub fn state(&self) -> Value {
        let mut task = json!({
            "taskId": self.id,
            "status": self.status.as_str(),
            "createdAt": iso(self.created),
            "lastUpdatedAt": iso(self.updated),
            "ttl": millis(self.ttl),
            "pollInterval": millis(self.poll_interval),
        });
        if let Some(message) = &self.message {
            task["statusMessage"] = message.as_str().into();
        }
        task
    }

    /// The answer to the request that made it.
    pub fn created(&self) -> Value {
        json!({ "task": self.state(), "_meta": related(&self.id) })
    }
}

/// The `_meta` that ties a message to a task.
pub fn related(task: &str) -> Value {
    json!({ RELATED_TASK: { "taskId": task } })
}
