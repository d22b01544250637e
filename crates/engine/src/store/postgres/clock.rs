use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use taskgate_task::Timestamp;

use super::reader::Readers;
use crate::{Clock, StoreError};

/// How often the database is asked for its time, once the store is open.
const AGAIN: Duration = Duration::from_secs(10);

/// How far a computer's clock may run away from another's: 200 millionths.
const DRIFT: u32 = 5_000;

/// The time of the database, which all nodes share.
///
/// It is asked for every ten seconds and carried on by this machine's steady clock in between. It is wrong by at most half of the
/// round trip of the question it goes by (on a local network less than a millisecond), plus what the two clocks run apart until
/// the next one (usually less than a millisecond). A slow answer is passed over while the one before it is the better.
/// It goes back only by what a better answer corrects, which is no more than that.
#[derive(Debug, Clone)]
pub(super) struct DatabaseClock(Arc<Mutex<Reading>>);

/// One answer.
#[derive(Debug, Clone, Copy)]
struct Reading {
    /// When it was given, as nearly as can be told.
    at: Instant,
    /// Microseconds since the Unix epoch.
    micros: i64,
    /// By how much it may be wrong.
    doubt: Duration,
}

impl Reading {
    /// By how much it may be wrong by now.
    fn doubt_at(&self, now: Instant) -> Duration {
        self.doubt + now.saturating_duration_since(self.at) / DRIFT
    }
}

impl DatabaseClock {
    /// Asks for the time, a few times, and keeps the quickest answer.
    pub(super) async fn start(readers: &Readers) -> Result<Self, StoreError> {
        let clock = DatabaseClock(Arc::new(Mutex::new(ask(readers).await?)));
        for _ in 0..2 {
            clock.learn(ask(readers).await?);
        }
        Ok(clock)
    }

    /// Asks again and again.
    pub(super) async fn keep(self, readers: Readers) {
        loop {
            tokio::time::sleep(AGAIN).await;
            match ask(&readers).await {
                Ok(reading) => self.learn(reading),
                Err(error) => tracing::debug!(%error, "the database does not tell the time"),
            }
        }
    }

    fn learn(&self, new: Reading) {
        let mut kept = self.0.lock();
        let now = Instant::now();
        // One that contradicts what was known means that the database's clock was set, or that this machine slept.
        let said = new.micros.abs_diff(kept.micros_at(new.at));
        let contradicts = u128::from(said) > (new.doubt_at(now) + kept.doubt_at(now)).as_micros();
        if contradicts || new.doubt_at(now) <= kept.doubt_at(now) {
            *kept = new;
        }
    }
}

impl Reading {
    fn micros_at(&self, moment: Instant) -> i64 {
        let micros = |span: Duration| i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        match moment.checked_duration_since(self.at) {
            Some(since) => self.micros.saturating_add(micros(since)),
            None => self.micros.saturating_sub(micros(self.at.saturating_duration_since(moment))),
        }
    }
}

impl Clock for DatabaseClock {
    fn now(&self) -> Timestamp {
        let reading = *self.0.lock();
        Timestamp::from_millis(reading.micros_at(Instant::now()).div_euclid(1000))
    }
}

async fn ask(readers: &Readers) -> Result<Reading, StoreError> {
    // The first question on a fresh session is slow; the round trip that counts is that of the second.
    let sql = include_str!("queries/clock.sql");
    readers.query(sql, Vec::new()).await?;
    let asked = Instant::now();
    let rows = readers.query(sql, Vec::new()).await?;
    let trip = asked.elapsed();
    let micros = rows.first().and_then(|row| row.try_get(0).ok());
    let micros = micros.ok_or_else(|| StoreError::Failed("the database told no time".to_owned()))?;
    Ok(Reading { at: asked + trip / 2, micros, doubt: trip / 2 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(at: Instant, micros: i64, doubt: u64) -> Reading {
        Reading { at, micros, doubt: Duration::from_millis(doubt) }
    }

    #[test]
    fn the_better_answer_is_kept_unless_they_contradict_each_other() {
        let at = Instant::now();
        let clock = DatabaseClock(Arc::new(Mutex::new(reading(at, 1_000_000_000, 1))));
        let micros = |clock: &DatabaseClock| clock.0.lock().micros;
        clock.learn(reading(at, 1_000_500_000, 600));
        assert_eq!(micros(&clock), 1_000_000_000, "a slow answer that agrees is passed over");
        clock.learn(reading(at, 1_000_000_300, 0));
        assert_eq!(micros(&clock), 1_000_000_300, "a quicker one is taken");
        clock.learn(reading(at, 2_000_000_000, 600));
        assert_eq!(micros(&clock), 2_000_000_000, "the database's clock was set");
    }
}
