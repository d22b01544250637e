//! What upstreams say that belongs to no call, as far as it concerns an owner.

use taskgate_task::Owner;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::Pool;
use crate::upstream::Change;

/// What the upstreams say, from a moment on.
pub(crate) struct Changes {
    shared: broadcast::Receiver<Change>,
    /// A guest hears its own connections, and nothing of those that are the first owner's.
    own: Option<broadcast::Receiver<Change>>,
}

impl Pool {
    /// What the upstreams say to this owner from now on.
    pub(crate) fn changes(&self, owner: &Owner) -> Changes {
        let shared = self.common.changes.subscribe();
        let own = (!self.is_first(owner))
            .then(|| self.guests.lock().entry(owner.clone()).or_default().changes.subscribe());
        Changes { shared, own }
    }
}

impl Changes {
    /// The next thing they say; `None` when the gateway is gone. Can be dropped without loss.
    pub(crate) async fn next(&mut self) -> Option<Change> {
        loop {
            let heard = match &mut self.own {
                None => self.shared.recv().await,
                Some(own) => tokio::select! {
                    heard = own.recv() => heard,
                    heard = self.shared.recv() => match heard {
                        Ok(change) if change.is_private => continue,
                        heard => heard,
                    },
                },
            };
            match heard {
                Ok(change) => return Some(change),
                // A listener that is too slow loses changes, not the stream: each change only says "look again".
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return None,
            }
        }
    }
}
