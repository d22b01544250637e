use taskgate_task::{Owner, Task, TaskId};

use crate::{Engine, EngineError};

impl Engine {
    /// Waits until a task has ended. The future may be dropped at any time; that cancels nothing.
    pub async fn wait(&self, owner: &Owner, id: TaskId) -> Result<Task, EngineError> {
        let mut watch = self.watch(owner, id).await?;
        loop {
            let task = watch.current();
            if task.status.is_terminal() {
                return Ok(task.clone());
            }
            watch.changed().await?;
        }
    }
}
