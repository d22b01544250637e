//! POST of an array: a batch, in sessions of the one version that has them.

use std::sync::Arc;

use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use taskgate_wire::Message;
use taskgate_wire::jsonrpc::batch_text;

use super::{connection, error, headers, in_session, json};
use crate::gateway::Gateway;
use crate::route::Arrival;
use crate::session::{Outlet, Session};

/// Takes a batch and answers it: each answer as an event of its own as soon as it is there, or all of them in an array for
/// a caller that does not read streams. `None` if the caller's version has no batches, or the caller no session.
pub async fn post(
    gateway: &Gateway,
    headers: &HeaderMap,
    arrival: &Arrival,
    text: &[u8],
) -> Option<Response> {
    headers::session_id(headers)?;
    match in_session::find(gateway, headers) {
        Ok(session) if session.takes_batches() => {
            Some(answer(gateway, &session, headers, arrival, text).await)
        }
        Ok(_) => None,
        Err((status, wrong)) => Some(error(status, None, &wrong)),
    }
}

async fn answer(
    gateway: &Gateway,
    session: &Arc<Session>,
    headers: &HeaderMap,
    arrival: &Arrival,
    text: &[u8],
) -> Response {
    let can_stream = headers::accepts_stream(headers);
    let reader = session.streams().open();
    let out = Outlet::to(reader.stream());
    // Without a stream nothing but the answers can reach this caller: whoever would ask it something is told so.
    let reader = can_stream.then_some(reader);
    let batch = match gateway.begin_batch(session, arrival, text, &out) {
        Ok(batch) => batch,
        Err(malformed) => return error(StatusCode::BAD_REQUEST, None, &malformed.error),
    };
    match reader {
        Some(reader) if batch.asks => {
            session.streams().keep(reader.stream());
            let mut running: FuturesUnordered<_> = batch.answers.into_iter().collect();
            tokio::spawn(async move {
                while let Some(answer) = running.next().await {
                    if let Some(answer) = answer {
                        out.send(answer);
                    }
                }
                out.finish();
            });
            connection::respond(session.clone(), reader, &gateway.0.settings, None)
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
