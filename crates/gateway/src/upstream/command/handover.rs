//! What a command's run puts down so that another run can take it up.

use serde::{Deserialize, Serialize};
use taskgate_engine::{Clock, SystemClock, Work};
use taskgate_task::{InvalidPayload, Payload};

/// Where a command is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Whereabouts {
    /// The work directory's own id.
    pub yard: String,
    /// The attempt's name in it.
    pub attempt: String,
    /// From when on it is over, whatever became of everybody, in milliseconds since the Unix epoch: its supervisor ends it at its
    /// deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_ms: Option<i64>,
}

impl Whereabouts {
    /// What an earlier run has put down, if it has.
    pub fn of(work: &Work) -> Result<Option<Whereabouts>, String> {
        let read = |state: &Payload| serde_json::from_str(state.as_str());
        let whereabouts = work.checkpoint.as_ref().map(read).transpose();
        whereabouts.map_err(|error| format!("Where the command is cannot be read: {error}"))
    }

    /// Whether it is over by now, wherever it was.
    pub fn is_over(&self) -> bool {
        self.over_ms.is_some_and(|over| SystemClock.now().as_millis() > over)
    }

    pub fn to_payload(&self) -> Result<Payload, InvalidPayload> {
        Payload::from_value(self)
    }
}
