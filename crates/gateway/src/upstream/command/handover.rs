//! What a command's run says to the engine so that another run can take it up.

use serde::{Deserialize, Serialize};
use taskgate_engine::{Report, Work};
use taskgate_task::Payload;

/// What is put down for the next run: where the command is.
#[derive(Debug, Serialize, Deserialize)]
pub struct Whereabouts {
    /// The attempt's name in the work directory.
    pub attempt: String,
}

/// What an earlier run has put down.
pub fn put_down_before(_work: &Work) -> Option<Result<Whereabouts, String>> {
    None
}

/// Puts down where the command will be. When it returns, that is durable if the work is a task.
pub async fn put_down(_report: &Report, whereabouts: &Whereabouts) -> Result<(), String> {
    Payload::from_value(whereabouts).map(drop).map_err(|error| error.to_string())
}

/// Whether the run is dropped because this process goes: its work is not to be stopped then, another one takes it up.
pub fn is_leaving(_report: &Report) -> bool {
    false
}

/// Whether it is settled what became of the run: its outcome is stored, or its caller has it.
pub async fn is_settled(_report: &Report) -> bool {
    true
}
