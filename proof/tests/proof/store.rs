//! The stores under test, read and held up from outside. Nothing here uses the code that writes them.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rusqlite::{Connection, ErrorCode, OpenFlags, Row};
use serde_json::Value;
use taskgate_proof::books::{Books, EventRow, TaskRow};
use taskgate_proof::postgres::psql;

/// Where the tasks of a test are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Store {
    /// A file, of one process.
    Sqlite(PathBuf),
    /// A database of its own, of any number of processes.
    Postgres(String),
}

/// Nobody can write while this lives; everybody can read.
pub enum Held {
    Sqlite { _open: Connection },
    Postgres { psql: Child },
}

impl Store {
    /// As `store` in a configuration has it.
    pub fn place(&self) -> &str {
        match self {
            Store::Sqlite(path) => path.to_str().expect("a plain path"),
            Store::Postgres(url) => url,
        }
    }

    /// Everything in it, as of one moment. A store that nobody has opened yet is empty.
    pub fn read(&self) -> Books {
        match self {
            Store::Sqlite(path) if !path.exists() => Books { exclusive: true, ..Books::default() },
            Store::Sqlite(path) => read_sqlite(path),
            Store::Postgres(url) => read_postgres(url),
        }
    }

    /// Refuses every commit that begins an attempt after the first one, until it is allowed again.
    pub fn refuse_beginnings(&self) {
        self.execute(
            "CREATE TRIGGER refused BEFORE UPDATE ON task WHEN NEW.fence > OLD.fence AND NEW.carrier IS NOT NULL
             BEGIN SELECT RAISE(ABORT, 'refused by a test'); END",
            "CREATE FUNCTION taskgate.refuse() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN RAISE EXCEPTION 'refused by a test'; END $$;
             CREATE TRIGGER refused BEFORE UPDATE ON taskgate.task FOR EACH ROW
             WHEN (NEW.fence > OLD.fence AND NEW.carrier IS NOT NULL) EXECUTE FUNCTION taskgate.refuse()",
        );
    }

    /// Allows them again.
    pub fn allow_beginnings(&self) {
        self.execute("DROP TRIGGER refused", "DROP FUNCTION taskgate.refuse() CASCADE");
    }

    /// Whether this process has it open or, where others may, some process waits for its turn to write.
    pub fn is_used_by(&self, pid: u32) -> bool {
        match self {
            Store::Sqlite(path) => {
                let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
                files.filter_map(|file| fs::read_link(file.path()).ok()).any(|file| file == *path)
            }
            Store::Postgres(url) => {
                let waiting = "SELECT count(*) FROM pg_stat_activity
                               WHERE wait_event_type = 'Lock' AND datname = current_database()";
                psql(url, waiting).trim() != "0"
            }
        }
    }

    fn execute(&self, sqlite: &str, postgres: &str) {
        match self {
            Store::Sqlite(path) => {
                let store = Connection::open(path).expect("the store");
                store.busy_timeout(taskgate_proof::wait::DEADLINE).expect("a time");
                store.execute_batch(sqlite).expect("it is executed");
            }
            Store::Postgres(url) => {
                psql(url, postgres);
            }
        }
    }

    /// Lets nobody write. A process that tries to is stopped before its commit for certain.
    pub fn hold(&self) -> Held {
        match self {
            Store::Sqlite(path) => {
                let open = Connection::open(path).expect("the store");
                open.busy_timeout(taskgate_proof::wait::DEADLINE).expect("a time");
                open.execute_batch("BEGIN IMMEDIATE").expect("the lock");
                Held::Sqlite { _open: open }
            }
            Store::Postgres(url) => {
                let mut psql = Command::new("psql");
                psql.args(["--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1"]).arg(url);
                let mut psql = psql.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("psql");
                let lock = "BEGIN; LOCK TABLE taskgate.task, taskgate.event, taskgate.node IN EXCLUSIVE MODE;\n\\echo held\n";
                psql.stdin.as_mut().expect("a pipe").write_all(lock.as_bytes()).expect("psql listens");
                let mut line = String::new();
                let stdout = psql.stdout.take().expect("a pipe");
                BufReader::new(stdout).read_line(&mut line).expect("psql answers");
                assert_eq!(line, "held\n", "the tables cannot be locked");
                Held::Postgres { psql }
            }
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Held::Postgres { psql } = self {
            // Its transaction ends with its input.
            psql.stdin = None;
            let _ = psql.wait();
        }
    }
}

fn read_sqlite(path: &Path) -> Books {
    let mut store = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).expect("the store");
    store.busy_timeout(taskgate_proof::wait::DEADLINE).expect("a time");
    match try_read_sqlite(&mut store) {
        Ok(books) => books,
        // A process that is killed while it makes the file leaves a journal to be rolled back, which whoever only reads must
        // not do. It is done on a copy, so that the next process finds what the killed one has left.
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::ReadOnly) => {
            let folder = tempfile::tempdir().expect("a folder");
            for name in ["tasks.db", "tasks.db-journal", "tasks.db-wal"] {
                let _ = fs::copy(path.with_file_name(name), folder.path().join(name));
            }
            let mut copy = Connection::open(folder.path().join("tasks.db")).expect("the copy");
            try_read_sqlite(&mut copy).expect("the copy can be read")
        }
        Err(error) => panic!("the store cannot be read: {error}"),
    }
}

