use taskgate_task::Payload;
use taskgate_wire::{Id, Message};

use super::question::QuestionReply;
use super::shared::Shared;
use crate::transport::CloseReason;
use crate::transport::http::RequestFailure;

/// Something that happened to a call.
#[derive(Debug)]
pub enum CallEvent {
    /// `notifications/progress`: its params as they came, with our token in them.
    Progress(Payload),
    /// `notifications/message`: its params as they came.
    Log(Payload),
    /// The server asks something.
    Question(Question),
    /// The server takes a question back. Its reply handle has become a no-op.
    QuestionWithdrawn {
        /// The question's id.
        id: Id,
        /// Why, if the server said so.
        reason: Option<String>,
    },
    /// Any other notification that belongs to this call: what a `subscriptions/listen` delivers.
    Notification {
        /// The method.
        method: String,
        /// The params.
        params: Option<Payload>,
    },
    /// The call is over. Always the last event.
    Done(Result<Payload, CallFailure>),
}

/// A request the server made during a call.
#[derive(Debug)]
pub struct Question {
    /// The server's id for it.
    pub id: Id,
    /// `elicitation/create`, `sampling/createMessage`, `roots/list`, or something only the server and its client know.
    pub method: String,
    /// Its params.
    pub params: Option<Payload>,
    /// Answers it. Dropped without an answer, the question moves on to another call that may have asked it, or is refused;
    /// unless it names a task: then it stays open for whoever waits for that task next.
    pub reply: QuestionReply,
}

/// What a server asks about tasks that its client hosts (2025-11-25).
#[derive(Debug)]
pub struct TaskRequest {
    /// `tasks/get`, `tasks/result`, `tasks/list`, `tasks/cancel`.
    pub method: String,
    /// Its params.
    pub params: Option<Payload>,
    pub(super) id: Id,
    pub(super) shared: std::sync::Weak<Shared>,
}

impl TaskRequest {
    /// Answers it, with a result or an error object. Should the connection have ended, nobody hears it.
    pub fn reply(self, answer: Result<Payload, Payload>) {
        let Some(shared) = self.shared.upgrade() else { return };
        shared.outbox.reply(match answer {
            Ok(result) => Message::Response { id: self.id, result },
            Err(error) => Message::Error { id: Some(self.id), error },
        });
    }
}

/// Why a call has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallFailure {
    /// The server answered with this error object.
    #[error("the server answered with an error: {}", .0.as_str())]
    Rpc(Payload),
    /// The connection ended first.
    #[error("{0}")]
    Closed(CloseReason),
    /// The answer has the call's id but is no JSON-RPC response.
    #[error("the server's answer is malformed: {0}")]
    Malformed(String),
    /// The transport has no answer for this call, while the connection goes on.
    #[error("{0}")]
    Request(RequestFailure),
    /// The params are not a JSON object. Nothing was sent.
    #[error("the params are not an object: {0}")]
    Params(String),
    /// The server ended the subscription.
    #[error("the server ended the subscription{}", .0.as_deref().map(|why| format!(": {why}")).unwrap_or_default())]
    Ended(Option<String>),
    /// The last event was taken before.
    #[error("the call is over and its outcome was already taken")]
    Taken,
}
