//! Streamable HTTP: one endpoint for sessions up to 2025-11-25 and for stateless requests of 2026-07-28.

mod accept;
mod batch;
mod body;
mod callback;
mod connection;
mod entrance;
mod expiry;
mod general;
mod guard;
mod headers;
mod in_session;
mod patience;
mod post;
mod reply;
mod session_reply;
mod stateless;
mod tls;

use std::io;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use taskgate_wire::{Id, Message, RpcError};
use tokio::net::TcpListener;

use accept::{Acceptor, Noted};
pub use tls::{Tls, TlsError};

use crate::gateway::Gateway;
use crate::upstream::CALLBACKS;

impl Gateway {
    /// The gateway as an axum router with the MCP endpoint at the configured path, to be merged into another one.
    pub fn router(&self) -> Router {
        let endpoint = post(post::post).get(general::open).delete(end_session);
        let mut router = entrance::with_door(self, endpoint);
        if self.0.callbacks.is_some() {
            router = router.route(&format!("{CALLBACKS}{{token}}"), post(callback::tell));
        }
        router.with_state(self.clone())
    }

    /// Looks whether there is a new certificate, and uses it for connections from now on. Whoever serves does so every now and then.
    pub fn renew_certificate(&self) {
        self.0.tls.iter().for_each(Tls::renew);
    }

    /// Serves HTTP until `shutdown` resolves, then drains and returns.
    pub async fn serve_http(
        &self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        let gateway = self.clone();
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let draining = tokio::spawn(async move {
            shutdown.await;
            stop.send_replace(true);
            gateway.drain().await;
        });
        let settings = &self.0.settings;
        // Where a connection comes from is noted for whoever asks, which costs a little at each request.
        let tells_peer =
            self.0.audit.is_some() || self.0.access.as_ref().is_some_and(|access| access.proxy().is_some());
        let certificates = self.0.access.as_ref().and_then(|access| access.certificates()).cloned();
        let noted = Noted { peer: tells_peer, certificates };
        let (connections, tls) = (settings.connections.clone(), self.0.tls.clone());
        let open = self.0.limits.numbers.connections.clone();
        let server = Acceptor::new(self.router(), connections, tls, noted, open).serve(listener, stopped);
        tokio::pin!(server, draining);
        tokio::select! {
            () = &mut server => {
                // The last connection may be closed long before the last task has ended.
                draining.await.map_err(io::Error::other)
            }
            drained = &mut draining => {
                drained.map_err(io::Error::other)?;
                // Streams that clients hold open must not keep the process; what could be sent has been.
                let _ = tokio::time::timeout(std::time::Duration::from_millis(500), server).await;
                Ok(())
            }
        }
    }
}

/// DELETE: the client ends its session.
async fn end_session(State(gateway): State<Gateway>, headers: HeaderMap) -> Response {
    if let Err(refused) = guard::check(&gateway, &headers) {
        return refused;
    }
    if headers::is_stateless(&headers) {
        return not_allowed();
    }
    match in_session::find(&gateway, &headers) {
        Ok(session) => {
            gateway.0.sessions.end(session.id());
            StatusCode::NO_CONTENT.into_response()
        }
        Err((status, wrong)) => error(status, None, &wrong),
    }
}

/// GET or DELETE where there is no session for it.
fn not_allowed() -> Response {
    let mut response = StatusCode::METHOD_NOT_ALLOWED.into_response();
    response.headers_mut().insert(header::ALLOW, header::HeaderValue::from_static("POST, GET, DELETE"));
    response
}

/// A JSON-RPC message as a JSON answer.
fn json(status: StatusCode, text: String) -> Response {
    json_body(status, Body::from(text))
}

/// The same, in whatever way the text is sent.
fn json_body(status: StatusCode, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}

/// An error that will be gone after so many seconds.
fn busy(status: StatusCode, id: Option<Id>, wrong: &RpcError, seconds: u16) -> Response {
    let mut response = error(status, id, wrong);
    response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    response
}

/// A JSON-RPC error as a JSON answer.
fn error(status: StatusCode, id: Option<Id>, error: &RpcError) -> Response {
    json(status, Message::error(id, error).to_text())
}
