use std::time::Duration;

/// Why a request did not do what it was to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// It could not be put together. Nothing was sent.
    #[error("the {request} request cannot be made: {why}")]
    Unmade {
        /// Which one.
        request: &'static str,
        /// Why.
        why: String,
    },
    /// Nobody was there to send it to. Nothing was sent.
    #[error("the {request} request was not sent: {why}")]
    Unsent {
        /// Which one.
        request: &'static str,
        /// Why.
        why: String,
    },
    /// It may have arrived; there was no whole answer.
    #[error("the {request} request was not answered: {why}")]
    Unanswered {
        /// Which one.
        request: &'static str,
        /// Why.
        why: String,
    },
    /// It was answered with a code that is not among those that mean success.
    #[error("the {request} request was refused: {refusal}")]
    Refused {
        /// Which one.
        request: &'static str,
        /// The answer.
        refusal: Refusal,
    },
    /// The answer lacks what was to be found in it.
    #[error("the answer to the {request} request cannot be read: {why}")]
    Unreadable {
        /// Which one.
        request: &'static str,
        /// What is missing.
        why: String,
    },
}

/// An answer that is not the one that was wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP code.
    pub code: u16,
    /// The beginning of the body.
    pub excerpt: String,
    /// After how long it may be tried again, if the answer says so.
    pub retry_after: Option<Duration>,
    /// Whether it was declared to pass.
    pub passes: bool,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HTTP {}", self.code)?;
        if self.excerpt.is_empty() { Ok(()) } else { write!(f, ": {}", self.excerpt) }
    }
}

impl Failure {
    /// Whether the same request may succeed later.
    pub fn is_transient(&self) -> bool {
        match self {
            Failure::Unsent { .. } | Failure::Unanswered { .. } => true,
            Failure::Refused { refusal, .. } => {
                refusal.passes || matches!(refusal.code, 408 | 425 | 429 | 500..=599)
            }
            Failure::Unmade { .. } | Failure::Unreadable { .. } => false,
        }
    }

    /// Whether the other side has surely done nothing. A code of 500 and above does not say so.
    pub fn did_nothing(&self) -> bool {
        match self {
            Failure::Unmade { .. } | Failure::Unsent { .. } => true,
            Failure::Refused { refusal, .. } => matches!(refusal.code, 300..=499) && refusal.code != 408,
            Failure::Unanswered { .. } | Failure::Unreadable { .. } => false,
        }
    }

    /// The answer's code, if there was an answer.
    pub fn code(&self) -> Option<u16> {
        match self {
            Failure::Refused { refusal, .. } => Some(refusal.code),
            _ => None,
        }
    }

    /// How long the other side wants to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Failure::Refused { refusal, .. } => refusal.retry_after,
            _ => None,
        }
    }
}
