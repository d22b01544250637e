//! A request of ours to the client of a session.

use taskgate_task::Payload;
use taskgate_wire::jsonrpc::error_object;
use taskgate_wire::{Message, RpcError, method};
use tokio::sync::oneshot;

use crate::session::Outlet;

/// A request that was sent to the client on one of its streams.
#[derive(Debug)]
pub struct ToClient {
    pub(crate) number: u64,
    pub(crate) outlet: Outlet,
    pub(crate) answer: oneshot::Receiver<Result<Payload, Payload>>,
}

impl ToClient {
    /// The client's result or error; `None` when nobody will come back to the stream or the session has ended.
    pub async fn answer(&mut self) -> Option<Result<Payload, Payload>> {
        tokio::select! {
            answer = &mut self.answer => answer.ok().map(checked),
            () = self.outlet.gone() => None,
        }
    }

    /// The client's result or error; `None` as soon as its connection breaks, for what others can be asked.
    pub async fn answer_while_connected(&mut self) -> Option<Result<Payload, Payload>> {
        tokio::select! {
            answer = &mut self.answer => answer.ok().map(checked),
            () = self.outlet.closed() => None,
        }
    }

    /// Tells the client that its answer is no longer wanted.
    pub fn take_back(self) {
        let params =
            serde_json::json!({ "requestId": self.number, "reason": "The question is no longer open" });
        let params = Payload::from_value(&params).ok();
        self.outlet.send(Message::Notification { method: method::CANCELLED.to_owned(), params });
    }
}

/// Whoever asked must not be handed a result that is no object, or an error that is none.
fn checked(answer: Result<Payload, Payload>) -> Result<Payload, Payload> {
    match answer {
        Ok(result) if result.as_str().starts_with('{') => Ok(result),
        Ok(_) => Err(RpcError::internal("The client's result is no object").to_payload()),
        Err(error) => Err(error_object(error)),
    }
}
