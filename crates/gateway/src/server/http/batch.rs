//! POST of an array: a batch, in sessions of the one version that has them.

use std::sync::Arc;

use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use taskgate_wire::Message;
use taskgate_wire::jsonrpc::batch_text;

use super::{error, headers, in_session, json, reply};
use crate::gateway::Gateway;
use crate::session::{Outlet, Session};

/// Takes a batch and answers it: each answer as an event of its own as soon as it is there, or all of them in an array for
/// a caller that does not read streams. `None` if the caller's version has no batches, or the caller no session.
pub async fn post(gateway: &Gateway, headers: &HeaderMap, text: &[u8]) -> Option<Response> {
    headers::session_id(headers)?;
    match in_session::find(gateway, headers) {
        Ok(session) if session.takes_batches() => Some(answer(gateway, &session, headers, text).await),
        Ok(_) => None,
        Err((status, wrong)) => Some(error(status, None, &wrong)),
    }
}

async fn answer(gateway: &Gateway, session: &Arc<Session>, headers: &HeaderMap, text: &[u8]) -> Response {
    let can_stream = headers::accepts_stream(headers);
    let (out, messages) = Outlet::new();
    // Without a stream nothing but the answers can reach this caller: whoever would ask it something is told so.
    let messages = can_stream.then_some(messages);
    let batch = match gateway.begin_batch(session, text, &out) {
        Ok(batch) => batch,
        Err(malformed) => return error(StatusCode::BAD_REQUEST, None, &malformed.error),
    };
    match messages {
        Some(messages) if batch.asks => {
            let mut running: FuturesUnordered<_> = batch.answers.into_iter().collect();
            let last = async move {
                while let Some(answer) = running.next().await {
                    if let Some(answer) = answer {
                        out.send(answer);
                    }
                }
                None
            };
            reply::stream(None, messages, Some(Box::pin(last)), gateway.0.settings.keep_alive, ())
        }
        _ => {
            let answers: Vec<Message> = join_all(batch.answers).await.into_iter().flatten().collect();
            match (answers.is_empty(), batch.asks) {
                (true, _) => StatusCode::ACCEPTED.into_response(),
                (false, true) => json(StatusCode::OK, batch_text(&answers)),
                (false, false) => json(StatusCode::BAD_REQUEST, batch_text(&answers)),
            }
        }
    }
}
