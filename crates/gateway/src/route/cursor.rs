//! The cursors of lists that span several upstreams: opaque to the caller, a place in the merged list to us.
//!
//! All that a cursor can point at is what its caller may list anyway, so one that was tampered with does no harm: it names a
//! place that does not exist, which is refused, or one that does.

use std::hash::{DefaultHasher, Hash, Hasher};

use taskgate_wire::{ListKind, RpcError};

/// A place in a list: behind the entry at this position, which has this key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    behind: usize,
    mark: u64,
}

impl Cursor {
    /// The place behind an entry. `behind` counts from 0.
    pub fn behind(behind: usize, kind: ListKind, key: &str) -> Self {
        Cursor { behind, mark: mark(kind, key) }
    }

    /// Writes it.
    pub fn write(self) -> String {
        format!("{:08x}{:016x}", self.behind, self.mark)
    }

    /// Reads one; anything we do not write is -32602.
    pub fn read(text: &str) -> Result<Self, RpcError> {
        let read = || {
            let ours = text.len() == 24 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            let (behind, mark) = ours.then(|| text.split_at(8))?;
            let behind = usize::from_str_radix(behind, 16).ok()?;
            Some(Cursor { behind, mark: u64::from_str_radix(mark, 16).ok()? })
        };
        read().ok_or_else(unknown)
    }

    /// Where the list goes on. Should entries have come or gone before the place, it is found by its key.
    pub fn resume<'a>(
        self,
        kind: ListKind,
        keys: impl Iterator<Item = &'a str> + Clone,
    ) -> Result<usize, RpcError> {
        let here = |key: &str| mark(kind, key) == self.mark;
        if keys.clone().nth(self.behind).is_some_and(here) {
            return Ok(self.behind + 1);
        }
        let mut keys = keys;
        keys.position(here).map(|found| found + 1).ok_or_else(unknown)
    }
}

fn unknown() -> RpcError {
    RpcError::invalid_params("Unknown cursor: list again from the start")
}

/// What tells an entry from others. A cursor of one list fits no other one.
fn mark(kind: ListKind, key: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (kind.method(), key).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_finds_its_place_again_or_is_refused() {
        let keys = ["a", "b", "c"];
        let cursor = Cursor::read(&Cursor::behind(1, ListKind::Prompts, "b").write()).expect("ours");
        assert_eq!(cursor.resume(ListKind::Prompts, keys.into_iter()), Ok(2));
        assert_eq!(cursor.resume(ListKind::Prompts, ["new", "a", "b", "c"].into_iter()), Ok(3));
        assert_eq!(cursor.resume(ListKind::Prompts, ["b"].into_iter()), Ok(1));
        assert!(cursor.resume(ListKind::Prompts, ["a", "c"].into_iter()).is_err(), "its entry is gone");
        assert!(cursor.resume(ListKind::Resources, keys.into_iter()).is_err(), "another list");
        let text = cursor.write();
        for bad in ["", "x", &text[1..], &format!("{text}0"), &text.replace('0', "+"), &"é".repeat(12)] {
            assert_eq!(Cursor::read(bad).map_err(|error| error.code.number()), Err(-32602), "{bad}");
        }
    }
}
