use taskgate_task::{Owner, Task, TaskId};

use crate::{Engine, EngineError};

impl Engine {
    /// Where a task of this owner stands. Reading changes nothing.
    pub async fn get(&self, owner: &Owner, id: TaskId) -> Result<Task, EngineError> {
        match self.0.store.get(id).await? {
            Some(task) if task.owner == *owner && !self.is_expired(&task) => Ok(task),
            _ => Err(EngineError::NotFound),
        }
    }
}
