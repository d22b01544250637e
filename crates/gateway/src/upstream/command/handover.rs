//! What a command's run puts down so that another run can take it up.

use serde::{Deserialize, Serialize};
use taskgate_engine::Work;
use taskgate_task::{InvalidPayload, Payload};

/// Where a command is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Whereabouts {
    /// The work directory's own id.
    pub yard: String,
    /// The attempt's name in it.
    pub attempt: String,
}

impl Whereabouts {
    /// What an earlier run has put down, if it has.
    pub fn of(work: &Work) -> Result<Option<Whereabouts>, String> {
        let read = |state: &Payload| serde_json::from_str(state.as_str());
        let whereabouts = work.checkpoint.as_ref().map(read).transpose();
        whereabouts.map_err(|error| format!("Where the command is cannot be read: {error}"))
    }

    pub fn to_payload(&self) -> Result<Payload, InvalidPayload> {
        Payload::from_value(self)
    }
}
