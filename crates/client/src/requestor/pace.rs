use std::time::Duration;

use tokio::time::Instant;

use super::random;

/// How often, if the server does not say.
const USUAL: Duration = Duration::from_secs(1);
/// How long an answer may take. A server that answers one request after the other may take longer than any interval; one that
/// has lost the question never answers it, and is asked again.
const ANSWER: Duration = Duration::from_secs(60);
/// Senseless answers in a row after which a server is believed to have none that makes sense.
const SENSELESS: u32 = 10;

/// How often a task is asked about: as often as its server says, within these bounds from the first time on. What a server
/// tells by itself is looked at sooner.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// Never more often, whatever the server says and however much it tells.
    pub floor: Duration,
    /// Never more rarely.
    pub cap: Duration,
    /// By which part an interval may be longer or shorter at random, so that many clients do not ask at the same time.
    pub jitter: f64,
}

impl Default for Pace {
    /// From 100 ms to a minute, with a tenth of chance.
    fn default() -> Self {
        Pace { floor: Duration::from_millis(100), cap: Duration::from_secs(60), jitter: 0.1 }
    }
}

impl Pace {
    fn within(&self, interval: Duration) -> Duration {
        // Bounds that cross are a mistake; the floor is what protects the server.
        interval.min(self.cap).max(self.floor)
    }
}

/// When a task is asked about.
#[derive(Debug)]
pub struct Rhythm {
    pace: Pace,
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

impl Rhythm {
    /// For a task that is asked about after the server's interval.
    pub fn new(pace: Pace, interval: Option<Duration>) -> Rhythm {
        let interval = pace.within(interval.unwrap_or(USUAL));
        let last = Instant::now();
        let mut rhythm =
            Rhythm { pace, interval, last, due: Some(last), is_asking: false, again: false, senseless: 0 };
        rhythm.wait(interval);
        rhythm
    }

    /// When something is to be done.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// How long until the task is asked about, if it will be.
    pub fn next_poll(&self) -> Option<Duration> {
        self.due.filter(|_| !self.is_asking).map(|due| due.saturating_duration_since(Instant::now()))
    }

    /// It is time to ask, or asked again because there was no answer.
    pub fn asked(&mut self) {
        let now = Instant::now();
        (self.last, self.due, self.is_asking, self.again) = (now, Some(now + ANSWER), true, false);
    }

    /// The answer made sense.
    pub fn answered(&mut self, interval: Option<Duration>) {
        self.interval = interval.map_or(self.interval, |interval| self.pace.within(interval));
        self.senseless = 0;
        self.wait(self.interval);
    }

    /// The answer made none. Says whether to go on asking, which happens after ever longer pauses.
    pub fn puzzled(&mut self) -> bool {
        self.senseless += 1;
        let pause = self.interval.saturating_mul(2u32.saturating_pow(self.senseless));
        self.wait(self.pace.within(pause));
        self.senseless <= SENSELESS
    }

    /// There was no answer, and nothing follows from that: it is asked again as usual.
    pub fn unanswered(&mut self) {
        self.wait(self.interval);
    }

    fn wait(&mut self, pause: Duration) {
        self.is_asking = false;
        let chance = 1.0 + self.pace.jitter.clamp(0.0, 1.0) * (2.0 * random::unit() - 1.0);
        let pause = if self.pace.jitter > 0.0 { self.pace.within(pause.mul_f64(chance)) } else { pause };
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
        let soonest = self.last + self.pace.floor;
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

#[cfg(test)]
mod tests {
    use super::*;

    const EXACT: Pace = Pace { floor: Duration::from_millis(50), cap: Duration::from_secs(60), jitter: 0.0 };

    fn wait(rhythm: &Rhythm) -> Option<Duration> {
        rhythm.due().map(|due| due - rhythm.last)
    }

    #[tokio::test(start_paused = true)]
    async fn the_servers_interval_counts_within_bounds() {
        for (said, counts) in [(Some(0), EXACT.floor), (Some(700), Duration::from_millis(700)), (None, USUAL)]
        {
            assert_eq!(wait(&Rhythm::new(EXACT, said.map(Duration::from_millis))), Some(counts));
        }
        let mut rhythm = Rhythm::new(EXACT, Some(Duration::MAX));
        assert_eq!((wait(&rhythm), rhythm.next_poll()), (Some(EXACT.cap), Some(EXACT.cap)));
        rhythm.asked();
        assert_eq!((wait(&rhythm), rhythm.next_poll()), (Some(ANSWER), None));
        rhythm.answered(Some(Duration::from_secs(2)));
        assert_eq!(wait(&rhythm), Some(Duration::from_secs(2)));
        rhythm.asked();
        rhythm.answered(None);
        assert_eq!(wait(&rhythm), Some(Duration::from_secs(2)));
        rhythm.stop();
        rhythm.hurry();
        assert_eq!(rhythm.due(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn chance_spreads_the_questions_within_the_bounds() {
        let pace = Pace { jitter: 0.2, ..EXACT };
        let waits: Vec<_> =
            (0..64).filter_map(|_| wait(&Rhythm::new(pace, Some(Duration::from_secs(10))))).collect();
        assert!(waits.iter().all(|wait| (8.0..=12.0).contains(&wait.as_secs_f64())), "{waits:?}");
        assert!(waits.iter().any(|wait| *wait != waits[0]), "{waits:?}");
        assert!((0..64).all(|_| wait(&Rhythm::new(pace, Some(Duration::MAX))) <= Some(pace.cap)));
    }

    #[tokio::test(start_paused = true)]
    async fn news_are_looked_for_soon_but_never_without_a_pause() {
        let mut rhythm = Rhythm::new(EXACT, Some(EXACT.cap));
        rhythm.hurry();
        assert_eq!(wait(&rhythm), Some(EXACT.floor));
        rhythm.asked();
        // What is heard meanwhile may be newer than the answer.
        rhythm.hurry();
        assert_eq!(wait(&rhythm), Some(ANSWER));
        rhythm.answered(None);
        assert_eq!(wait(&rhythm), Some(EXACT.floor));
        rhythm.asked();
        rhythm.answered(None);
        assert_eq!(wait(&rhythm), Some(EXACT.cap));
    }

    #[tokio::test(start_paused = true)]
    async fn senseless_answers_are_borne_for_a_while() {
        let mut rhythm = Rhythm::new(EXACT, None);
        for pause in [2, 4, 8, 16, 32, 60, 60, 60, 60, 60] {
            assert!(rhythm.puzzled());
            assert_eq!(wait(&rhythm), Some(Duration::from_secs(pause)));
        }
        assert!(!rhythm.puzzled());
        rhythm.answered(None);
        assert!(rhythm.puzzled());
    }
}
