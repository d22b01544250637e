use std::time::Duration;

use taskgate_task::{IdempotencyKey, NewTask, Owner, Task};

use crate::{Engine, EngineError, Launch, Report, StoreError};

/// What came of a submission.
#[derive(Debug)]
pub struct Submitted {
    /// The task.
    pub task: Task,
    /// Whether it was created by this call. If not, the same call was made before.
    pub is_new: bool,
}

impl Engine {
    /// Makes a task and only then begins its work: for work that must not begin unless there is a record of it, and for calls
    /// that can be found again by their idempotency key.
    ///
    /// # Errors
    ///
    /// [`EngineError::KeyConflict`] if the key was used for a call with other arguments.
    pub async fn submit(
        &self,
        launch: Launch,
        key: Option<IdempotencyKey>,
        ttl: Option<Duration>,
    ) -> Result<Submitted, EngineError> {
        if self.is_draining() {
            return Err(EngineError::Draining);
        }
        let new = NewTask { key, ..launch.task(self, ttl)? };
        let (id, owner) = (new.id, new.owner.clone());
        // Whoever asked may go away at any moment: a task that is there must be carried all the same.
        let (engine, created) = (self.clone(), self.0.store.create(new));
        let carried = tokio::spawn(async move {
            let task = created.await?;
            let report = Report::task(engine.clone(), id, task.fence);
            let run = launch.with.run(launch.first(None), report.clone());
            engine.carry(id, task.fence, task.lifetime, run, report).keep();
            Ok::<Task, StoreError>(task)
        });
        match carried.await.map_err(|error| EngineError::Store(format!("the work did not begin: {error}")))? {
            Ok(task) => Ok(Submitted { task, is_new: true }),
            Err(StoreError::KeyTaken { id, same: true }) => {
                Ok(Submitted { task: self.get(&owner, id).await?, is_new: false })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The task that an earlier call with this key made, if there is one.
    ///
    /// # Errors
    ///
    /// [`EngineError::KeyConflict`] if that call had other arguments.
    pub async fn keyed(&self, owner: &Owner, key: &IdempotencyKey) -> Result<Option<Task>, EngineError> {
        match self.0.store.keyed(owner, key).await? {
            Some((_, false)) => Err(EngineError::KeyConflict),
            Some((id, true)) => match self.get(owner, id).await {
                Ok(task) => Ok(Some(task)),
                Err(EngineError::NotFound) => Ok(None),
                Err(error) => Err(error),
            },
            None => Ok(None),
        }
    }
}
