use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use taskgate_task::Loss;

use crate::Engine;

/// How long the last writes may take.
const LAST_WRITES: Duration = Duration::from_secs(5);

impl Engine {
    /// Ends the process's work in good order: starts nothing new, lets what runs finish within `grace`,
    /// calls that are no tasks included, then hands over
    /// the rest as the classes of the work say. Work that goes on elsewhere goes on; work that may be repeated or resumed
    /// is there for another node, or the next process; other work fails as interrupted.
    pub async fn drain(&self, grace: Duration) {
        self.0.draining.store(true, Ordering::Relaxed);
        if tokio::time::timeout(grace, self.0.executor.quiet()).await.is_err() {
            let left = self.0.executor.ids();
            tracing::info!(
                tasks = left.len(),
                "the grace is over: handing over what still runs, as its class says"
            );
            let handed_over = left.into_iter().map(|(id, fence)| async move {
                if let Err(error) = self.lose(id, fence, Loss::ShutDown).await {
                    tracing::warn!(task = ?id, %error, "could not hand over a task; it is taken over later");
                }
                self.0.executor.stop(&id);
            });
            let _ = tokio::time::timeout(LAST_WRITES, join_all(handed_over)).await;
            // What could not be written in time is stopped as well.
            self.0.executor.stop_all();
            let _ = tokio::time::timeout(LAST_WRITES, self.0.executor.idle()).await;
        }
        if !self.0.is_shared {
            return;
        }
        // Before anything else could renew the lease.
        self.0.has_left.store(true, Ordering::Relaxed);
        if let Ok(Err(error)) = tokio::time::timeout(LAST_WRITES, self.0.store.leave(self.node())).await {
            tracing::warn!(%error, "could not take leave; others notice when the lease is over");
        }
    }
}
