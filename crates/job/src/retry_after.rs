//! `Retry-After`, in both of its forms (RFC 9110, section 10.2.3).

use std::time::{Duration, SystemTime};

/// Nobody is left alone for longer than this, whatever the header says.
pub const LONGEST: Duration = Duration::from_secs(300);

/// How long to wait by this header's value; `None` if it says nothing that makes sense.
pub fn parse(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    let wait = if value.is_empty() {
        return None;
    } else if value.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than fit is long, too.
        Duration::from_secs(value.parse().unwrap_or(u64::MAX))
    } else {
        let until = httpdate::parse_http_date(value).ok()?;
        until.duration_since(now).unwrap_or_default()
    };
    Some(wait.min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_dates_are_understood_and_capped() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let is = |value: &str| parse(value, now).map(|wait| wait.as_secs());
        assert_eq!(
            (is("0"), is(" 7 "), is("99999"), is("99999999999999999999999")),
            (Some(0), Some(7), Some(300), Some(300))
        );
        assert_eq!(is("Sun, 06 Nov 1994 08:49:42 GMT"), Some(5));
        assert_eq!(is("Sun, 06 Nov 1994 08:49:37 GMT"), Some(0));
        assert_eq!(is("Tue, 06 Nov 1984 08:49:37 GMT"), Some(0));
        for nothing in ["", "-1", "1.5", "soon", "Sun, 06 Nov"] {
            assert_eq!(is(nothing), None, "{nothing}");
        }
    }
}
