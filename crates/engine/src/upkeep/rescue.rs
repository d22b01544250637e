use futures_util::StreamExt;
use futures_util::stream;
use taskgate_task::{Status, Task};

use crate::{Engine, EngineError};

const BATCH: usize = 256;

impl Engine {
    /// Gives every task that an earlier process left unfinished its one decision: carried on with its answers, started
    /// again if it may be repeated, left waiting for its answers if nothing ran, failed as interrupted otherwise.
    ///
    /// Call it once at the start, after all runners are added and before anyone is served. Returns how many
    /// tasks there were.
    pub async fn rescue(&self) -> Result<usize, EngineError> {
        let mut after = 0;
        let mut count = 0;
        loop {
            let open = self.0.store.open(after, BATCH)?;
            let Some(last) = open.last() else { return Ok(count) };
            after = last.id.locator();
            count += open.len();
            stream::iter(open).for_each_concurrent(BATCH, |task| self.rescue_one(task)).await;
        }
    }

    async fn rescue_one(&self, task: Task) {
        let waits = task.status == Status::InputRequired && task.inputs.is_parked();
        if !waits {
            self.begin(task).await;
        }
    }
}
