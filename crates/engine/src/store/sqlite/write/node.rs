use rusqlite::{Connection, Params};
use taskgate_task::{NodeId, Timestamp};

use super::Write;
use crate::store::Node;
use crate::store::sqlite::failed;
use crate::{Feed, StoreError};

/// A node joins: this process has the file alone, so every node before it is dead.
pub(in crate::store::sqlite) struct Join(pub Node);

impl Write for Join {
    type Written = ();

    fn run(&self, db: &Connection) -> Result<(), StoreError> {
        let Join(node) = self;
        db.execute("DELETE FROM node", []).map_err(failed)?;
        let columns =
            (node.id.as_number(), &node.name, node.joined_at.as_millis(), node.lease_until.as_millis());
        execute(db, include_str!("../queries/node_join.sql"), columns).map(drop)
    }

    fn publish((): &(), _: &Feed) {}
}

/// A heartbeat.
pub(in crate::store::sqlite) struct Renew {
    pub node: NodeId,
    pub until: Timestamp,
}

impl Write for Renew {
    type Written = bool;

    fn run(&self, db: &Connection) -> Result<bool, StoreError> {
        execute(
            db,
            include_str!("../queries/node_renew.sql"),
            (self.node.as_number(), self.until.as_millis()),
        )
    }

    fn publish(_: &bool, _: &Feed) {}
}

/// A node goes.
pub(in crate::store::sqlite) struct Leave(pub NodeId);

impl Write for Leave {
    type Written = ();

    fn run(&self, db: &Connection) -> Result<(), StoreError> {
        execute(db, include_str!("../queries/node_leave.sql"), [self.0.as_number()]).map(drop)
    }

    fn publish((): &(), _: &Feed) {}
}

/// A node is declared dead.
pub(in crate::store::sqlite) struct Bury {
    pub node: NodeId,
    pub now: Timestamp,
}

impl Write for Bury {
    type Written = bool;

    fn run(&self, db: &Connection) -> Result<bool, StoreError> {
        execute(db, include_str!("../queries/node_bury.sql"), (self.node.as_number(), self.now.as_millis()))
    }

    fn publish(_: &bool, _: &Feed) {}
}

/// Whether the statement touched a row.
fn execute(db: &Connection, sql: &str, params: impl Params) -> Result<bool, StoreError> {
    let rows = db.prepare_cached(sql).and_then(|mut statement| statement.execute(params)).map_err(failed)?;
    Ok(rows > 0)
}
