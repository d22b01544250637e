use rusqlite::{Connection, OptionalExtension, Row};

use super::life::has_ended;
use super::{Ledger, LedgerError, unknown, words};
use crate::requestor::Handle;

/// The place of a call in the ledger.
pub(crate) type CallId = i64;

/// A call that is about to be sent.
#[derive(Debug, Clone)]
pub(crate) struct New {
    pub(crate) endpoint: String,
    pub(crate) tool: String,
    pub(crate) digest: [u8; 32],
    pub(crate) key: Option<String>,
    pub(crate) keyed: bool,
    pub(crate) created: u64,
}

/// A call of another life that has not ended.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) id: CallId,
    pub(crate) tool: String,
    pub(crate) digest: Vec<u8>,
    pub(crate) created: u64,
    pub(crate) stage: Stage,
}

/// How far it had come.
#[derive(Debug)]
pub(crate) enum Stage {
    /// It was sent, or was about to be. With its key, if that went along.
    Sent(Option<String>),
    /// It had become this task.
    Accepted(Handle),
}

impl Ledger {
    /// Notes that a call is about to be sent; or sent once more, in another way.
    pub(crate) async fn sending(&self, known: Option<CallId>, call: New) -> Result<CallId, LedgerError> {
        self.as_ours(move |db, run| {
            if let Some(id) = known {
                db.execute("UPDATE call SET keyed = ?2 WHERE id = ?1", (id, call.keyed))?;
                return Ok(id);
            }
            let New { endpoint, tool, digest, key, keyed, created } = call;
            db.execute(
                "INSERT INTO call (run, endpoint, tool, digest, key, keyed, state, created)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'sent', ?7)",
                (run, endpoint, tool, digest, key, keyed, i64::try_from(created).unwrap_or(i64::MAX)),
            )?;
            Ok(db.last_insert_rowid())
        })
        .await
    }

    /// Notes the task that a call has become.
    pub(crate) async fn accepted(&self, id: CallId, handle: Handle) -> Result<(), LedgerError> {
        self.with(move |db, _| {
            db.execute(
                "UPDATE call SET state = 'accepted', version = ?2, task = ?3, session = ?4 WHERE id = ?1",
                (id, handle.version, handle.task, handle.session),
            )
            .map(drop)
        })
        .await
    }

    /// The place of a task that is resumed; it gets one, if it has none. Where another program that lives follows the task as well, the
    /// place stays that one's.
    pub(crate) async fn resumed(&self, handle: Handle) -> Result<CallId, LedgerError> {
        self.blocking(move |shared| {
            shared.begin()?;
            let db = shared.db.lock();
            let known = db
                .query_row(
                    "SELECT id, run FROM call WHERE endpoint = ?1 AND task = ?2 AND state <> 'ended'",
                    (&handle.endpoint, &handle.task),
                    |row| Ok((row.get(0)?, row.get::<_, String>(1)?)),
                )
                .optional()
                .map_err(words)?;
            if let Some((id, owner)) = known {
                if owner != shared.run && has_ended(&shared.path, &owner).map_err(unknown)? {
                    db.execute("UPDATE call SET run = ?1 WHERE id = ?2", (&shared.run, id)).map_err(words)?;
                }
                return Ok(id);
            }
            let Handle { endpoint, version, task, session, tool, created } = handle;
            let created = i64::try_from(created).unwrap_or(i64::MAX);
            db.execute(
                "INSERT INTO call (run, endpoint, tool, digest, keyed, state, version, task, session, created)
                 VALUES (?1, ?2, ?3, x'', 0, 'accepted', ?4, ?5, ?6, ?7)",
                (&shared.run, endpoint, tool, version, task, session, created),
            )
            .map_err(words)?;
            Ok(db.last_insert_rowid())
        })
        .await
    }

    /// Notes that the server has got the answer to a question.
    pub(crate) async fn answered(&self, id: CallId, key: String) -> Result<(), LedgerError> {
        self.with(move |db, _| {
            db.execute("INSERT OR IGNORE INTO answered (call, key) VALUES (?1, ?2)", (id, key)).map(drop)
        })
        .await
    }

    /// The keys of questions that were answered.
    pub(crate) async fn answers(&self, id: CallId) -> Result<Vec<String>, LedgerError> {
        self.with(move |db, _| {
            let mut keys = db.prepare_cached("SELECT key FROM answered WHERE call = ?1")?;
            keys.query_map([id], |row| row.get(0))?.collect()
        })
        .await
    }

    /// Notes how a call has ended.
    pub(crate) async fn ended(&self, id: CallId, outcome: &'static str) -> Result<(), LedgerError> {
        self.with(move |db, _| {
            db.execute("UPDATE call SET state = 'ended', outcome = ?2 WHERE id = ?1", (id, outcome)).map(drop)
        })
        .await
    }

    /// The calls to this server that have not ended, of other lives that have. They are this life's from now on.
    pub(crate) async fn take_over(&self, endpoint: String) -> Result<Vec<Open>, LedgerError> {
        let of = endpoint.clone();
        let others = move |db: &Connection, run: &str| {
            let mut runs = db.prepare_cached(
                "SELECT DISTINCT run FROM call WHERE endpoint = ?1 AND run <> ?2 AND state <> 'ended'",
            )?;
            runs.query_map((of, run), |row| row.get(0))?.collect()
        };
        let take = move |db: &Connection, run: &str, other: &str| take_over(db, run, other, &endpoint);
        let mut open = self.inherit(others, take).await?;
        open.sort_by_key(|call| call.id);
        Ok(open)
    }
}

fn take_over(db: &Connection, run: &str, other: &str, endpoint: &str) -> rusqlite::Result<Vec<Open>> {
    let mut taken = db.prepare_cached(
        "UPDATE call SET run = ?1 WHERE endpoint = ?2 AND run = ?3 AND state <> 'ended'
         RETURNING id, endpoint, tool, digest, key, keyed, version, task, session, created",
    )?;
    taken.query_map((run, endpoint, other), read)?.collect()
}

pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Open> {
    let tool: String = row.get("tool")?;
    let created = u64::try_from(row.get::<_, i64>("created")?).unwrap_or_default();
    let stage = match (row.get("version")?, row.get("task")?) {
        (Some(version), Some(task)) => {
            let (endpoint, session) = (row.get("endpoint")?, row.get("session")?);
            Stage::Accepted(Handle { endpoint, version, task, session, tool: tool.clone(), created })
        }
        _ => Stage::Sent(row.get::<_, Option<String>>("key")?.filter(|_| row.get("keyed") == Ok(true))),
    };
    Ok(Open { id: row.get("id")?, tool, digest: row.get("digest")?, created, stage })
}
