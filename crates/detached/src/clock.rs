use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since the Unix epoch, by the machine's clock.
///
/// Deadlines must mean the same to a supervisor and to a gateway that is started days later, which no monotonic clock
/// does.
#[expect(clippy::disallowed_methods, reason = "the supervisor is a program of its own, without an engine")]
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
