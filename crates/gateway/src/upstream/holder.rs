//! Whose the connection to an upstream is.
//!
//! A session of 2025-11-25 or earlier has a memory, and what one user has put there is not to reach another. A server of
//! 2026-07-28 has none, and one connection serves all. Which of the two it is shows only once it is connected, and may change with
//! the next connection: so what is handed out is looked at when it is handed out.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use taskgate_client::session::Lanes;
use taskgate_task::Owner;
use taskgate_wire::RpcError;

use super::{State, Upstream};
use crate::policy::{UpstreamKind, UpstreamSessions, UpstreamSpec};

/// Whose a connection is, as far as it is anybody's in particular.
#[derive(Debug, Default)]
pub struct Holder {
    /// The owner who has it. Several upstreams may share the place: whoever takes one takes all.
    owner: Arc<OnceLock<Owner>>,
    /// Whether it is one owner's alone.
    is_for_one: AtomicBool,
}

impl Holder {
    /// Whoever has this place, or takes it first.
    pub fn whoever_has(place: &Arc<OnceLock<Owner>>) -> Holder {
        Holder { owner: place.clone(), is_for_one: AtomicBool::new(false) }
    }

    /// This owner.
    pub fn of(owner: Owner) -> Holder {
        Holder::whoever_has(&Arc::new(OnceLock::from(owner)))
    }

    /// Before it is known what the server speaks, it may have sessions.
    pub fn expect(&self, spec: &UpstreamSpec) {
        self.is_for_one.store(spec.sessions == UpstreamSessions::Owner, Ordering::Release);
    }

    /// It is known what it speaks.
    pub fn settle(&self, spec: &UpstreamSpec, lanes: Lanes) {
        // A process is one however it is spoken to, and was asked for.
        let has_memory = lanes.legacy.is_some() || !matches!(spec.kind, UpstreamKind::Http(_));
        self.is_for_one.store(spec.sessions == UpstreamSessions::Owner && has_memory, Ordering::Release);
    }
}

impl Upstream {
    /// Whether each owner has a connection of its own to this server, as far as it is known.
    pub fn is_for_one(&self) -> bool {
        self.holder.is_for_one.load(Ordering::Acquire)
    }

    /// Whether the connection may be used for this owner. Nobody's becomes the owner's by that.
    pub fn serves(&self, owner: &Owner) -> bool {
        !self.is_for_one() || self.holder.owner.get_or_init(|| owner.clone()) == owner
    }

    /// The server had no sessions a moment ago, and now has.
    pub(super) fn not_yours(&self) -> RpcError {
        let text = "is connected anew, and now keeps a session for each of its users: try again";
        RpcError::internal(format!("The server {:?} {text}", self.name()))
    }

    /// Whether it is being connected for the first time, so that it is not known yet whether it has sessions.
    pub fn is_unknown(&self) -> bool {
        self.is_for_one()
            && self.described.read().is_none()
            && matches!(&*self.state.borrow(), State::Starting)
    }

    /// Waits until that is over.
    pub async fn known(&self) {
        let mut state = self.state.clone();
        // That it has been shut down is known, too.
        let _ = state.wait_for(|state| !matches!(state, State::Starting)).await;
    }

    /// Says until it is dropped that something goes on on the connection.
    pub fn in_use(&self) -> Arc<()> {
        self.running.clone()
    }

    /// Whether something goes on there: calls, tasks between two looks at them, subscriptions.
    pub fn is_in_use(&self) -> bool {
        Arc::strong_count(&self.running) > 1 || self.has_interests()
    }
}
