use serde::{Deserialize, Serialize};
use taskgate_task::{Carrier, Event, Outcome, Status, Task, Timestamp};
use taskgate_wire::dialect::iso;

/// A task as whoever runs the store sees it. Neither its arguments nor its result are in it: these are its owner's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskView {
    /// Its whole id, which opens it for whoever has it where owners cannot be told apart.
    pub task_id: String,
    /// Where it stands.
    pub status: Status,
    /// A line for people about that.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub status_message: Option<String>,
    /// Whose it is.
    pub owner: String,
    /// Which upstream does the work.
    pub upstream: String,
    /// The upstream's name of the tool, while the work may still be begun.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tool: Option<String>,
    /// What a crash does to it.
    pub class: String,
    /// When it was made, in UTC.
    pub created_at: String,
    /// How long ago that was.
    pub age_ms: u64,
    /// When its state last changed.
    pub last_updated_at: String,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ended_at: Option<String>,
    /// Until when it is kept, if it has ended.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub kept_until: Option<String>,
    /// When its work will be stopped at the latest, if it has not ended.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub run_deadline: Option<String>,
    /// How many times the work was begun.
    pub attempts: u32,
    /// How many times it may be.
    pub max_attempts: u32,
    /// Who carries the work: a node, nobody yet, or nobody.
    pub carrier: String,
    /// Why taskgate ended it, if it did.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failure: Option<String>,
    /// Whether its result says that the tool failed.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub is_error: bool,
    /// The keys of its open questions.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub questions: Vec<String>,
}

impl TaskView {
    pub(super) fn of(task: &Task, tool: Option<String>, now: Timestamp) -> TaskView {
        TaskView {
            task_id: task.id.to_string(),
            status: task.status,
            status_message: task.status_message.clone(),
            owner: task.owner.as_str().to_owned(),
            upstream: task.runner.clone(),
            tool,
            class: task.class.as_str().to_owned(),
            created_at: iso(task.created_at),
            age_ms: u64::try_from(now.since(task.created_at).as_millis()).unwrap_or(u64::MAX),
            last_updated_at: iso(task.updated_at),
            ended_at: task.ended_at.map(iso),
            kept_until: task.ended_at.map(|ended| iso(ended.after(task.lifetime.retention))),
            run_deadline: task.ended_at.is_none().then(|| iso(task.lifetime.run_deadline)),
            attempts: task.attempts,
            max_attempts: task.max_attempts,
            carrier: match task.carrier {
                Carrier::Node(node) => format!("node {}", node.as_number()),
                Carrier::Ready(at) => format!("ready at {}", iso(at)),
                Carrier::Nobody => "nobody".to_owned(),
            },
            failure: task.failure.map(|failure| failure.as_str().to_owned()),
            is_error: matches!(task.outcome, Some(Outcome::Result { is_error: true, .. })),
            questions: task.inputs.open().map(|asked| asked.key.clone()).collect(),
        }
    }
}

/// One move of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EventView {
    /// The task's version after it.
    pub version: u64,
    /// When, in UTC.
    pub at: String,
    /// Who: the requestor, the runner, or the receiver, which is taskgate.
    pub who: String,
    /// The status before, unless it is the creation.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub from: Option<Status>,
    /// The status after.
    pub to: Status,
    /// Why.
    pub why: String,
}

impl From<Event> for EventView {
    fn from(event: Event) -> Self {
        EventView {
            version: event.version,
            at: iso(event.at),
            who: event.who.as_str().to_owned(),
            from: event.from,
            to: event.to,
            why: event.why,
        }
    }
}
