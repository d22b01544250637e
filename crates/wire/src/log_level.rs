//! How urgent a log message is.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use taskgate_task::Payload;

/// The levels of RFC 5424, the least urgent first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Detailed debugging information.
    Debug,
    /// General information.
    Info,
    /// Normal but significant.
    Notice,
    /// A warning.
    Warning,
    /// An error.
    Error,
    /// A critical condition.
    Critical,
    /// Action is needed at once.
    Alert,
    /// The system cannot be used.
    Emergency,
}

impl LogLevel {
    /// Reads a level as it stands in a message.
    pub fn from_raw(raw: &RawValue) -> Option<LogLevel> {
        serde_json::from_str(raw.get()).ok()
    }

    /// The level of a `notifications/message`; `None` if it has none that is known.
    pub fn of_message(params: &Payload) -> Option<LogLevel> {
        #[derive(Deserialize)]
        struct Message {
            level: LogLevel,
        }
        serde_json::from_str::<Message>(params.as_str()).ok().map(|message| message.level)
    }
}
