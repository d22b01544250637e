use std::time::Duration;

use taskgate_engine::Report;
use taskgate_task::Payload;
use taskgate_wire::hosted::{HostedStatus, HostedTask};
use tokio::time::Instant;

use super::super::ending::short;

/// Lines that come faster than this are not all kept, so the next one waits.
const LINES: Duration = Duration::from_millis(300);

/// What was passed on of the task's own words.
#[derive(Default)]
pub struct Voice {
    count: u64,
    seen: Option<(HostedStatus, Option<Payload>)>,
    told: Option<String>,
    told_at: Option<Instant>,
}

impl Voice {
    /// Passes on what is new. A task that says the same as before has given no sign of life.
    pub fn tell(&mut self, task: &HostedTask, report: &Report) {
        let seen = Some((task.status.clone(), task.updated.clone()));
        let line = task.message.clone().filter(|line| self.told.as_ref() != Some(line));
        let line = line.filter(|_| self.told_at.is_none_or(|at| at.elapsed() >= LINES));
        if line.is_none() && seen == self.seen {
            return;
        }
        self.seen = seen;
        if line.is_some() {
            (self.told, self.told_at) = (line.clone(), Some(Instant::now()));
        }
        self.count += 1;
        let line = line.map(short);
        let mut raw = serde_json::json!({ "progress": self.count });
        if let Some(line) = &line {
            raw["message"] = line.as_str().into();
        }
        report.progress(line, Payload::from_value(&raw).unwrap_or_else(|_| Payload::null()));
    }
}
