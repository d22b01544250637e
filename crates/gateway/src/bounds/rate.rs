//! How often something may happen.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use tokio::time::Instant;

/// Time as the timers have it, so that what holds time still holds this still, too.
#[derive(Debug, Clone, Copy)]
struct Since(Instant);

impl Clock for Since {
    type Instant = Duration;

    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

/// So many in a time, and so many at once.
pub struct Rate(RateLimiter<NotKeyed, InMemoryState, Since, NoOpMiddleware<Duration>>);

impl Rate {
    /// So many a second, and so many at once: as many as in a second if nothing is said.
    pub fn per_second(number: usize, burst: Option<usize>) -> Self {
        Rate::of(Quota::per_second(at_least_one(number)), burst.unwrap_or(number))
    }

    /// So many a minute, all of which may come at once.
    pub fn per_minute(number: usize) -> Self {
        Rate::of(Quota::per_minute(at_least_one(number)), number)
    }

    fn of(quota: Quota, burst: usize) -> Self {
        let clock = Since(Instant::now());
        Rate(RateLimiter::direct_with_clock(quota.allow_burst(at_least_one(burst)), clock))
    }

    /// Takes one; `Err` says after which time there is one again.
    pub fn take(&self) -> Result<(), Duration> {
        self.0.check().map_err(|until| until.wait_time_from(self.0.clock().now()))
    }
}

fn at_least_one(number: usize) -> NonZeroU32 {
    u32::try_from(number).ok().and_then(NonZeroU32::new).unwrap_or(if number == 0 {
        NonZeroU32::MIN
    } else {
        NonZeroU32::MAX
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_rate_has_a_burst_and_says_when_there_is_one_again() {
        let rate = Rate::per_second(10, Some(3));
        assert!((0..3).all(|_| rate.take().is_ok()));
        let wait = rate.take().expect_err("the burst is over");
        assert!(wait > Duration::from_millis(90) && wait <= Duration::from_millis(100), "{wait:?}");
        tokio::time::advance(wait).await;
        assert_eq!(rate.take(), Ok(()));
        assert!(rate.take().is_err());
    }
}
