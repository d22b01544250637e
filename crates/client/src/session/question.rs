use std::sync::Weak;

use taskgate_task::Payload;
use taskgate_wire::{Id, Message, RpcError};

use super::shared::Shared;

/// Answers one question, once.
///
/// If the question was withdrawn or the connection has ended, answering does nothing. Dropping it without an answer
/// tells the server that there will be none.
#[derive(Debug)]
pub struct QuestionReply {
    shared: Weak<Shared>,
    id: Id,
    serial: u64,
    open: bool,
}

impl QuestionReply {
    pub(super) fn new(shared: Weak<Shared>, id: Id, serial: u64) -> Self {
        QuestionReply { shared, id, serial, open: true }
    }

    /// Sends the result.
    pub fn answer(mut self, result: Payload) {
        self.send(|id| Message::Response { id, result });
    }

    /// Sends an error object.
    pub fn refuse(mut self, error: Payload) {
        self.send(|id| Message::Error { id: Some(id), error });
    }

    fn send(&mut self, message: impl FnOnce(Id) -> Message) {
        if !std::mem::take(&mut self.open) {
            return;
        }
        let Some(shared) = self.shared.upgrade() else { return };
        if shared.table.lock().close_question(&self.id, self.serial) {
            shared.outbox.send(message(self.id.clone()));
        }
    }
}

impl Drop for QuestionReply {
    fn drop(&mut self) {
        let error = RpcError::internal(
            "The question was dropped without an answer: the call it belongs to has ended",
        );
        self.send(|id| Message::error(Some(id), &error));
    }
}
