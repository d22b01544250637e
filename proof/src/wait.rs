//! Waiting for conditions, never for time alone.

use std::time::{Duration, Instant};

/// How long anything here may take before the test fails. Generous, since CI shares two cores with itself.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Looks until `look` finds something, and fails the test if it never does.
#[track_caller]
pub fn until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    until_within(DEADLINE, what, look)
}

/// Looks until `look` finds something, and fails the test if it does not within `deadline`.
#[track_caller]
pub fn until_within<T>(deadline: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + deadline;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "waited {deadline:?} in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
