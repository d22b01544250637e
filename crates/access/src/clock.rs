use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since 1970, which is what tokens count their lives in.
#[expect(clippy::disallowed_methods, reason = "a token's end is a time of the world, not of a task")]
pub fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
