use std::time::Duration;

/// What happens to a task when the process that carries its work dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WorkClass {
    /// The work dies with its process; the task fails as interrupted.
    Live,
    /// The work may be run again from the start.
    Repeatable,
    /// The work goes on from its last checkpoint.
    Resumable,
    /// The work is elsewhere and never stopped; a new attempt finds it by its checkpoint.
    External,
}

impl WorkClass {
    /// Every class.
    pub const ALL: [WorkClass; 4] =
        [WorkClass::Live, WorkClass::Repeatable, WorkClass::Resumable, WorkClass::External];

    /// The word used in stores and configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            WorkClass::Live => "live",
            WorkClass::Repeatable => "repeatable",
            WorkClass::Resumable => "resumable",
            WorkClass::External => "external",
        }
    }

    /// Reads [`WorkClass::as_str`] back.
    pub fn from_word(word: &str) -> Option<WorkClass> {
        WorkClass::ALL.into_iter().find(|class| class.as_str() == word)
    }
}

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// How long to wait before attempt number `next` (2 and up): half a second, doubled each time up to a minute, of which
/// `jitter` takes off up to a half, so that what was lost together does not come back together.
pub fn pause_before(next: u32, jitter: u8) -> Duration {
    let doubled = FIRST_PAUSE * 2u32.saturating_pow(next.saturating_sub(2).min(16));
    let pause = doubled.min(LONGEST_PAUSE);
    pause - pause / 2 * u32::from(jitter) / 255
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_minute_and_jitter_takes_half_off() {
        assert_eq!(pause_before(2, 0), Duration::from_millis(500));
        assert_eq!(pause_before(2, 255), Duration::from_millis(250));
        assert_eq!(pause_before(5, 0), Duration::from_secs(4));
        assert_eq!(pause_before(u32::MAX, 0), LONGEST_PAUSE);
        assert_eq!(pause_before(0, 0), FIRST_PAUSE);
    }

    #[test]
    fn words_read_back() {
        for class in WorkClass::ALL {
            assert_eq!(WorkClass::from_word(class.as_str()), Some(class));
        }
    }
}
