use taskgate_task::Payload;
use tokio::sync::broadcast::{self, error::RecvError};

/// Something the server said that belongs to no call in flight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// A notification: `notifications/tools/list_changed`, `notifications/resources/updated`, log messages, progress
    /// whose call has already returned (a task's, say; its token is the call's id), and whatever else it sends.
    Notification {
        /// The method.
        method: String,
        /// The params.
        params: Option<Payload>,
    },
    /// This many were lost because the listener was too slow: what it knows of the server may be out of date.
    Missed(u64),
}

/// A stream of what the server says.
#[derive(Debug)]
pub struct Notifications(pub(super) broadcast::Receiver<Heard>);

impl Notifications {
    /// The next one; `None` once the connection has ended. Cancel safe.
    pub async fn next(&mut self) -> Option<Heard> {
        match self.0.recv().await {
            Ok(heard) => Some(heard),
            Err(RecvError::Lagged(lost)) => Some(Heard::Missed(lost)),
            Err(RecvError::Closed) => None,
        }
    }
}
