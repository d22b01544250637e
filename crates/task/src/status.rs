use serde::{Deserialize, Serialize};

/// Where a task stands. A terminal status is final.
///
/// `Completed` means that the work ended with a result, even one that says `isError`: how a protocol
/// generation names that case is its dialect's business.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The work is queued or running.
    Working,
    /// At least one question to the requestor is open.
    InputRequired,
    /// The work ended with a result.
    Completed,
    /// The work ended with an error, ran into its limit, or was interrupted.
    Failed,
    /// The requestor cancelled it first.
    Cancelled,
}

impl Status {
    /// Every status, in the order of a task's life.
    pub const ALL: [Status; 5] =
        [Status::Working, Status::InputRequired, Status::Completed, Status::Failed, Status::Cancelled];

    /// Whether no move leads away from here.
    pub fn is_terminal(self) -> bool {
        matches!(self, Status::Completed | Status::Failed | Status::Cancelled)
    }

    /// The word used in stores, events and the words all dialects share.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Working => "working",
            Status::InputRequired => "input_required",
            Status::Completed => "completed",
            Status::Failed => "failed",
            Status::Cancelled => "cancelled",
        }
    }

    /// Reads [`Status::as_str`] back.
    pub fn from_word(word: &str) -> Option<Status> {
        Status::ALL.into_iter().find(|status| status.as_str() == word)
    }
}
