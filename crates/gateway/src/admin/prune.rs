use std::time::Duration;

use futures_util::{StreamExt, stream};
use taskgate_engine::EngineError;
use taskgate_task::{Carrier, Order};

use super::{AdminReply, Desk, TaskFilter};

/// How many deletions wait together: what waits shares a commit.
const AT_ONCE: usize = 64;

impl Desk {
    /// Deletes what ended so long ago, or says how many that would be.
    pub(super) async fn prune(
        &self,
        filter: &TaskFilter,
        ended_before: Duration,
        dry_run: bool,
    ) -> Result<AdminReply, EngineError> {
        let now = self.0.now();
        let (mut ids, mut kept) = (Vec::new(), 0);
        self.each(filter, |task, _| {
            match task.ended_at {
                Some(ended) if now.since(ended) >= ended_before => {}
                _ => return,
            }
            // Upkeep keeps such a task for as long, whatever its retention.
            if task.carrier == Carrier::Nobody { ids.push(task.id) } else { kept += 1 }
        })
        .await?;
        if dry_run {
            return Ok(AdminReply::Pruned { count: ids.len() as u64, kept });
        }
        let deletions = stream::iter(ids).map(|id| self.0.order(id, Order::Prune));
        let mut deletions = deletions.buffer_unordered(AT_ONCE);
        let mut count = 0;
        while let Some(deleted) = deletions.next().await {
            match deleted {
                // Its retention was over in the meantime.
                Ok(_) | Err(EngineError::NotFound) => count += 1,
                Err(EngineError::Refused(_)) => kept += 1,
                Err(error) => return Err(error),
            }
        }
        Ok(AdminReply::Pruned { count, kept })
    }
}
