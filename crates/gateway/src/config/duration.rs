//! Durations and sizes as people write them: `1h30m`, `16MiB`.

use std::time::Duration;

/// The units of a duration, longest first, in milliseconds.
///
/// Stores and the wire count in milliseconds, so nothing finer can be written and every duration is exact.
const TIMES: [(&str, u64); 5] =
    [("d", 24 * 60 * 60 * 1000), ("h", 60 * 60 * 1000), ("m", 60 * 1000), ("s", 1000), ("ms", 1)];

/// The units of a size, in bytes.
const SIZES: [(&str, u64); 4] = [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];

/// Reads a duration: whole numbers with a unit (`d`, `h`, `m`, `s`, `ms`), longest unit first, as in `1h30m`.
///
/// # Errors
///
/// What is wrong with the text, as the end of a sentence that begins with the text.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    if text.is_empty() {
        return Err("is empty".to_owned());
    }
    if text.starts_with('-') {
        return Err("is negative".to_owned());
    }
    let mut rest = text;
    let mut millis = 0_u64;
    let mut longest_allowed = 0;
    while !rest.is_empty() {
        let (number, unit, tail) = amount(rest)?;
        let place = TIMES.iter().position(|(name, _)| *name == unit);
        let place = place.ok_or_else(|| format!("has the unknown unit `{unit}`"))?;
        if place < longest_allowed {
            return Err("does not have its units from the longest to the shortest, each once".to_owned());
        }
        longest_allowed = place + 1;
        let more = number.checked_mul(TIMES[place].1).and_then(|part| millis.checked_add(part));
        millis = more.ok_or("is far too long")?;
        rest = tail;
    }
    Ok(Duration::from_millis(millis))
}

/// Reads a size: a whole number with a unit (`B`, `KiB`, `MiB`, `GiB`), as in `16MiB`.
///
/// # Errors
///
/// What is wrong with the text, as the end of a sentence that begins with the text.
pub fn parse_size(text: &str) -> Result<usize, String> {
    if text.is_empty() {
        return Err("is empty".to_owned());
    }
    if text.starts_with('-') {
        return Err("is negative".to_owned());
    }
    let (number, unit, rest) = amount(text)?;
    let unit_bytes = SIZES.iter().find(|(name, _)| *name == unit).map(|(_, bytes)| *bytes);
    let bytes = match unit_bytes {
        Some(bytes) if rest.is_empty() => bytes,
        _ => return Err(format!("has the unknown unit `{unit}{rest}`")),
    };
    number
        .checked_mul(bytes)
        .and_then(|bytes| bytes.try_into().ok())
        .ok_or_else(|| "is far too large".to_owned())
}

/// Writes a duration the way [`parse_duration`] reads it. What is finer than a millisecond is left out.
pub fn format_duration(duration: Duration) -> String {
    let mut rest = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let mut text = String::new();
    for (unit, millis) in TIMES {
        let count = rest / millis;
        rest %= millis;
        if count > 0 {
            text.push_str(&format!("{count}{unit}"));
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// Writes a size the way [`parse_size`] reads it, in the largest unit that leaves a whole number.
pub fn format_size(bytes: usize) -> String {
    let bytes = bytes as u64;
    let whole = |unit: &&(&str, u64)| bytes >= unit.1 && bytes.is_multiple_of(unit.1);
    let (unit, size) = SIZES.iter().rev().find(whole).copied().unwrap_or(SIZES[0]);
    format!("{}{unit}", bytes / size)
}

/// Splits off a number and the letters behind it.
fn amount(text: &str) -> Result<(u64, &str, &str), String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at(digits);
    if number.is_empty() {
        return Err(format!("has `{rest}` where a number should be"));
    }
    if rest.starts_with(['.', ',']) {
        return Err("has a fraction, and only whole numbers can be used".to_owned());
    }
    let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
    let (unit, rest) = rest.split_at(letters);
    if unit.is_empty() {
        return Err(match rest.chars().next() {
            Some(stray) => format!("has `{stray}` where a unit should be"),
            None => "has no unit".to_owned(),
        });
    }
    let number = number.parse().map_err(|_| "is far too large".to_owned())?;
    Ok((number, unit, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_to_the_millisecond() {
        let millis = |text| parse_duration(text).map(|duration| duration.as_millis());
        assert_eq!(millis("2s"), Ok(2_000));
        assert_eq!(millis("500ms"), Ok(500));
        assert_eq!(millis("1h30m"), Ok(5_400_000));
        assert_eq!(millis("7d"), Ok(604_800_000));
        assert_eq!(millis("1d2h3m4s5ms"), Ok(93_784_005));
        assert_eq!(millis("0s"), Ok(0));
    }

    #[test]
    fn nonsense_is_no_duration() {
        let broken = [
            "", "-1s", "2", "s", "2 s", " 2s", "2s ", "1.5s", "2sec", "2S", "1m1h", "1s1s", "1us", "٢s",
            "2s-",
        ];
        for text in broken {
            assert!(parse_duration(text).is_err(), "{text:?}");
        }
        assert_eq!(parse_duration("99999999999999999999s"), Err("is far too large".to_owned()));
        assert_eq!(parse_duration("999999999999999999d"), Err("is far too long".to_owned()));
        assert_eq!(parse_duration("2weeks"), Err("has the unknown unit `weeks`".to_owned()));
    }

    #[test]
    fn sizes_are_read_to_the_byte() {
        assert_eq!(parse_size("16MiB"), Ok(16 << 20));
        assert_eq!(parse_size("1B"), Ok(1));
        for text in ["", "-1B", "16", "16MB", "16 MiB", "1MiB1KiB", "1.5MiB", "99999999999GiB"] {
            assert!(parse_size(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        for millis in [0, 1, 999, 1_000, 61_001, 5_400_000, 604_800_000] {
            let duration = Duration::from_millis(millis);
            assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
        }
        for bytes in [0, 1, 1023, 1024, 1 << 20, (1 << 20) + 1, 3 << 30] {
            assert_eq!(parse_size(&format_size(bytes)), Ok(bytes));
        }
    }
}
