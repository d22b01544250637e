//! Requests within a session of 2025-11-25 or earlier.

use std::sync::Arc;

use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use taskgate_task::Payload;
use taskgate_wire::{ErrorCode, Id, Params, RpcError, method};

use super::entrance::Sender;
use super::session_reply::SessionReply;
use super::{busy, error, headers, reply};
use crate::audit::{Line, Reason};
use crate::bounds::{Limit, Refusal};
use crate::gateway::Gateway;
use crate::route::{Answer, Caller};
use crate::server::{OpenError, answer, detached};
use crate::session::{Outlet, Session};
use crate::to_client::NoAnswer;

/// After how many seconds a request of the session may have been answered.
const SOON: u16 = 1;

/// Answers a request.
pub async fn request(
    gateway: Gateway,
    headers: HeaderMap,
    sender: Sender,
    id: Id,
    name: String,
    raw: Option<Payload>,
) -> Response {
    if name == method::INITIALIZE && headers::session_id(&headers).is_none() {
        return open(gateway, sender, id, raw).await;
    }
    let session = match find(&gateway, &headers) {
        Ok(session) => session,
        Err((status, wrong)) => return error(status, Some(id), &wrong),
    };
    let reader = session.streams().open();
    let out = Outlet::to(reader.stream());
    // Without a stream nothing but the answer can reach this caller: whoever would ask it something is told so.
    let reader = headers::accepts_stream(&headers).then_some(reader);
    let run = match detached(gateway.clone(), session.clone(), sender.arrival, id.clone(), name, raw, out) {
        Ok(run) => run,
        Err(refused) => return busy(StatusCode::TOO_MANY_REQUESTS, Some(id), &refused, SOON),
    };
    SessionReply { session, id, run, reader }.respond(&gateway.0.settings).await
}

/// `initialize`: opens a session.
async fn open(gateway: Gateway, Sender { owner, arrival }: Sender, id: Id, raw: Option<Payload>) -> Response {
    let session = match gateway.0.sessions.open(owner.clone(), &gateway.0.settings) {
        Ok(session) => session,
        Err(OpenError::Full(most)) => {
            let refusal = Refusal::new(Limit::MaxSessions, most);
            gateway.0.limits.numbers.refusal(refusal.limit);
            gateway.turned_away(Reason::Limit, |line| Line {
                owner: Some(owner.as_str()),
                method: Some(method::INITIALIZE),
                request_id: Some(id.as_str()),
                why: Some(refusal.limit.name().into()),
                peer: arrival.peer,
                ..line
            });
            return reply::refused(Some(id), &refusal);
        }
        Err(broken) => {
            let wrong = RpcError::internal(broken.to_string());
            return error(StatusCode::INTERNAL_SERVER_ERROR, Some(id), &wrong);
        }
    };
    let caller = Caller::Session(session.clone());
    let out = Outlet::nowhere();
    let answered = answer(&gateway, &caller, &arrival, &id, method::INITIALIZE, raw.as_ref(), &out).await;
    if answered.is_err() {
        gateway.0.sessions.end(session.id());
        return reply::whole(id, answered, false);
    }
    gateway.forward_changes(&session);
    let mut response = reply::whole(id, answered, false);
    if let Ok(value) = HeaderValue::from_str(session.id()) {
        response.headers_mut().insert("mcp-session-id", value);
    }
    response
}

/// Takes a notification of the client.
pub fn notification(gateway: &Gateway, headers: &HeaderMap, name: &str, raw: Option<&Payload>) -> Response {
    let session = match find(gateway, headers) {
        Ok(session) => session,
        Err((status, wrong)) => return error(status, None, &wrong),
    };
    gateway.heard(&session, name, raw);
    StatusCode::ACCEPTED.into_response()
}

/// Takes the client's answer to a request of ours.
pub fn response(gateway: &Gateway, headers: &HeaderMap, id: &Id, answer: Answer) -> Response {
    match find(gateway, headers) {
        Ok(session) => {
            session.answered(id, answer.map_err(NoAnswer::Error));
            StatusCode::ACCEPTED.into_response()
        }
        Err((status, wrong)) => error(status, None, &wrong),
    }
}

/// The session a request names.
pub fn find(gateway: &Gateway, headers: &HeaderMap) -> Result<Arc<Session>, (StatusCode, RpcError)> {
    let version = headers::version(headers).map_err(|wrong| (StatusCode::BAD_REQUEST, wrong))?;
    if let Some(version) = version.filter(|version| version.is_stateless()) {
        let message = format!("MCP-Protocol-Version {} has no sessions", version.as_str());
        return Err((StatusCode::BAD_REQUEST, RpcError::new(ErrorCode::InvalidRequest, message)));
    }
    let id =
        headers::session_id(headers).ok_or_else(|| (StatusCode::BAD_REQUEST, headers::missing_session()))?;
    gateway.0.sessions.find(id).ok_or_else(|| (StatusCode::NOT_FOUND, headers::unknown_session()))
}

impl Gateway {
    /// What a session's client says without wanting an answer.
    pub(in crate::server) fn heard(&self, session: &Session, name: &str, raw: Option<&Payload>) {
        if session.negotiated().is_some() {
            self.pass_notification(session.owner(), name, raw);
        }
        if name == method::TASK_STATUS {
            session.hosted_changed();
        }
        if name == method::CANCELLED
            && let Ok(params) = Params::parse(raw)
            && let Some(id) = params.request_id().and_then(Id::from_raw)
        {
            session.cancel(&id);
        }
    }
}
