use taskgate_task::{Owner, Step, Task, TaskId};

use crate::{Engine, EngineError};

impl Engine {
    /// Cancels a task: it is `cancelled` when this returns, and its work is being stopped.
    ///
    /// The record moves first, so a result that arrives a moment later is refused, whoever stops the work and however long
    /// that takes. On another node, that node hears of it. A task that has ended gives [`EngineError::Terminal`].
    pub async fn cancel(&self, owner: &Owner, id: TaskId) -> Result<Task, EngineError> {
        self.get(owner, id).await?;
        let engine = self.clone();
        self.see_through(async move {
            let change = engine.0.store.apply(id, Step::Cancel, engine.now()).await?;
            engine.0.executor.stop(&id);
            engine.begin_when_ready(&change.task);
            Ok(change.task)
        })
        .await
    }
}
