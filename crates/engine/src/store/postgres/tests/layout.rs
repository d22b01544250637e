//! The schema: whose it is, how it is made, and how it is walked.

use futures_util::future::join_all;
use taskgate_task::{Step, Timestamp};

use super::{NOW, admin, new_task, number, open, options};
use crate::{PostgresOptions, PostgresStore, Store, StoreError};

async fn refusal(options: &PostgresOptions) -> String {
    PostgresStore::connect(options.clone()).await.unwrap_err().to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_nodes_may_start_at_once() {
    let options = options();
    let starting = (0..6).map(|_| tokio::spawn(PostgresStore::connect(options.clone())));
    let stores: Vec<PostgresStore> =
        join_all(starting).await.into_iter().map(|store| store.unwrap().unwrap()).collect();
    let id = stores[0].create(new_task()).await.unwrap().id;
    assert!(stores[5].get(id).await.unwrap().is_some());
    assert_eq!(number(&admin(&options).await, "SELECT count(*) FROM taskgate_layout").await, 2);
    drop(stores);
    assert!(open(&options).get(id).await.unwrap().is_some(), "reopening finds everything");
}

#[tokio::test]
async fn schemas_of_others_and_of_the_future_are_refused_and_left_alone() {
    let options = options();
    let admin = admin(&options).await;
    let schema = &options.schema;
    admin
        .batch_execute(&format!("CREATE SCHEMA {schema}; CREATE TABLE {schema}.task (theirs int)"))
        .await
        .unwrap();
    let said = refusal(&options).await;
    assert!(said.contains("belongs to another application"), "{said}");
    let tables = format!("SELECT count(*) FROM pg_class WHERE relnamespace = '{schema}'::regnamespace");
    assert_eq!(number(&admin, &tables).await, 1);

    // A schema that somebody has made for us is not somebody else's.
    admin.batch_execute(&format!("DROP TABLE {schema}.task")).await.unwrap();
    drop(open(&options));
    admin.batch_execute("INSERT INTO taskgate_layout (version) VALUES (99)").await.unwrap();
    let said = refusal(&options).await;
    assert!(said.contains("newer taskgate (layout 99"), "{said}");

    let odd = PostgresOptions { schema: "a\"; DROP TABLE x".to_owned(), ..options };
    assert!(refusal(&odd).await.contains("cannot be the schema's name"));
}

#[tokio::test]
async fn a_schema_may_be_called_by_a_word_of_the_language() {
    let options = PostgresOptions { schema: "table".to_owned(), ..options() };
    let store = open(&options);
    let mut heard = store.others().unwrap();
    let id = store.create(new_task()).await.unwrap().id;
    assert!(open(&options).get(id).await.unwrap().is_some());
    assert_eq!(super::soon(heard.recv()).await, Some(crate::store::Heard::Gap));
}

/// What is acknowledged is on disk, even where the server is set up to be careless.
#[tokio::test]
async fn commits_wait_for_the_disk_whatever_the_default_is() {
    let options = options();
    let admin = admin(&options).await;
    let (role, schema) = (format!("careless_{}", options.schema), &options.schema);
    admin
        .batch_execute(&format!(
            "CREATE ROLE {role} LOGIN SUPERUSER; ALTER ROLE {role} SET synchronous_commit TO off;
             ALTER ROLE {role} SET default_transaction_isolation TO 'serializable'"
        ))
        .await
        .unwrap();
    let options =
        PostgresOptions { url: options.url.replace("postgres@", &format!("{role}@")), ..options.clone() };
    let store = open(&options);
    // A trigger sees the settings of the session that writes.
    admin
        .batch_execute(&format!(
            "CREATE FUNCTION {schema}.seen() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 NEW.runner := current_setting('synchronous_commit') || ' ' || current_setting('transaction_isolation');
                 RETURN NEW; END $$;
             CREATE TRIGGER seen BEFORE INSERT ON {schema}.task FOR EACH ROW EXECUTE FUNCTION {schema}.seen()"
        ))
        .await
        .unwrap();
    let id = store.create(new_task()).await.unwrap().id;
    assert_eq!(store.get(id).await.unwrap().unwrap().runner, "on read committed");
}

#[tokio::test]
async fn damage_is_told_by_the_name_of_the_column() {
    let options = options();
    let store = open(&options);
    let admin = admin(&options).await;
    let checks =
        "SELECT string_agg(format('ALTER TABLE task DROP CONSTRAINT %I', conname), '; ') FROM pg_constraint
                  WHERE conrelid = 'task'::regclass AND contype = 'c'";
    let drop: String = admin.query_one(checks, &[]).await.unwrap().get(0);
    admin.batch_execute(&drop).await.unwrap();
    for (column, value) in [
        ("secret", "'\\x00'"),
        ("owner", "U&'\\001A'"),
        ("class", "9"),
        ("status", "9"),
        ("version", "-1"),
        ("attempts", "4294967296"),
        ("idle_limit_ms", "-5"),
        ("ttl_ms", "-5"),
        ("failure", "77"),
        ("outcome_kind", "0"),
        ("inputs", "'{'"),
        ("checkpoint", "'nonsense'"),
    ] {
        let id = store.create(new_task()).await.unwrap().id;
        let sql = format!("UPDATE task SET {column} = {value} WHERE locator = {}", id.locator());
        admin.batch_execute(&sql).await.unwrap();
        if column == "secret" {
            assert_eq!(store.get(id).await.unwrap(), None, "an id that does not match is no damage");
            let error = store.due(Timestamp::NEVER, 1000).await.unwrap_err().to_string();
            assert!(error.contains("task.secret"), "{error}");
        } else {
            let error = store.get(id).await.unwrap_err().to_string();
            assert!(error.contains(&format!("task.{column} ")), "{column}: {error}");
        }
        // In one batch with it the others go on, and its place is not given away.
        let (refused, taken, other) = tokio::join!(
            store.apply(id, Step::Cancel, NOW),
            store.create(taskgate_task::NewTask { id, ..new_task() }),
            store.create(new_task()),
        );
        assert!(matches!(refused, Err(StoreError::Failed(_))), "{column}: {refused:?}");
        assert!(matches!(taken, Err(StoreError::IdTaken)), "{column}: {taken:?}");
        other.unwrap();
        admin.batch_execute(&format!("DELETE FROM task WHERE locator = {}", id.locator())).await.unwrap();
    }
}

#[tokio::test]
async fn no_query_walks_the_whole_table_or_sorts() {
    let options = options();
    let _store = open(&options);
    let admin = admin(&options).await;
    admin.batch_execute(include_str!("../queries/session.sql")).await.unwrap();
    for (sql, arguments, index) in [
        (include_str!("../queries/task_get.sql"), "1", "task_pkey"),
        (include_str!("../queries/task_work.sql"), "1", "task_pkey"),
        (include_str!("../queries/task_lock.sql"), "'{1,2}'", "task_pkey"),
        (include_str!("../queries/task_versions.sql"), "'{1,2}'", "task_pkey"),
        (include_str!("../queries/task_list.sql"), "'a', 1, 10", "task_by_owner"),
        (include_str!("../queries/task_due.sql"), "1, 10", "task_by_due"),
        (include_str!("../queries/task_ready.sql"), "1, 10", "task_by_ready"),
        (include_str!("../queries/task_orphans.sql"), "10", "task_by_carrier"),
        (include_str!("../queries/task_carried.sql"), "1, 1, 10", "task_by_carrier"),
        (include_str!("../queries/task_keyed.sql"), "'{a}', '{b}', '{c}'", "task_by_key"),
        (include_str!("../queries/task_events.sql"), "1", "event_pkey"),
        (include_str!("../queries/task_delete.sql"), "'{1,2}'", "task_pkey"),
        (include_str!("../queries/node_renew.sql"), "1, 2", "node_pkey"),
        (include_str!("../queries/node_bury.sql"), "1, 2", "node_pkey"),
    ] {
        admin.batch_execute(&format!("PREPARE one AS {sql}")).await.unwrap();
        let rows = admin.query(&format!("EXPLAIN EXECUTE one ({arguments})"), &[]).await.unwrap();
        let plan: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        let plan = plan.join("\n");
        admin.batch_execute("DEALLOCATE one").await.unwrap();
        assert!(plan.contains(index), "{sql}: {plan}");
        assert!(
            !plan.contains("Seq Scan") && !plan.contains("Sort") && !plan.contains("Bitmap"),
            "{sql}: {plan}"
        );
    }
    let people = "SELECT count(*) FROM task_for_people, event_for_people";
    assert_eq!(number(&admin, people).await, 0);
}

/// What the living carry costs the search for orphans nothing.
#[tokio::test]
async fn orphans_are_found_among_many_that_are_none() {
    let options = options();
    let store = open(&options);
    let admin = admin(&options).await;
    let template = store.create(new_task()).await.unwrap();
    let columns: String = admin
        .query_one(
            "SELECT string_agg(quote_ident(attname), ', ') FROM pg_attribute
             WHERE attrelid = 'task'::regclass AND attnum > 0 AND attname NOT IN ('locator', 'carrier')",
            &[],
        )
        .await
        .unwrap()
        .get(0);
    let fill = format!(
        "INSERT INTO node SELECT n, '', 0, 0 FROM generate_series(100, 104) n;
         INSERT INTO task (locator, carrier, {columns})
         SELECT n, 100 + n % 5, {columns} FROM task, generate_series(1, 20000) n;
         UPDATE task SET carrier = 50 WHERE locator = 7;
         UPDATE task SET carrier = 102 WHERE locator = {};
         VACUUM ANALYZE task",
        template.id.locator()
    );
    for statement in fill.split(';') {
        admin.batch_execute(statement).await.unwrap();
    }
    let orphans = store.orphans(10).await.unwrap();
    assert_eq!(orphans.iter().map(|task| task.id.locator()).collect::<Vec<_>>(), [7]);
    admin.batch_execute(include_str!("../queries/session.sql")).await.unwrap();
    admin
        .batch_execute(&format!("PREPARE orphans AS {}", include_str!("../queries/task_orphans.sql")))
        .await
        .unwrap();
    let explain = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE orphans (10)";
    admin.batch_execute(explain).await.unwrap();
    let plan: serde_json::Value = {
        let rows = admin.simple_query(explain).await.unwrap();
        let text: Vec<&str> = rows
            .iter()
            .filter_map(|row| match row {
                tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
                _ => None,
            })
            .collect();
        serde_json::from_str(&text.join("\n")).unwrap()
    };
    let pages = plan[0]["Plan"]["Shared Hit Blocks"].as_i64().unwrap();
    assert!(pages < 60, "{pages} pages were looked at: {plan:#}");
}
