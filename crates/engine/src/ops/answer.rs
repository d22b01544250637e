use taskgate_task::{Owner, Payload, Step, TaskId};

use crate::{Engine, EngineError};

impl Engine {
    /// Gives answers to open questions. Unknown and already answered keys are ignored, counted and logged;
    /// the count is returned. When the last open question is answered the work goes on.
    pub async fn answer(
        &self,
        owner: &Owner,
        id: TaskId,
        answers: Vec<(String, Payload)>,
    ) -> Result<usize, EngineError> {
        self.get(owner, id).await?;
        let engine = self.clone();
        self.see_through(async move {
            let change = engine.0.store.apply(id, Step::Answer { answers }, engine.now()).await?;
            if change.ignored > 0 {
                tracing::info!(task = ?id, ignored = change.ignored, "answers to questions that are not open");
            }
            if !change.answered.is_empty() {
                engine.0.executor.answer(&id, change.answered);
                engine.begin_when_ready(&change.task);
            }
            Ok(change.ignored)
        })
        .await
    }
}
