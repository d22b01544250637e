use std::fmt;

use wildmatch::WildMatchPattern;

/// A text in which `*` stands for any characters, also none. Every other character stands for itself.
///
/// The second letter of the pattern language, which stands for any single character, is one that no text of a configuration has.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    compiled: WildMatchPattern<'*', '\0'>,
}

impl Pattern {
    /// Reads a pattern as it is written.
    pub fn new(text: &str) -> Pattern {
        Pattern { text: text.to_owned(), compiled: WildMatchPattern::new(text) }
    }

    /// Whether it means this text.
    pub fn matches(&self, text: &str) -> bool {
        self.compiled.matches(text)
    }

    /// Whether it means everything that the other one means. A `*` of the other one is a character that only a `*` can stand for.
    pub fn covers(&self, other: &Pattern) -> bool {
        self.matches(&other.text)
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
