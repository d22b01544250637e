use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;
use taskgate_task::{Step, TaskId, Timestamp};
use tokio::time::Instant;

use crate::{Engine, StoreError};

/// How many due tasks a pass takes at first, and at most. Their writes wait together, and whoever else writes waits for them.
const FIRST: usize = 16;
const MOST: usize = 256;

/// How long a pass is to take. Tasks that are short go many at a time; of those with megabytes, whose room has to be found
/// page by page, one may take as long.
const PASS: Duration = Duration::from_millis(20);

impl Engine {
    /// Moves every task that time alone moves: grows a running task's ttl, fails it at its run limit, deletes it
    /// when its retention is over. Bounded per pass; passes repeat while there is work.
    pub async fn expire_due(&self) {
        let mut batch = FIRST;
        loop {
            let (now, begun) = (self.now(), Instant::now());
            let due = match self.0.store.due(now, batch).await {
                Ok(due) => due,
                Err(error) => {
                    tracing::error!(%error, "upkeep cannot read what is due");
                    return;
                }
            };
            let full = due.len() == batch;
            let moved = stream::iter(due)
                .map(|id| self.expire(id, now))
                .buffer_unordered(MOST)
                .fold(0usize, |sum, moved| async move { sum + usize::from(moved) })
                .await;
            batch = match moved {
                _ if !full => return,
                0 if batch == MOST => return,
                // Those that cannot be moved, because their rows are damaged, must not hide the others behind them.
                0 => MOST,
                _ => next(batch, begun.elapsed()),
            };
        }
    }

    /// Whether time has moved the task.
    async fn expire(&self, id: TaskId, now: Timestamp) -> bool {
        match self.0.store.apply(id, Step::Tick, now).await {
            Ok(change) => {
                // Expiry is an event: the work is stopped by whoever carries it.
                if change.task.status.is_terminal() {
                    self.0.executor.stop(&id);
                    self.begin_when_ready(&change.task);
                }
                true
            }
            Err(StoreError::Failed(reason)) => {
                tracing::error!(task = ?id, %reason, "upkeep cannot write");
                false
            }
            Err(_) => false,
        }
    }
}

/// How many tasks the next pass takes, by how long this one took.
fn next(batch: usize, took: Duration) -> usize {
    if took > PASS * 2 {
        (batch / 2).max(1)
    } else if took < PASS {
        (batch * 2).min(MOST)
    } else {
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_takes_as_many_as_its_time_allows() {
        let grown = (0..9).fold(FIRST, |batch, _| next(batch, Duration::from_millis(1)));
        assert_eq!(grown, MOST);
        assert_eq!(next(MOST, PASS), MOST);
        let shrunk = (0..9).fold(MOST, |batch, _| next(batch, Duration::from_secs(1)));
        assert_eq!(shrunk, 1);
        assert_eq!(next(1, Duration::from_secs(1)), 1);
    }
}
