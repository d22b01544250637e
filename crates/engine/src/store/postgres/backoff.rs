use std::time::Duration;

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(1);

/// Pauses between attempts to reach the database: doubled each time, and up to a half shorter by chance, so that the
/// nodes that lost it together do not all come back in the same moment.
#[derive(Debug)]
pub(super) struct Backoff(Duration);

impl Backoff {
    pub(super) fn new() -> Self {
        Backoff(FIRST)
    }

    /// The pause before the next attempt.
    pub(super) fn next(&mut self) -> Duration {
        let pause = self.0;
        self.0 = (pause * 2).min(LONGEST);
        let mut chance = [0];
        // Without chance the pause is the whole one.
        let _ = getrandom::fill(&mut chance);
        pause - pause / 2 * u32::from(chance[0]) / 255
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_second_and_chance_takes_at_most_half() {
        let mut backoff = Backoff::new();
        for whole in [50, 100, 200, 400, 800, 1000, 1000] {
            let pause = backoff.next().as_millis();
            assert!((whole / 2..=whole).contains(&pause), "{pause} of {whole}");
        }
    }
}
