use std::sync::Arc;

use rusqlite::Connection;
use taskgate_task::{NewTask, Task};

use super::bind::Binder;
use super::{Write, append};
use crate::store::code::Code;
use crate::store::creation;
use crate::store::sqlite::{failed, read};
use crate::{Feed, News, StoreError};

/// Keeps a new task.
pub(in crate::store::sqlite) struct Create(pub NewTask);

impl Write for Create {
    type Written = Task;

    fn run(&self, db: &Connection) -> Result<Task, StoreError> {
        let Create(new) = self;
        let task = Task::create(new);
        if let Some(key) = &new.key
            && let Some((id, same)) = read::keyed(db, &new.owner, key)?
        {
            return Err(StoreError::KeyTaken { id, same });
        }
        let mut statement = db.prepare_cached(include_str!("../queries/task_create.sql")).map_err(failed)?;
        let mut binder = Binder::new(&mut statement);
        binder.bind_state(&task)?;
        binder.bind(&task.id.secret()[..])?;
        binder.bind(task.owner.as_str())?;
        binder.bind(&task.runner)?;
        binder.bind(task.class.code())?;
        binder.bind(task.created_at.as_millis())?;
        binder.bind(new.work.as_str())?;
        binder.bind(task.max_attempts)?;
        let key = new.key.as_ref();
        binder.bind(key.map(|key| key.tool.as_str()))?;
        binder.bind(key.map(|key| key.key.as_str()))?;
        binder.bind(key.map(|key| &key.digest[..]))?;
        if statement.raw_execute().map_err(failed)? == 0 {
            return Err(StoreError::IdTaken);
        }
        append(db, &task, &creation(&task))?;
        Ok(task)
    }

    fn publish(task: &Task, feed: &Feed) {
        if feed.is_followed(&task.id) {
            feed.publish(&News::Changed(Arc::new(task.clone())));
        }
    }
}
