use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use rusqlite::Connection;
use taskgate_task::{Change, Step, TaskId, Timestamp};

use super::bind::Binder;
use super::{Write, append};
use crate::store::sqlite::blob::Blobs;
use crate::store::sqlite::{failed, read};
use crate::store::{is_work_wanted, spare};
use crate::{Feed, News, StoreError};

/// Makes a step.
pub(in crate::store::sqlite) struct Apply {
    pub id: TaskId,
    pub step: Step,
    pub now: Timestamp,
}

impl Write for Apply {
    type Written = Change;

    fn run(&self, db: &Connection) -> Result<Change, StoreError> {
        let (mut task, blobs) = read::record(db, self.id)?.ok_or(StoreError::NotFound)?;
        // Time and orders do nothing to what has ended but delete it, and for that nobody needs its megabytes.
        if !(task.status.is_terminal() && matches!(self.step, Step::Tick | Step::Order(_))) {
            blobs.fill(db, &mut task)?;
        }
        // Payloads share their text, so the clone is cheap however much was answered.
        let step = self.step.clone();
        // The writer serves every task; a defect in the rules must not end it because of one of them.
        let mut change = catch_unwind(AssertUnwindSafe(|| task.step(step, self.now)))
            .map_err(|_| StoreError::Failed("the step panicked".to_owned()))??;
        if change.delete {
            delete(db, self.id, &blobs)?;
            spare(&mut change.task);
        } else if change.write {
            let blobs = blobs.follow(db, &task, &change.task)?;
            let mut statement =
                db.prepare_cached(include_str!("../queries/task_update.sql")).map_err(failed)?;
            let mut binder = Binder::new(&mut statement);
            binder.bind_state(&change.task, &blobs)?;
            binder.bind(is_work_wanted(&change.task))?;
            statement.raw_execute().map_err(failed)?;
            if let Some(event) = &change.event {
                append(db, &change.task, event)?;
            }
        }
        Ok(change)
    }

    fn publish(change: &Change, feed: &Feed) {
        let id = change.task.id;
        if change.delete {
            feed.publish(&News::Deleted(id));
        } else if change.write && feed.is_followed(&id) {
            feed.publish(&News::Changed(Arc::new(change.task.clone())));
        }
    }
}

fn delete(db: &Connection, id: TaskId, blobs: &Blobs) -> Result<(), StoreError> {
    blobs.delete(db)?;
    for sql in [include_str!("../queries/event_delete.sql"), include_str!("../queries/task_delete.sql")] {
        db.prepare_cached(sql).and_then(|mut statement| statement.execute([id.locator()])).map_err(failed)?;
    }
    Ok(())
}
