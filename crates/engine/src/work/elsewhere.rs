//! Work that this node has found to be out of its reach.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use taskgate_task::TaskId;
use tokio::time::Instant;

/// How long such work is left to other nodes. Whoever puts work back is the first to know that it is ready again; without a
/// rest it would begin it over and over before the node that can do it comes to look.
const REST: Duration = Duration::from_secs(300);

/// The tasks whose work is elsewhere, and until when this node leaves them alone.
#[derive(Debug, Default)]
pub(crate) struct Elsewhere(Mutex<HashMap<TaskId, Instant>>);

impl Elsewhere {
    /// The work of this task is out of reach.
    pub(crate) fn note(&self, id: TaskId) {
        self.0.lock().insert(id, Instant::now() + REST);
    }

    /// Whether this node leaves the task alone.
    pub(crate) fn has(&self, id: &TaskId) -> bool {
        self.0.lock().contains_key(id)
    }

    /// How many tasks are left alone, after those whose rest is over were forgotten.
    pub(crate) fn count(&self) -> usize {
        let mut all = self.0.lock();
        let now = Instant::now();
        all.retain(|_, until| *until > now);
        all.len()
    }
}
