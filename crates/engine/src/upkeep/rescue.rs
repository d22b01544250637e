use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use taskgate_task::Task;

use crate::work::died;
use crate::{Engine, EngineError, StoreError};

/// How many tasks one pass takes.
const BATCH: usize = 256;
/// How often what could not be settled at the start is tried again.
const SETTLE_AGAIN: Duration = Duration::from_secs(2);

impl Engine {
    /// Joins the store and gives every task that a dead process left unfinished its one decision: carried on with its
    /// answers or from its checkpoint, started again if it may be repeated, left waiting for its answers if nothing ran, failed
    /// as interrupted otherwise.
    ///
    /// Call it once at the start, after all runners are added and before anyone is served. Returns how many orphans
    /// there were.
    ///
    /// # Errors
    ///
    /// [`EngineError::Store`] if the store cannot be read, or this process cannot join it. Decisions that cannot be written
    /// are made later.
    pub async fn rescue(&self) -> Result<usize, EngineError> {
        self.join().await?;
        let mut count = 0;
        loop {
            let orphans = self.0.store.orphans(BATCH).await?;
            if orphans.is_empty() {
                break;
            }
            count += orphans.len();
            if let Err(error) = self.adopt(orphans).await {
                // The disk may be full. What is there can be served all the same, and the decisions wait.
                tracing::error!(%error, "cannot settle all tasks of an earlier process; trying again");
                tokio::spawn(self.settle_later());
                break;
            }
        }
        self.try_begin_ready().await?;
        Ok(count)
    }

    /// Tries again until nothing is left to be settled: in an exclusive store no new orphans come.
    fn settle_later(&self) -> impl Future<Output = ()> + Send + 'static {
        let engine = Arc::downgrade(&self.0);
        async move {
            loop {
                tokio::time::sleep(SETTLE_AGAIN).await;
                let Some(engine) = engine.upgrade().map(Engine) else { return };
                if engine.take_over().await {
                    return;
                }
            }
        }
    }

    /// Takes over what dead nodes carried, bounded per pass. Whether nothing was left.
    pub(crate) async fn take_over(&self) -> bool {
        if self.is_draining() || !self.holds_its_lease() {
            return false;
        }
        let adopted = match self.0.store.orphans(BATCH).await {
            Ok(orphans) if orphans.is_empty() => return true,
            Ok(orphans) => self.adopt(orphans).await,
            Err(error) => Err(error.into()),
        };
        if let Err(error) = adopted {
            tracing::error!(%error, "cannot take over the work of dead nodes; trying again");
        }
        false
    }

    async fn adopt(&self, orphans: Vec<Task>) -> Result<(), EngineError> {
        let adopted =
            stream::iter(orphans).map(|task| async move { self.lose(task.id, task.fence, died()).await });
        adopted.buffer_unordered(BATCH).fold(Ok(()), |all, one| async move { all.and(one) }).await
    }

    /// Begins what nobody carries and is ready, bounded per pass.
    pub(crate) async fn begin_ready(&self) {
        if let Err(error) = self.try_begin_ready().await {
            tracing::error!(%error, "upkeep cannot read what is ready");
        }
    }

    async fn try_begin_ready(&self) -> Result<(), StoreError> {
        if self.is_draining() || !self.holds_its_lease() {
            return Ok(());
        }
        // What was out of reach the last time may still stand at the head of the line.
        let limit = BATCH + self.0.executor.passed_over.swap(0, Ordering::Relaxed);
        let ready = self.0.store.ready(self.now(), limit).await?;
        stream::iter(ready).for_each_concurrent(BATCH, |task| self.begin(task)).await;
        Ok(())
    }
}
