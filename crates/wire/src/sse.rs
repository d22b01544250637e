//! Server-sent events, the writing side.

/// A comment line: keeps idle connections from being closed and says nothing.
pub const KEEP_ALIVE: &str = ":\n\n";

/// One message as an event. `text` must be one line, as every message of ours is.
pub fn event(text: &str) -> String {
    let mut event = String::with_capacity(text.len() + 24);
    event.push_str("event: message\ndata: ");
    event.push_str(text);
    event.push_str("\n\n");
    event
}
