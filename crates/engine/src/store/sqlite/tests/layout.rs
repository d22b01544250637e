//! The layout: columns, plans, and what damage looks like.

use rusqlite::Connection;
use taskgate_task::{Outcome, Payload, Step, Timestamp};

use super::{NOW, Probe, file, new_task, open};
use crate::store::sqlite::row;
use crate::{Store, StoreError};

#[tokio::test]
async fn damage_is_told_by_the_name_of_the_column() {
    let damages = [
        ("secret", "x'00'"),
        ("owner", "CAST(x'ff' AS TEXT)"),
        ("class", "9"),
        ("status", "9"),
        ("version", "-1"),
        ("attempts", "4294967296"),
        ("idle_limit_ms", "-5"),
        ("ttl_ms", "-5"),
        ("failure", "77"),
        ("outcome_kind", "0"),
        ("inputs", "'{'"),
        ("outcome", "'nonsense'"),
        ("outcome", "NULL"),
    ];
    for (column, value) in damages {
        let (_dir, path) = file();
        let store = open(&path);
        let id = store.create(new_task(1, 0)).await.unwrap().id;
        let outcome = Outcome::Result { body: Payload::null(), is_error: false, summary: None };
        store.apply(id, Step::Finish { fence: 1, outcome }, NOW).await.unwrap();
        let sql = format!("UPDATE task SET {column} = {value}");
        let damage = Probe(move |db: &Connection| {
            db.execute_batch("PRAGMA ignore_check_constraints = ON")?;
            db.execute(&sql, [])
        });
        store.0.writer.send(damage).await.unwrap();
        let error = store.get(id).await.err().map(|error| error.to_string()).unwrap_or_default();
        if column == "secret" {
            assert_eq!(error, "", "an id that does not match is no damage");
            assert!(store.due(Timestamp::NEVER, 1).await.unwrap_err().to_string().contains("task.secret"));
            continue;
        }
        assert!(error.contains(&format!("task.{column} ")), "{column}: {error}");
        let refused = store.apply(id, Step::Cancel, NOW).await;
        assert!(matches!(refused, Err(StoreError::Failed(_))), "{refused:?}");
        // The others go on.
        store.create(new_task(2, 0)).await.unwrap();
    }
}

/// Blobs are written when they change, and never left behind.
#[tokio::test]
async fn no_blob_is_written_twice_or_left_behind() {
    let (_dir, path) = file();
    let store = open(&path);
    let blobs = || {
        let keys = |db: &Connection| {
            let mut statement = db.prepare("SELECT key FROM blob ORDER BY key")?;
            statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<i64>>>()
        };
        store.0.writer.send(Probe(keys))
    };
    let id = store.create(new_task(1, 1 << 20)).await.unwrap().id;
    let short = store.create(new_task(2, 10_000)).await.unwrap().id;
    assert_eq!(blobs().await.unwrap(), [1]);
    let taken = store.create(new_task(1, 1 << 20)).await;
    assert!(matches!(taken, Err(StoreError::IdTaken)));
    assert_eq!(blobs().await.unwrap(), [1]);

    let changed = |db: &Connection| db.query_row("SELECT total_changes()", [], |row| row.get::<_, i64>(0));
    let long = Payload::from_value(&"c".repeat(50_000)).unwrap();
    store.apply(id, Step::Checkpoint { fence: 1, state: long.clone() }, NOW).await.unwrap();
    assert_eq!(blobs().await.unwrap(), [1, 2]);
    let before = store.0.writer.send(Probe(changed)).await.unwrap();
    store.apply(id, Step::Report { fence: 1, message: "on".to_owned() }, NOW).await.unwrap();
    let after = store.0.writer.send(Probe(changed)).await.unwrap();
    assert_eq!(after - before, 1, "the row alone");

    let outcome = Outcome::Result { body: long, is_error: false, summary: None };
    let ended = store.apply(id, Step::Finish { fence: 1, outcome: outcome.clone() }, NOW).await.unwrap().task;
    assert_eq!(ended.outcome, Some(outcome));
    assert_eq!(blobs().await.unwrap().len(), 1);
    let deleted = store.apply(id, Step::Tick, ended.due_at()).await.unwrap();
    assert!(deleted.delete);
    assert!(blobs().await.unwrap().is_empty());
    assert!(store.get(short).await.unwrap().is_some());
}

/// A blob that is missing is damage of the file, and says where.
#[tokio::test]
async fn a_missing_blob_is_damage() {
    let (_dir, path) = file();
    let store = open(&path);
    let id = store.create(new_task(1, 1 << 20)).await.unwrap().id;
    store.0.writer.send(Probe(|db: &Connection| db.execute("DELETE FROM blob", []))).await.unwrap();
    let error = store.work(id).await.unwrap_err().to_string();
    assert!(error.contains("damaged: blob.key 1 is missing"), "{error}");
}

