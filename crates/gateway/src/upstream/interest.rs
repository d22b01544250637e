//! The resources of an upstream that somebody wants to hear of: one subscription each, however many ask for it, in the
//! upstream's words, for as long as anybody asks, and again on each new connection.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use taskgate_client::session::{CallFailure, CallOptions, Lane, PendingCall, Session};
use taskgate_task::{InvalidPayload, Owner, Payload};
use taskgate_wire::{ErrorCode, RawObject, RpcError, method, translate};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::listening::{keep_listening, names_resource};
use super::{State, Upstream, lane};

/// How long an upstream may take to confirm a subscription.
const CONFIRMING: Duration = Duration::from_secs(10);

/// The subscriptions of one upstream.
#[derive(Default)]
pub struct Interests(Mutex<HashMap<String, Entry>>);

struct Entry {
    holders: usize,
    /// Whether the first holder speaks 2026-07-28 or later, which decides the lane where the upstream has both.
    stateless: bool,
    /// The first holder's params.
    params: Payload,
    /// `None` until the upstream has answered.
    outcome: watch::Sender<Option<Answered>>,
    /// What keeps the subscription on the present connection.
    kept: Option<Kept>,
}

type Answered = Result<Payload, Payload>;

/// A task that ends when nobody needs it any more.
struct Kept(JoinHandle<()>);

impl Drop for Kept {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Says for as long as it exists that somebody wants to hear of a resource.
#[derive(Debug)]
pub struct Interest {
    upstream: Weak<Upstream>,
    uri: String,
    held: bool,
}

impl Interest {
    /// Ends it with the params of whoever ends it. The call that tells the upstream, if nobody else is interested.
    pub fn end(mut self, params: &Payload) -> Option<PendingCall> {
        self.held = false;
        self.upstream.upgrade()?.release(&self.uri, Some(params))
    }
}

impl Drop for Interest {
    fn drop(&mut self) {
        if self.held
            && let Some(upstream) = self.upstream.upgrade()
            && let Some(call) = upstream.release(&self.uri, None)
        {
            call.abandon();
        }
    }
}

impl Upstream {
    /// Subscribes to a resource and waits for the upstream's answer. `params` are those of a `resources/subscribe`.
    pub async fn hold(
        self: &Arc<Self>,
        owner: &Owner,
        uri: &str,
        params: Payload,
        stateless: bool,
    ) -> Result<(Interest, Payload), Payload> {
        let session = self.session(owner).await.map_err(|error| error.to_payload())?;
        let (interest, mut outcome) = {
            let mut interests = self.interests.0.lock();
            let entry = interests.entry(uri.to_owned()).or_insert_with(|| Entry {
                holders: 0,
                stateless,
                params,
                outcome: watch::Sender::new(None),
                kept: None,
            });
            entry.holders += 1;
            let refused = matches!(&*entry.outcome.borrow(), Some(Err(_)));
            if entry.kept.is_none() || refused {
                entry.begin(self, &session, uri, false);
            }
            let interest = Interest { upstream: Arc::downgrade(self), uri: uri.to_owned(), held: true };
            (interest, entry.outcome.subscribe())
        };
        let answered = tokio::time::timeout(CONFIRMING, outcome.wait_for(Option::is_some)).await;
        match answered {
            Ok(Ok(answered)) => match &*answered {
                Some(Ok(result)) => Ok((interest, result.clone())),
                Some(Err(error)) if !stateless && matches!(lane(&session, stateless), Lane::Modern(_)) => {
                    Err(translate::error_for_session(method::SUBSCRIBE, error.clone()))
                }
                Some(Err(error)) => Err(error.clone()),
                None => Err(self.silent(uri)),
            },
            _ => Err(self.silent(uri)),
        }
    }

    fn silent(&self, uri: &str) -> Payload {
        let text = format!("The server {:?} did not confirm the subscription to {uri}", self.name());
        RpcError::internal(text).to_payload()
    }

    /// Whether anybody is subscribed to any resource.
    pub fn has_interests(&self) -> bool {
        !self.interests.0.lock().is_empty()
    }

    /// Whether anybody is subscribed to the resource.
    pub fn is_held(&self, uri: &str) -> bool {
        self.interests.0.lock().contains_key(uri)
    }

    /// Subscribes to everything again on a new connection. What has changed meanwhile nobody knows, so everybody is told
    /// to look.
    pub fn renew_interests(self: &Arc<Self>, session: &Session) {
        for (uri, entry) in self.interests.0.lock().iter_mut() {
            entry.begin(self, session, uri, true);
        }
    }

