//! Turning the pages of a list that somebody else has.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use serde_json::value::RawValue;
use taskgate_task::Payload;

use crate::raw::RawObject;

/// Where one is in a list, and whether it comes to an end: some servers give out the same cursor again and again, and some always
/// another one.
#[derive(Debug, Default)]
pub struct Pages {
    cursor: Option<Payload>,
    /// Digests of the cursors that were there: what a cursor is made of, and how long it is, is its server's to say.
    seen: HashSet<u64>,
    hasher: RandomState,
}

/// The list has no end. What was read of it is all that there is to be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoEnd {
    /// Its page names one that was read before.
    #[error("its page {0} names one as the next that was read before")]
    Circle(usize),
    /// It has more pages than anybody reads.
    #[error("it has more than {0} pages")]
    TooLong(usize),
}

impl Pages {
    /// More are not read.
    pub const MOST: usize = 1000;

    /// The cursor of the page that is next; none for the first.
    pub fn cursor(&self) -> Option<&RawValue> {
        self.cursor.as_ref().map(Payload::as_raw)
    }

    /// Whether the first page is the next.
    pub fn is_at_start(&self) -> bool {
        self.cursor.is_none()
    }

    /// Turns a page that was read. Whether there is another one.
    ///
    /// # Errors
    ///
    /// [`NoEnd`] if it is not worth to read on.
    pub fn turn(&mut self, page: &RawObject<'_>) -> Result<bool, NoEnd> {
        let next = page.get("nextCursor").filter(|next| next.get() != "null").map(Payload::from_raw);
        let Some(next) = next else { return Ok(false) };
        let read = self.seen.len() + 1;
        if read >= Pages::MOST {
            return Err(NoEnd::TooLong(Pages::MOST));
        }
        if !self.seen.insert(self.hasher.hash_one(next.as_str())) {
            return Err(NoEnd::Circle(read));
        }
        self.cursor = Some(next);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(pages: &mut Pages, next: &str) -> Result<bool, NoEnd> {
        let text = if next.is_empty() { "{}".to_owned() } else { format!("{{\"nextCursor\":{next}}}") };
        pages.turn(&RawObject::parse(&text).expect("an object"))
    }

    #[test]
    fn a_list_is_read_to_its_end_and_no_further() {
        let mut pages = Pages::default();
        assert!(pages.is_at_start());
        assert_eq!(turn(&mut pages, "\"a\""), Ok(true));
        assert_eq!(pages.cursor().map(RawValue::get), Some("\"a\""));
        assert_eq!(turn(&mut pages, "\"b\""), Ok(true));
        assert_eq!(turn(&mut pages, "\"a\""), Err(NoEnd::Circle(3)));
        for end in ["", "null"] {
            assert_eq!(turn(&mut Pages::default(), end), Ok(false));
        }
        let mut pages = Pages::default();
        let turned = (1..2000).take_while(|page| turn(&mut pages, &page.to_string()).is_ok()).count();
        assert_eq!(turned, 999);
        assert_eq!(turn(&mut pages, "0"), Err(NoEnd::TooLong(1000)));
    }
}
