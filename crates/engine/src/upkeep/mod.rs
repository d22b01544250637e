//! What time, crashes and other nodes do to tasks: small loops, and the decisions at the start and at the end of a process.
//! Every loop may run on all nodes of a store at once.

mod drain;
mod expire;
mod hear;
mod node;
mod reconcile;
mod rescue;
mod signs;

use std::future::Future;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::Engine;

/// How often upkeep looks for tasks that are due, ready or orphaned.
const EVERY: Duration = Duration::from_millis(500);

impl Engine {
    /// Starts the upkeep loops. They end when the returned handle is aborted, when nobody else has the engine any more, or
    /// when the runtime shuts down.
    pub fn start_upkeep(&self) -> tokio::task::JoinHandle<()> {
        let mut loops = JoinSet::new();
        // Two loops: however much is to be deleted, what is ready begins.
        loops.spawn(self.every(EVERY, |engine| async move { engine.expire_due().await }));
        loops.spawn(self.every(EVERY, |engine| async move { engine.begin_ready().await }));
        loops.spawn(self.reconcile());
        if self.0.is_shared {
            loops.spawn(self.every(EVERY, |engine| async move {
                engine.take_over().await;
            }));
            // A task of its own: a heartbeat waits for nothing else.
            loops.spawn(self.live());
            loops.spawn(self.hear());
        }
        tokio::spawn(async move { while loops.join_next().await.is_some() {} })
    }

    fn every<F: Future<Output = ()> + Send>(
        &self,
        period: Duration,
        tick: impl Fn(Engine) -> F + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        let engine = std::sync::Arc::downgrade(&self.0);
        async move {
            let mut ticks = tokio::time::interval(period);
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                let Some(engine) = engine.upgrade() else { return };
                tick(Engine(engine)).await;
            }
        }
    }
}
