//! Lines and the JSON-RPC messages in them. What `serde_json` makes of the same text, and a slower way to cut lines, say what
//! must come out.

use serde_json::Value;
use taskgate_wire::jsonrpc::{Line, Lines, batch_text, is_batch, one_line, parse_batch};
use taskgate_wire::{Malformed, Message, RawObject};

use crate::pieces::{check_error, chunks, split};

pub fn check(data: &[u8]) {
    let (sizes, text) = split(data, 3);
    for limit in [16, 300, 1 << 20] {
        lines(text, sizes, limit);
    }
    message(text);
    batch(text);
}

/// However the bytes arrive, lines are the same, and none is longer than is allowed.
fn lines(text: &[u8], sizes: &[u8], limit: usize) {
    let mut cutter = Lines::new(limit);
    let mut cut: Vec<Line> = chunks(text, sizes).into_iter().flat_map(|chunk| cutter.push(chunk)).collect();
    cut.extend(cutter.finish());
    let mut expected = Vec::new();
    for segment in text.split(|byte| *byte == b'\n') {
        if segment.len() > limit {
            expected.push((segment, None));
            continue;
        }
        let end = segment.iter().rposition(|byte| *byte != b'\r').map_or(0, |last| last + 1);
        let line = &segment[..end];
        let line =
            if expected.is_empty() { line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line) } else { line };
        if !line.iter().all(u8::is_ascii_whitespace) {
            expected.push((segment, Some(line)));
        }
    }
    assert_eq!(cut.len(), expected.len());
    for (line, (segment, expected)) in cut.iter().zip(expected) {
        match (line, expected) {
            (Line::Text(text), Some(expected)) => assert_eq!(text, expected),
            (Line::TooLong { limit: said, answered }, None) => {
                assert_eq!(*said, limit);
                // Who waits for an answer is told of it only if it was one.
                let has_method =
                    std::str::from_utf8(segment).ok().and_then(|text| RawObject::parse(text).ok());
                let has_method = has_method.is_some_and(|object| object.get("method").is_some());
                if let (Some(answered), Ok(message), false) = (answered, Message::parse(segment), has_method)
                {
                    let (Message::Response { id, .. } | Message::Error { id: Some(id), .. }) = message else {
                        panic!("{message:?} answers nothing");
                    };
                    assert_eq!(*answered, id);
                }
            }
            (line, expected) => panic!("{line:?} where {expected:?} is"),
        }
    }
}

fn message(text: &[u8]) {
    let line = one_line(text);
    let value = serde_json::from_slice::<Value>(&line);
    if let Ok(value) = &value {
        assert_eq!(
            serde_json::from_slice::<Value>(text).as_ref().ok(),
            Some(value),
            "a line break meant something"
        );
    }
    match Message::parse(&line) {
        Ok(message) => {
            let written = message.to_text();
            assert!(!written.contains('\n'));
            assert_eq!(Message::parse(written.as_bytes()).as_ref(), Ok(&message));
            if let Some((head, result, tail)) = message.to_parts() {
                assert_eq!(format!("{head}{}{tail}", result.as_str()), written);
            }
            // Some texts can be passed on that `serde_json` cannot take apart.
            if let Ok(value) = value {
                agrees(&message, &value);
            }
        }
        Err(malformed) => wrong(&malformed, value.ok().as_ref()),
    }
}

fn agrees(message: &Message, value: &Value) {
    let same = |name: &str, text: Option<&str>| {
        let text = text.map(|text| serde_json::from_str::<Value>(text).unwrap());
        assert_eq!(text.as_ref(), value.get(name), "{name}");
    };
    assert_eq!(value["jsonrpc"], "2.0");
    match message {
        Message::Request { id, method, params } => {
            same("id", Some(id.as_str()));
            assert_eq!(value["method"], **method);
            same("params", params.as_ref().map(|params| params.as_str()));
        }
        Message::Notification { method, params } => {
            same("id", None);
            assert_eq!(value["method"], **method);
            same("params", params.as_ref().map(|params| params.as_str()));
        }
        Message::Response { id, result } => {
            same("id", Some(id.as_str()));
            same("method", None);
            same("result", Some(result.as_str()));
            same("error", None);
        }
        Message::Error { id, error } => {
            same("method", None);
            same("result", None);
            same("error", Some(error.as_str()));
            if let Some(id) = id {
                same("id", Some(id.as_str()));
            }
        }
    }
}

fn wrong(malformed: &Malformed, value: Option<&Value>) {
    check_error(&malformed.error);
    let code = malformed.error.code.number();
    match value {
        // The id is that of the request, or none: never another one.
        Some(value) => {
            assert!(matches!(code, -32600 | -32602), "{code} for JSON");
            if let Some(id) = &malformed.id {
                assert_eq!(value.get("id"), serde_json::from_str(id.as_str()).ok().as_ref());
            }
        }
        None => assert!(matches!(code, -32700 | -32600 | -32602), "{code}"),
    }
}

/// The members of a batch are what they are alone.
fn batch(text: &[u8]) {
    let line = one_line(text);
    match (parse_batch(&line), serde_json::from_slice::<Value>(&line)) {
        (Ok(members), Ok(Value::Array(values))) => {
            assert!(is_batch(&line) && members.len() == values.len());
            for (member, value) in members.iter().zip(&values) {
                match member {
                    Ok(message) => agrees(message, value),
                    Err(malformed) => wrong(malformed, Some(value)),
                }
            }
            let whole: Vec<Message> = members.into_iter().flatten().collect();
            if !whole.is_empty() {
                let again = parse_batch(batch_text(&whole).as_bytes()).unwrap();
                assert_eq!(again.into_iter().map(Result::unwrap).collect::<Vec<_>>(), whole);
            }
        }
        (Ok(_), Ok(other)) => panic!("{other} is no batch"),
        (Ok(members), Err(_)) => assert!(members.len() <= 100),
        (Err(malformed), _) => check_error(&malformed.error),
    }
}
