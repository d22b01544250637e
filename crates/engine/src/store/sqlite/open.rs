use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::failed;
use crate::StoreError;

/// Says in the file's header whose file it is: "tgat".
const APPLICATION: i32 = 0x7467_6174;

/// The layouts, oldest first. The file's `user_version` is how many of them it has seen. Released ones never change.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_tasks.sql"),
    include_str!("migrations/0002_nodes.sql"),
    include_str!("migrations/0003_secrets.sql"),
];

/// Makes the connections to one file.
#[derive(Debug, Clone)]
pub(super) struct Connections {
    path: PathBuf,
    busy_timeout: Duration,
}

impl Connections {
    pub(super) fn new(path: &Path, busy_timeout: Duration) -> Self {
        Connections { path: path.to_owned(), busy_timeout }
    }

    /// The writer's connection, after a look whether the file is ours and its migration.
    pub(super) fn writer(&self) -> Result<Connection, StoreError> {
        let about = |error| StoreError::Failed(format!("{}: {error}", self.path.display()));
        let mut db = self.connect(OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(about)?;
        // Nothing is written before this: the file may be somebody else's.
        let seen = self.layout(&db)?;
        db.execute_batch(
            "PRAGMA journal_mode = WAL;
             PRAGMA synchronous = FULL;
             PRAGMA fullfsync = ON;
             PRAGMA wal_autocheckpoint = 0;
             PRAGMA cache_size = -2048;
             PRAGMA temp_store = MEMORY;",
        )
        .map_err(about)?;
        migrate(&mut db, seen).map_err(about)?;
        lengthen_log(&db).map_err(about)?;
        // Or else the first commit would wait for all of it.
        let mut log = self.path.clone().into_os_string();
        log.push("-wal");
        let synced = File::open(&log).and_then(|log| log.sync_all());
        synced.map_err(|error| StoreError::Failed(format!("{}: {error}", log.display())))?;
        Ok(db)
    }

    /// An error if the file is not ours, or from the future. Nothing is written.
    pub(super) fn is_ours(&self) -> Result<(), StoreError> {
        let db = self.connect(OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(failed)?;
        self.layout(&db).map(drop)
    }

    /// A connection to look at the file with, which leaves it as it is. It is opened for writing all the same: one that can
    /// only read knows nothing of a table's checks.
    pub(super) fn inspector(&self) -> Result<Connection, StoreError> {
        let db = self.connect(OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(failed)?;
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(failed)?;
        db.execute_batch("PRAGMA query_only = ON;").map_err(failed)?;
        Ok(db)
    }

    /// A connection that can only read.
    pub(super) fn reader(&self) -> Result<Connection, StoreError> {
        let db = self.connect(OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(failed)?;
        // A commit empties a reader's cache, so a larger one would rarely pay for its memory.
        db.execute_batch("PRAGMA cache_size = -1024; PRAGMA temp_store = MEMORY;").map_err(failed)?;
        Ok(db)
    }

    /// A connection that only makes checkpoints, waiting at most `patience` for readers.
    pub(super) fn checkpointer(&self, patience: Duration) -> Result<Connection, StoreError> {
        let db = self.connect(OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(failed)?;
        db.execute_batch("PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0;").map_err(failed)?;
        db.busy_timeout(patience).map_err(failed)?;
        Ok(db)
    }

    fn connect(&self, access: OpenFlags) -> rusqlite::Result<Connection> {
        // Each connection is used by one thread at a time, so SQLite's own locking can be left out.
        let db = Connection::open_with_flags(&self.path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        db.busy_timeout(self.busy_timeout)?;
        Ok(db)
    }

    /// How many migrations the file has seen; an error if it is not ours or from the future.
    fn layout(&self, db: &Connection) -> Result<usize, StoreError> {
        let refused = |why: String| StoreError::Failed(format!("{} {why}", self.path.display()));
        let number = |sql| db.query_row(sql, [], |row| row.get::<_, i32>(0));
        let read = || Ok((number("PRAGMA application_id")?, number("PRAGMA user_version")?));
        let (application, version) =
            read().map_err(|error: rusqlite::Error| match error.sqlite_error_code() {
                Some(ErrorCode::NotADatabase) => refused("is not a SQLite database".to_owned()),
                _ => refused(format!("cannot be read: {error}")),
            })?;
        let things = number("SELECT count(*) FROM sqlite_schema").map_err(failed)?;
        if (application, version, things) == (0, 0, 0) {
            return Ok(0);
        }
        if application != APPLICATION {
            return Err(refused("is a database of another application".to_owned()));
        }
        match usize::try_from(version) {
            Ok(seen) if seen <= MIGRATIONS.len() => Ok(seen),
            _ => Err(refused(format!(
                "was written by a newer taskgate (layout {version}, this one knows up to {})",
                MIGRATIONS.len()
            ))),
        }
    }
}

/// Makes the write-ahead log as long as it usually gets before it starts over.
///
/// A commit that makes a file longer waits for the file system's own log as well, about twice as long as one that
/// overwrites. The transaction is larger than the cache, so that its pages go to the log; undone, they mean nothing
/// but the log keeps its length. Where there is no room for it, commits are slower, and that is all.
pub(super) fn lengthen_log(db: &Connection) -> rusqlite::Result<()> {
    let length = i64::from(super::checkpoint::STEP) * 4096;
    db.execute_batch("PRAGMA cache_size = -256; BEGIN; CREATE TABLE length (zeros BLOB)")?;
    let filled = db.execute("INSERT INTO length VALUES (zeroblob(?1))", [length + (1 << 20)]);
    // A full disk may have undone it already.
    if !db.is_autocommit() {
        db.execute_batch("ROLLBACK")?;
    }
    db.execute_batch("PRAGMA cache_size = -2048")?;
    match filled {
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DiskFull) => {
            tracing::warn!("there is no room for a log of the usual length; the first commits take longer");
            Ok(())
        }
        filled => filled.map(drop),
    }
}

/// Each migration is one commit together with the number that says that it was made.
fn migrate(db: &mut Connection, seen: usize) -> rusqlite::Result<()> {
    for (index, sql) in MIGRATIONS.iter().enumerate().skip(seen) {
        let migration = db.transaction()?;
        migration.execute_batch(sql)?;
        migration.pragma_update(None, "application_id", APPLICATION)?;
        migration.pragma_update(None, "user_version", (index + 1) as i64)?;
        migration.commit()?;
    }
    Ok(())
}
