use std::collections::HashMap;

use tokio_postgres::Client;
use tokio_postgres::types::ToSql;

use super::columns::{Creates, Events, Keys};
use crate::StoreError;
use crate::store::postgres::connect::Connector;
use crate::store::postgres::fault::failed;
use crate::store::postgres::row::{self, Cell};
use crate::store::postgres::text::kept;
use crate::store::{Kept, KeptTask, check_names};

/// Keeps what another store has dumped, on a session of its own and in one transaction.
pub(in crate::store::postgres) async fn load(connector: &Connector, all: &[Kept]) -> Result<(), StoreError> {
    let client = connector.connect().await.map_err(|why| connector.unreachable(&why))?;
    client.batch_execute("BEGIN").await.map_err(|error| failed(&error))?;
    // Without a commit the transaction ends with the session.
    insert(&client, all).await?;
    client.batch_execute("COMMIT").await.map_err(|error| failed(&error))
}

async fn insert(client: &Client, all: &[Kept]) -> Result<(), StoreError> {
    let tasks: Vec<&KeptTask> = all
        .iter()
        .filter_map(|kept| if let Kept::Task(kept) = kept { Some(&**kept) } else { None })
        .collect();
    refuse_what_is_taken(client, &tasks).await?;
    let (mut creates, mut events) = (Creates::default(), Events::default());
    for kept in &tasks {
        creates.push(&kept.task, kept.work.as_ref(), kept.key.as_ref())?;
        kept.events.iter().for_each(|event| events.push(kept.task.id.locator(), event));
    }
    write(client, include_str!("../queries/task_create.sql"), &creates.params()).await?;
    write(client, include_str!("../queries/event_append.sql"), &events.params()).await?;
    for one in all {
        if let Kept::Secret(secret) = one {
            let params: [&(dyn ToSql + Sync); 2] = [&kept(&secret.name), &&secret.value[..]];
            write(client, include_str!("../queries/secret_replace.sql"), &params).await?;
        }
    }
    Ok(())
}

/// A statement that fails says only that something is taken.
async fn refuse_what_is_taken(client: &Client, tasks: &[&KeptTask]) -> Result<(), StoreError> {
    let (mut keys, mut keyed) = (Keys::default(), Vec::new());
    let mut seen = HashMap::new();
    for kept in tasks {
        check_names(&kept.task.owner, kept.key.as_ref())?;
        let Some(key) = &kept.key else { continue };
        let owner = kept.task.owner.as_str();
        if let Some((id, digest)) = seen.insert((owner, &key.tool, &key.key), (kept.task.id, key.digest)) {
            return Err(StoreError::KeyTaken { id, same: digest == key.digest });
        }
        keys.push(owner, key);
        keyed.push(key);
    }
    let taken = client.query(include_str!("../queries/task_keyed.sql"), &keys.params()).await;
    if let Some(taken) = taken.map_err(|error| failed(&error))?.first() {
        let cell = |name| Cell { row: taken, table: "task", name };
        let number: usize = cell("number").count()?;
        let digest: [u8; 32] = cell("key_digest").array()?;
        let same = keyed.get(number.wrapping_sub(1)).is_some_and(|key| key.digest == digest);
        return Err(StoreError::KeyTaken { id: row::id(taken)?, same });
    }
    let mut locators: Vec<i64> = tasks.iter().map(|kept| kept.task.id.locator()).collect();
    locators.sort_unstable();
    let doubled = locators.windows(2).any(|two| two[0] == two[1]);
    let taken = client.query(include_str!("../queries/task_versions.sql"), &[&locators]).await;
    if doubled || !taken.map_err(|error| failed(&error))?.is_empty() {
        return Err(StoreError::IdTaken);
    }
    Ok(())
}

async fn write(client: &Client, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<(), StoreError> {
    client.execute(sql, params).await.map(drop).map_err(|error| failed(&error))
}
