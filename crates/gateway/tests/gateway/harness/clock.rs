//! Time that stands still until a test moves it.

use taskgate_engine::Clock;
use taskgate_gateway::MemoryStore;
use taskgate_task::Timestamp;
use tokio::time::Instant;

/// A clock that goes with tokio's, so that pausing one pauses both.
struct TokioClock(Instant);

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000).after(self.0.elapsed())
    }
}

/// An empty store whose time is tokio's.
pub fn paused_store() -> MemoryStore {
    MemoryStore::timed_by(TokioClock(Instant::now()))
}
