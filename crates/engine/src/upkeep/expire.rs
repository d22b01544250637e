use futures_util::StreamExt;
use futures_util::stream;
use taskgate_task::Step;

use crate::{Engine, StoreError};

/// How many due tasks one pass takes, and how many of their writes wait together.
const BATCH: usize = 256;

impl Engine {
    /// Moves every task that time alone moves: grows a running task's ttl, fails it at its run limit, deletes it
    /// when its retention is over. Bounded per pass; passes repeat while there is work.
    pub async fn expire_due(&self) {
        loop {
            let now = self.now();
            let due = match self.0.store.due(now, BATCH).await {
                Ok(due) => due,
                Err(error) => {
                    tracing::error!(%error, "upkeep cannot read what is due");
                    return;
                }
            };
            let full = due.len() == BATCH;
            let moved = stream::iter(due)
                .map(|id| async move {
                    match self.0.store.apply(id, Step::Tick, now).await {
                        Ok(change) => {
                            // Expiry is an event: the work is stopped by whoever carries it.
                            if change.task.status.is_terminal() {
                                self.0.executor.stop(&id);
                                self.begin_when_ready(&change.task);
                            }
                            1
                        }
                        Err(StoreError::Failed(reason)) => {
                            tracing::error!(task = ?id, %reason, "upkeep cannot write");
                            0
                        }
                        Err(_) => 0,
                    }
                })
                .buffer_unordered(BATCH)
                .fold(0usize, |sum, moved| async move { sum + moved })
                .await;
            if !full || moved == 0 {
                return;
            }
        }
    }
}
