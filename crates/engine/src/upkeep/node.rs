//! The life of a node of a shared store.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::signs::Signs;
use crate::store::Node;
use crate::{Engine, EngineError, NodeSettings, StoreError};

/// Since when a node has been in touch with the store without a break.
struct Touch {
    since: Instant,
    last: Instant,
}

impl Engine {
    /// Becomes known to the store, so that others see what this node carries as carried.
    pub(crate) async fn join(&self) -> Result<(), EngineError> {
        let now = self.now();
        let settings = &self.0.settings;
        let lease_until = now.after(settings.lease);
        let name = format!("{} (process {})", settings.name, std::process::id());
        let node = Node { id: self.node(), name, joined_at: now, lease_until };
        self.0.store.join(node).await?;
        self.lives_until(lease_until);
        Ok(())
    }

    /// Renews the lease again and again, and buries the nodes that no longer do.
    pub(crate) fn live(&self) -> impl Future<Output = ()> + Send + 'static {
        let engine = Arc::downgrade(&self.0);
        let NodeSettings { heartbeat, lease, .. } = self.0.settings.clone();
        async move {
            let mut ticks = interval(heartbeat);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut touch = Touch { since: Instant::now(), last: Instant::now() };
            let mut signs = Signs::default();
            loop {
                ticks.tick().await;
                let Some(engine) = engine.upgrade().map(Engine) else { return };
                if engine.0.has_left.load(Ordering::Relaxed) {
                    continue;
                }
                let is_in_touch = engine.beat(heartbeat).await;
                let now = Instant::now();
                if !is_in_touch || now.duration_since(touch.last) > lease {
                    touch.since = now;
                    signs.forget();
                }
                if is_in_touch {
                    touch.last = now;
                    // A node that was itself out of touch cannot know whether others were: it gives them a lease of time.
                    let may_judge = now.duration_since(touch.since) >= lease;
                    if let Err(error) = engine.bury_the_dead(&mut signs, may_judge).await {
                        tracing::warn!(%error, "cannot look for dead nodes");
                    }
                }
            }
        }
    }

    /// One heartbeat. Whether the store was reached.
    async fn beat(&self, patience: Duration) -> bool {
        let until = self.now().after(self.0.settings.lease);
        match timeout(patience, self.0.store.renew(self.node(), until)).await {
            Ok(Ok(true)) => {
                self.lives_until(until);
                true
            }
            Ok(Ok(false)) => {
                tracing::warn!(
                    carried = self.carried(),
                    "this node was out of touch for so long that others have taken over its work, which stops here"
                );
                if let Err(error) = self.come_back().await {
                    tracing::error!(%error, "cannot join the other nodes again; trying again");
                    return false;
                }
                true
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, "a heartbeat failed; trying again");
                false
            }
            Err(_) => {
                tracing::warn!("a heartbeat got no answer; trying again");
                false
            }
        }
    }

    /// Goes on as another node, without what this one carried.
    async fn come_back(&self) -> Result<(), EngineError> {
        self.reborn()?;
        self.0.executor.stop_all();
        self.join().await
    }

    async fn bury_the_dead(&self, signs: &mut Signs, may_judge: bool) -> Result<(), StoreError> {
        let nodes = self.0.store.nodes().await?;
        let dead = signs.dead(nodes, self.now(), &self.0.settings);
        for node in dead.into_iter().filter(|node| may_judge && node.id != self.node()) {
            // Not if it has renewed its lease since.
            if self.0.store.bury(node.id, node.lease_until).await? {
                tracing::warn!(node = %node.id, name = node.name, "a node gave no sign of life; its work is taken over");
                self.take_over().await;
            }
        }
        Ok(())
    }
}
