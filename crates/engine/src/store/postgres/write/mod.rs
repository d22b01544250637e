//! How writes get into the database.
//!
//! A `job` is one write on its way. A `lane` owns a connection and takes whatever waits for it into one `transaction`: it
//! locks the records, makes the steps in memory (`plan`), writes what they led to as `columns`, and commits. Writes to
//! one task always go through the same lane, so they are applied in the order of the calls. Should the connection end during
//! a commit, the server is asked for its `fate`.

mod columns;
mod fate;
mod job;
mod lane;
mod load;
mod plan;
mod rewrite;
mod session;
mod transaction;

pub(super) use job::{Job, Written};
pub(super) use lane::Lane;
pub(super) use load::load;
pub(super) use rewrite::rewritten;
