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
    ] {
        let mut statement = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let steps = statement.raw_query().mapped(|row| row.get::<_, String>(3));
        let plan = steps.map(Result::unwrap).collect::<Vec<_>>().join("; ");
        assert!(plan.contains(index), "{sql}: {plan}");
        assert!(!plan.contains("SCAN task") && !plan.contains("TEMP B-TREE"), "{sql}: {plan}");
    }
}