/// A file of the first layout is brought up to date: what ran belongs to no node and is taken over, what had ended its call
/// to ask waits for its answers.
#[tokio::test]
async fn a_file_of_the_first_layout_goes_on() {
    let (_dir, path) = file();
    let inputs = r#"{"asked":[{"key":"q","method":"m","asked_at":5,"round":1}],"rounds":1,"resume":null}"#;
    {
        let db = Connection::open(&path).unwrap();
        db.execute_batch(include_str!("../migrations/0001_tasks.sql")).unwrap();
        db.execute_batch(&format!(
            r#"INSERT INTO task VALUES
               (1, zeroblob(16), 'local', 'echo', 1, 1, 1, 1, 1, 5, 5, NULL, 9, 9, NULL, 1000, 1000, 10, NULL, NULL,
                NULL, NULL, NULL, NULL, '"w"'),
               (2, zeroblob(16), 'local', 'echo', 1, 3, 2, 1, 1, 5, 6, 6, 1006, 9, NULL, 1000, 1000, 10, NULL, 1,
                NULL, NULL, NULL, '{{"x":1.0}}', NULL),
               (3, zeroblob(16), 'local', 'echo', 1, 2, 2, 1, 1, 5, 6, NULL, 9, 9, NULL, 1000, 1000, 10, NULL, NULL,
                NULL, NULL, '{inputs}', NULL, '"w"');
               INSERT INTO event VALUES (1, 1, 5, 1, NULL, 1, 'created'), (2, 1, 5, 1, NULL, 1, 'created'),
               (2, 2, 6, 2, 1, 3, 'result'), (3, 1, 5, 1, NULL, 1, 'created'), (3, 2, 6, 2, 1, 2, '1 asked');
               PRAGMA application_id = 0x74676174; PRAGMA user_version = 1"#
        ))
        .unwrap();
    }
    let store = open(&path);
    let id = |locator| taskgate_task::TaskId::from_parts(locator, [0; 16]);
    let orphans = store.orphans(10).await.unwrap();
    assert_eq!(orphans.iter().map(|task| task.id).collect::<Vec<_>>(), [id(1)]);
    assert_eq!(store.work(id(1)).await.unwrap().unwrap().as_str(), "\"w\"");
    assert_eq!(store.get(id(2)).await.unwrap().unwrap().outcome.unwrap().body().as_str(), "{\"x\":1.0}");
    let parked = store.get(id(3)).await.unwrap().unwrap();
    assert!(parked.inputs.is_parked() && parked.carrier == taskgate_task::Carrier::Nobody);
    drop(store);
    assert_eq!(crate::SqliteStore::check(&super::SqliteOptions::new(&path)).unwrap().wrong, [""; 0]);
}

#[test]
fn every_query_selects_the_columns_the_rows_are_read_by() {
    let (_dir, path) = file();
    drop(open(&path));
    let db = Connection::open(&path).unwrap();
    let columns = |sql| {
        let statement = db.prepare(sql).unwrap();
        statement.column_names().map(str::to_owned).collect::<Vec<_>>()
    };
    for sql in [
        include_str!("../queries/task_get.sql"),
        include_str!("../queries/task_list.sql"),
        include_str!("../queries/task_ready.sql"),
        include_str!("../queries/task_orphans.sql"),
        include_str!("../queries/task_carried.sql"),
    ] {
        assert_eq!(columns(sql), row::TASK, "{sql}");
    }
    assert_eq!(columns(include_str!("../queries/task_dump.sql"))[..row::TASK.len()], row::TASK);
    assert_eq!(columns(include_str!("../queries/task_events.sql")), row::EVENT);
    assert_eq!(columns("SELECT * FROM task_for_people WHERE status = 'working'").len(), 16);
    assert_eq!(columns("SELECT * FROM event_for_people").len(), 7);
    // The shells of people are often years older than the SQLite in here: before 3.44, %F and %T are no dates.
    let views: String = db
        .query_row("SELECT group_concat(sql) FROM sqlite_schema WHERE type = 'view'", [], |row| row.get(0))
        .unwrap();
    assert!(!views.contains("%F") && !views.contains("%T"), "{views}");
}

#[test]
fn no_query_walks_the_whole_table_or_sorts() {
    let (_dir, path) = file();
    drop(open(&path));
    let db = Connection::open(&path).unwrap();
    for (sql, index) in [
        (include_str!("../queries/task_get.sql"), "INTEGER PRIMARY KEY"),
        (include_str!("../queries/task_work.sql"), "INTEGER PRIMARY KEY"),
        (include_str!("../queries/task_list.sql"), "task_by_owner (owner=? AND rowid>?)"),
        (include_str!("../queries/task_due.sql"), "task_by_due (due_at<?)"),
        (include_str!("../queries/task_ready.sql"), "task_by_ready (ready_at<?)"),
        (include_str!("../queries/task_orphans.sql"), "task_by_carrier"),
        (include_str!("../queries/task_carried.sql"), "task_by_carrier (carrier=? AND rowid>?)"),
        (include_str!("../queries/task_keyed.sql"), "task_by_key (owner=? AND key_tool=? AND key=?)"),
        (include_str!("../queries/task_version.sql"), "INTEGER PRIMARY KEY"),
        (include_str!("../queries/task_events.sql"), "PRIMARY KEY (task=?)"),
        (include_str!("../queries/task_dump.sql"), "INTEGER PRIMARY KEY (rowid>?)"),
        (include_str!("../queries/blob_get.sql"), "INTEGER PRIMARY KEY"),
        (include_str!("../queries/blob_length.sql"), "INTEGER PRIMARY KEY"),
    ] {
        let mut statement = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let steps = statement.raw_query().mapped(|row| row.get::<_, String>(3));
        let plan = steps.map(Result::unwrap).collect::<Vec<_>>().join("; ");
        assert!(plan.contains(index), "{sql}: {plan}");
        assert!(!plan.contains("SCAN task") && !plan.contains("TEMP B-TREE"), "{sql}: {plan}");
    }
}
