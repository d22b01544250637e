use rusqlite::Connection;

use super::Write;
use crate::store::fresh_secret;
use crate::store::sqlite::{failed, read};
use crate::{Feed, StoreError};

/// Keeps a secret under its name, unless there is one already.
pub(in crate::store::sqlite) struct KeepSecret {
    name: String,
    fresh: [u8; 32],
}

impl KeepSecret {
    /// A fresh secret from the operating system.
    pub(in crate::store::sqlite) fn new(name: &str) -> Result<Self, StoreError> {
        Ok(KeepSecret { name: name.to_owned(), fresh: fresh_secret()? })
    }
}

impl Write for KeepSecret {
    type Written = [u8; 32];

    fn run(&self, db: &Connection) -> Result<[u8; 32], StoreError> {
        let mut keep = db.prepare_cached(include_str!("../queries/secret_keep.sql")).map_err(failed)?;
        keep.execute((&self.name, &self.fresh[..])).map_err(failed)?;
        read::secret(db, &self.name)?.ok_or_else(|| StoreError::Failed("a secret was not kept".to_owned()))
    }

    fn publish(_: &[u8; 32], _: &Feed) {}
}
