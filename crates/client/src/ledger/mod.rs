//! What a client must not forget when it crashes: its calls, and what has become of them.

use std::path::Path;

/// A durable record of calls: handles, servers, digests of arguments, answered questions. No arguments, answers, results or
/// credentials are in it. Clones share it.
#[derive(Debug, Clone)]
pub struct Ledger;

/// Why the ledger cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// It cannot be opened, read or written.
    #[error("the ledger {path}: {what}")]
    Store {
        /// Where it is.
        path: String,
        /// What went wrong.
        what: String,
    },
}

impl Ledger {
    /// Opens the ledger in this file, which is made if need be.
    ///
    /// # Errors
    ///
    /// Why it cannot be used.
    pub fn open(path: impl AsRef<Path>) -> Result<Ledger, LedgerError> {
        let path = path.as_ref().display().to_string();
        Err(LedgerError::Store { path, what: "not there yet".to_owned() })
    }
}
