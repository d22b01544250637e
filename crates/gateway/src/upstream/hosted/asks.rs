use taskgate_wire::Dialect;
use taskgate_wire::hosted::hosts;
use taskgate_wire::tool::{TaskSupport, ToolFacts};

use super::super::{Upstream, lane_of};
use crate::policy::UpstreamTasks;

impl Upstream {
    /// Whether a call of this tool asks for a task of the upstream's own. `lasts` says whether our own call is, or may
    /// become, a task that is to outlive this process.
    pub fn is_asked_for_task(&self, tool: &ToolFacts, stateless: bool, lasts: bool) -> bool {
        let wanted = match self.spec().upstream_tasks {
            UpstreamTasks::Never => return false,
            UpstreamTasks::Auto => false,
            UpstreamTasks::Always => lasts,
        };
        let described = self.described.read();
        let Some(described) = described.as_ref() else { return false };
        let lane = lane_of(described.lanes, stateless);
        let Some(dialect) = Dialect::of(lane.version()) else { return false };
        let asks = match (dialect, tool.task_support) {
            (Dialect::D2025_11_25, TaskSupport::Required) => true,
            (Dialect::D2025_11_25, TaskSupport::Optional) => wanted,
            (Dialect::D2025_11_25, TaskSupport::Forbidden) => false,
            // Nothing in a definition says it there: a server that needs it refuses a call without.
            (Dialect::D2026_07_28, _) => wanted || self.needs_tasks.read().contains(&tool.name),
        };
        // Last, since it reads text.
        asks && described.server.of(lane).is_some_and(|said| hosts(dialect, said.capabilities.as_raw()))
    }

    /// The upstream has refused a call because it did not ask for a task. Says whether it may ask.
    pub fn needs_task(&self, tool: &str) -> bool {
        let may = self.spec().may_host_tasks();
        if may {
            self.needs_tasks.write().insert(tool.to_owned());
        }
        may
    }
}
