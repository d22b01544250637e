// Claims are made by unwrapping.
#![allow(clippy::unwrap_used)]

mod care;
mod commit;
mod file;
mod layout;

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::FutureExt;
use parking_lot::Mutex;
use rusqlite::Connection;
use taskgate_task::{Lifetime, NewTask, NodeId, Owner, Payload, TaskId, Timestamp, WorkClass};
use tempfile::TempDir;

use super::write::Write;
use super::{SqliteOptions, SqliteStore, failed};
use crate::store::Stored;
use crate::store::conformance;
use crate::{Feed, StoreError};

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

fn new_task(number: u8, work: usize) -> NewTask {
    NewTask {
        id: TaskId::from_entropy(NOW, [number; 19]),
        owner: Owner::local(),
        runner: "echo".to_owned(),
        work: Payload::from_value(&"x".repeat(work)).unwrap(),
        class: WorkClass::Live,
        max_attempts: 3,
        node: NodeId::from_number(1),
        key: None,
        lifetime: Lifetime {
            run_deadline: NOW.after(Duration::from_secs(60)),
            idle_limit: Some(Duration::from_secs(5)),
            retention: Duration::from_secs(10),
            ttl: Duration::from_secs(70),
        },
        poll_interval: Duration::from_secs(1),
        status_message: Some("queued".to_owned()),
        checkpoint: None,
        created_at: NOW,
    }
}

fn file() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tasks.db");
    (dir, path)
}

/// What was asked is answered on the spot.
fn now<T>(stored: Stored<T>) -> T {
    stored.now_or_never().unwrap().unwrap()
}

fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(SqliteOptions::new(path)).unwrap()
}

/// Runs something on the writer's connection, within its transaction.
struct Probe<F>(F);

impl<T: Send + 'static, F: Fn(&Connection) -> rusqlite::Result<T> + Send + 'static> Write for Probe<F> {
    type Written = T;

    fn run(&self, db: &Connection) -> Result<T, StoreError> {
        (self.0)(db).map_err(failed)
    }

    fn publish(_: &T, _: &Feed) {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sqlite_conforms() {
    let dirs = Mutex::new(Vec::new());
    conformance::run_all(|| {
        let (dir, path) = file();
        dirs.lock().push(dir);
        open(&path)
    })
    .await;
}
