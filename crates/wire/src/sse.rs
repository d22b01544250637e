//! Server-sent events. This is the writing side; the reading side is in `read`.

mod read;

use std::time::Duration;

pub use read::{SseEvent, SseReader};

/// A comment line: keeps idle connections from being closed and says nothing.
pub const KEEP_ALIVE: &str = ":\n\n";

/// One message as an event. `text` must be one line, as every message of ours is.
pub fn event(text: &str) -> String {
    let mut event = String::with_capacity(text.len() + 24);
    push(&mut event, text);
    event
}

/// Writes one message as an event with an id, after which a client can resume.
pub fn push_numbered(out: &mut String, id: &str, text: &str) {
    out.reserve(id.len() + text.len() + 32);
    out.push_str("id: ");
    out.push_str(id);
    out.push('\n');
    push(out, text);
}

fn push(out: &mut String, text: &str) {
    out.push_str("event: message\ndata: ");
    out.push_str(text);
    out.push_str("\n\n");
}

/// An event without a message: it gives the client an id to resume after, and says how long to wait before doing so
/// (SEP-1699). Clients before 2025-11-25 may take its empty data for a broken message.
pub fn priming(id: &str, retry: Duration) -> String {
    format!("id: {id}\nretry: {}\ndata: \n\n", retry.as_millis())
}
