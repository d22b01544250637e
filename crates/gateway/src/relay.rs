//! Whatever is not a task, passed on unchanged to the upstream that has the feature.

use std::sync::Arc;

use taskgate_task::Payload;
use taskgate_wire::tool::ToolFacts;
use taskgate_wire::{RawObject, RpcError, method};

use crate::gateway::{Gateway, Target};
use crate::policy::ToolPolicy;
use crate::route::{Answer, Caller, Request};
use crate::session::Outlet;
use crate::upstream::{Upstream, lane};

impl Gateway {
    /// Passes a request on and its answer back. Questions of the upstream are put to the caller on the way.
    pub(crate) async fn relay(&self, caller: &Caller, request: &Request<'_>, out: &Outlet) -> Answer {
        let upstream =
            self.upstream_for(request.method, caller.is_stateless()).await.map_err(|e| e.to_payload())?;
        let target = Target {
            upstream,
            name: String::new(),
            facts: ToolFacts { name: String::new(), repeatable: false, headers: Vec::new() },
            policy: ToolPolicy::never(),
        };
        let answer = self.pass_on(caller, request, target, out).await;
        if let (Ok(_), Caller::Session(session), Ok(uri)) = (&answer, caller, request.params.uri()) {
            match request.method {
                method::SUBSCRIBE => session.subscribe(&uri, true),
                method::UNSUBSCRIBE => session.subscribe(&uri, false),
                _ => {}
            }
        }
        answer
    }

    /// The first upstream that declares the feature a method belongs to; a single upstream gets everything.
    async fn upstream_for(&self, method: &str, stateless: bool) -> Result<Arc<Upstream>, RpcError> {
        if let [only] = &*self.0.upstreams {
            return Ok(only.clone());
        }
        let feature = match method.split('/').next() {
            Some("prompts") => "prompts",
            Some("resources") => "resources",
            Some("completion") => "completions",
            Some("logging") => "logging",
            _ => return Err(RpcError::method_not_found(method)),
        };
        for upstream in &self.0.upstreams {
            let Ok(session) = upstream.session().await else { continue };
            let declared = session.server().of(lane(&session, stateless)).is_some_and(|said| {
                RawObject::parse(said.capabilities.as_str()).is_ok_and(|all| all.get(feature).is_some())
            });
            if declared {
                return Ok(upstream.clone());
            }
        }
        Err(RpcError::method_not_found(method))
    }
}

/// Members that 2026-07-28 demands of cacheable results and earlier versions do not know.
pub(crate) fn with_cache_hints(method: &str, result: Payload) -> Payload {
    let cacheable =
        matches!(method, "prompts/list" | "resources/list" | "resources/templates/list" | "resources/read");
    let edit = || {
        let mut object = RawObject::parse(result.as_str()).ok()?;
        if object.get("resultType").is_some_and(|kind| kind.get() != "\"complete\"") {
            return None;
        }
        for (name, value) in [("ttlMs", "0"), ("cacheScope", "\"private\"")] {
            if object.get(name).is_none() {
                object.set(name, serde_json::from_str(value).ok()?);
            }
        }
        object.to_payload().ok()
    };
    if cacheable { edit().unwrap_or(result) } else { result }
}
