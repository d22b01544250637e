use std::sync::Arc;

use taskgate_task::{Owner, Task, TaskId};

use crate::{Engine, EngineError, Following, News};

/// Follows one task: first where it stands, then each committed change.
#[derive(Debug)]
pub struct Watch {
    following: Following,
    current: Arc<Task>,
}

impl Engine {
    /// Follows a task of this owner. Nothing that is committed after this call is missed.
    pub async fn watch(&self, owner: &Owner, id: TaskId) -> Result<Watch, EngineError> {
        let following = self.0.store.feed().follow([id]);
        let current = Arc::new(self.get(owner, id).await?);
        Ok(Watch { following, current })
    }
}

impl Watch {
    /// The newest record seen.
    pub fn current(&self) -> &Task {
        &self.current
    }

    /// Waits for the next change. Safe to drop and call again. [`EngineError::NotFound`] when the task was deleted.
    pub async fn changed(&mut self) -> Result<&Task, EngineError> {
        loop {
            match self.following.next().await {
                Some(News::Changed(task)) if task.version > self.current.version => {
                    self.current = task;
                    return Ok(&self.current);
                }
                Some(News::Changed(_)) => {}
                Some(News::Deleted(_)) | None => return Err(EngineError::NotFound),
            }
        }
    }
}
