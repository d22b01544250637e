//! What a client must not forget when it crashes: its calls, and what has become of them.
//!
//! A call is noted before it is sent, its handle before anything else is done with it, its end before the caller hears of
//! it. Each of these is durable when it is done. Arguments, answers, results and credentials are not in it; but questions that a
//! server has made tasks of, and the answers to them, are, where such tasks are to be kept here.

mod hosted;
mod life;
mod list;
mod open;
mod rows;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use life::Life;
use parking_lot::Mutex;
use rusqlite::Connection;

pub(crate) use hosted::HostedRow;
pub use list::OpenCall;
pub(crate) use rows::{CallId, New, Open, Stage};

/// A durable record of calls: handles, servers, digests of arguments, keys of answered questions. Clones share it.
///
/// Several programs can share a file: [`Client::resume_all`](crate::Client::resume_all) goes on with the calls of those that have
/// ended, and leaves what others are at. Beside it lie SQLite's files and one for each program that uses it, which is locked as long as
/// that lives; so it cannot lie where files cannot be locked.
#[derive(Debug, Clone)]
pub struct Ledger(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    /// Names this life of the program.
    run: String,
    /// What says that this life goes on, once there is something of it in the file.
    life: Mutex<Option<Life>>,
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
        Ok(Ledger(Arc::new(Shared {
            path: path.to_owned(),
            run,
            life: Mutex::default(),
            db: Mutex::new(db),
        })))
    }

    /// Does something with the file, where that may take its time.
    async fn with<T: Send + 'static>(
        &self,
        what: impl FnOnce(&Connection, &str) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, LedgerError> {
        self.blocking(move |shared| what(&shared.db.lock(), &shared.run).map_err(words)).await
    }

    /// The same for something that is this life's from then on.
    async fn as_ours<T: Send + 'static>(
        &self,
        what: impl FnOnce(&Connection, &str) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, LedgerError> {
        self.blocking(move |shared| {
            shared.begin()?;
            what(&shared.db.lock(), &shared.run).map_err(words)
        })
        .await
    }

    /// Does something to what each life of a program has left that has ended; it is this life's from then on. `others` gives the names
    /// of lives that are not this one, and `take` is called with each that has ended.
    async fn inherit<T: Send + 'static>(
        &self,
        others: impl FnOnce(&Connection, &str) -> rusqlite::Result<Vec<String>> + Send + 'static,
        take: impl Fn(&Connection, &str, &str) -> rusqlite::Result<Vec<T>> + Send + 'static,
    ) -> Result<Vec<T>, LedgerError> {
        self.blocking(move |shared| {
            shared.begin()?;
            let db = shared.db.lock();
            let mut taken = Vec::new();
            for other in others(&db, &shared.run).map_err(words)? {
                if life::has_ended(&shared.path, &other).map_err(unknown)? {
                    taken.extend(take(&db, &shared.run, &other).map_err(words)?);
                }
            }
            Ok(taken)
        })
        .await
    }

    /// Nothing can be written from now on, as on a full disk.
    #[cfg(test)]
    pub(crate) fn is_full(&self) {
        self.0.db.lock().execute_batch("PRAGMA query_only = ON").expect("set");
    }

    async fn blocking<T: Send + 'static>(
        &self,
        what: impl FnOnce(&Shared) -> Result<T, String> + Send + 'static,
    ) -> Result<T, LedgerError> {
        let shared = self.0.clone();
        let failed = |what: String| LedgerError { path: self.0.path.display().to_string(), what };
        let done = tokio::task::spawn_blocking(move || what(&shared)).await;
        done.map_err(|error| failed(error.to_string()))?.map_err(failed)
    }
}

impl Shared {
    fn begin(&self) -> Result<(), String> {
        let mut life = self.life.lock();
        if life.is_none() {
            *life = Some(Life::begin(&self.path, &self.run).map_err(unknown)?);
        }
        Ok(())
    }
}

fn words(error: rusqlite::Error) -> String {
    error.to_string()
}

fn unknown(error: std::io::Error) -> String {
    format!("whose calls are whose cannot be told: {error}")
}
