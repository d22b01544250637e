//! What whoever runs the store may see and do, across owners. The same requests come from this machine's command line to the
//! store itself, or over a socket to the gateway that has the store open.

mod act;
mod find;
mod list;
mod prune;
mod request;
mod socket;
mod view;

use std::time::Duration;

use taskgate_engine::{Engine, EngineError};
use taskgate_task::Order;

pub use request::{AdminReply, AdminRequest, TaskFilter, Why};
pub use socket::{AdminSocket, ask, socket_of};
pub use view::{EventView, TaskView};

/// Answers requests about any task.
#[derive(Debug, Clone)]
pub struct Desk(Engine);

impl Desk {
    /// A desk of the gateway's own engine, or of one that begins nothing.
    pub fn new(engine: Engine) -> Self {
        Desk(engine)
    }

    /// Answers one request. What is not possible is an answer, too.
    pub async fn answer(&self, request: AdminRequest) -> AdminReply {
        let answered = match request {
            AdminRequest::List { filter, limit } => self.list(&filter, limit).await,
            AdminRequest::Show { task } => self.show(&task).await,
            AdminRequest::Cancel { task } => self.act(&task, Order::Cancel).await,
            AdminRequest::Fail { task, message } => self.act(&task, Order::Fail { message }).await,
            AdminRequest::Requeue { task } => self.act(&task, Order::Requeue).await,
            AdminRequest::Prune { filter, ended_before_ms, dry_run } => {
                self.prune(&filter, Duration::from_millis(ended_before_ms), dry_run).await
            }
        };
        answered.unwrap_or_else(refused)
    }
}

fn refused(error: EngineError) -> AdminReply {
    let why = match error {
        EngineError::NotFound => Why::NotFound,
        EngineError::Terminal(_) => Why::Ended,
        EngineError::Refused(_) => Why::NotPossible,
        _ => Why::Store,
    };
    AdminReply::Refused { why, message: error.to_string() }
}

#[cfg(test)]
mod tests;
