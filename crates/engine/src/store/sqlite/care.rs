//! What an administrator does with a file that no taskgate has open.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;

use super::file::StoreFile;
use super::open::Connections;
use super::read::collect;
use super::row::Cell;
use super::{SqliteOptions, SqliteStore, dump, failed};
use crate::StoreError;
use crate::store::columns;

/// How many findings of one kind are told; a file that is broken in one way is mostly broken in it everywhere.
const MOST: usize = 100;

/// What was found in a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Findings {
    /// How many tasks were looked at.
    pub tasks: u64,
    /// What is wrong, each in a line for people without anything secret in it. Empty if all is well.
    pub wrong: Vec<String>,
}

/// What came of a vacuum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vacuumed {
    /// How long the file was, in bytes.
    pub before: u64,
    /// How long it is now.
    pub after: u64,
}

impl SqliteStore {
    /// Looks whether the file is whole, and whether what is in it can be: every row readable and fitting the events of its
    /// task, nothing without its task.
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`] if there is no such file, if it is in use or belongs to another application, or if it cannot be
    /// read at all. What is only damaged is no error but a finding.
    pub fn check(options: &SqliteOptions) -> Result<Findings, StoreError> {
        let (_file, connections) = claim(options)?;
        let mut findings = Findings::default();
        // A file of an older layout is brought up to date for the second look, and not before it was seen to be whole.
        integrity(&connections.inspector()?, &mut findings)?;
        if findings.wrong.is_empty() {
            drop(connections.writer()?);
            let db = connections.reader()?;
            tasks(&db, &mut findings)?;
            strays(&db, &mut findings)?;
        }
        Ok(findings)
    }

    /// Gives the room of deleted tasks back to the file system. It needs room for a second file meanwhile.
    ///
    /// # Errors
    ///
    /// As [`SqliteStore::check`], and if there is no room. The file is then what it was.
    pub fn vacuum(options: &SqliteOptions) -> Result<Vacuumed, StoreError> {
        let (file, connections) = claim(options)?;
        let before = length(file.path())?;
        let db = connections.writer()?;
        // The copy that is made on the way is as long as the file: it must not lie in memory.
        db.execute_batch("PRAGMA temp_store = FILE; VACUUM;").map_err(failed)?;
        db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).map_err(failed)?;
        drop(db);
        Ok(Vacuumed { before, after: length(file.path())? })
    }
}

/// The file, for us alone. It is not made: nobody wants to care for a file that is not there.
fn claim(options: &SqliteOptions) -> Result<(StoreFile, Connections), StoreError> {
    length(&options.path)?;
    let file = StoreFile::claim(&options.path)?;
    let connections = Connections::new(file.path(), options.busy_timeout.min(Duration::from_secs(10)));
    connections.is_ours()?;
    Ok((file, connections))
}

fn length(path: &Path) -> Result<u64, StoreError> {
    let metadata = fs::metadata(path);
    metadata
        .map(|metadata| metadata.len())
        .map_err(|error| StoreError::Failed(format!("{}: {error}", path.display())))
}

/// SQLite's own look: pages, indexes, types and checks.
fn integrity(db: &Connection, findings: &mut Findings) -> Result<(), StoreError> {
    let mut statement = db.prepare(&format!("PRAGMA integrity_check({MOST})")).map_err(failed)?;
    match collect(statement.query([]), |row| Cell::of(row, 0, "file", "integrity").string()) {
        Ok(lines) => findings.wrong.extend(lines.into_iter().filter(|line| line != "ok")),
        // Some damage ends the look itself.
        Err(error) => findings.wrong.push(error.to_string()),
    }
    Ok(())
}

/// Every task by itself.
fn tasks(db: &Connection, findings: &mut Findings) -> Result<(), StoreError> {
    let mut locators = db
        .prepare("SELECT locator FROM task WHERE locator > ?1 ORDER BY locator LIMIT 1000")
        .map_err(failed)?;
    let mut one = db.prepare(include_str!("queries/task_dump.sql")).map_err(failed)?;
    let mut after = i64::MIN;
    loop {
        let page = collect(locators.query([after]), |row| Cell::of(row, 0, "task", "locator").int())?;
        let Some(last) = page.last() else { return Ok(()) };
        after = *last;
        for locator in page {
            findings.tasks += 1;
            if findings.wrong.len() < MOST {
                let mut rows = one.query((locator.saturating_sub(1), columns::limit(1))).map_err(failed)?;
                let Some(row) = rows.next().map_err(failed)? else { continue };
                let flaws = match dump::task(db, row) {
                    Ok(kept) => kept.flaws(),
                    Err(StoreError::Failed(why)) => vec![why],
                    Err(error) => vec![error.to_string()],
                };
                findings.wrong.extend(flaws.iter().map(|flaw| format!("task {locator:016x}: {flaw}")));
            }
        }
    }
}

/// What belongs to no task.
fn strays(db: &Connection, findings: &mut Findings) -> Result<(), StoreError> {
    for (what, sql) in [
        ("has events, but is not there", include_str!("queries/stray_events.sql")),
        ("has a blob that it does not know", include_str!("queries/stray_blobs.sql")),
    ] {
        let mut statement = db.prepare(sql).map_err(failed)?;
        let strays =
            collect(statement.query([columns::limit(MOST)]), |row| Cell::of(row, 0, "stray", "task").int())?;
        findings.wrong.extend(strays.into_iter().map(|task| format!("task {task:016x}: {what}")));
    }
    Ok(())
}
