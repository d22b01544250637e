//! What a job's run puts down so that another run can take it up.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use taskgate_engine::Work;
use taskgate_task::{InvalidPayload, Payload};

/// Where a job is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Place {
    /// The key it is started with. It is kept before anything is sent.
    pub key: String,
    /// What finds the job. Without it, it may have been started or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<Map<String, Value>>,
}

impl Place {
    /// What an earlier run has put down, if it has.
    pub fn of(work: &Work) -> Result<Option<Place>, String> {
        let read = |state: &Payload| serde_json::from_str(state.as_str());
        let place = work.checkpoint.as_ref().map(read).transpose();
        place.map_err(|error| format!("Where the job is cannot be read: {error}"))
    }

    pub fn to_payload(&self) -> Result<Payload, InvalidPayload> {
        Payload::from_value(self)
    }
}
