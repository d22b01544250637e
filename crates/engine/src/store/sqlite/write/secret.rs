use rusqlite::Connection;

use super::Write;
use crate::store::sqlite::{failed, read};
use crate::{Feed, StoreError};

/// Keeps a secret under its name, unless there is one already.
pub(in crate::store::sqlite) struct KeepSecret {
    pub name: String,
    pub fresh: Vec<u8>,
}

impl Write for KeepSecret {
    type Written = Vec<u8>;

    fn run(&self, db: &Connection) -> Result<Vec<u8>, StoreError> {
        let mut keep = db.prepare_cached(include_str!("../queries/secret_keep.sql")).map_err(failed)?;
        keep.execute((&self.name, &self.fresh[..])).map_err(failed)?;
        read::secret(db, &self.name)?.ok_or_else(|| StoreError::Failed("a secret was not kept".to_owned()))
    }

    fn publish(_: &Vec<u8>, _: &Feed) {}
}
