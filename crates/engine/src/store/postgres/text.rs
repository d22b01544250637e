//! Texts in a database that cannot hold the character U+0000.
//!
//! It is written as U+001A followed by `0`, and U+001A itself (SUBSTITUTE, which nobody types) twice. So every text has
//! one spelling, texts that differ differ in the database too, and ordinary ones read there as they are.

use std::borrow::Cow;

const ESCAPE: char = '\u{1a}';

/// The text as the database keeps it.
pub(super) fn kept(text: &str) -> Cow<'_, str> {
    if !text.contains(['\0', ESCAPE]) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace(ESCAPE, "\u{1a}\u{1a}").replace('\0', "\u{1a}0"))
}

/// Reads [`kept`] back; `None` if it never wrote that.
pub(super) fn read(kept: &str) -> Option<String> {
    let mut text = String::with_capacity(kept.len());
    let mut chars = kept.chars();
    while let Some(char) = chars.next() {
        text.push(match char {
            ESCAPE => match chars.next()? {
                ESCAPE => ESCAPE,
                '0' => '\0',
                _ => return None,
            },
            plain => plain,
        });
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_text_reads_back(text in "[\u{0}\u{1a}0a🦀]{0,8}") {
            let kept = kept(&text);
            prop_assert!(!kept.contains('\0'));
            prop_assert_eq!(read(&kept), Some(text.clone()));
        }
    }

    #[test]
    fn ordinary_texts_stay_as_they_are() {
        assert_eq!(kept("DOMAIN\\user 100% 'ü'"), "DOMAIN\\user 100% 'ü'");
        assert_ne!(kept("\0"), kept("\u{1a}0"));
        assert_eq!(read("\u{1a}"), None);
        assert_eq!(read("\u{1a}x"), None);
    }
}
