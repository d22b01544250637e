//! GET: a session's general stream, for what belongs to no request, or the rest of any of its streams.

use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use taskgate_wire::{ErrorCode, RpcError};

use super::entrance::Sender;
use super::{connection, error, guard, headers, in_session, not_allowed, reply};
use crate::gateway::Gateway;
use crate::route::Caller;
use crate::stream::Resumed;

/// Connects a client to a stream. A newer connection replaces an older one, so that each message goes out once.
pub async fn open(State(gateway): State<Gateway>, request: Request) -> Response {
    let (Parts { headers, extensions, .. }, _) = request.into_parts();
    let sender = Sender::of(&gateway, &extensions);
    let connected = connect(&gateway, &headers);
    match sender.end() {
        Some(end) => sender.until(end, &gateway, std::future::ready(connected)).await,
        None => connected,
    }
}

fn connect(gateway: &Gateway, headers: &HeaderMap) -> Response {
    if let Err(refused) = guard::check(gateway, headers) {
        return refused;
    }
    if headers::session_id(headers).is_none()
        || !headers::accepts_stream(headers)
        || headers::is_stateless(headers)
    {
        // 2026-07-28 has no such stream, and a browser's look at the URL is not one.
        return not_allowed();
    }
    let session = match in_session::find(gateway, headers) {
        Ok(session) => session,
        Err((status, wrong)) => return error(status, None, &wrong),
    };
    let place = match gateway.0.limits.stream(&Caller::Session(session.clone())) {
        Ok(place) => place,
        Err(refusal) => return reply::refused(None, &refusal),
    };
    let reader = match headers::last_event_id(headers) {
        None => session.streams().connect_general(),
        Some(id) => match session.streams().resume(id) {
            Resumed::Rest(reader) => reader,
            // This is how a server tells an event source that there is nothing to come back for.
            Resumed::Over => return StatusCode::NO_CONTENT.into_response(),
            Resumed::Unknown => return error(StatusCode::BAD_REQUEST, None, &unknown_event()),
        },
    };
    connection::respond(session, reader, &gateway.0.settings, Some(place))
}

/// Not 404, which would mean that the session has ended.
fn unknown_event() -> RpcError {
    let message =
        "Unknown Last-Event-ID: no stream of this session, or none that is still kept, has this event";
    RpcError::new(ErrorCode::InvalidRequest, message)
}
