use std::time::Duration;

use crate::Timestamp;

/// What a tool's configuration allows a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LifetimePolicy {
    /// How long the work may take in all. Absolute: progress does not reset it.
    pub run_limit: Duration,
    /// How long the work may be silent. Progress resets it. `None` switches it off.
    pub idle_limit: Option<Duration>,
    /// How long the outcome stays readable after the end when the requestor names no ttl.
    pub retention: Duration,
    /// The longest retention a requestor can ask for.
    pub max_retention: Duration,
}

impl Default for LifetimePolicy {
    fn default() -> Self {
        const HOUR: Duration = Duration::from_secs(3600);
        LifetimePolicy {
            run_limit: 24 * HOUR,
            idle_limit: None,
            retention: HOUR,
            max_retention: 7 * 24 * HOUR,
        }
    }
}

/// A ttl that is no whole, non-negative number of milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("ttl must be a whole number of milliseconds, 0 or more, or null")]
pub struct InvalidTtl;

/// The three separate numbers a task lives by, as granted to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetime {
    /// When the work is stopped and the task fails, whatever happens.
    pub run_deadline: Timestamp,
    /// How long the work may be silent.
    pub idle_limit: Option<Duration>,
    /// How long the outcome stays readable, counted from the end.
    pub retention: Duration,
    /// The time to live told to the requestor, counted from the creation. It grows while the work is
    /// healthy, since a running task is never deleted because a ttl passed, and is exact once the task has ended.
    pub ttl: Duration,
}

/// The shortest ttl and retention that are granted: long enough for one more poll.
const SHORTEST: Duration = Duration::from_secs(1);

impl Lifetime {
    /// What a task created now gets when its requestor asks for `ttl` (`None`: it did not say).
    pub fn grant(policy: &LifetimePolicy, ttl: Option<Duration>, now: Timestamp) -> Self {
        let retention = ttl.unwrap_or(policy.retention).clamp(SHORTEST, policy.max_retention.max(SHORTEST));
        let longest = policy.run_limit.saturating_add(retention);
        Lifetime {
            run_deadline: now.after(policy.run_limit),
            idle_limit: policy.idle_limit,
            retention,
            ttl: ttl.unwrap_or(longest).clamp(SHORTEST, longest),
        }
    }

    /// When a working task created at `created` needs attention next.
    pub(crate) fn next_due(&self, created: Timestamp) -> Timestamp {
        if self.ttl < self.longest(created) {
            created.after(self.ttl * 3 / 4).min(self.run_deadline)
        } else {
            self.run_deadline
        }
    }

    /// The ttl after one growth.
    pub(crate) fn grown(&self, created: Timestamp, now: Timestamp) -> Duration {
        (self.ttl * 2).max(now.since(created) * 2).min(self.longest(created))
    }

    fn longest(&self, created: Timestamp) -> Duration {
        self.run_deadline.since(created).saturating_add(self.retention)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    #[test]
    fn a_ttl_is_clamped_and_echoed() {
        let policy = LifetimePolicy::default();
        let asked = |ttl| Lifetime::grant(&policy, ttl, NOW).ttl;
        assert_eq!(asked(Some(Duration::ZERO)), SHORTEST);
        assert_eq!(asked(Some(Duration::from_secs(60))), Duration::from_secs(60));
        assert_eq!(asked(Some(Duration::MAX)), policy.run_limit + policy.max_retention);
        assert_eq!(asked(None), policy.run_limit + policy.retention);
    }

    #[test]
    fn a_short_ttl_does_not_shorten_the_run() {
        let granted = Lifetime::grant(&LifetimePolicy::default(), Some(Duration::from_secs(2)), NOW);
        assert_eq!(granted.run_deadline, NOW.after(LifetimePolicy::default().run_limit));
        assert_eq!(granted.retention, Duration::from_secs(2));
    }
}
