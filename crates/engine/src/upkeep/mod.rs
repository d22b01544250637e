//! What time and crashes do to tasks: one shared loop, and the decision at the start and at the end of a process.

mod drain;
mod expire;
mod rescue;

use std::time::Duration;

use crate::Engine;

/// How often upkeep looks for tasks that are due.
const EVERY: Duration = Duration::from_millis(500);

impl Engine {
    /// Starts the upkeep loop. It ends when the returned handle is aborted or the runtime shuts down.
    pub fn start_upkeep(&self) -> tokio::task::JoinHandle<()> {
        let engine = self.clone();
        tokio::spawn(async move {
            let mut ticks = tokio::time::interval(EVERY);
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                engine.expire_due().await;
            }
        })
    }
}
