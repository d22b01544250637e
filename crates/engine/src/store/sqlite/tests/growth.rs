//! What is asked costs the same however much there is. Time would tell little on a busy machine; the steps that SQLite makes
//! are the same everywhere.

use rusqlite::{Connection, Params, StatementStatus};

use super::{file, open};

/// How many tasks are due, ready and orphaned, whatever the size.
const WANTED: i64 = 20;

/// A file with so many tasks: nine of ten have ended, the others wait for answers.
fn filled(count: i64) -> (tempfile::TempDir, Connection) {
    let (dir, path) = file();
    drop(open(&path));
    let db = Connection::open(&path).unwrap();
    db.execute_batch(&format!(
        "BEGIN;
         CREATE TEMP TABLE number AS
         WITH RECURSIVE counting (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counting LIMIT {count})
         SELECT n, n % 10 = 0 AS waits FROM counting;
         INSERT INTO task (locator, secret, owner, runner, class, status, version, fence, carrier, ready_at, attempts,
             max_attempts, created_at, updated_at, ended_at, due_at, run_deadline, retention_ms, ttl_ms,
             poll_interval_ms, outcome_kind, key_tool, key, key_digest, outcome, work)
         SELECT n, zeroblob(16), 'owner' || (n % 7), 'echo', 1, iif(waits, 2, 3), 2, 1, NULL, NULL, 1,
             5, n, n, iif(waits, NULL, n), 1000000 + n, 1000000, 1000, 1000,
             10, iif(waits, NULL, 1), 'tool', n, zeroblob(32), iif(waits, NULL, 'null'), iif(waits, 'null', NULL)
         FROM number;
         UPDATE task SET due_at = locator WHERE locator <= 10 * {WANTED};
         UPDATE task SET ready_at = 0 WHERE locator % 10 = 0 AND locator <= 10 * {WANTED};
         UPDATE task SET carrier = 5 WHERE locator % 10 = 0 AND locator > 10 * {WANTED} AND locator <= 20 * {WANTED};
         INSERT INTO event SELECT n, 1, n, 1, NULL, 1, 'created' FROM number;
         INSERT INTO event SELECT n, 2, n, 2, 1, iif(waits, 2, 3), 'moved' FROM number;
         COMMIT;"
    ))
    .unwrap();
    (dir, db)
}

/// How many steps the statement takes, and how many rows it gives.
fn steps(db: &Connection, sql: &str, params: impl Params) -> (i32, usize) {
    let mut statement = db.prepare(sql).unwrap();
    let mut rows = statement.query(params).unwrap();
    let mut count = 0;
    while rows.next().unwrap().is_some() {
        count += 1;
    }
    drop(rows);
    (statement.get_status(StatementStatus::VmStep), count)
}

#[test]
fn what_is_asked_costs_the_same_however_much_there_is() {
    let ((_one, small), (_two, large)) = (filled(1000), filled(30_000));
    let mut wrong = Vec::new();
    let mut compare = |name: &str, expected: usize, ask: &dyn Fn(&Connection) -> (i32, usize)| {
        let ((few, rows), (many, more)) = (ask(&small), ask(&large));
        assert_eq!((rows, more), (expected, expected), "{name}");
        // A tree that is higher costs no step, so there is nothing to allow for.
        if many > few {
            wrong.push(format!("{name}: {few} steps of few tasks, {many} of many"));
        }
    };
    compare("get", 1, &|db| steps(db, include_str!("../queries/task_get.sql"), [501]));
    compare("work", 1, &|db| steps(db, include_str!("../queries/task_work.sql"), [510]));
    compare("version", 1, &|db| steps(db, include_str!("../queries/task_version.sql"), [501]));
    compare("events", 2, &|db| steps(db, include_str!("../queries/task_events.sql"), [501]));
    compare("list", 50, &|db| steps(db, include_str!("../queries/task_list.sql"), ("owner3", 100, 50)));
    compare("due", 200, &|db| steps(db, include_str!("../queries/task_due.sql"), (1000, 256)));
    compare("ready", 20, &|db| steps(db, include_str!("../queries/task_ready.sql"), (1000, 256)));
    compare("orphans", 20, &|db| steps(db, include_str!("../queries/task_orphans.sql"), [256]));
    compare("carried", 20, &|db| steps(db, include_str!("../queries/task_carried.sql"), (5, 0, 256)));
    compare("keyed", 1, &|db| steps(db, include_str!("../queries/task_keyed.sql"), ("owner3", "tool", "3")));
    compare("dump", 100, &|db| steps(db, include_str!("../queries/task_dump.sql"), (500, 100)));
    compare("delete", 0, &|db| steps(db, include_str!("../queries/task_delete.sql"), [777]));
    compare("delete events", 0, &|db| steps(db, include_str!("../queries/event_delete.sql"), [777]));
    assert_eq!(wrong, [""; 0]);
}
