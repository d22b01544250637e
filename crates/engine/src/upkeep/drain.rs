use std::sync::atomic::Ordering;
use std::time::Duration;

use taskgate_task::{Failure, Step, WorkClass};

use crate::Engine;

impl Engine {
    /// Ends the process's work in good order: starts nothing new, lets what runs finish within `grace`,
    /// calls that are no tasks included, then hands over
    /// the rest as the crash rules say. Work that may be repeated stays open for the next process, other work fails
    /// as interrupted.
    pub async fn drain(&self, grace: Duration) {
        self.0.draining.store(true, Ordering::Relaxed);
        if tokio::time::timeout(grace, self.0.executor.quiet()).await.is_ok() {
            return;
        }
        for (id, fence) in self.0.executor.ids() {
            if let Ok(Some(task)) = self.0.store.get(id)
                && task.class == WorkClass::Live
            {
                let message = "The work was interrupted: the gateway was shut down.".to_owned();
                self.settle(id, Step::Fail { fence, failure: Failure::Interrupted, message }).await;
            }
            self.0.executor.stop(&id);
        }
        let _ = tokio::time::timeout(Duration::from_secs(5), self.0.executor.idle()).await;
    }
}
