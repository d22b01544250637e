use std::collections::HashSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use taskgate_task::TaskId;
use tokio::time::{MissedTickBehavior, interval};

use crate::work::died;
use crate::{Engine, EngineError};

/// How often a node compares what it carries with what the store says that it carries.
const EVERY: Duration = Duration::from_secs(20);
const BATCH: usize = 256;

impl Engine {
    /// Finds tasks that are carried by this node according to the store, and by nobody in fact: a commit whose success this
    /// process never heard of leaves such a task behind. What is found twice in a row is lost, and treated so.
    pub(crate) fn reconcile(&self) -> impl Future<Output = ()> + Send + 'static {
        let engine = Arc::downgrade(&self.0);
        async move {
            let mut ticks = interval(EVERY);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut suspects = HashSet::new();
            loop {
                ticks.tick().await;
                let Some(engine) = engine.upgrade().map(Engine) else { return };
                if let Err(error) = engine.look_for_lost(&mut suspects).await {
                    tracing::warn!(%error, "cannot compare what is carried with the store; trying again");
                }
            }
        }
    }

    async fn look_for_lost(&self, suspects: &mut HashSet<(TaskId, u64)>) -> Result<(), EngineError> {
        let before = std::mem::take(suspects);
        let mut after = 0;
        loop {
            let carried = self.0.store.carried(self.node(), after, BATCH).await?;
            let Some(last) = carried.last() else { return Ok(()) };
            after = last.id.locator();
            for task in carried {
                let attempt = (task.id, task.fence);
                // Work of a task that has ended is being stopped, which is no attempt; that tries until it succeeds.
                let is_here =
                    self.0.executor.carries(&task.id, task.fence) || self.0.executor.stops(&task.id);
                if is_here {
                    continue;
                }
                if before.contains(&attempt) {
                    tracing::warn!(task = ?task.id, "nobody here works on a task that this node carries");
                    self.lose(task.id, task.fence, died()).await?;
                } else {
                    suspects.insert(attempt);
                }
            }
        }
    }
}
