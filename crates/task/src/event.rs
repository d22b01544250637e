use serde::{Deserialize, Serialize};

use crate::{Status, Timestamp};

/// Who made a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Who {
    /// The requestor: create, answer, cancel.
    Requestor,
    /// The work itself: ask, finish.
    Runner,
    /// taskgate: expiry, recovery, upkeep.
    Receiver,
}

impl Who {
    /// The word used in stores.
    pub fn as_str(self) -> &'static str {
        match self {
            Who::Requestor => "requestor",
            Who::Runner => "runner",
            Who::Receiver => "receiver",
        }
    }

    /// Reads [`Who::as_str`] back.
    pub fn from_word(word: &str) -> Option<Who> {
        [Who::Requestor, Who::Runner, Who::Receiver].into_iter().find(|who| who.as_str() == word)
    }
}

/// One move of a task, written in the same commit as the record it led to.
///
/// The events of a task are its audit trail. They say why, never what was asked or answered: arguments, answers and
/// results may hold secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// 1 for the creation, then counting up: the task's version after the move.
    pub version: u64,
    /// When.
    pub at: Timestamp,
    /// Who.
    pub who: Who,
    /// The status before; `None` for the creation.
    pub from: Option<Status>,
    /// The status after.
    pub to: Status,
    /// Why, in a few words.
    pub why: String,
}