    /// One holder less. The lock is held while the upstream is told, so that it hears of an end and of a new beginning in
    /// the order they happened.
    fn release(&self, uri: &str, params: Option<&Payload>) -> Option<PendingCall> {
        let mut interests = self.interests.0.lock();
        let entry = interests.get_mut(uri)?;
        entry.holders -= 1;
        if entry.holders > 0 {
            return None;
        }
        let entry = interests.remove(uri)?;
        let refused = matches!(&*entry.outcome.borrow(), Some(Err(_)));
        let State::Up(session) = self.state() else { return None };
        let lane = lane(&session, entry.stateless);
        if refused || matches!(lane, Lane::Modern(_)) {
            return None;
        }
        let params = params.cloned().or_else(|| Payload::from_value(&json!({ "uri": uri })).ok())?;
        Some(session.call(lane, method::UNSUBSCRIBE, Some(params.as_raw()), CallOptions::default()))
    }
}

impl Entry {
    /// Subscribes on a connection, in the words of its lane.
    fn begin(&mut self, upstream: &Arc<Upstream>, session: &Session, uri: &str, again: bool) {
        self.outcome.send_replace(None);
        let lane = lane(session, self.stateless);
        let follow = Follow {
            upstream: Arc::downgrade(upstream),
            uri: uri.to_owned(),
            outcome: self.outcome.clone(),
            again: AtomicBool::new(again),
        };
        let task = match lane {
            Lane::Legacy(_) => {
                let params = Some(self.params.as_raw());
                let call = session.call(lane, method::SUBSCRIBE, params, CallOptions::default());
                tokio::spawn(follow.session(call))
            }
            Lane::Modern(_) => match filter(&self.params, uri) {
                Ok(filter) => tokio::spawn(follow.stateless(session.clone(), lane, filter)),
                Err(error) => {
                    let error = RpcError::invalid_params(error.to_string()).to_payload();
                    self.outcome.send_replace(Some(Err(error)));
                    return;
                }
            },
        };
        self.kept = Some(Kept(task));
    }
}

/// The params of a `subscriptions/listen` for one resource, with what else the caller sent.
fn filter(params: &Payload, uri: &str) -> Result<Payload, InvalidPayload> {
    let mut params = RawObject::parse(params.as_str())?;
    params.remove("uri");
    let filter = json!({ "resourceSubscriptions": [uri] });
    params.set("notifications", serde_json::value::to_raw_value(&filter)?);
    params.to_payload()
}

/// Takes what comes of a subscription to where it belongs.
struct Follow {
    upstream: Weak<Upstream>,
    uri: String,
    outcome: watch::Sender<Option<Answered>>,
    /// Whether it was subscribed to before, so that something may have been missed.
    again: AtomicBool,
}

impl Follow {
    async fn session(self, call: PendingCall) {
        let outcome = call.outcome().await.map_err(|failure| self.failed(failure));
        self.answered(outcome);
    }

    async fn stateless(self, session: Session, lane: Lane, filter: Payload) {
        let ended = keep_listening(&session, lane, &filter, |name, params| {
            if name == method::LISTEN_ACKNOWLEDGED {
                let honoured = params.as_ref().is_some_and(|params| names_resource(params, &self.uri));
                self.answered(if honoured {
                    Payload::from_value(&json!({}))
                        .map_err(|error| RpcError::internal(error.to_string()).to_payload())
                } else {
                    let text = "The resource does not exist or cannot be subscribed to";
                    let error = RpcError::new(ErrorCode::InvalidParams, text);
                    Err(error.with_data(&json!({ "uri": self.uri })).to_payload())
                });
            } else {
                self.tell(name, params);
            }
        });
        let failure = ended.await;
        // It was never confirmed, so nobody else will say why.
        if self.outcome.borrow().is_none() {
            let error = self.failed(failure);
            self.answered(Err(error));
        }
    }

    fn failed(&self, failure: CallFailure) -> Payload {
        match failure {
            CallFailure::Rpc(error) => error,
            other => {
                let name =
                    self.upstream.upgrade().map(|upstream| upstream.name().to_owned()).unwrap_or_default();
                RpcError::internal(format!("The server {name:?} is not available: {other}")).to_payload()
            }
        }
    }

    fn answered(&self, answered: Answered) {
        if answered.is_ok() && self.again.swap(true, Ordering::Relaxed) {
            let params = Payload::from_value(&json!({ "uri": self.uri })).ok();
            self.tell(method::RESOURCE_UPDATED.to_owned(), params);
        }
        self.outcome.send_replace(Some(answered));
    }

    fn tell(&self, method: String, params: Option<Payload>) {
        if let Some(upstream) = self.upstream.upgrade() {
            upstream.tell(method, params, Some(self.uri.clone()));
        }
    }
}
