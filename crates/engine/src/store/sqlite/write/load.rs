use rusqlite::Connection;

use super::create::insert;
use super::{Write, append};
use crate::store::sqlite::failed;
use crate::store::{Kept, KeptSecret};
use crate::{Feed, StoreError};

/// Keeps what another store has dumped.
pub(in crate::store::sqlite) struct Load(pub Vec<Kept>);

impl Write for Load {
    type Written = ();

    fn run(&self, db: &Connection) -> Result<(), StoreError> {
        // Other writes may share the transaction, and a refusal must leave nothing of this one in it.
        db.execute_batch("SAVEPOINT load").map_err(failed)?;
        let loaded = self.0.iter().try_for_each(|kept| load(db, kept));
        if loaded.is_err() {
            db.execute_batch("ROLLBACK TO load").map_err(failed)?;
        }
        db.execute_batch("RELEASE load").map_err(failed)?;
        loaded
    }

    fn publish((): &(), _: &Feed) {}
}

fn load(db: &Connection, kept: &Kept) -> Result<(), StoreError> {
    match kept {
        Kept::Secret(KeptSecret { name, value }) => {
            let sql = include_str!("../queries/secret_replace.sql");
            let mut statement = db.prepare_cached(sql).map_err(failed)?;
            statement.execute((name, &value[..])).map(drop).map_err(failed)
        }
        Kept::Task(kept) => {
            insert(db, &kept.task, kept.work.as_ref(), kept.key.as_ref())?;
            kept.events.iter().try_for_each(|event| append(db, &kept.task, event))
        }
    }
}
