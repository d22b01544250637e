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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_worded_as_its_generation_does() {
        let at = Timestamp::from_millis(1_764_066_600_000);
        let mut task = OwnTask {
            id: "a".to_owned(),
            status: Status::Working,
            message: None,
            created: at,
            updated: at,
            ttl: Duration::from_secs(60),
            poll_interval: Duration::from_secs(5),
        };
        let state = json!({ "taskId": "a", "status": "working", "createdAt": "2025-11-25T10:30:00.000Z",
            "lastUpdatedAt": "2025-11-25T10:30:00.000Z", "ttl": 60_000, "pollInterval": 5000 });
        assert_eq!(task.state(), state);
        assert_eq!(task.created()["task"], state);
        (task.status, task.message) = (Status::Failed, Some("no".to_owned()));
        assert_eq!(
            (&task.state()["status"], &task.state()["statusMessage"]),
            (&json!("failed"), &json!("no"))
        );
    }
}
