//! The servers: Streamable HTTP and stdio, each for both eras.

mod batch;
pub mod http;
mod sessions;
mod stdio;

pub use sessions::{OpenError, Sessions};

use std::net::IpAddr;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::json;
use taskgate_task::{Owner, Payload};
use taskgate_wire::{Capabilities, ErrorCode, Id, Malformed, Message, Params, RpcError, Version};

use crate::audit::{Line, Reason};
use crate::bounds::{Limit, Refusal};
use crate::gateway::Gateway;
use crate::route::{Answer, Arrival, Caller, Request};
use crate::session::{Outlet, Session};
use crate::to_client::NoAnswer;

/// Reads the params and answers the request.
async fn answer(
    gateway: &Gateway,
    caller: &Caller,
    arrival: &Arrival,
    id: &Id,
    method: &str,
    raw: Option<&Payload>,
    out: &Outlet,
) -> Answer {
    let params = Params::parse(raw).map_err(|error| error.to_payload())?;
    let request = Request { id, method, raw, params, meta: params.meta(), arrival, tool: None };
    gateway.answer(caller, &request, out).await
}

/// Runs a request on its own: "disconnection SHOULD NOT be interpreted as the client cancelling its request"
/// (2025-11-25, transports). Only `notifications/cancelled` and the session's end stop it. Refused if the session has too
/// many requests open.
fn detached(
    gateway: Gateway,
    session: Arc<Session>,
    arrival: Arrival,
    id: Id,
    name: String,
    raw: Option<Payload>,
    out: Outlet,
) -> Result<BoxFuture<'static, Option<Answer>>, RpcError> {
    let stop =
        session.began(&id).ok_or_else(|| too_many_requests(&gateway, session.owner(), arrival.peer))?;
    let task = tokio::spawn(async move {
        let caller = Caller::Session(session.clone());
        let answered = tokio::select! {
            // Once the client has cancelled, nothing more is said.
            biased;
            () = stop.notified() => None,
            answered = answer(&gateway, &caller, &arrival, &id, &name, raw.as_ref(), &out) => Some(answered),
        };
        session.finished(&id);
        answered
    });
    Ok(Box::pin(async move {
        task.await.unwrap_or_else(|broken| {
            tracing::error!(%broken, "a request broke");
            Some(Err(RpcError::internal("The request broke inside the gateway").to_payload()))
        })
    }))
}

/// The error for a request too many in one session.
fn too_many_requests(gateway: &Gateway, owner: &Owner, peer: Option<IpAddr>) -> RpcError {
    let refusal = Refusal::new(Limit::SessionRequests, gateway.0.settings.session_requests);
    gateway.0.limits.numbers.refusal(refusal.limit);
    gateway.turned_away(Reason::Limit, |line| Line {
        owner: Some(owner.as_str()),
        why: Some(refusal.limit.name().into()),
        peer,
        ..line
    });
    refusal.to_error()
}

/// The caller a 2026-07-28 request describes in its `_meta`, or what is wrong with that.
fn stateless_caller(params: &Params<'_>, owner: Owner) -> Result<Caller, RpcError> {
    let missing =
        |what: &str| RpcError::invalid_params(format!("Invalid params: {what} is missing or malformed"));
    if !params.has_meta() {
        return Err(missing("_meta"));
    }
    let meta = params.meta();
    let version =
        meta.protocol_version.ok_or_else(|| missing("_meta io.modelcontextprotocol/protocolVersion"))?;
    let version: String = serde_json::from_str(version.get())
        .map_err(|_| missing("_meta io.modelcontextprotocol/protocolVersion"))?;
    if !Version::from_wire(&version).is_some_and(Version::is_stateless) {
        return Err(unsupported_version(&version));
    }
    let raw = meta
        .client_capabilities
        .ok_or_else(|| missing("_meta io.modelcontextprotocol/clientCapabilities"))?;
    let capabilities = Capabilities::parse(raw)
        .ok_or_else(|| missing("_meta io.modelcontextprotocol/clientCapabilities"))?;
    Ok(Caller::Stateless { owner, capabilities, raw_capabilities: Payload::from_raw(raw) })
}

/// -32022 with what is served. A version that is served may still not be spoken without a session.
fn unsupported_version(requested: &str) -> RpcError {
    let message = match Version::from_wire(requested) {
        Some(_) => "Unsupported protocol version: it is spoken in sessions only, after initialize",
        None => "Unsupported protocol version",
    };
    let requested: String = requested.chars().take(120).collect();
    RpcError::new(ErrorCode::UnsupportedProtocolVersion, message).with_data(&json!({
        "supported": Version::ALL.map(Version::as_str),
        "requested": requested,
    }))
}

/// What to say of a message that is none. If it was the client's answer to a question of ours, its id is ours, and the error
/// must not carry it: the client may have a request of its own under the same one, and would take the error for its answer.
fn lost(session: &Session, malformed: Malformed) -> Message {
    let Malformed { id, answers, error } = malformed;
    let why = || Err(NoAnswer::Unreadable(error.message.clone()));
    let answered = answers.is_some_and(|id| session.answered(&id, why()));
    Message::error(id.filter(|_| !answered), &error)
}

/// An answer as a message.
fn message(id: Id, answer: Answer) -> Message {
    match answer {
        Ok(result) => Message::Response { id, result },
        Err(error) => Message::Error { id: Some(id), error },
    }
}
