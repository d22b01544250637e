//! Whatever is not a task, passed on unchanged to the upstream that has the feature.

use taskgate_task::{Owner, Payload};
use taskgate_wire::{ErrorCode, ListKind, Params, RpcError, method, translate};

use crate::gateway::{Gateway, Target};
use crate::route::{Answer, Caller, Request};
use crate::session::Outlet;
use crate::upstream::{State, is_method_not_found};

impl Gateway {
    /// Passes a request on and its answer back. Questions of the upstream are put to the caller on the way.
    pub(crate) async fn relay(&self, caller: &Caller, request: &Request<'_>, out: &Outlet) -> Answer {
        if let Some(kind) = ListKind::of(request.method) {
            return self.list(kind, caller, request, out).await;
        }
        if let Caller::Session(session) = caller {
            match request.method {
                method::SUBSCRIBE => return self.subscribe(session, request).await,
                method::UNSUBSCRIBE => return self.unsubscribe(session, caller, request, out).await,
                method::SET_LEVEL => return self.set_level(session, request).await,
                _ => {}
            }
        }
        self.relay_to_its_upstream(caller, request, out).await
    }

    /// Asks whoever may answer, one after the other, until one does: an answer that says "not mine" leaves nothing behind.
    pub(crate) async fn relay_to_its_upstream(
        &self,
        caller: &Caller,
        request: &Request<'_>,
        out: &Outlet,
    ) -> Answer {
        let rpc = |error: RpcError| error.to_payload();
        let whose = self.upstreams(caller.owner()).await.whose(request).await.map_err(rpc)?;
        let params = match &whose.params {
            Some(edited) => Params::parse(Some(edited)).map_err(rpc)?,
            None => request.params,
        };
        let request = Request { raw: whose.params.as_ref().or(request.raw), params, ..*request };
        let mut none = NoAnswer::default();
        for candidate in whose.candidates {
            if !candidate.certain
                && let Err(error) = candidate.upstream.session(caller.owner()).await
            {
                none.unavailable(error.to_payload());
                continue;
            }
            let target = Target::plain(candidate.upstream);
            match self.pass_on(caller, &request, target, out).await {
                Err(error) if is_not_mine(request.method, &error) => none.refused(error),
                answer => return answer,
            }
        }
        Err(none.error(request.method))
    }

    /// Passes on what a client says without wanting an answer. What belongs to this hop only ends here.
    pub(crate) fn pass_notification(&self, owner: &Owner, method: &str, params: Option<&Payload>) {
        // A request without an id is none: nobody waits for what comes of it, and nobody has looked whether it is allowed.
        if !method.starts_with("notifications/") {
            tracing::debug!(%method, "what is no notification is not passed on as one");
            return;
        }
        let ours = [method::CANCELLED, method::INITIALIZED, method::PROGRESS].contains(&method)
            || method.starts_with("notifications/tasks");
        if ours {
            return;
        }
        for upstream in self.0.pool.open_for(owner).iter() {
            let State::Up(connection) = upstream.state() else { continue };
            // 2026-07-28 has no such notification: there roots are asked for when they are needed.
            if method != method::ROOTS_CHANGED || connection.lanes().legacy.is_some() {
                connection.notify(method, params.cloned());
            }
        }
    }
}

/// Why nobody answered so far.
#[derive(Default)]
pub(crate) struct NoAnswer {
    refused: Option<Payload>,
    unavailable: Option<Payload>,
}

impl NoAnswer {
    /// An upstream said that this is not its own.
    pub(crate) fn refused(&mut self, error: Payload) {
        // A word about what was asked for says more than that somebody does not know the method.
        if self.refused.as_ref().is_none_or(is_method_not_found) {
            self.refused = Some(error);
        }
    }

    /// An upstream cannot be asked.
    pub(crate) fn unavailable(&mut self, error: Payload) {
        self.unavailable.get_or_insert(error);
    }

    /// The error to answer with. As long as somebody could not be asked, it is not known that nobody has it.
    pub(crate) fn error(self, method: &str) -> Payload {
        let none = || RpcError::method_not_found(method).to_payload();
        self.unavailable.or(self.refused).unwrap_or_else(none)
    }
}

/// Whether an error says that another upstream should be asked.
pub(crate) fn is_not_mine(method: &str, error: &Payload) -> bool {
    let about_a_resource = method.starts_with("resources/") || method == method::COMPLETE;
    match translate::code_of(error) {
        Some(code) if code == i64::from(ErrorCode::MethodNotFound.number()) => true,
        Some(-32002 | -32602) => about_a_resource,
        _ => false,
    }
}
