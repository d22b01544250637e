//! What went wrong, in words that hold no values: a server's details may quote rows, and a URL may hold a password.

use std::error::Error as _;

use tokio_postgres::Error;
use tokio_postgres::error::{Severity, SqlState};

use crate::StoreError;

/// The error's own words, without its details.
pub(super) fn say(error: &Error) -> String {
    if let Some(db) = error.as_db_error() {
        return format!("{} (SQLSTATE {})", db.message(), db.code().code());
    }
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        words = format!("{words}: {cause}");
        source = cause.source();
    }
    words
}

/// What the server refused, as the store's own error.
pub(super) fn failed(error: &Error) -> StoreError {
    StoreError::Failed(say(error))
}

/// Whether the server has answered with a refusal, so that the statement and its transaction did nothing for certain.
/// Otherwise the session has ended, and with it everything that was not committed.
pub(super) fn is_refusal(error: &Error) -> bool {
    error
        .as_db_error()
        .is_some_and(|db| !matches!(db.parsed_severity(), Some(Severity::Fatal | Severity::Panic)))
}

/// Whether another session may succeed where this one was refused: its plans are of an older layout, or its server
/// has become one that only reads.
pub(super) fn is_session_stale(error: &Error) -> bool {
    let stale = [SqlState::FEATURE_NOT_SUPPORTED, SqlState::READ_ONLY_SQL_TRANSACTION];
    error.code().is_some_and(|code| stale.contains(code))
}

/// Whether the same statements may succeed when they are sent again: somebody else was in the way.
pub(super) fn is_collision(error: &Error) -> bool {
    let collisions = [
        SqlState::UNIQUE_VIOLATION,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::LOCK_NOT_AVAILABLE,
    ];
    error.code().is_some_and(|code| collisions.contains(code))
}
