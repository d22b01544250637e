//! How each generation of MCP Tasks says the same things.
//!
//! Wire spellings stand only in a dialect's `shapes.rs`. Dialects carry dates.

pub mod d2025_10_20;
pub mod d2025_11_25;
pub mod d2026_07_28;

use taskgate_task::{Failure, Payload, Task, Timestamp};

use crate::jsonrpc::{ErrorCode, RpcError};
use crate::reply::{Encoded, Reply};
use crate::version::Version;

/// A generation of tasks. It is chosen by protocol version, never by capability alone: clients of
/// 2025-11-25 exist that declare the extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// Core tasks of 2025-11-25.
    D2025_11_25,
    /// The extension `io.modelcontextprotocol/tasks` under 2026-07-28.
    D2026_07_28,
}

impl Dialect {
    /// The generation spoken under a protocol version, if it has one.
    pub fn of(version: Version) -> Option<Dialect> {
        match version {
            Version::V2026_07_28 => Some(Dialect::D2026_07_28),
            Version::V2025_11_25 => Some(Dialect::D2025_11_25),
            Version::V2025_06_18 | Version::V2025_03_26 | Version::V2024_11_05 => None,
        }
    }

    /// Puts a reply into words.
    pub fn encode(self, reply: Reply<'_>) -> Encoded {
        match self {
            Dialect::D2025_11_25 => d2025_11_25::encode(reply),
            Dialect::D2026_07_28 => d2026_07_28::encode(reply),
        }
    }
}

/// A moment as both generations write it: ISO 8601 in UTC with milliseconds.
pub fn iso(at: Timestamp) -> String {
    match jiff::Timestamp::from_millisecond(at.as_millis()) {
        Ok(moment) => format!("{moment:.3}"),
        // Only moments beyond the year 9999 come here; a store never holds one.
        Err(_) => "9999-12-31T23:59:59.999Z".to_owned(),
    }
}

/// Milliseconds for the wire.
pub(crate) fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The error of a task that this receiver ended, or that has none of its own.
pub(crate) fn own_error(task: &Task) -> Payload {
    let reason = match task.failure {
        Some(Failure::RunLimit) => "run_limit",
        Some(Failure::IdleLimit) => "idle_limit",
        Some(Failure::Interrupted) => "interrupted",
        Some(Failure::NoRunner) => "no_runner",
        None => task.status.as_str(),
    };
    let message = task.status_message.clone().unwrap_or_else(|| "The task did not complete.".to_owned());
    RpcError::new(ErrorCode::InternalError, message)
        .with_data(&serde_json::json!({ "reason": reason }))
        .to_payload()
}
