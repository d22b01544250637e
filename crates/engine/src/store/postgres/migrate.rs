use tokio_postgres::Client;

use super::fault::say;
use crate::StoreError;

/// The layouts, oldest first. The table `taskgate_layout` says which of them the schema has seen. Released ones never
/// change. Nodes of the version before go on while the first one of a new version migrates, so a migration must leave them working.
const MIGRATIONS: &[&str] =
    &[include_str!("migrations/0001_tasks.sql"), include_str!("migrations/0002_secrets.sql")];

/// The oldest server that numbers transactions for ever (`pg_current_xact_id`).
const OLDEST_SERVER: i32 = 130_000;

/// Brings the schema up to this version's layout. One node at a time: the others wait, and find it done.
pub(super) async fn migrate(client: &Client, schema: &str) -> Result<(), StoreError> {
    check_server(client).await?;
    client
        .batch_execute("SET statement_timeout TO 0; SET lock_timeout TO '60s'; BEGIN")
        .await
        .map_err(about)?;
    let done = within_transaction(client, schema).await;
    let end = if done.is_ok() { "COMMIT" } else { "ROLLBACK" };
    let ended = client.batch_execute(end).await.map_err(about);
    done.and(ended)
}

async fn check_server(client: &Client) -> Result<(), StoreError> {
    let sql = "SELECT current_setting('server_version_num')::int, current_setting('server_encoding')";
    let row = client.query_one(sql, &[]).await.map_err(about)?;
    let version: i32 = row.try_get(0).map_err(about)?;
    let encoding: String = row.try_get(1).map_err(about)?;
    if version < OLDEST_SERVER {
        return Err(refused(&format!(
            "the server is version {}, and 13 is the oldest that will do",
            version / 10_000
        )));
    }
    if encoding != "UTF8" {
        return Err(refused(&format!(
            "the database keeps text as {encoding}; create one with ENCODING 'UTF8'"
        )));
    }
    Ok(())
}

async fn within_transaction(client: &Client, schema: &str) -> Result<(), StoreError> {
    // "taskgate" in ASCII: an advisory lock's number should not be somebody else's as well.
    let lock = "SELECT pg_advisory_xact_lock(x'7461736b67617465'::bigint)";
    client.batch_execute(lock).await.map_err(about)?;
    // The name is plain (letters, digits and `_`), but it may be a word of the language.
    let quoted = format!("\"{schema}\"");
    if !exists(client, "SELECT 1 FROM pg_namespace WHERE nspname = $1", schema).await? {
        client.batch_execute(&format!("CREATE SCHEMA {quoted}")).await.map_err(about)?;
    }
    let layout = format!("{quoted}.taskgate_layout");
    let seen = if exists(client, "SELECT 1 WHERE to_regclass($1) IS NOT NULL", &layout).await? {
        let sql = format!("SELECT coalesce(max(version), 0) FROM {layout}");
        client.query_one(&sql, &[]).await.and_then(|row| row.try_get::<_, i32>(0)).map_err(about)?
    } else {
        let anything = "SELECT 1 FROM pg_class WHERE relnamespace = to_regnamespace($1)";
        if exists(client, anything, &quoted).await? {
            return Err(refused(&format!(
                "the schema {schema} belongs to another application: it has tables and none that says which taskgate \
                 made them; choose another schema"
            )));
        }
        let sql = format!(
            "CREATE TABLE {layout} (version int PRIMARY KEY, migrated_at timestamptz NOT NULL DEFAULT now())"
        );
        client.batch_execute(&sql).await.map_err(about)?;
        0
    };
    let known = MIGRATIONS.len();
    let Some(rest) = usize::try_from(seen).ok().and_then(|seen| MIGRATIONS.get(seen..)) else {
        return Err(refused(&format!(
            "the schema {schema} was written by a newer taskgate (layout {seen}, this one knows up to {known})"
        )));
    };
    for (sql, version) in rest.iter().zip(seen + 1..) {
        client.batch_execute(sql).await.map_err(about)?;
        let sql = format!("INSERT INTO {layout} (version) VALUES ($1)");
        client.execute(&sql, &[&version]).await.map_err(about)?;
    }
    Ok(())
}

async fn exists(client: &Client, sql: &str, name: &str) -> Result<bool, StoreError> {
    client.query_opt(sql, &[&name]).await.map(|row| row.is_some()).map_err(about)
}

fn about(error: tokio_postgres::Error) -> StoreError {
    refused(&say(&error))
}

fn refused(why: &str) -> StoreError {
    StoreError::Failed(format!("the database cannot be used: {why}"))
}
