use taskgate_task::{Refusal, Status};

use crate::StoreError;

/// Why the engine could not do what it was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum EngineError {
    /// No such task for this owner: unknown, foreign and expired ids are the same.
    #[error("no such task")]
    NotFound,
    /// The task has ended; the move came too late.
    #[error("the task is already {}", .0.as_str())]
    Terminal(Status),
    /// An operator's order does not fit the task as it stands.
    #[error("{0}")]
    Refused(Refusal),
    /// The store failed.
    #[error("the store failed: {0}")]
    Store(String),
    /// The idempotency key was used for a call with other arguments.
    #[error("the idempotency key was used for another call")]
    KeyConflict,
    /// The task that had the idempotency key has expired, and cannot be removed yet.
    #[error("the work of the expired task that has this idempotency key is still being stopped")]
    KeyExpiring,
    /// Something is longer than can be kept.
    #[error("{0}")]
    TooLong(String),
    /// This node was out of touch with the others for so long that they may have buried it; it makes no task before it has
    /// joined them again.
    #[error("this node is out of touch with the others")]
    OutOfTouch,
    /// The engine is shutting down and starts nothing new.
    #[error("shutting down")]
    Draining,
}

impl From<StoreError> for EngineError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NotFound => EngineError::NotFound,
            StoreError::Refused(Refusal::Terminal(status)) => EngineError::Terminal(status),
            StoreError::Refused(refusal @ Refusal::TooLong(_)) => EngineError::TooLong(refusal.to_string()),
            StoreError::Refused(
                refusal @ (Refusal::NotRepeatable | Refusal::NotStartable | Refusal::NotDue),
            ) => EngineError::Refused(refusal),
            StoreError::Refused(refusal @ Refusal::StaleFence) => EngineError::Store(refusal.to_string()),
            StoreError::KeyTaken { .. } => EngineError::KeyConflict,
            StoreError::IdTaken => EngineError::Store("the id is taken".to_owned()),
            StoreError::TooLong(what) => EngineError::TooLong(what),
            error @ (StoreError::Keys(_) | StoreError::Undecipherable { .. }) => {
                EngineError::Store(error.to_string())
            }
            StoreError::Failed(reason) => EngineError::Store(reason),
        }
    }
}
