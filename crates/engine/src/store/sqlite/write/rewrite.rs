use rusqlite::Connection;
use taskgate_task::Outcome;

use super::Write;
use super::bind::{Binder, in_row};
use crate::store::sqlite::blob::Blobs;
use crate::store::sqlite::{failed, read};
use crate::store::{KeptTask, columns};
use crate::{Feed, StoreError};

/// Writes the values of tasks anew that are still at the same version.
pub(in crate::store::sqlite) struct Rewrite(pub Vec<KeptTask>);

impl Write for Rewrite {
    type Written = usize;

    fn run(&self, db: &Connection) -> Result<usize, StoreError> {
        let mut count = 0;
        for fresh in &self.0 {
            count += usize::from(rewrite(db, fresh)?);
        }
        Ok(count)
    }

    fn publish(_: &usize, _: &Feed) {}
}

fn rewrite(db: &Connection, fresh: &KeptTask) -> Result<bool, StoreError> {
    let KeptTask { task, work, .. } = fresh;
    let Some((_, blobs)) = read::record(db, task.id)?.filter(|(kept, _)| kept.version == task.version) else {
        return Ok(false);
    };
    blobs.delete(db)?;
    let blobs = Blobs::keep(db, task, work.as_ref())?;
    let mut statement = db.prepare_cached(include_str!("../queries/task_rewrite.sql")).map_err(failed)?;
    let mut binder = Binder::new(&mut statement);
    binder.bind(task.id.locator())?;
    binder.bind(&task.status_message)?;
    binder.bind(task.outcome.as_ref().and_then(Outcome::summary))?;
    let unwritable = |error| StoreError::Failed(format!("the inputs cannot be written: {error}"));
    binder.bind(columns::inputs(task).map_err(unwritable)?)?;
    binder.bind(in_row(task.checkpoint.as_ref(), blobs.checkpoint))?;
    binder.bind(blobs.checkpoint)?;
    binder.bind(in_row(task.outcome.as_ref().map(Outcome::body), blobs.outcome))?;
    binder.bind(blobs.outcome)?;
    binder.bind(in_row(work.as_ref(), blobs.work))?;
    binder.bind(blobs.work)?;
    statement.raw_execute().map_err(failed)?;
    Ok(true)
}
