//! What other nodes do to tasks that somebody waits for here, or whose work is here.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::sync::Arc;

use futures_util::{StreamExt, stream};
use taskgate_task::TaskId;
use tokio::time::{MissedTickBehavior, interval};

use crate::store::Heard;
use crate::{Engine, News, StoreError};

/// How many records are asked for at the same time, and how many versions at once.
const AT_ONCE: usize = 16;
const CHUNK: usize = 1000;
/// The most tasks that one look for what was missed covers; the next look goes on from there.
const MOST: usize = 20 * CHUNK;

impl Engine {
    /// Listens to other nodes, and looks now and then for what was not told.
    pub(crate) fn hear(&self) -> impl Future<Output = ()> + Send + 'static {
        let (engine, heard) = (Arc::downgrade(&self.0), self.0.others.lock().take());
        let mut ticks = interval(self.0.settings.poll);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        async move {
            let Some(mut heard) = heard else { return };
            let mut looking = Looking::default();
            loop {
                let told = tokio::select! {
                    told = heard.recv() => told,
                    _ = ticks.tick() => Some(Heard::Gap),
                };
                let (Some(told), Some(engine)) = (told, engine.upgrade().map(Engine)) else { return };
                let done = match told {
                    Heard::Changed(locators) => {
                        let ids = engine.of_interest(Some(&locators));
                        engine.look_at(ids, &mut looking).await
                    }
                    Heard::Gap => engine.look_for_missed(&mut looking).await,
                };
                if let Err(error) = done {
                    tracing::warn!(%error, "cannot see what other nodes did; trying again");
                }
            }
        }
    }

    /// The tasks that somebody waits for here, and those whose work is here.
    fn of_interest(&self, among: Option<&[i64]>) -> HashSet<TaskId> {
        let mut ids: HashSet<TaskId> = self.0.store.feed().followed(among).into_iter().collect();
        match among {
            Some(locators) => ids.extend(self.0.executor.among(locators)),
            None => ids.extend(self.0.executor.ids().into_iter().map(|(id, _)| id)),
        }
        ids
    }

    async fn look_for_missed(&self, looking: &mut Looking) -> Result<(), StoreError> {
        let ids = self.of_interest(None);
        looking.seen.retain(|id, _| ids.contains(id));
        for chunk in looking.next(ids).chunks(CHUNK) {
            let versions: HashMap<TaskId, u64> =
                self.0.store.versions(chunk.to_vec()).await?.into_iter().collect();
            let changed = chunk.iter().filter(|id| match versions.get(id) {
                Some(version) => looking.seen.get(id) != Some(version),
                None => true,
            });
            let changed: HashSet<TaskId> = changed.copied().collect();
            self.look_at(changed, looking).await?;
        }
        Ok(())
    }

    /// Reads the records and passes them on.
    async fn look_at(&self, ids: HashSet<TaskId>, looking: &mut Looking) -> Result<(), StoreError> {
        let reads = stream::iter(ids).map(|id| async move { (id, self.0.store.get(id).await) });
        let mut reads = reads.buffer_unordered(AT_ONCE);
        let mut failed = None;
        while let Some((id, read)) = reads.next().await {
            match read {
                // One record that cannot be read hides nothing of the others.
                Err(error) => failed = Some(error),
                Ok(Some(task)) => {
                    looking.seen.insert(id, task.version);
                    self.0.executor.heard(&task);
                    self.0.store.feed().publish(&News::Changed(Arc::new(task)));
                }
                Ok(None) => {
                    // What was never seen may be on its way into the store, with its work begun already.
                    if looking.seen.remove(&id).is_some() {
                        self.0.executor.stop(&id);
                    }
                    self.0.store.feed().publish(&News::Deleted(id));
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }
}

/// What has been looked at.
#[derive(Default)]
struct Looking {
    seen: HashMap<TaskId, u64>,
    /// Where the last look stopped, if it did not come to the end.
    after: Option<TaskId>,
}

impl Looking {
    /// The tasks to look at this time.
    fn next(&mut self, ids: HashSet<TaskId>) -> Vec<TaskId> {
        let mut ids: Vec<TaskId> = ids.into_iter().collect();
        if ids.len() <= MOST {
            return ids;
        }
        ids.sort_unstable();
        let from = self.after.map_or(0, |after| ids.partition_point(|id| *id <= after));
        let from = if from == ids.len() { 0 } else { from };
        let next: Vec<TaskId> = ids.into_iter().skip(from).take(MOST).collect();
        self.after = next.last().copied();
        next
    }
}
