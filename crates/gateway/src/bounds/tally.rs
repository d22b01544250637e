//! What has happened since the start.

use std::sync::atomic::{AtomicI64, AtomicU64};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

use super::Limit;

type Count = Counter<u64, AtomicU64>;
/// How many there are now.
pub type Open = Gauge<i64, AtomicI64>;

/// How often something has happened.
#[derive(Debug, Default)]
pub struct Numbers {
    /// Tasks made.
    pub creates: Count,
    /// Questions for tasks.
    pub polls: Count,
    /// Questions for tasks that there are not.
    pub unknown_ids: Count,
    /// Those whose answers were held back.
    pub delayed: Count,
    /// What was left out because a client did not read.
    pub left_out: Count,
    /// Connections of clients that are open.
    pub connections: Open,
    /// Refusals by limit.
    pub refusals: [Count; Limit::ALL.len()],
}

impl Numbers {
    /// Notes a refusal.
    pub fn refusal(&self, limit: Limit) {
        if let Some(count) =
            Limit::ALL.iter().position(|one| *one == limit).and_then(|n| self.refusals.get(n))
        {
            count.inc();
        }
    }
}
