use std::fmt;

use crate::Timestamp;

/// The name of a task, made by the receiver (both 2025-11-25 and SEP-2663 demand that).
///
/// An id has two halves. The *locator* (63 bits: a creation time and 21 random bits) says where the
/// record lies, so that a store finds it with one lookup and new records lie side by side. The *secret* (128 bits from
/// the operating system) makes the id unguessable: a locator without its secret opens nothing.
/// Its text is 48 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId {
    locator: i64,
    secret: u128,
}

/// The text is not an id that this receiver can have given out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a task id")]
pub struct InvalidTaskId;

/// 2020-01-01T00:00:00Z in milliseconds: locators count from here, so that 42 bits last until 2159.
const LOCATOR_EPOCH: i64 = 1_577_836_800_000;
const LOCATOR_RANDOM_BITS: u32 = 21;

impl TaskId {
    /// Makes an id from the present moment and 19 random bytes of a cryptographic source.
    pub fn from_entropy(now: Timestamp, entropy: [u8; 19]) -> Self {
        let [a, b, c, rest @ ..] = entropy;
        let random = i64::from(u32::from_be_bytes([0, a, b, c]) & ((1 << LOCATOR_RANDOM_BITS) - 1));
        let time = (now.as_millis() - LOCATOR_EPOCH).clamp(0, (1 << 42) - 1);
        TaskId { locator: (time << LOCATOR_RANDOM_BITS) | random, secret: u128::from_be_bytes(rest) }
    }

    /// Puts an id together from the halves a store has kept.
    pub fn from_parts(locator: i64, secret: [u8; 16]) -> Self {
        TaskId { locator, secret: u128::from_be_bytes(secret) }
    }

    /// Where the record lies: positive, unique in a store, ascending with creation time to the millisecond.
    pub fn locator(&self) -> i64 {
        self.locator
    }

    /// The unguessable half.
    pub fn secret(&self) -> [u8; 16] {
        self.secret.to_be_bytes()
    }

    /// Whether `secret` is this id's, compared in the same time wherever they differ.
    pub fn has_secret(&self, secret: &[u8]) -> bool {
        let mine = self.secret.to_be_bytes();
        secret.len() == mine.len() && mine.iter().zip(secret).fold(0, |diff, (a, b)| diff | (a ^ b)) == 0
    }

    /// Reads the text form; anything but 48 lower-case hexadecimal digits is no id.
    pub fn parse(text: &str) -> Result<Self, InvalidTaskId> {
        let (locator, secret) = text.as_bytes().split_at_checked(16).ok_or(InvalidTaskId)?;
        if secret.len() != 32 {
            return Err(InvalidTaskId);
        }
        let locator = i64::try_from(number(locator)?).map_err(|_| InvalidTaskId)?;
        Ok(TaskId { locator, secret: number(secret)? })
    }
}

/// The number that at most 32 lower-case hexadecimal digits spell. Every request about a task has one, and
/// `u128::from_str_radix` takes four times as long.
fn number(digits: &[u8]) -> Result<u128, InvalidTaskId> {
    digits.iter().try_fold(0, |number, digit| match digit {
        b'0'..=b'9' => Ok(number << 4 | u128::from(digit - b'0')),
        b'a'..=b'f' => Ok(number << 4 | u128::from(digit - b'a' + 10)),
        _ => Err(InvalidTaskId),
    })
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{:032x}", self.locator, self.secret)
    }
}

/// Ids are bearer secrets where there is no authorization, so debugging output shows the locator only.
impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TaskId({:016x}…)", self.locator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(byte: u8) -> TaskId {
        TaskId::from_entropy(Timestamp::from_millis(1_800_000_000_000), [byte; 19])
    }

    #[test]
    fn text_reads_back() {
        for byte in [0, 1, 0x7f, 0xff] {
            assert_eq!(TaskId::parse(&id(byte).to_string()), Ok(id(byte)));
        }
    }

    #[test]
    fn other_spellings_are_no_ids() {
        let good = id(0xab).to_string();
        for bad in [
            "",
            "no-such-task",
            &good.to_uppercase(),
            &good[1..],
            &format!("{good}0"),
            &good.replace('a', "+"),
            &format!("f{}", &good[1..]),
        ] {
            assert_eq!(TaskId::parse(bad), Err(InvalidTaskId), "{bad}");
        }
    }

    #[test]
    fn later_ids_have_larger_locators() {
        let early = TaskId::from_entropy(Timestamp::from_millis(1_800_000_000_000), [0xff; 19]);
        let late = TaskId::from_entropy(Timestamp::from_millis(1_800_000_000_001), [0; 19]);
        assert!(early.locator() < late.locator());
        assert!(early.locator() > 0);
    }

    #[test]
    fn debug_hides_the_secret() {
        let text = format!("{:?}", id(0x5a));
        assert!(!text.contains("5a5a5a5a5a5a5a5a5a"), "{text}");
    }
}
