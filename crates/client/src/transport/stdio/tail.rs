use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

/// How much of stderr is kept, in bytes.
const KEPT: usize = 64 << 10;

/// The end of what a process wrote on stderr.
#[derive(Debug, Clone, Default)]
pub(super) struct Tail(Arc<Mutex<VecDeque<u8>>>);

impl Tail {
    /// Adds bytes and forgets the oldest beyond the limit.
    pub(super) fn push(&self, bytes: &[u8]) {
        let mut kept = self.0.lock();
        kept.extend(&bytes[bytes.len().saturating_sub(KEPT)..]);
        let excess = kept.len().saturating_sub(KEPT);
        kept.drain(..excess);
    }

    /// What is kept, with bytes that are not UTF-8 replaced; `None` if nothing was written.
    pub(super) fn text(&self) -> Option<String> {
        let mut kept = self.0.lock();
        (!kept.is_empty()).then(|| String::from_utf8_lossy(kept.make_contiguous()).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_is_kept() {
        let tail = Tail::default();
        assert_eq!(tail.text(), None);
        for round in 0..100_u8 {
            tail.push(&vec![b'a' + round % 26; 5000]);
        }
        tail.push(&vec![b'z'; KEPT * 2]);
        tail.push(b"end");
        let text = tail.text().expect("text");
        assert_eq!(text.len(), KEPT);
        assert!(text.starts_with("zzz") && text.ends_with("zend"));
    }
}