fn try_read_sqlite(store: &mut Connection) -> rusqlite::Result<Books> {
    let all = store.transaction()?;
    let is_there: bool =
        all.query_row("SELECT count(*) > 0 FROM sqlite_schema WHERE name = 'node'", [], |row| row.get(0))?;
    if !is_there {
        return Ok(Books { exclusive: true, ..Books::default() });
    }
    let now = all
        .query_row("SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)", [], |row| row.get(0));
    let tasks = rows(
        &all,
        "SELECT format('%016x', locator) || lower(hex(secret)), locator, class, status, version, fence, attempts, carrier,
                ready_at, outcome_kind, failure FROM task ORDER BY locator",
        |row| {
            Ok(TaskRow {
                id: row.get(0)?,
                locator: row.get(1)?,
                class: row.get(2)?,
                status: row.get(3)?,
                version: row.get(4)?,
                fence: row.get(5)?,
                attempts: row.get(6)?,
                carrier: row.get(7)?,
                ready_at: row.get(8)?,
                outcome_kind: row.get(9)?,
                failure: row.get(10)?,
            })
        },
    );
    let events = rows(&all, "SELECT task, version, at, from_status, to_status, why FROM event", |row| {
        let (task, version, at) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(EventRow { task, version, at, from: row.get(3)?, to: row.get(4)?, why: row.get(5)? })
    });
    let nodes = rows(&all, "SELECT id, lease_until FROM node", |row| Ok((row.get(0)?, row.get(1)?)));
    Ok(Books { now: now?, exclusive: true, tasks: tasks?, events: events?, nodes: nodes? })
}

fn rows<T>(
    store: &Connection,
    sql: &str,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    store.prepare(sql)?.query_map([], read)?.collect()
}

/// One line of JSON for each row.
const POSTGRES: &str = "
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
SELECT json_build_array('now', (extract(epoch FROM clock_timestamp()) * 1000)::bigint);
SELECT json_build_array('task', lpad(to_hex(locator), 16, '0') || encode(secret, 'hex'), locator, class, status,
                        version, fence, attempts, carrier, ready_at, outcome_kind, failure) FROM taskgate.task;
SELECT json_build_array('event', task, version, at, from_status, to_status, why) FROM taskgate.event;
SELECT json_build_array('node', id, lease_until) FROM taskgate.node;
COMMIT;
";

fn read_postgres(url: &str) -> Books {
    let is_there = psql(url, "SELECT to_regclass('taskgate.node') IS NOT NULL");
    if is_there.trim() != "t" {
        return Books::default();
    }
    let mut books = Books::default();
    for line in psql(url, POSTGRES).lines() {
        let row: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("not a row: {line}"));
        let number = |column: usize| row[column].as_i64();
        let needed = |column: usize| number(column).unwrap_or_else(|| panic!("no number {column} in {row}"));
        let text =
            |column: usize| row[column].as_str().unwrap_or_else(|| panic!("no text in {row}")).to_owned();
        match row[0].as_str() {
            Some("now") => books.now = needed(1),
            Some("task") => books.tasks.push(TaskRow {
                id: text(1),
                locator: needed(2),
                class: needed(3),
                status: needed(4),
                version: needed(5),
                fence: needed(6),
                attempts: needed(7),
                carrier: number(8),
                ready_at: number(9),
                outcome_kind: number(10),
                failure: number(11),
            }),
            Some("event") => books.events.push(EventRow {
                task: needed(1),
                version: needed(2),
                at: needed(3),
                from: number(4),
                to: needed(5),
                why: text(6),
            }),
            Some("node") => books.nodes.push((needed(1), needed(2))),
            _ => panic!("not a row: {row}"),
        }
    }
    books
}
