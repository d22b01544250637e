use taskgate_engine::EngineError;
use taskgate_task::{Order, Task};

use super::{AdminReply, Desk, TaskView};

impl Desk {
    pub(super) async fn show(&self, name: &str) -> Result<AdminReply, EngineError> {
        let task = self.find(name).await?;
        self.whole(task).await
    }

    /// Gives an order for a task, and says where it stands then.
    pub(super) async fn act(&self, name: &str, order: Order) -> Result<AdminReply, EngineError> {
        let task = self.0.order(self.find(name).await?.id, order).await?;
        self.whole(task).await
    }

    async fn whole(&self, task: Task) -> Result<AdminReply, EngineError> {
        let events = self.0.store().events(task.id).await?;
        let task = Box::new(TaskView::of(&task, self.tool_of(&task).await?, self.0.now()));
        Ok(AdminReply::Task { task, events: events.into_iter().map(Into::into).collect() })
    }
}
