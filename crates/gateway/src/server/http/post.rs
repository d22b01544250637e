//! POST: one message, or a batch of them.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use taskgate_task::Payload;
use taskgate_wire::jsonrpc::{is_batch, one_line};
use taskgate_wire::{ErrorCode, Id, Message, Params, RpcError, Version, method};

use super::entrance::Sender;
use super::{batch, body, error, guard, headers, in_session, json, stateless};
use crate::bounds::message_too_long;
use crate::gateway::Gateway;
use crate::server::lost;

/// Takes a message and answers it.
pub async fn post(State(gateway): State<Gateway>, request: Request) -> Response {
    let (Parts { headers, extensions, .. }, body) = request.into_parts();
    if let Err(refused) = guard::check(&gateway, &headers) {
        return refused;
    }
    if let Some(encoded) = encoded(&headers) {
        return encoded;
    }
    let limit = gateway.0.settings.max_message;
    let patience = gateway.0.settings.connections.body_timeout;
    let bytes = match tokio::time::timeout(patience, body::read(body, limit)).await {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(unread)) => return refuse(&unread, limit),
        Err(_) => return too_slow(patience),
    };
    // As over stdio, a byte order mark is accepted.
    let text = one_line(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes));
    let sender = Sender::of(&gateway, &extensions);
    if is_batch(&text)
        && let Some(refused) = sender.refused_batch(&gateway, &text).await
    {
        return refused;
    }
    if is_batch(&text)
        && let Some(answered) = Box::pin(batch::post(&gateway, &headers, &sender.arrival, &text)).await
    {
        return answered;
    }
    let message = match Message::parse(&text) {
        Ok(message) => message,
        Err(malformed) => {
            if malformed.answers.is_some()
                && let Ok(session) = in_session::find(&gateway, &headers)
            {
                return json(StatusCode::BAD_REQUEST, lost(&session, malformed).to_text());
            }
            return error(StatusCode::BAD_REQUEST, malformed.id, &malformed.error);
        }
    };
    if let Some(refused) = sender.refused(&gateway, &message).await {
        return refused;
    }
    match message {
        Message::Request { id, method, params } => {
            let params = match headers::with_idempotency_key(&headers, &method, params) {
                Ok(params) => params,
                Err(wrong) => return error(StatusCode::BAD_REQUEST, Some(id), &wrong),
            };
            let known = match Params::parse(params.as_ref()) {
                Ok(known) => known,
                Err(wrong) => return error(StatusCode::BAD_REQUEST, Some(id), &wrong),
            };
            // A call that has begun is answered; whatever else there is to hear ends with the right to hear it.
            let end = if method == method::TOOLS_CALL { None } else { sender.end() };
            let Some(end) = end else {
                return answered(gateway, headers, sender, id, method, params.clone(), &known).await;
            };
            let answer =
                answered(gateway.clone(), headers, sender.clone(), id, method, params.clone(), &known);
            Box::pin(sender.until(end, &gateway, answer)).await
        }
        Message::Notification { method, params } => match headers::version(&headers) {
            Err(wrong) => error(StatusCode::BAD_REQUEST, None, &wrong),
            Ok(version)
                if headers::session_id(&headers).is_some() && !version.is_some_and(Version::is_stateless) =>
            {
                in_session::notification(&gateway, &headers, &method, params.as_ref())
            }
            Ok(version) => {
                // 2026-07-28 defines none for this direction, but a server and its client may have their own.
                if version.is_some_and(Version::is_stateless) {
                    gateway.pass_notification(&sender.owner, &method, params.as_ref());
                }
                StatusCode::ACCEPTED.into_response()
            }
        },
        Message::Response { id, result } => in_session::response(&gateway, &headers, &id, Ok(result)),
        Message::Error { id: Some(id), error } => in_session::response(&gateway, &headers, &id, Err(error)),
        Message::Error { id: None, .. } => StatusCode::ACCEPTED.into_response(),
    }
}

/// Answers a request in the way of its generation.
async fn answered(
    gateway: Gateway,
    headers: HeaderMap,
    sender: Sender,
    id: Id,
    method: String,
    params: Option<Payload>,
    known: &Params<'_>,
) -> Response {
    match is_stateless(&headers, known) {
        Ok(true) => stateless::request(gateway, headers, sender, id, method, params, known).await,
        Ok(false) => Box::pin(in_session::request(gateway, headers, sender, id, method, params)).await,
        Err(wrong) => error(StatusCode::BAD_REQUEST, Some(id), &wrong),
    }
}

fn refuse(unread: &body::Unread, limit: usize) -> Response {
    match unread {
        body::Unread::TooLong => error(StatusCode::PAYLOAD_TOO_LARGE, None, &message_too_long(limit)),
        body::Unread::Broken => {
            let wrong = RpcError::new(ErrorCode::InvalidRequest, "The message broke off");
            error(StatusCode::BAD_REQUEST, None, &wrong)
        }
    }
}

/// Refuses a body that would have to be unpacked first: a few bytes can be as many as anybody likes then, and nothing of MCP needs it.
fn encoded(headers: &HeaderMap) -> Option<Response> {
    let is_plain = |value: &HeaderValue| value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity");
    let coding = headers.get_all(header::CONTENT_ENCODING).iter().find(|value| !is_plain(value))?;
    let coding: String = coding.to_str().unwrap_or("?").chars().take(120).collect();
    let message =
        format!("The body is encoded (Content-Encoding: {coding}); send it as it is, without that header");
    let mut response =
        error(StatusCode::UNSUPPORTED_MEDIA_TYPE, None, &RpcError::new(ErrorCode::InvalidRequest, message));
    let headers = response.headers_mut();
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    // The body is not read, whatever its length.
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    Some(response)
}

fn too_slow(patience: Duration) -> Response {
    let patience = crate::config::format_duration(patience);
    let message = format!("The message took longer than connections.body_timeout ({patience})");
    let mut response =
        error(StatusCode::REQUEST_TIMEOUT, None, &RpcError::new(ErrorCode::InvalidRequest, message));
    // What may still come of the body is not waited for.
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// The generation is chosen by version: the request's own, in `_meta` or header, or else its session's.
fn is_stateless(headers: &HeaderMap, params: &Params<'_>) -> Result<bool, RpcError> {
    // A version in the body is compared with the header's later on.
    if params.meta().protocol_version.is_some() {
        return Ok(true);
    }
    Ok(headers::version(headers)?.is_some_and(Version::is_stateless))
}
