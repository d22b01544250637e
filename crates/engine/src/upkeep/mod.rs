//! What time and crashes do to tasks: one shared loop, and the decision at the start and at the end of a process.

mod drain;
mod expire;
mod rescue;

use std::sync::Arc;
use std::time::Duration;

use crate::Engine;

/// How often upkeep looks for tasks that are due.
const EVERY: Duration = Duration::from_millis(500);

impl Engine {
    /// Starts the upkeep loop. It ends when the returned handle is aborted, when nobody else has the engine any more, or
    /// when the runtime shuts down.
    pub fn start_upkeep(&self) -> tokio::task::JoinHandle<()> {
        let engine = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            let mut ticks = tokio::time::interval(EVERY);
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                let Some(engine) = engine.upgrade() else { return };
                Engine(engine).expire_due().await;
            }
        })
    }
}
