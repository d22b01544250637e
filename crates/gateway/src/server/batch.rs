//! Batches of 2025-03-26: several messages in one array, each handled as if it had come alone.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use taskgate_task::Payload;
use taskgate_wire::jsonrpc::parse_batch;
use taskgate_wire::{ErrorCode, Id, Malformed, Message, Params, RpcError, method};

use super::{detached, lost, message};
use crate::gateway::Gateway;
use crate::route::Arrival;
use crate::session::{Outlet, Session};
use crate::to_client::NoAnswer;

/// A batch that is being answered.
pub struct Batch {
    /// What comes back for its members, in their order. A request that is cancelled gets nothing.
    pub answers: Vec<BoxFuture<'static, Option<Message>>>,
    /// Whether there is a request among them.
    pub asks: bool,
}

impl Gateway {
    /// Reads a batch and begins everything in it, in the order in which it stands there. `out` is for what comes before the
    /// answers.
    pub(super) fn begin_batch(
        &self,
        session: &Arc<Session>,
        arrival: &Arrival,
        text: &[u8],
        out: &Outlet,
    ) -> Result<Batch, Malformed> {
        let mut batch = Batch { answers: Vec::new(), asks: false };
        for member in parse_batch(text)? {
            match member {
                Ok(Message::Request { id, method, params }) => {
                    batch.asks = true;
                    batch.answers.push(self.begin_member(session, arrival, id, method, params, out));
                }
                Ok(Message::Notification { method, params }) => self.heard(session, &method, params.as_ref()),
                Ok(Message::Response { id, result }) => {
                    session.answered(&id, Ok(result));
                }
                Ok(Message::Error { id: Some(id), error }) => {
                    session.answered(&id, Err(NoAnswer::Error(error)));
                }
                Ok(Message::Error { id: None, .. }) => {
                    tracing::debug!("the client reports an error without an id");
                }
                Err(malformed) => batch.answers.push(ready(Some(lost(session, malformed))).boxed()),
            }
        }
        Ok(batch)
    }

    fn begin_member(
        &self,
        session: &Arc<Session>,
        arrival: &Arrival,
        id: Id,
        name: String,
        params: Option<Payload>,
        out: &Outlet,
    ) -> BoxFuture<'static, Option<Message>> {
        if let Some(what) = unfit(&name, params.as_ref()) {
            let error = RpcError::new(ErrorCode::InvalidRequest, format!("Invalid request: {what}"));
            return ready(Some(Message::error(Some(id), &error))).boxed();
        }
        let arrival = arrival.clone();
        match detached(self.clone(), session.clone(), arrival, id.clone(), name, params, out.clone()) {
            Ok(answer) => answer.map(move |answer| answer.map(|answer| message(id, answer))).boxed(),
            Err(refused) => ready(Some(Message::error(Some(id), &refused))).boxed(),
        }
    }
}

/// What may not be part of a batch, though it is a request.
fn unfit(name: &str, params: Option<&Payload>) -> Option<&'static str> {
    if name == method::INITIALIZE {
        return Some("initialize must not be part of a batch");
    }
    let versioned = Params::parse(params).is_ok_and(|params| params.meta().protocol_version.is_some());
    versioned.then_some("a request that names its protocol version must not be part of a batch")
}
