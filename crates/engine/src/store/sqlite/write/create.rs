use std::sync::Arc;

use rusqlite::Connection;
use taskgate_task::{IdempotencyKey, NewTask, Payload, Task};

use super::bind::{Binder, in_row};
use super::{Write, append};
use crate::store::code::Code;
use crate::store::sqlite::blob::Blobs;
use crate::store::sqlite::{failed, read};
use crate::store::{check_names, creation};
use crate::{Feed, News, StoreError};

/// Keeps a new task.
pub(in crate::store::sqlite) struct Create(pub NewTask);

impl Write for Create {
    type Written = Task;

    fn run(&self, db: &Connection) -> Result<Task, StoreError> {
        let Create(new) = self;
        let task = Task::create(new);
        insert(db, &task, Some(&new.work), new.key.as_ref())?;
        append(db, &task, &creation(&task))?;
        Ok(task)
    }

    fn publish(task: &Task, feed: &Feed) {
        if feed.is_followed(&task.id) {
            feed.publish(&News::Changed(Arc::new(task.clone())));
        }
    }
}

/// Writes the row of a task that is not there yet, and its blobs.
pub(super) fn insert(
    db: &Connection,
    task: &Task,
    work: Option<&Payload>,
    key: Option<&IdempotencyKey>,
) -> Result<(), StoreError> {
    check_names(&task.owner, key)?;
    if let Some(key) = key
        && let Some((id, same)) = read::keyed(db, &task.owner, key)?
    {
        return Err(StoreError::KeyTaken { id, same });
    }
    let blobs = Blobs::keep(db, task, work)?;
    let mut statement = db.prepare_cached(include_str!("../queries/task_create.sql")).map_err(failed)?;
    let mut binder = Binder::new(&mut statement);
    binder.bind_state(task, &blobs)?;
    binder.bind(&task.id.secret()[..])?;
    binder.bind(task.owner.as_str())?;
    binder.bind(&task.runner)?;
    binder.bind(task.class.code())?;
    binder.bind(task.created_at.as_millis())?;
    binder.bind(in_row(work, blobs.work))?;
    binder.bind(blobs.work)?;
    binder.bind(task.max_attempts)?;
    binder.bind(key.map(|key| key.tool.as_str()))?;
    binder.bind(key.map(|key| key.key.as_str()))?;
    binder.bind(key.map(|key| &key.digest[..]))?;
    if statement.raw_execute().map_err(failed)? == 0 {
        // The transaction goes on without this task.
        blobs.delete(db)?;
        return Err(StoreError::IdTaken);
    }
    Ok(())
}
