//! What is open, for people who look: nothing is taken over by looking.

use std::time::Duration;

use super::rows::{Open, Stage, read};
use super::{Ledger, LedgerError};
use crate::requestor::Handle;

/// A call that has not been seen to its end, of this life of the program or another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenCall {
    /// What its server is known by.
    pub endpoint: String,
    /// The tool.
    pub tool: String,
    /// The way back to its task; `None` while it is not known to be one.
    pub handle: Option<Handle>,
    /// When it was made, in milliseconds since 1970.
    pub created: u64,
}

impl OpenCall {
    /// How long ago it was made.
    pub fn age(&self) -> Duration {
        Duration::from_millis(crate::requestor::now().saturating_sub(self.created))
    }
}

impl Ledger {
    /// All calls that have not been seen to their ends, the oldest first. They stay whose they are.
    ///
    /// # Errors
    ///
    /// Why the ledger cannot be read.
    pub async fn open_calls(&self) -> Result<Vec<OpenCall>, LedgerError> {
        self.with(|db, _| {
            let mut open = db.prepare_cached(
                "SELECT id, endpoint, tool, digest, key, keyed, version, task, session, created
                 FROM call WHERE state <> 'ended' ORDER BY id",
            )?;
            open.query_map((), |row| Ok(OpenCall::of(row.get("endpoint")?, read(row)?)))?.collect()
        })
        .await
    }
}

impl OpenCall {
    fn of(endpoint: String, call: Open) -> OpenCall {
        let Open { tool, created, stage, .. } = call;
        let handle = match stage {
            Stage::Accepted(handle) => Some(handle),
            Stage::Sent(_) => None,
        };
        OpenCall { endpoint, tool, handle, created }
    }
}
