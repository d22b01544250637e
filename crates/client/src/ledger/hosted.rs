//! Tasks that are hosted for servers: what is asked, until it is over, and then what came of it.

use rusqlite::{Connection, Row};

use super::{Ledger, LedgerError};

/// A hosted task, as it is kept.
#[derive(Debug, Clone)]
pub(crate) struct HostedRow {
    pub(crate) id: String,
    pub(crate) method: String,
    pub(crate) params: Option<String>,
    pub(crate) status: String,
    pub(crate) message: Option<String>,
    pub(crate) result: Option<String>,
    pub(crate) error: Option<String>,
    pub(crate) created: i64,
    pub(crate) updated: i64,
    pub(crate) ttl: i64,
}

impl Ledger {
    /// Notes a task of this server's, or how it stands now.
    pub(crate) async fn hosted(&self, endpoint: String, task: HostedRow) -> Result<(), LedgerError> {
        self.as_ours(move |db, run| {
            let HostedRow { id, method, params, status, message, result, error, created, updated, ttl } = task;
            db.execute(
                "INSERT INTO hosted (id, run, endpoint, method, params, status, message, result, error, created, updated, ttl)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
                 ON CONFLICT (id) DO UPDATE SET params = ?5, status = ?6, message = ?7, result = ?8, error = ?9, updated = ?11",
                (id, run, endpoint, method, params, status, message, result, error, created, updated, ttl),
            )
            .map(drop)
        })
        .await
    }

    /// Forgets a task.
    pub(crate) async fn forget_hosted(&self, id: String) -> Result<(), LedgerError> {
        self.with(move |db, _| db.execute("DELETE FROM hosted WHERE id = ?1", [id]).map(drop)).await
    }

    /// The tasks that other lives hosted for this server, which have ended. They are this life's from now on.
    pub(crate) async fn take_over_hosted(&self, endpoint: String) -> Result<Vec<HostedRow>, LedgerError> {
        let of = endpoint.clone();
        let others = move |db: &Connection, run: &str| {
            let mut runs =
                db.prepare_cached("SELECT DISTINCT run FROM hosted WHERE endpoint = ?1 AND run <> ?2")?;
            runs.query_map((of, run), |row| row.get(0))?.collect()
        };
        let take = move |db: &Connection, run: &str, other: &str| {
            let mut taken = db.prepare_cached(
                "UPDATE hosted SET run = ?1 WHERE endpoint = ?2 AND run = ?3
                 RETURNING id, method, params, status, message, result, error, created, updated, ttl",
            )?;
            taken.query_map((run, &endpoint, other), read)?.collect()
        };
        self.inherit(others, take).await
    }
}

fn read(row: &Row<'_>) -> rusqlite::Result<HostedRow> {
    Ok(HostedRow {
        id: row.get("id")?,
        method: row.get("method")?,
        params: row.get("params")?,
        status: row.get("status")?,
        message: row.get("message")?,
        result: row.get("result")?,
        error: row.get("error")?,
        created: row.get("created")?,
        updated: row.get("updated")?,
        ttl: row.get("ttl")?,
    })
}
