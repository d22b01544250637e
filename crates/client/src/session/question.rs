use std::sync::Weak;

use taskgate_task::Payload;
use taskgate_wire::{Id, Message, RpcError};

use super::attribution::LetGo;
use super::shared::Shared;

/// Answers one question, once.
///
/// If the question was withdrawn, has moved on to another call, or the connection has ended, answering does nothing.
/// Dropping it without an answer puts the question to another call that may have asked it; if there is none, the server
/// is told that there will be no answer, unless the question names a task, which may be waited for again.
#[derive(Debug)]
pub struct QuestionReply {
    shared: Weak<Shared>,
    id: Id,
    serial: u64,
    used: bool,
}

impl QuestionReply {
    pub(super) fn new(shared: Weak<Shared>, id: Id, serial: u64) -> Self {
        QuestionReply { shared, id, serial, used: false }
    }

    /// Sends the result.
    pub fn answer(self, result: Payload) {
        self.send(|id| Message::Response { id, result });
    }

    /// Sends an error object: the requestor was asked, or nobody could be.
    pub fn refuse(self, error: Payload) {
        self.send(|id| Message::Error { id: Some(id), error });
    }

    /// Says something to the server over the connection that the question came by.
    pub fn tell(&self, method: &str, params: Option<Payload>) {
        if let Some(shared) = self.shared.upgrade() {
            shared.outbox.send(Message::Notification { method: method.to_owned(), params });
        }
    }

    /// Whether an answer would still be heard.
    pub(super) fn is_open(&self) -> bool {
        self.shared.upgrade().is_some_and(|shared| shared.table.lock().is_open(&self.id, self.serial))
    }

    fn send(mut self, message: impl FnOnce(Id) -> Message) {
        self.used = true;
        let Some(shared) = self.shared.upgrade() else { return };
        if shared.table.lock().close_question(&self.id, self.serial) {
            shared.outbox.send(message(self.id.clone()));
        }
    }
}

impl Drop for QuestionReply {
    fn drop(&mut self) {
        if self.used {
            return;
        }
        let Some(shared) = self.shared.upgrade() else { return };
        let let_go = shared.table.lock().let_go(&self.id, self.serial);
        match let_go {
            LetGo::MovedOn(put) => shared.put(put),
            LetGo::Closed => {
                let why = "The question was dropped without an answer: the call it belongs to has ended";
                shared.outbox.send(Message::error(Some(self.id.clone()), &RpcError::internal(why)));
            }
            LetGo::Over => {}
        }
    }
}
