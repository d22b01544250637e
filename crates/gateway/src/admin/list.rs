use std::collections::VecDeque;
use std::time::Duration;

use taskgate_engine::EngineError;
use taskgate_task::Task;

use super::{AdminReply, Desk, TaskFilter, TaskView};

/// How many records are read at once.
const PAGE: usize = 500;

impl Desk {
    /// The newest tasks, which are the last ones of the store's order.
    pub(super) async fn list(&self, filter: &TaskFilter, limit: usize) -> Result<AdminReply, EngineError> {
        let (mut newest, mut left_out) = (VecDeque::new(), 0);
        let now = self.0.now();
        self.each(filter, |task, tool| {
            newest.push_back((task, tool));
            if newest.len() > limit {
                newest.pop_front();
                left_out += 1;
            }
        })
        .await?;
        let mut tasks = Vec::with_capacity(newest.len());
        for (task, tool) in newest {
            let tool = match tool {
                Some(tool) => Some(tool),
                None => self.tool_of(&task).await?,
            };
            tasks.push(TaskView::of(&task, tool, now));
        }
        Ok(AdminReply::Tasks { tasks, left_out })
    }

    /// Calls `take` with every task that the filter lets through, and with its tool if the filter asked for one.
    pub(super) async fn each(
        &self,
        filter: &TaskFilter,
        mut take: impl FnMut(Task, Option<String>),
    ) -> Result<(), EngineError> {
        let mut after = None;
        loop {
            let page = self.0.store().all(after, PAGE).await?;
            for task in page.tasks {
                if !self.fits(filter, &task) {
                    continue;
                }
                let tool = match &filter.tool {
                    None => None,
                    Some(wanted) => match self.tool_of(&task).await? {
                        Some(tool) if tool == *wanted => Some(tool),
                        _ => continue,
                    },
                };
                take(task, tool);
            }
            let Some(next) = page.next else { return Ok(()) };
            after = Some(next);
        }
    }

    /// Whether the record fits what is asked for, but for its tool, which is not in it.
    fn fits(&self, filter: &TaskFilter, task: &Task) -> bool {
        let age = self.0.now().since(task.created_at);
        let is = |wanted: &Option<String>, name: &str| wanted.as_ref().is_none_or(|wanted| wanted == name);
        (filter.status.is_empty() || filter.status.contains(&task.status))
            && is(&filter.owner, task.owner.as_str())
            && is(&filter.upstream, &task.runner)
            && filter.older_than_ms.is_none_or(|least| age >= Duration::from_millis(least))
            && filter.newer_than_ms.is_none_or(|most| age < Duration::from_millis(most))
    }
}
