//! What a subscription asks for that is not known here: an extension's business between a client and an upstream.

use std::time::Duration;

use futures_util::future::join_all;
use taskgate_client::session::{Lane, Session};
use taskgate_task::{Owner, Payload};
use taskgate_wire::{Listen, RawObject, method};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::gateway::Gateway;
use crate::upstream::{State, keep_listening, lane};

/// How long an upstream may take to say what it honours.
const CONFIRMING: Duration = Duration::from_secs(10);

/// The subscriptions of one caller at the upstreams; they end with it.
pub struct Foreign {
    /// What the upstreams honour.
    pub granted: Vec<(String, Payload)>,
    said: Option<mpsc::UnboundedReceiver<Said>>,
    _kept: JoinSet<()>,
}

type Said = (String, Option<Payload>);

impl Foreign {
    /// What the upstreams say. `None` once they say no more: their connections have ended. Never resolves if nothing was
    /// honoured.
    pub async fn next(&mut self) -> Option<Said> {
        match &mut self.said {
            Some(said) => said.recv().await,
            None => std::future::pending().await,
        }
    }
}

impl Gateway {
    /// Subscribes to what is not known here at every upstream that has subscriptions.
    pub(super) async fn subscribe_foreign(&self, owner: &Owner, asked: &Listen) -> Foreign {
        let mut kept = JoinSet::new();
        let (say, said) = mpsc::unbounded_channel();
        let mut acknowledged = Vec::new();
        if let Some(filter) = filter(&asked.others) {
            for upstream in self.upstreams(owner).await.iter() {
                let State::Up(session) = upstream.state() else { continue };
                if let lane @ Lane::Modern(_) = lane(&session, true) {
                    let (honours, honoured) = oneshot::channel();
                    kept.spawn(keep(session, lane, filter.clone(), honours, say.clone()));
                    acknowledged.push(tokio::time::timeout(CONFIRMING, honoured));
                }
            }
        }
        let mut granted: Vec<(String, Payload)> = Vec::new();
        for (name, value) in join_all(acknowledged).await.into_iter().flatten().flatten().flatten() {
            if !granted.iter().any(|(known, _)| *known == name) {
                granted.push((name, value));
            }
        }
        let said = (!granted.is_empty()).then_some(said);
        Foreign { granted, said, _kept: kept }
    }
}

fn filter(others: &[(String, Payload)]) -> Option<Payload> {
    if others.is_empty() {
        return None;
    }
    let mut filter = RawObject::default();
    others.iter().for_each(|(name, value)| filter.push(name.clone(), value.as_raw().to_owned()));
    let mut params = RawObject::default();
    params.set("notifications", filter.to_raw().ok()?);
    params.to_payload().ok()
}

/// Keeps one subscription and passes on what comes of it.
async fn keep(
    session: Session,
    lane: Lane,
    filter: Payload,
    honours: oneshot::Sender<Vec<(String, Payload)>>,
    say: mpsc::UnboundedSender<Said>,
) {
    let honours = parking_lot::Mutex::new(Some(honours));
    let ended = keep_listening(&session, lane, &filter, |method, params| {
        if method != method::LISTEN_ACKNOWLEDGED {
            // Whoever listened may be going.
            let _ = say.send((method, params));
        } else if let Some(honours) = honours.lock().take() {
            let _ = honours.send(params.as_ref().and_then(honoured).unwrap_or_default());
        }
    });
    let failure = ended.await;
    tracing::debug!(%failure, "a subscription for an extension has ended");
}

fn honoured(acknowledged: &Payload) -> Option<Vec<(String, Payload)>> {
    let params = RawObject::parse(acknowledged.as_str()).ok()?;
    let filter = RawObject::parse(params.get("notifications")?.get()).ok()?;
    Some(Listen::others_of(&filter))
}
