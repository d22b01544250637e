use std::time::Duration;

use taskgate_task::{IdempotencyKey, NewTask, Owner, Refusal, Step, Task, TaskId};

use tokio::sync::mpsc;

use crate::{Engine, EngineError, InlineEvent, Launch, Report, StoreError};

/// How often a task is made anew when something that has just gone, or chance, was in its way.
const TRIES: u32 = 4;

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
    /// [`EngineError::KeyConflict`] if the key was used for a call with other arguments, [`EngineError::KeyExpiring`] if the
    /// task of an earlier one cannot be removed yet.
    pub async fn submit(
        &self,
        launch: Launch,
        key: Option<IdempotencyKey>,
        ttl: Option<Duration>,
    ) -> Result<Submitted, EngineError> {
        self.submit_heard(launch, key, ttl, None).await
    }

    /// The same, where somebody listens to the progress and the logs of a task that is new, as long as it is carried from here. Nothing
    /// is kept for a listener who has gone, and whoever finds the task of an earlier call hears nothing.
    ///
    /// # Errors
    ///
    /// Those of [`Engine::submit`].
    pub async fn submit_heard(
        &self,
        launch: Launch,
        key: Option<IdempotencyKey>,
        ttl: Option<Duration>,
        listener: Option<mpsc::UnboundedSender<InlineEvent>>,
    ) -> Result<Submitted, EngineError> {
        let owner = launch.owner.clone();
        let mut tries = TRIES;
        loop {
            if self.is_draining() {
                return Err(EngineError::Draining);
            }
            tries -= 1;
            match self.try_submit(launch.clone(), key.clone(), ttl, listener.clone()).await? {
                Ok(task) => return Ok(Submitted { task, is_new: true }),
                Err(StoreError::KeyTaken { id, same }) => match self.get(&owner, id).await {
                    Ok(task) if same => return Ok(Submitted { task, is_new: false }),
                    Ok(_) => return Err(EngineError::KeyConflict),
                    Err(EngineError::NotFound) if tries > 0 => self.remove_expired(id).await?,
                    Err(error) => return Err(error),
                },
                // Another node has made a task in the same millisecond, and chance gave it the same place.
                Err(StoreError::IdTaken) if tries > 0 => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn try_submit(
        &self,
        launch: Launch,
        key: Option<IdempotencyKey>,
        ttl: Option<Duration>,
        listener: Option<mpsc::UnboundedSender<InlineEvent>>,
    ) -> Result<Result<Task, StoreError>, EngineError> {
        let new = NewTask { key, ..launch.task(self, ttl)? };
        let id = new.id;
        let (engine, created) = (self.clone(), self.0.store.create(new));
        self.see_through(async move {
            let task = match created.await {
                Ok(task) => task,
                Err(error) => return Ok(Err(error)),
            };
            let report = Report::listened(engine.clone(), id, task.fence, listener);
            let run = launch.with.run(launch.first(None), report.clone());
            engine.carry(id, task.fence, task.lifetime, run, report).keep();
            Ok(Ok(task))
        })
        .await
    }

    /// Removes a task that no longer exists for anyone, as upkeep is about to, so that its key is free.
    async fn remove_expired(&self, id: TaskId) -> Result<(), EngineError> {
        match self.0.store.apply(id, Step::Tick, self.now()).await {
            Ok(_) | Err(StoreError::NotFound) => Ok(()),
            Err(StoreError::Refused(Refusal::NotDue)) => Err(EngineError::KeyExpiring),
            Err(error) => Err(error.into()),
        }
    }

    /// The task that an earlier call with this key made, if there is one.
    ///
    /// # Errors
    ///
    /// [`EngineError::KeyConflict`] if that call had other arguments.
    pub async fn keyed(&self, owner: &Owner, key: &IdempotencyKey) -> Result<Option<Task>, EngineError> {
        match self.find_keyed(owner, key).await? {
            Some((_, false)) => Err(EngineError::KeyConflict),
            found => Ok(found.map(|(task, _)| task)),
        }
    }

    /// The task that an earlier call with this key made, whatever its arguments were, and whether they were the same.
    ///
    /// # Errors
    ///
    /// Why the store cannot tell.
    pub async fn find_keyed(
        &self,
        owner: &Owner,
        key: &IdempotencyKey,
    ) -> Result<Option<(Task, bool)>, EngineError> {
        let Some((id, same)) = self.0.store.keyed(owner, key).await? else { return Ok(None) };
        match self.get(owner, id).await {
            Ok(task) => Ok(Some((task, same))),
            // What has expired has no key any more, whatever it was for.
            Err(EngineError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
