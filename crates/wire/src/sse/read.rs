//! Server-sent events, the reading side (HTML standard, "Interpreting an event stream").

use std::time::Duration;

/// One event, as far as it matters here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SseEvent {
    /// An event with data.
    Data {
        /// Its data; several lines are joined by line breaks.
        data: String,
        /// Whether it is of the type that carries messages: `message`, which is also what no type means.
        is_message: bool,
    },
    /// An event longer than the limit was thrown away.
    TooLong {
        /// The limit in bytes.
        limit: usize,
    },
}

/// Cuts bytes into events, whatever borders they were read at.
///
/// An event over the limit is dropped while it streams in, so it costs no memory, and the next one is read as usual.
#[derive(Debug)]
pub struct SseReader {
    limit: usize,
    line: Vec<u8>,
    /// Whether the last byte was a carriage return: a line feed right after it belongs to it.
    after_return: bool,
    at_start: bool,
    data: String,
    has_data: bool,
    kind: String,
    /// The id of the event that is being read; it counts once the event is complete.
    pending_id: Option<String>,
    last_id: Option<String>,
    retry: Option<Duration>,
    overlong: bool,
}

impl SseReader {
    /// Takes events of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        SseReader {
            limit,
            line: Vec::new(),
            after_return: false,
            at_start: true,
            data: String::new(),
            has_data: false,
            kind: String::new(),
            pending_id: None,
            last_id: None,
            retry: None,
            overlong: false,
        }
    }

    /// The id of the last complete event, after which the stream can be resumed.
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref().filter(|id| !id.is_empty())
    }

    /// How long the server wants its clients to wait before they come back, if it has said so.
    pub fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// Forgets an event that was cut off: the next bytes are another connection's.
    pub fn cut(&mut self) {
        self.line.clear();
        (self.after_return, self.at_start) = (false, true);
        self.pending_id = None;
        self.end_event();
    }

    /// Takes the bytes just read and returns the events they complete.
    pub fn push(&mut self, mut bytes: &[u8]) -> Vec<SseEvent> {
        let mut events = Vec::new();
        while let Some(first) = bytes.first() {
            if std::mem::take(&mut self.after_return) && *first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) else {
                self.add(bytes);
                break;
            };
            self.add(&bytes[..end]);
            self.after_return = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            events.extend(self.take_line());
        }
        events
    }

    fn add(&mut self, bytes: &[u8]) {
        // What was gathered of an event counts as well: many short lines are as long as one.
        if self.overlong || self.line.len() + bytes.len() + self.data.len() > self.limit {
            self.overlong = true;
            self.data = String::new();
            // The start of a line is enough to know whether it is empty.
            self.line.truncate(1);
            self.line.extend(bytes.first().filter(|_| self.line.is_empty()));
        } else {
            self.line.extend_from_slice(bytes);
        }
    }

    fn take_line(&mut self) -> Option<SseEvent> {
        let mut line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.at_start) && line.starts_with(b"\xef\xbb\xbf") {
            line.drain(..3);
        }
        if line.is_empty() {
            return self.end_event();
        }
        if self.overlong {
            return None;
        }
        // "Streams are always decoded as UTF-8", with replacement.
        let line = String::from_utf8_lossy(&line);
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if self.has_data {
                    self.data.push('\n');
                }
                self.has_data = true;
                self.data.push_str(value);
            }
            "event" => value.clone_into(&mut self.kind),
            "id" if !value.contains('\0') => self.pending_id = Some(value.to_owned()),
            "retry" if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) => {
                self.retry = value.parse().ok().map(Duration::from_millis);
            }
            _ => {}
        }
        None
    }

    fn end_event(&mut self) -> Option<SseEvent> {
        let data = std::mem::take(&mut self.data);
        let kind = std::mem::take(&mut self.kind);
        let has_data = std::mem::take(&mut self.has_data);
        if std::mem::take(&mut self.overlong) {
            return Some(SseEvent::TooLong { limit: self.limit });
        }
        if let Some(id) = self.pending_id.take() {
            self.last_id = Some(id);
        }
        // An event without data only sets the id: a server primes its clients so (SEP-1699).
        let is_message = kind.is_empty() || kind == "message";
        (has_data && !data.is_empty()).then_some(SseEvent::Data { data, is_message })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(text: &str) -> SseEvent {
        SseEvent::Data { data: text.to_owned(), is_message: true }
    }

    /// Every way to cut a stream gives the same events, whatever ends its lines.
    #[test]
    fn events_are_the_same_wherever_the_bytes_are_cut() {
        let text = "\u{feff}: hello\nid: 1\nretry: 250\ndata:\n\nevent: message\nid: 2\ndata: {\"é\":1}\n\ndata: a\ndata:  b\n\nevent: other\ndata: x\n\n: \n\n";
        let want =
            [data("{\"é\":1}"), data("a\n b"), SseEvent::Data { data: "x".to_owned(), is_message: false }];
        for ends in ["\n", "\r\n", "\r"] {
            let text = text.replace('\n', ends);
            for cut in 0..=text.len() {
                let mut reader = SseReader::new(1000);
                let mut events = reader.push(&text.as_bytes()[..cut]);
                events.extend(reader.push(&text.as_bytes()[cut..]));
                assert_eq!(events, want, "cut at {cut} with {ends:?}");
                assert_eq!((reader.last_id(), reader.retry()), (Some("2"), Some(Duration::from_millis(250))));
            }
        }
    }

    #[test]
    fn an_event_without_end_costs_no_memory_and_the_next_one_is_read() {
        let mut reader = SseReader::new(20);
        for _ in 0..1000 {
            assert_eq!(reader.push(b"data: xxxxxxxxxxxxxxxxxxxxxxx"), []);
            assert!(reader.line.capacity() < 100 && reader.data.capacity() < 100);
        }
        assert_eq!(reader.push(b"\n\ndata: y\n\n"), [SseEvent::TooLong { limit: 20 }, data("y")]);
        for _ in 0..1000 {
            assert_eq!(reader.push(b"data: x\n"), []);
        }
        assert_eq!(reader.push(b"\ndata: z\n\n"), [SseEvent::TooLong { limit: 20 }, data("z")]);
    }

    #[test]
    fn an_event_that_was_cut_off_leaves_nothing_behind() {
        let mut reader = SseReader::new(100);
        assert_eq!(reader.push(b"id: 1\ndata: a\n\nid: 2\ndata: b"), [data("a")]);
        reader.cut();
        assert_eq!(reader.last_id(), Some("1"), "the second never arrived whole");
        assert_eq!(reader.push(b"data: c\n\n"), [data("c")]);
    }
}
