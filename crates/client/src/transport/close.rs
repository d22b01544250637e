use std::fmt;
use std::sync::Arc;
use taskgate_credentials::redact::redact;

/// How much of a process's last words an error text repeats, in bytes.
const SHOWN: usize = 2000;

/// Why a connection ended, in words fit for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloseReason {
    /// What happened.
    pub cause: CloseCause,
    /// The end of what the process wrote on stderr, if it was a process and wrote anything.
    pub stderr: Option<Arc<str>>,
}

/// What ended a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CloseCause {
    /// We closed it.
    Requested,
    /// The other end closed it.
    PeerClosed,
    /// The process exited with this code.
    Exited(i32),
    /// The process was killed by this signal.
    Signalled(i32),
    /// The server has lost the session, and does not mind another one.
    SessionLost(String),
    /// Something else went wrong.
    Failed(String),
}

impl CloseReason {
    /// A reason without last words.
    pub fn new(cause: CloseCause) -> Self {
        CloseReason { cause, stderr: None }
    }

    /// A failure in words.
    pub fn failed(what: impl Into<String>) -> Self {
        CloseReason::new(CloseCause::Failed(what.into()))
    }
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            CloseCause::Requested => f.write_str("the connection was closed on this side")?,
            CloseCause::PeerClosed => f.write_str("the server closed the connection")?,
            CloseCause::Exited(code) => write!(f, "the server process exited with code {code}")?,
            CloseCause::Signalled(signal) => {
                write!(f, "the server process was killed by signal {signal}")?;
                if let Some(name) = signal_name(*signal) {
                    write!(f, " ({name})")?;
                }
            }
            CloseCause::SessionLost(what) => f.write_str(what)?,
            CloseCause::Failed(what) => write!(f, "the connection failed: {what}")?,
        }
        match self.stderr.as_deref().map(str::trim) {
            None | Some("") => Ok(()),
            // What of a secret is cut off at the front is no longer known as one, so it is looked for first.
            Some(stderr) => write!(f, "; stderr ended with: {}", last_bytes(&redact(stderr), SHOWN)),
        }
    }
}

impl std::error::Error for CloseReason {}

/// The last `limit` bytes of a text, cut at a character.
fn last_bytes(text: &str, limit: usize) -> &str {
    let mut start = text.len().saturating_sub(limit);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

#[cfg(unix)]
fn signal_name(signal: i32) -> Option<&'static str> {
    nix::sys::signal::Signal::try_from(signal).ok().map(|signal| signal.as_str())
}

#[cfg(not(unix))]
fn signal_name(_: i32) -> Option<&'static str> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_reads_as_a_sentence_and_keeps_last_words_short() {
        let mut reason = CloseReason::new(CloseCause::Signalled(9));
        assert_eq!(reason.to_string(), "the server process was killed by signal 9 (SIGKILL)");
        reason.stderr = Some(format!("{}é oh no\n", "x".repeat(5000)).into());
        let text = reason.to_string();
        assert!(text.ends_with("é oh no") && text.len() < SHOWN + 100, "{text}");
        assert_eq!(last_bytes("éé", 3), "é");
    }
}
