//! Request metadata headers of 2026-07-28 (Streamable HTTP, "Value Encoding").

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

const PREFIX: &str = "=?base64?";
const SUFFIX: &str = "?=";

/// A header value that claims to be base64 and is not, or whose bytes are not UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not valid base64")]
pub struct InvalidValue;

/// The value behind a header: decoded if it wears the base64 markers, else itself.
pub fn decode(value: &str) -> Result<Cow<'_, str>, InvalidValue> {
    match value.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(SUFFIX)) {
        None => Ok(Cow::Borrowed(value)),
        Some(encoded) => {
            let bytes = STANDARD.decode(encoded).map_err(|_| InvalidValue)?;
            String::from_utf8(bytes).map(Cow::Owned).map_err(|_| InvalidValue)
        }
    }
}

/// The header value for a text: plain where a header can carry it, in base64 markers otherwise.
pub fn encode(text: &str) -> Cow<'_, str> {
    let plain = text.bytes().all(|byte| matches!(byte, 0x20..=0x7e | b'\t'))
        && text.trim() == text
        && !(text.starts_with(PREFIX) && text.ends_with(SUFFIX));
    if plain { Cow::Borrowed(text) } else { Cow::Owned(format!("{PREFIX}{}{SUFFIX}", STANDARD.encode(text))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_read_back() {
        for text in ["us-west1", "Hello, 世界", " padded ", "line1\nline2", "=?base64?literal?=", ""] {
            let header = encode(text).into_owned();
            assert!(header.is_ascii() && header.trim() == header, "{header}");
            assert_eq!(decode(&header).as_deref(), Ok(text));
        }
        assert_eq!(encode("Hello, 世界"), "=?base64?SGVsbG8sIOS4lueVjA==?=");
    }

    #[test]
    fn broken_base64_is_refused_and_half_markers_are_literal() {
        assert_eq!(decode("=?base64?SGVsbG8?="), Err(InvalidValue));
        assert_eq!(decode("=?base64?SGVs!!!bG8=?="), Err(InvalidValue));
        assert_eq!(decode("SGVsbG8=").as_deref(), Ok("SGVsbG8="));
        assert_eq!(decode("=?base64?SGVsbG8=").as_deref(), Ok("=?base64?SGVsbG8="));
    }
}
