//! GET: a session's general stream, for what belongs to no request.

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;

use super::{error, guard, headers, in_session, not_allowed, reply};
use crate::gateway::Gateway;
use crate::session::{Outlet, Session};

/// Opens the stream. A newer one replaces an older one, so that each message goes out once.
pub async fn open(State(gateway): State<Gateway>, headers: HeaderMap) -> Response {
    if let Err(refused) = guard::check(&gateway, &headers) {
        return refused;
    }
    if headers::session_id(&headers).is_none()
        || !headers::accepts_stream(&headers)
        || headers::is_stateless(&headers)
    {
        // 2026-07-28 has no such stream, and a browser's look at the URL is not one.
        return not_allowed();
    }
    let session = match in_session::find(&gateway, &headers) {
        Ok(session) => session,
        Err((status, wrong)) => return error(status, None, &wrong),
    };
    let (out, messages) = Outlet::new();
    let serial = session.open_general(out);
    let open = OpenGeneral { session, serial };
    reply::stream(None, messages, None, gateway.0.settings.keep_alive, open)
}

/// Says that the stream is gone when it is.
struct OpenGeneral {
    session: Arc<Session>,
    serial: u64,
}

impl Drop for OpenGeneral {
    fn drop(&mut self) {
        self.session.close_general(self.serial);
    }
}
