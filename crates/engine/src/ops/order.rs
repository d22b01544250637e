use std::sync::atomic::Ordering;

use taskgate_task::{Order, Step, Task, TaskId};

use crate::{Engine, EngineError};

impl Engine {
    /// Does to a task what an operator wants of it, whoever owns it. Its work is stopped or begun anew as the order says,
    /// here or, once they hear of it, on the node that carries it.
    ///
    /// # Errors
    ///
    /// [`EngineError::Terminal`] if it has ended already, [`EngineError::Refused`] if the order does not fit the task.
    pub async fn order(&self, id: TaskId, order: Order) -> Result<Task, EngineError> {
        let engine = self.clone();
        self.see_through(async move {
            let change = engine.0.store.apply(id, Step::Order(order), engine.now()).await?;
            // Whatever the order, the attempt that was under way has no say any more.
            engine.0.executor.stop(&id);
            engine.begin_when_ready(&change.task);
            Ok(change.task)
        })
        .await
    }

    /// Begins no work from now on, and stops none: for a process that only gives orders and has no runners. What becomes of
    /// the work is for the next one to see to that has them.
    pub fn begin_nothing(&self) {
        self.0.draining.store(true, Ordering::Relaxed);
    }
}
