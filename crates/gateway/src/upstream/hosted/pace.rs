use std::time::Duration;

use tokio::time::Instant;

/// No task is asked about more often, whatever its server says and however much it tells.
const LEAST: Duration = Duration::from_millis(50);
/// And none more rarely.
const MOST: Duration = Duration::from_secs(60);
/// How often, if the server does not say.
const USUAL: Duration = Duration::from_secs(1);
/// How long an answer may take. A server that answers one request after the other may take longer than any interval; one that
/// has lost the question never answers it, and is asked again.
const ANSWER: Duration = Duration::from_secs(60);
/// Senseless answers in a row after which a server is believed to have none that makes sense.
const SENSELESS: u32 = 10;

/// When a task is asked about.
#[derive(Debug)]
pub struct Pace {
    interval: Duration,
    /// When it was asked about last.
    last: Instant,
    /// When something is to be done: asking, or giving up the question that is under way. `None`: never.
    due: Option<Instant>,
    is_asking: bool,
    /// Something was heard while the question was under way, so its answer may be older than that.
    again: bool,
    senseless: u32,
}

impl Pace {
    /// For a task that is asked about after the server's interval.
    pub fn new(interval: Option<Duration>) -> Pace {
        let now = Instant::now();
        let interval = within(interval.unwrap_or(USUAL));
        Pace { interval, last: now, due: Some(now + interval), is_asking: false, again: false, senseless: 0 }
    }

    /// When something is to be done.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// It is time to ask, or asked again because there was no answer.
    pub fn asked(&mut self) {
        let now = Instant::now();
        (self.last, self.due, self.is_asking, self.again) = (now, Some(now + ANSWER), true, false);
    }

    /// The answer made sense.
    pub fn answered(&mut self, interval: Option<Duration>) {
        self.interval = interval.map_or(self.interval, within);
        self.senseless = 0;
        self.wait(self.interval);
    }

    /// The answer made none. Says whether to go on asking, which happens after ever longer pauses.
    pub fn puzzled(&mut self) -> bool {
        self.senseless += 1;
        self.wait(self.interval.saturating_mul(2u32.saturating_pow(self.senseless)).min(MOST));
        self.senseless <= SENSELESS
    }

    fn wait(&mut self, pause: Duration) {
        self.is_asking = false;
        self.due = Some(self.last + pause);
        if self.again {
            self.hurry();
        }
    }

    /// There may be news.
    pub fn hurry(&mut self) {
        if self.is_asking {
            self.again = true;
            return;
        }
        let soonest = self.last + LEAST;
        self.due = self.due.map(|due| due.min(soonest));
    }

    /// Nothing is to be asked about it, but something is to be done once what is under way has had its time.
    pub fn pause(&mut self) {
        (self.due, self.is_asking) = (Some(Instant::now() + USUAL), false);
    }

    /// There will be none.
    pub fn stop(&mut self) {
        (self.due, self.is_asking) = (None, false);
    }
}

fn within(interval: Duration) -> Duration {
    interval.clamp(LEAST, MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(pace: &Pace) -> Option<Duration> {
        pace.due().map(|due| due - pace.last)
    }

    #[tokio::test(start_paused = true)]
    async fn the_servers_interval_counts_within_bounds() {
        for (said, counts) in [(Some(0), LEAST), (Some(700), Duration::from_millis(700)), (None, USUAL)] {
            assert_eq!(wait(&Pace::new(said.map(Duration::from_millis))), Some(counts));
        }
        let mut pace = Pace::new(Some(Duration::MAX));
        assert_eq!(wait(&pace), Some(MOST));
        pace.asked();
        assert_eq!(wait(&pace), Some(ANSWER));
        pace.answered(Some(Duration::from_secs(2)));
        assert_eq!(wait(&pace), Some(Duration::from_secs(2)));
        pace.asked();
        pace.answered(None);
        assert_eq!(wait(&pace), Some(Duration::from_secs(2)));
        pace.stop();
        pace.hurry();
        assert_eq!(pace.due(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn news_are_looked_for_soon_but_never_without_a_pause() {
        let mut pace = Pace::new(Some(MOST));
        pace.hurry();
        assert_eq!(wait(&pace), Some(LEAST));
        pace.asked();
        // What is heard meanwhile may be newer than the answer.
        pace.hurry();
        assert_eq!(wait(&pace), Some(ANSWER));
        pace.answered(None);
        assert_eq!(wait(&pace), Some(LEAST));
        pace.asked();
        pace.answered(None);
        assert_eq!(wait(&pace), Some(MOST));
    }

    #[tokio::test(start_paused = true)]
    async fn senseless_answers_are_borne_for_a_while() {
        let mut pace = Pace::new(None);
        for pause in [2, 4, 8, 16, 32, 60, 60, 60, 60, 60] {
            assert!(pace.puzzled());
            assert_eq!(wait(&pace), Some(Duration::from_secs(pause)));
        }
        assert!(!pace.puzzled());
        pace.answered(None);
        assert!(pace.puzzled());
    }
}
