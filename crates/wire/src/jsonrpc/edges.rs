//! What can be told of a message that was too long to be kept, or cannot be read: whose answer it is.

use taskgate_task::Payload;

use super::id::Id;

/// How much of a message is kept at each end.
const KEPT: usize = 256;

/// The id of the request that a text answers, although it cannot be read: whoever waits for that answer gets no other.
pub(super) fn answered(text: &[u8]) -> Option<Id> {
    let mut edges = Edges::default();
    edges.add(text);
    edges.answered()
}

/// The first and the last bytes of a line that was too long.
#[derive(Debug, Default)]
pub(super) struct Edges {
    head: Vec<u8>,
    tail: Vec<u8>,
}

impl Edges {
    /// Adds bytes as they stream by.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        let room = KEPT - self.head.len().min(KEPT);
        self.head.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.tail.extend_from_slice(&bytes[bytes.len().saturating_sub(KEPT)..]);
        let old = self.tail.len().saturating_sub(KEPT);
        self.tail.drain(..old);
    }

    /// The id of the request that this line answers, if it is certain that it is an answer and that this is its id.
    ///
    /// Servers write an answer's `id` before the `result` or after it, and that is where it is looked for: a member
    /// further inside is never taken for it.
    pub(super) fn answered(&self) -> Option<Id> {
        let head = Text(&self.head).after(b"{")?;
        let head = head.member(b"\"jsonrpc\"").map_or(head, |(_, rest)| rest);
        if let Some((id, mut rest)) = head.member(b"\"id\"") {
            // Written twice, it is still one id; two of them are none.
            while let Some((again, behind)) = rest.member(b"\"id\"") {
                if again != id {
                    return None;
                }
                rest = behind;
            }
            return if rest.begins_answer() { read(id) } else { None };
        }
        if !head.begins_answer() {
            return None;
        }
        let tail = self.tail.trim_ascii_end().strip_suffix(b"}")?.trim_ascii_end();
        let tail = before(tail, b"\"2.0\"")
            .and_then(|rest| before(rest, b":"))
            .and_then(|rest| before(rest, b"\"jsonrpc\""))
            .and_then(|rest| before(rest, b","))
            .unwrap_or(tail);
        let start = match tail.strip_suffix(b"\"") {
            Some(inner) => inner.iter().rposition(|byte| *byte == b'"')?,
            None => tail.iter().rposition(|byte| !byte.is_ascii_digit())? + 1,
        };
        let (rest, id) = tail.split_at(start);
        before(before(before(rest.trim_ascii_end(), b":")?, b"\"id\"")?, b",")?;
        read(id)
    }
}

/// What stands before these bytes at the end of a text.
fn before<'a>(text: &'a [u8], end: &[u8]) -> Option<&'a [u8]> {
    text.strip_suffix(end).map(<[u8]>::trim_ascii_end)
}

fn read(id: &[u8]) -> Option<Id> {
    let text = std::str::from_utf8(id).ok()?.to_owned();
    Id::from_raw(Payload::parse(text).ok()?.as_raw())
}

/// The rest of the beginning of a message.
#[derive(Clone, Copy)]
struct Text<'a>(&'a [u8]);

impl<'a> Text<'a> {
    fn after(self, start: &[u8]) -> Option<Self> {
        self.0.trim_ascii_start().strip_prefix(start).map(Text)
    }

    /// The short value of a member with this name, if it comes next, and what follows it.
    fn member(self, name: &[u8]) -> Option<(&'a [u8], Self)> {
        let value = self.after(name)?.after(b":")?.0.trim_ascii_start();
        let end = match value.strip_prefix(b"\"") {
            Some(inner) => inner.iter().position(|byte| matches!(byte, b'"' | b'\\'))? + 2,
            None => value.iter().position(|byte| !byte.is_ascii_digit())?,
        };
        let (value, rest) = value.split_at_checked(end)?;
        Some((value, Text(rest).after(b",")?))
    }

    fn begins_answer(self) -> bool {
        self.after(b"\"result\"").or_else(|| self.after(b"\"error\"")).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(text: &str, step: usize) -> Option<String> {
        let mut edges = Edges::default();
        text.as_bytes().chunks(step).for_each(|chunk| edges.add(chunk));
        edges.answered().map(|id| id.as_str().to_owned())
    }

    #[test]
    fn an_answer_is_recognized_by_its_edges_and_nothing_else_is() {
        let long = "x".repeat(2000);
        for (text, id) in [
            (format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"t":"{long}"}}}}"#), Some("7")),
            (
                format!(r#" {{ "jsonrpc" : "2.0" , "id" : "a" , "error" : {{"t":"{long}"}} }} "#),
                Some("\"a\""),
            ),
            (format!(r#"{{"id":7,"result":"{long}","jsonrpc":"2.0"}}"#), Some("7")),
            (format!(r#"{{"id":7,"id":7,"result":"{long}"}}"#), Some("7")),
            (format!(r#"{{"id":7,"id":8,"result":"{long}"}}"#), None),
            (format!(r#"{{"result":{{"t":"{long}"}},"jsonrpc":"2.0","id":7}}"#), Some("7")),
            (format!(r#"{{"result":"{long}","id":"7","jsonrpc":"2.0"}}"#), Some("\"7\"")),
            (format!(r#"{{"jsonrpc":"2.0","result":"{long}" , "id" : 7 }}"#), Some("7")),
            // Requests, and ids of something else.
            (format!(r#"{{"jsonrpc":"2.0","id":7,"method":"m","params":{{"t":"{long}"}}}}"#), None),
            (format!(r#"{{"method":"m","params":{{"t":"{long}"}},"jsonrpc":"2.0","id":7}}"#), None),
            (format!(r#"{{"result":{{"t":"{long}","id":7}}}}"#), None),
            (format!(r#"{{"result":{{"t":"{long}"}},"idx":7}}"#), None),
            (format!(r#"{{"result":"{long},\"id\":7}}"#), None),
            (format!(r#"{{"jsonrpc":"2.0","result":"{long}"}}"#), None),
            (long.clone(), None),
            (String::new(), None),
        ] {
            for step in [1, 7, 255, 256, 257, 5000] {
                assert_eq!(answered(&text, step).as_deref(), id, "{step} {}", &text[..text.len().min(60)]);
            }
        }
    }
}
