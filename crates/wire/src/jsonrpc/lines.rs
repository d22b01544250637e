use std::borrow::Cow;

use super::edges::Edges;
use super::id::Id;

/// Makes a JSON text fit on one line: JSON has line breaks only as white space between tokens, so each can
/// become a blank without changing any value. One within a string is no JSON, and stays for the parser to refuse.
pub fn one_line(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr2(b'\n', b'\r', text).is_none() {
        return Cow::Borrowed(text);
    }
    let (mut in_string, mut escaped) = (false, false);
    let plain = |byte: &u8| {
        match byte {
            b'\n' | b'\r' if !in_string => return b' ',
            b'"' if !escaped => in_string = !in_string,
            _ => {}
        }
        escaped = *byte == b'\\' && !escaped;
        *byte
    };
    Cow::Owned(text.iter().map(plain).collect())
}

/// One piece of a stream of lines.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// A line without its end; never empty.
    Text(Vec<u8>),
    /// A line longer than the limit was thrown away.
    TooLong {
        /// The limit in bytes.
        limit: usize,
        /// The request it was the answer to, if its ends tell.
        answered: Option<Id>,
    },
}

/// Cuts bytes into lines at 0x0A, whatever borders they were read at.
///
/// Decoding happens after cutting, so a character split between two reads stays whole. CRLF, blank lines and one
/// leading byte order mark are accepted. A line over the limit is dropped as a whole while it streams in, so it
/// costs no memory, and the next line is read as usual.
#[derive(Debug)]
pub struct Lines {
    limit: usize,
    line: Vec<u8>,
    overlong: Option<Edges>,
    at_start: bool,
}

impl Lines {
    /// Takes lines of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Lines { limit, line: Vec::new(), overlong: None, at_start: true }
    }

    /// Takes the bytes just read and returns the lines they complete.
    pub fn push(&mut self, mut bytes: &[u8]) -> Vec<Line> {
        let mut lines = Vec::new();
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            self.add(&bytes[..end]);
            lines.extend(self.take());
            bytes = &bytes[end + 1..];
        }
        self.add(bytes);
        lines
    }

    /// Takes the end of the stream: a last line without a line break still counts.
    pub fn finish(&mut self) -> Option<Line> {
        self.take()
    }

    fn add(&mut self, bytes: &[u8]) {
        match &mut self.overlong {
            Some(edges) => edges.add(bytes),
            None if self.line.len() + bytes.len() > self.limit => {
                let mut edges = Edges::default();
                edges.add(&std::mem::take(&mut self.line));
                edges.add(bytes);
                self.overlong = Some(edges);
            }
            None => self.line.extend_from_slice(bytes),
        }
    }

    fn take(&mut self) -> Option<Line> {
        if let Some(edges) = self.overlong.take() {
            self.at_start = false;
            return Some(Line::TooLong { limit: self.limit, answered: edges.answered() });
        }
        let mut line = std::mem::take(&mut self.line);
        while line.last() == Some(&b'\r') {
            line.pop();
        }
        if self.at_start && line.starts_with(b"\xef\xbb\xbf") {
            line.drain(..3);
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            return None;
        }
        self.at_start = false;
        Some(Line::Text(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(input: &[u8], step: usize) -> Vec<Line> {
        let mut lines = Lines::new(64);
        let mut out: Vec<Line> = input.chunks(step).flat_map(|chunk| lines.push(chunk)).collect();
        out.extend(lines.finish());
        out
    }

    /// Cases 32 and 33: line ends, byte order mark, and characters cut at read borders.
    #[test]
    fn any_line_end_and_any_read_border_give_the_same_lines() {
        let text = "\u{feff}{\"a\":\"é漢😀\"}";
        for end in ["\n", "\r\n", "\n\n", "\r\n\r\n"] {
            let input = format!("{text}{end}{{\"b\":1}}{end}");
            for step in 1..8 {
                let lines = cut(input.as_bytes(), step);
                let want = [text.trim_start_matches('\u{feff}'), "{\"b\":1}"];
                assert_eq!(lines, want.map(|line| Line::Text(line.as_bytes().to_vec())), "{end:?} {step}");
            }
        }
    }

    #[test]
    fn an_overlong_line_is_dropped_and_the_next_one_is_read() {
        let input = [vec![b'x'; 1000], b"\nok\n".to_vec()].concat();
        for step in [1, 7, 63, 64, 65, 2000] {
            assert_eq!(
                cut(&input, step),
                [Line::TooLong { limit: 64, answered: None }, Line::Text(b"ok".to_vec())]
            );
        }
    }

    #[test]
    fn a_line_break_in_a_string_stays_for_the_parser_to_refuse() {
        for text in ["{\"a\":\"x\ny\"}", "{\"a\":\n\"x\\\\\\\"\r\"}", "[\"\\\\\",\n\"\r\"]"] {
            assert!(serde_json::from_str::<serde_json::Value>(text).is_err(), "{text}");
            assert!(
                serde_json::from_slice::<serde_json::Value>(&one_line(text.as_bytes())).is_err(),
                "{text}"
            );
        }
        let whole = "{\n\"a\\\"\":\r\n\"\\\\\"\n}";
        assert_eq!(one_line(whole.as_bytes()), whole.replace(['\n', '\r'], " ").as_bytes());
    }

    #[test]
    fn pretty_printed_json_becomes_one_line_of_the_same_value() {
        let text = b"{\n  \"a\": [1,\r\n 2]\n}";
        let line = one_line(text);
        assert!(!line.contains(&b'\n') && !line.contains(&b'\r'));
        let value = |bytes: &[u8]| serde_json::from_slice::<serde_json::Value>(bytes).expect("JSON");
        assert_eq!(value(text), value(&line));
    }
}
