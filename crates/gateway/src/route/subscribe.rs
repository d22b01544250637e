//! `resources/subscribe` and `resources/unsubscribe` of sessions, and who hears of a changed resource.

use std::sync::Arc;

use serde_json::json;
use taskgate_task::{Owner, Payload};
use taskgate_wire::dialect::d2025_11_25::without_result_type;
use taskgate_wire::{ListKind, RawObject, RpcError, method};

use super::{Answer, Caller, Request};
use crate::gateway::Gateway;
use crate::relay::{NoAnswer, is_not_mine};
use crate::session::{Outlet, Session};
use crate::upstream::{Change, Interest};

/// A caller subscribes to no more resources than this at a time: each is kept here and at its server.
pub const MOST_SUBSCRIPTIONS: usize = 1000;

impl Gateway {
    /// Subscribes the session's client, in the words of the upstream that has the resource.
    pub(crate) async fn subscribe(&self, session: &Arc<Session>, request: &Request<'_>) -> Answer {
        let uri = request.params.uri().map_err(|error| error.to_payload())?;
        if session.subscriptions() >= MOST_SUBSCRIPTIONS {
            let text = format!(
                "A session subscribes to at most {MOST_SUBSCRIPTIONS} resources: unsubscribe from some"
            );
            return Err(RpcError::invalid_params(text).to_payload());
        }
        let params = request.raw.cloned().unwrap_or_else(super::empty);
        let (interest, result) = self.hold(session.owner(), &uri, params, false).await?;
        session.subscribe(&uri, interest);
        Ok(without_result_type(&result).unwrap_or(result))
    }

    /// Ends that. The upstream hears of it when nobody else is interested.
    pub(crate) async fn unsubscribe(
        &self,
        session: &Arc<Session>,
        caller: &Caller,
        request: &Request<'_>,
        out: &Outlet,
    ) -> Answer {
        let uri = request.params.uri().map_err(|error| error.to_payload())?;
        let params = request.raw.cloned().unwrap_or_else(super::empty);
        match session.unsubscribe(&uri) {
            Some(interest) => match interest.end(&params) {
                Some(call) => call.outcome().await.map_err(super::failed),
                None => Ok(super::empty()),
            },
            None => {
                let upstreams = self.upstreams(session.owner()).await;
                // Others' subscriptions are not the client's to end.
                let is_held = upstreams.iter().any(|upstream| upstream.is_held(&uri));
                // A server of 2026-07-28 has no such request, and there is nothing to end.
                if is_held || upstreams.iter().all(|upstream| upstream.is_stateless_for(false)) {
                    return Ok(super::empty());
                }
                self.relay_to_its_upstream(caller, request, out).await
            }
        }
    }

    /// Registers the interest with the upstream that has the resource, and waits until it confirms.
    pub(super) async fn hold(
        &self,
        owner: &Owner,
        uri: &str,
        params: Payload,
        stateless: bool,
    ) -> Result<(Interest, Payload), Payload> {
        let mut none = NoAnswer::default();
        let upstreams = self.upstreams(owner).await;
        for candidate in upstreams.having(uri, ListKind::Resources.feature()).await.candidates {
            if !candidate.certain
                && let Err(error) = candidate.upstream.session(owner).await
            {
                none.unavailable(error.to_payload());
                continue;
            }
            match candidate.upstream.hold(owner, uri, params.clone(), stateless).await {
                Err(error) if is_not_mine(method::SUBSCRIBE, &error) => none.refused(error),
                held => return held,
            }
        }
        Err(none.error(method::SUBSCRIBE))
    }
}

/// Whether a change is of a resource that somebody with these subscriptions wants to hear of.
pub fn concerns<'a>(change: &Change, mut subscribed: impl Iterator<Item = &'a str>) -> bool {
    if let Some(by) = &change.subscribed {
        return subscribed.any(|uri| uri == by);
    }
    let updated = change.params.as_ref().and_then(|params| {
        let object = RawObject::parse(params.as_str()).ok()?;
        serde_json::from_str::<String>(object.get("uri")?.get()).ok()
    });
    updated.is_some_and(|updated| subscribed.any(|uri| covers(uri, &updated)))
}

/// Whether a subscription to a resource is one to this resource: the same, or a part of it, which servers may name instead.
fn covers(subscribed: &str, updated: &str) -> bool {
    updated
        .strip_prefix(subscribed)
        .is_some_and(|rest| rest.is_empty() || subscribed.ends_with('/') || rest.starts_with(['/', '?', '#']))
}

/// The params of a `resources/subscribe` for a URI.
pub fn params(uri: &str) -> Payload {
    Payload::from_value(&json!({ "uri": uri })).unwrap_or_else(|_| super::empty())
}

#[cfg(test)]
mod tests {
    use super::covers;

    #[test]
    fn a_part_of_a_resource_is_covered_and_a_neighbour_is_not() {
        for (subscribed, updated, covered) in [
            ("x://a", "x://a", true),
            ("x://a", "x://a/b", true),
            ("x://a", "x://a#b", true),
            ("x://a/", "x://a/b", true),
            ("x://a", "x://ab", false),
            ("x://a/b", "x://a", false),
        ] {
            assert_eq!(covers(subscribed, updated), covered, "{subscribed} {updated}");
        }
    }
}
