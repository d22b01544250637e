use std::time::Duration;

use taskgate_task::Payload;
use taskgate_wire::RawObject;
use taskgate_wire::hosted::HostedTask;

use super::handle::Handle;
use super::input::Input;

pub use taskgate_wire::hosted::HostedStatus as TaskStatus;

/// Something that happened to a call.
#[derive(Debug)]
pub enum Event {
    /// The server has made a task of it: from now on nothing but [`PendingCall::cancel`](super::PendingCall::cancel) cancels it.
    Accepted(Handle),
    /// How its task stands: what the server said last.
    Status(TaskState),
    /// The server reports progress.
    Progress(Progress),
    /// The server logs something: the params of `notifications/message` as they came.
    Log(Payload),
    /// The server asks something and there is no handler for it.
    Asked(Input),
    /// The server has got the answer to the question with this key.
    Answered(String),
    /// Something went wrong on the way and is tried again. The tool is not called a second time by that.
    Retrying {
        /// What went wrong.
        why: String,
        /// How often it did, in a row.
        attempt: u32,
        /// How long until it is tried again.
        wait: Duration,
    },
    /// The call is over; its result is there.
    Done,
}

/// Progress of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// How far it is.
    pub progress: Option<f64>,
    /// How far it has to go.
    pub total: Option<f64>,
    /// A line for people.
    pub message: Option<String>,
    /// The params of the notification as they came.
    pub raw: Payload,
}

impl Progress {
    /// Reads the params of a notification; what is of a wrong type is not there.
    pub(super) fn read(raw: Payload) -> Progress {
        let number = |object: &RawObject<'_>, name: &str| {
            object.get(name).and_then(|raw| serde_json::from_str::<f64>(raw.get()).ok())
        };
        let (progress, total, message) = match RawObject::parse(raw.as_str()) {
            Ok(object) => (
                number(&object, "progress"),
                number(&object, "total"),
                object.get("message").and_then(|raw| serde_json::from_str(raw.get()).ok()),
            ),
            Err(_) => (None, None, None),
        };
        Progress { progress, total, message, raw }
    }
}

/// How a task stands, as its server said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskState {
    /// The server's id for it.
    pub task: String,
    /// Where it stands.
    pub status: TaskStatus,
    /// A line for people.
    pub message: Option<String>,
    /// When it was made, as the server wrote it.
    pub created: Option<String>,
    /// When it last changed, as the server wrote it.
    pub updated: Option<String>,
    /// How long the server keeps it, from its making; `None` if it did not say, or without limit.
    pub ttl: Option<Duration>,
    /// How often the server wants to be asked.
    pub poll_interval: Option<Duration>,
    /// How long until it is asked again, where the task is followed.
    pub next_poll: Option<Duration>,
    /// The questions that are open (2026-07-28): their keys, and what is asked, as `{method, params}`.
    pub inputs: Vec<(String, Payload)>,
    /// The whole answer.
    pub raw: Payload,
}

impl TaskState {
    /// From what was read of an answer.
    pub(super) fn new(
        task: String,
        read: &HostedTask,
        raw: Payload,
        next_poll: Option<Duration>,
    ) -> TaskState {
        let text = |raw: &Option<Payload>| {
            raw.as_ref().and_then(|raw| serde_json::from_str::<String>(raw.as_str()).ok())
        };
        let inputs = read.input_requests.as_ref().and_then(|asked| RawObject::parse(asked.as_str()).ok());
        let inputs = inputs
            .map(|asked| asked.iter().map(|(key, raw)| (key.to_owned(), Payload::from_raw(raw))).collect());
        TaskState {
            task,
            status: read.status.clone(),
            message: read.message.clone(),
            created: text(&read.created),
            updated: text(&read.updated),
            ttl: read.ttl,
            poll_interval: read.poll_interval,
            next_poll,
            inputs: inputs.unwrap_or_default(),
            raw,
        }
    }
}
