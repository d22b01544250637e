//! Streams of events, read as the standard describes it: all at once, and line by line.

use std::time::Duration;

use taskgate_wire::sse::{self, SseEvent, SseReader};

use crate::pieces::{chunks, split};

pub fn check(data: &[u8]) {
    let (sizes, text) = split(data, 3);
    // What is no UTF-8 is replaced by what is at most three times as long.
    let longest = 3 * text.len() + 1;
    let (events, last, retry) = read(text, sizes, longest);
    assert_eq!((events, last, retry), expected(text));
    // Where the limit is met does not depend on how the bytes arrive, and nothing longer comes out.
    for limit in [8, 40] {
        let cut = read(text, sizes, limit);
        assert_eq!(cut, read(text, &[], limit));
        for event in cut.0 {
            match event {
                SseEvent::Data { data, .. } => assert!(data.len() <= 3 * limit),
                SseEvent::TooLong { limit: said } => assert_eq!(said, limit),
            }
        }
    }
    written(text, sizes);
}

type Read = (Vec<SseEvent>, Option<String>, Option<Duration>);

fn read(text: &[u8], sizes: &[u8], limit: usize) -> Read {
    let mut reader = SseReader::new(limit);
    let events = chunks(text, sizes).into_iter().flat_map(|chunk| reader.push(chunk)).collect();
    (events, reader.last_id().map(str::to_owned), reader.retry())
}

/// "Interpreting an event stream" of the HTML standard, as it stands there.
fn expected(text: &[u8]) -> Read {
    let text = String::from_utf8_lossy(text);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut lines: Vec<&str> = text.split('\n').collect();
    // What has no end has not been read yet.
    lines.pop();
    let (mut data, mut kind, mut id, mut last, mut retry) = (String::new(), "", "", "", None);
    let mut events = Vec::new();
    for line in lines {
        if line.is_empty() {
            last = id;
            let lines = std::mem::take(&mut data);
            let lines = lines.strip_suffix('\n').unwrap_or(&lines);
            if !lines.is_empty() {
                let is_message = matches!(kind, "" | "message");
                events.push(SseEvent::Data { data: lines.to_owned(), is_message });
            }
            kind = "";
            continue;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => kind = value,
            "data" => data.extend([value, "\n"]),
            "id" if !value.contains('\0') => id = value,
            "retry" if !value.is_empty() && value.chars().all(|digit| digit.is_ascii_digit()) => {
                retry = value.parse().ok().map(Duration::from_millis);
            }
            _ => {}
        }
    }
    (events, Some(last.to_owned()).filter(|last| !last.is_empty()), retry)
}

/// What is written is read as what it was.
fn written(text: &[u8], sizes: &[u8]) {
    let line: String = String::from_utf8_lossy(text).chars().filter(|c| !matches!(c, '\n' | '\r')).collect();
    if line.is_empty() {
        return;
    }
    let mut stream = sse::priming("1-0", Duration::from_millis(250));
    stream.push_str(&sse::event(&line));
    stream.push_str(sse::KEEP_ALIVE);
    sse::push_numbered(&mut stream, "1-1", &line);
    let event = SseEvent::Data { data: line, is_message: true };
    let (events, last, retry) = read(stream.as_bytes(), sizes, stream.len());
    assert_eq!(events, [event.clone(), event]);
    assert_eq!((last.as_deref(), retry), (Some("1-1"), Some(Duration::from_millis(250))));
}
