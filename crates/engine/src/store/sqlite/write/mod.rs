//! What can be done to the file: one write, one file.

mod apply;
mod bind;
mod create;
mod load;
mod node;
mod rewrite;
mod secret;

use rusqlite::Connection;
use taskgate_task::{Event, Task};

use super::failed;
use crate::store::code::Code;
use crate::store::columns::count;
use crate::{Feed, StoreError};

pub(super) use apply::Apply;
pub(super) use create::Create;
pub(super) use load::Load;
pub(super) use node::{Bury, Join, Leave, Renew};
pub(super) use rewrite::Rewrite;
pub(super) use secret::KeepSecret;

/// A write: statements that run in a transaction somebody else opens and commits.
pub(super) trait Write: Send + 'static {
    /// What the caller gets.
    type Written: Send + 'static;

    /// Runs the statements. It may be run again after a rollback, so it must not use itself up.
    ///
    /// [`StoreError::Failed`] means that the transaction must be rolled back; with every other error
    /// nothing has been written, and the transaction goes on.
    fn run(&self, db: &Connection) -> Result<Self::Written, StoreError>;

    /// Tells the followers, after the commit.
    fn publish(written: &Self::Written, feed: &Feed);
}

fn append(db: &Connection, task: &Task, event: &Event) -> Result<(), StoreError> {
    let mut statement = db.prepare_cached(include_str!("../queries/event_append.sql")).map_err(failed)?;
    let columns = (
        task.id.locator(),
        count(event.version),
        event.at.as_millis(),
        event.who.code(),
        event.from.map(Code::code),
        event.to.code(),
        event.why.as_str(),
    );
    statement.execute(columns).map_err(failed)?;
    Ok(())
}
