//! What a client must not forget when it crashes: its calls, and what has become of them.
//!
//! A call is noted before it is sent, its handle before anything else is done with it, its end before the caller hears of
//! it. Each of these is durable when it is done. Arguments, answers, results and credentials are not in it; but questions that a
//! server has made tasks of, and the answers to them, are, where such tasks are to be kept here.

mod hosted;
mod list;
mod open;
mod rows;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::Connection;

pub(crate) use hosted::HostedRow;
pub use list::OpenCall;
pub(crate) use rows::{CallId, New, Open, Stage};

/// A durable record of calls: handles, servers, digests of arguments, keys of answered questions. Clones share it.
///
/// A file serves one program at a time: [`Client::resume_all`](crate::Client::resume_all) goes on with the calls of every other
/// life of it, as if that had ended.
#[derive(Debug, Clone)]
pub struct Ledger(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    /// Names this life of the program.
    run: String,
    db: Mutex<Connection>,
}

/// Why the ledger cannot be used.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the ledger {path}: {what}")]
pub struct LedgerError {
    /// Where it is.
    pub path: String,
    /// What went wrong.
    pub what: String,
}

impl Ledger {
    /// Opens the ledger in this file, which is made if need be. Only its owner can read it: whoever has a handle may have the
    /// task.
    ///
    /// # Errors
    ///
    /// Why it cannot be used.
    pub fn open(path: impl AsRef<Path>) -> Result<Ledger, LedgerError> {
        let path = path.as_ref();
        let failed = |what: String| LedgerError { path: path.display().to_string(), what };
        let db = open::open(path).map_err(failed)?;
        let run = crate::requestor::random_name().map_err(|error| failed(error.to_string()))?;
        Ok(Ledger(Arc::new(Shared { path: path.to_owned(), run, db: Mutex::new(db) })))
    }

    /// Does something with the file, where that may take its time.
    async fn with<T: Send + 'static>(
        &self,
        what: impl FnOnce(&Connection, &str) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, LedgerError> {
        let shared = self.0.clone();
        let failed = |what: String| LedgerError { path: self.0.path.display().to_string(), what };
        let done = tokio::task::spawn_blocking(move || what(&shared.db.lock(), &shared.run)).await;
        done.map_err(|error| failed(error.to_string()))?.map_err(|error| failed(error.to_string()))
    }
}
