use std::borrow::Cow;
use std::error::Error;
use std::fmt;

use reqwest::StatusCode;
use taskgate_credentials::redact::redact;

/// Why one request of ours has no answer, while its connection goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestFailure {
    /// What that means for the request.
    pub kind: FailureKind,
    /// What happened and what helps, for people.
    pub what: String,
}

/// What it means for a request that it has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// Nothing of it was sent: the server cannot be reached.
    Unreachable,
    /// The server does not know the session any more and has not looked at the request. It can be made in another session.
    SessionLost,
    /// The server, or something before it, did not take the request: nothing was done.
    Refused,
    /// The request may have reached the server, which may have done some or all of it, and its answer is lost.
    Interrupted,
    /// The answer is none.
    Malformed,
}

impl RequestFailure {
    /// Of this kind, in these words.
    pub fn new(kind: FailureKind, what: impl Into<String>) -> Self {
        // It may hold words of the server's, which may hold what it was sent.
        let what = what.into();
        let what = match redact(&what) {
            Cow::Borrowed(_) => what,
            Cow::Owned(clean) => clean,
        };
        RequestFailure { kind, what }
    }

    /// Whether every other request on this connection fails as well, while one on a new connection may not.
    pub fn is_of_connection(&self) -> bool {
        matches!(self.kind, FailureKind::Unreachable | FailureKind::SessionLost)
    }

    /// A request that could not be sent, or whose answer did not begin.
    pub(super) fn sending(server: &str, error: reqwest::Error) -> Self {
        if error.is_connect() {
            let what = format!("cannot connect to {server}: {}", root_of(error));
            return RequestFailure::new(FailureKind::Unreachable, what);
        }
        RequestFailure::interrupted(server, &root_of(error))
    }

    /// A request that was sent, whose answer was lost.
    pub(super) fn interrupted(server: &str, why: &str) -> Self {
        let what = format!(
            "interrupted: the connection to {server} was lost before the answer arrived ({why}); the server may have done the work or not"
        );
        RequestFailure::new(FailureKind::Interrupted, what)
    }

    /// A status that is no answer.
    pub(super) fn status(server: &str, status: StatusCode, detail: &str) -> Self {
        let detail = if detail.is_empty() { String::new() } else { format!(": {detail}") };
        let (kind, help) = match status.as_u16() {
            401 => (
                FailureKind::Refused,
                "it does not accept the credentials; see `bearer`, `oauth` and `headers` of this upstream",
            ),
            403 => (FailureKind::Refused, "the credentials of this upstream do not allow this"),
            404 => (FailureKind::Refused, "nothing is there; is `url` the server's MCP endpoint?"),
            405 | 406 | 415 => (FailureKind::Refused, "that is no MCP endpoint; is `url` right?"),
            413 => (FailureKind::Refused, "the request is too large for it"),
            429 => (FailureKind::Refused, "it takes no more requests for now"),
            300..=399 => (FailureKind::Refused, "it sends its callers elsewhere without saying where"),
            500..=599 => (FailureKind::Interrupted, "it may have done the work or not"),
            200..=299 => (FailureKind::Malformed, "it took the request and did not answer it"),
            _ => (FailureKind::Refused, "it did not take the request"),
        };
        RequestFailure::new(kind, format!("{server} answered with the status {status}{detail}; {help}"))
    }

    /// An answer that is none.
    pub(super) fn malformed(what: impl Into<String>) -> Self {
        RequestFailure::new(FailureKind::Malformed, what)
    }
}

impl fmt::Display for RequestFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl Error for RequestFailure {}

/// The innermost reason of an error, which says more than what lies around it, without the URL.
pub(super) fn root_of(error: reqwest::Error) -> String {
    let error = error.without_url();
    if error.is_timeout() {
        return "it did not answer in time".to_owned();
    }
    let mut root: &dyn Error = &error;
    while let Some(source) = root.source() {
        root = source;
    }
    root.to_string()
}
