//! How often a job is looked at.

use std::time::Duration;

/// How much longer each pause is than the one before it, in percent.
const GROWTH: u32 = 150;
/// How far a pause may be off in either direction, in percent: many jobs that began together are not looked at together.
const JITTER: u32 = 10;

/// The pauses between two looks: they grow while nothing changes.
#[derive(Debug)]
pub struct Pace {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Pace {
    pub fn new(first: Duration, longest: Duration) -> Pace {
        Pace { first, longest: longest.max(first), next: first }
    }

    /// Something has changed, or is about to.
    pub fn news(&mut self) {
        self.next = self.first;
    }

    /// The pause until the next look; at least as long as the other side has asked for.
    pub fn pause(&mut self, wanted: Option<Duration>) -> Duration {
        let pause = self.next;
        self.next = (pause * GROWTH / 100).min(self.longest);
        let percent = 100 - JITTER + getrandom::u32().unwrap_or(JITTER) % (2 * JITTER + 1);
        (pause * percent / 100).max(wanted.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_the_longest_and_begin_anew_with_news() {
        let seconds = Duration::from_secs;
        let mut pace = Pace::new(seconds(2), seconds(5));
        let about = |pause: Duration, expected: f64| {
            let off = (pause.as_secs_f64() / expected - 1.0).abs();
            assert!(off < 0.101, "{pause:?} is not about {expected} s");
        };
        for expected in [2.0, 3.0, 4.5, 5.0, 5.0] {
            about(pace.pause(None), expected);
        }
        pace.news();
        about(pace.pause(None), 2.0);
        assert_eq!(pace.pause(Some(seconds(60))), seconds(60));
        about(Pace::new(seconds(4), seconds(1)).pause(Some(seconds(1))), 4.0);
    }
}
