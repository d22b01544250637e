//! News of jobs, told by their APIs.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::StatusCode;

use super::body::{self, Unread};
use crate::gateway::Gateway;

/// The longest body, in bytes. Nothing of it is looked at.
const LONGEST: usize = 64 << 10;

/// POST: whoever follows the job looks at it. Those who have no address learn nothing.
pub async fn tell(State(gateway): State<Gateway>, Path(token): Path<String>, said: Body) -> StatusCode {
    match body::read(said, LONGEST).await {
        Err(Unread::TooLong) => return StatusCode::PAYLOAD_TOO_LARGE,
        Err(Unread::Broken) => return StatusCode::BAD_REQUEST,
        Ok(_) => {}
    }
    let is_known = gateway.0.callbacks.as_ref().is_some_and(|callbacks| callbacks.tell(&token));
    if is_known { StatusCode::NO_CONTENT } else { StatusCode::NOT_FOUND }
}
