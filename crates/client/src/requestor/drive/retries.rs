use std::time::Duration;

use tokio::time::Instant;

use super::super::random;

/// The pause after the first failure, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// Failures in a row, and how long they may go on.
pub(in super::super) struct Retries {
    patience: Duration,
    since: Option<Instant>,
    pub(in super::super) attempt: u32,
}

impl Retries {
    pub(in super::super) fn new(patience: Duration) -> Retries {
        Retries { patience, since: None, attempt: 0 }
    }

    /// Counts a failure and says how long to wait before the next attempt; `None` if patience is over.
    pub(in super::super) fn failed(&mut self) -> Option<Duration> {
        let since = *self.since.get_or_insert_with(Instant::now);
        self.attempt += 1;
        if since.elapsed() >= self.patience {
            return None;
        }
        let doubled = PAUSES.0 * 2u32.saturating_pow(self.attempt.saturating_sub(1).min(16));
        let pause = doubled.min(PAUSES.1);
        Some(pause.mul_f64(0.75 + random::unit() / 4.0))
    }

    /// It worked.
    pub(in super::super) fn reset(&mut self) {
        (self.since, self.attempt) = (None, 0);
    }
}
