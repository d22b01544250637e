//! What others say, so that a terminal only shows it. Servers, and clients by way of the tasks they make, choose these words: they
//! could move the cursor, set titles, or look like lines of this program.

/// The text without what would steer a terminal or turn the order of what is read. Its lines stay lines.
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if c != '\n' && steers(c) { ' ' } else { c }).collect()
}

/// The same in one line, where a second one could be taken for ours.
pub fn line(text: &str) -> String {
    clean(text).replace('\n', " ")
}

/// The same in lines of which only the first can be taken for ours: the others are marked as somebody's words.
pub fn indented(text: &str) -> String {
    clean(text).replace('\n', "\n  | ")
}

/// JSON that is one line whoever reads it, and that can be shown: what steers is written as its number. The value stays the same,
/// since outside of strings such characters can only be the ends of lines.
pub fn json_line(text: &str) -> String {
    use std::fmt::Write;
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' | '\t' => line.push(' '),
            c if steers(c) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    // Writing to a string does not fail.
                    let _ = write!(line, "\\u{unit:04x}");
                }
            }
            c => line.push(c),
        }
    }
    line
}

/// A result for the terminal: its tabs are part of it.
pub fn body(text: &str) -> String {
    text.chars().map(|c| if c != '\n' && c != '\t' && steers(c) { ' ' } else { c }).collect()
}

/// Whether the character does something instead of being seen: controls, ends of lines that are not seen as such, marks that turn
/// the direction of what is read, and letters without any width. (Those that join letters belong to scripts and emoji.)
fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "a\u{1b}[2J\u{9b}1m\u{7}\r\u{7f}\u{202e}\u{2028}\u{2066}\u{e0041}z\nb";

    #[test]
    fn nothing_that_steers_is_left() {
        assert_eq!(clean(HOSTILE), "a [2J 1m       z\nb");
        assert_eq!(line(HOSTILE), "a [2J 1m       z b");
        assert_eq!(indented("a\ntaskgate: done"), "a\n  | taskgate: done");
        assert_eq!(body("a\tb\r\u{1b}c\n"), "a\tb  c\n");
        assert_eq!(clean("größer 日本 👩\u{200d}🚀"), "größer 日本 👩\u{200d}🚀");
    }

    #[test]
    fn json_stays_the_same_value_in_one_line() {
        let raw = "{\n\t\"a\":\r\n \"\u{9b}2J\u{85}\u{2028}\u{e0041}\u{7f}ä\" }";
        let shown = json_line(raw);
        assert_eq!(shown.lines().count(), 1, "{shown:?}");
        assert!(!shown.chars().any(steers), "{shown:?}");
        let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
        assert_eq!(read(&shown), read(raw));
    }
}
