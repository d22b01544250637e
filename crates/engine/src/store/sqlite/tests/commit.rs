//! Many writes in one commit, and what happens when it fails.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::Connection;
use taskgate_task::{Status, Step};

use super::{NOW, Probe, SqliteStore, file, new_task, now, open};
use crate::store::sqlite::checkpoint::{Around, start_over};
use crate::store::sqlite::open::Connections;
use crate::{Store, StoreError};

async fn pragma(store: &SqliteStore, sql: String) -> i64 {
    let probe = Probe(move |db: &Connection| db.query_row(&sql, [], |row| row.get(0)));
    store.0.writer.send(probe).await.unwrap()
}

/// Holds the writer up until the returned sender is dropped, so that what is written meanwhile makes one batch.
fn hold(store: &SqliteStore) -> mpsc::Sender<()> {
    let (release, held) = mpsc::channel::<()>();
    let (reached, at_it) = mpsc::channel();
    let held = Mutex::new(held);
    drop(store.0.writer.send(Probe(move |_: &Connection| {
        let _ = reached.send(());
        let _ = held.lock().recv();
        Ok(())
    })));
    at_it.recv().unwrap();
    release
}

/// How many transactions the log holds: each one's last frame says how long the file then is.
fn transactions_in_log(path: &Path) -> usize {
    let log = fs::read(path.with_extension("db-wal")).unwrap();
    let salt = &log[16..24];
    let frames = log[32..].chunks_exact(24 + 4096).filter(|frame| &frame[8..16] == salt);
    frames.filter(|frame| frame[4..8] != [0; 4]).count()
}

#[tokio::test]
async fn writes_that_wait_when_the_store_is_dropped_are_kept() {
    let (_dir, path) = file();
    let store = open(&path);
    let release = hold(&store);
    let created: Vec<_> = (0..50).map(|n| store.create(new_task(n, 0))).collect();
    drop(release);
    drop(store);
    for created in created {
        created.await.unwrap();
    }
    assert_eq!(now(open(&path).orphans(100)).len(), 50);
}

#[tokio::test]
async fn waiting_writes_are_committed_together() {
    let (_dir, path) = file();
    let store = open(&path);
    let release = hold(&store);
    let before = transactions_in_log(&path);
    let created: Vec<_> = (0..100).map(|n| store.create(new_task(n, 10))).collect();
    let finished: Vec<_> = (0..100).map(|n| store.apply(new_task(n, 0).id, Step::Cancel, NOW)).collect();
    // A refusal in between does not disturb the others.
    let taken = store.create(new_task(7, 0));
    drop(release);
    for created in created {
        created.await.unwrap();
    }
    for finished in finished {
        finished.await.unwrap();
    }
    assert!(matches!(taken.await, Err(StoreError::IdTaken)));
    assert_eq!(transactions_in_log(&path) - before, 1);
}

#[tokio::test]
async fn a_full_disk_fails_the_guilty_write_and_heals() {
    let (_dir, path) = file();
    let store = open(&path);
    store.create(new_task(1, 0)).await.unwrap();
    store.create(new_task(2, 0)).await.unwrap();
    let pages = pragma(&store, "PRAGMA page_count".to_owned()).await;
    pragma(&store, format!("PRAGMA max_page_count = {pages}")).await;

    let release = hold(&store);
    let before = store.apply(new_task(1, 0).id, Step::Cancel, NOW);
    let large = store.create(new_task(3, 1 << 20));
    let after = store.apply(new_task(2, 0).id, Step::Cancel, NOW);
    drop(release);
    assert_eq!(before.await.unwrap().task.status, Status::Cancelled);
    assert_eq!(after.await.unwrap().task.status, Status::Cancelled);
    let error = large.await.unwrap_err();
    assert!(matches!(&error, StoreError::Failed(why) if why.contains("full")), "{error}");
    assert_eq!(store.get(new_task(3, 0).id).await.unwrap(), None);

    let mut follower = store.feed().follow((4..8).map(|n| new_task(n, 0).id));
    let release = hold(&store);
    let all: Vec<_> = (4..8).map(|n| store.create(new_task(n, 1 << 16))).collect();
    drop(release);
    for one in all {
        assert!(matches!(one.await, Err(StoreError::Failed(_))));
    }

    pragma(&store, "PRAGMA max_page_count = 1000000".to_owned()).await;
    store.create(new_task(8, 0)).await.unwrap();
    let healed = store.create(new_task(4, 1 << 16)).await.unwrap();
    assert_eq!(store.get(healed.id).await.unwrap(), Some(healed.clone()));
    // What failed was no news.
    assert_eq!(follower.next().await.unwrap().id(), healed.id);
}

#[tokio::test]
async fn the_log_does_not_grow_without_bound() {
    let (_dir, path) = file();
    let store = open(&path);
    // A reader that was asked twice stands at this moment and is not asked again.
    assert_eq!(now(store.orphans(1)), []);
    assert_eq!(now(store.orphans(1)), []);
    // 200 MiB, which would all stay in the log without checkpoints.
    for n in 0..200 {
        store.create(new_task(n, 1 << 20)).await.unwrap();
    }
    let log = fs::metadata(path.with_extension("db-wal")).unwrap().len();
    assert!(log < 96 << 20, "{log}");
    assert_eq!(now(store.orphans(1000)).len(), 200);
}

/// A reader that keeps its moment while nothing changes must not keep it any longer than that.
#[tokio::test]
async fn every_commit_is_seen_by_the_next_question() {
    let (_dir, path) = file();
    let store = open(&path);
    for n in 0..50 {
        let task = store.create(new_task(n, 0)).await.unwrap();
        for _ in 0..usize::from(n % 4) {
            assert_eq!(store.get(task.id).await.unwrap().map(|found| found.status), Some(Status::Working));
        }
        let cancelled = store.apply(task.id, Step::Cancel, NOW).await.unwrap();
        assert_eq!(store.get(task.id).await.unwrap(), Some(cancelled.task));
    }
}

/// What one thread was shown, no other is told to be otherwise: several readers, one of them standing.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nobody_is_taken_back_behind_a_commit() {
    let (_dir, path) = file();
    let store = open(&path);
    let newest = Arc::new(AtomicUsize::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let (store, newest, stop) = (store.clone(), Arc::clone(&newest), Arc::clone(&stop));
            std::thread::spawn(move || {
                while !stop.load(Ordering::SeqCst) {
                    let shown = newest.load(Ordering::SeqCst);
                    let found = now(store.orphans(1000)).len();
                    assert!(found >= shown, "{found} after {shown}");
                    newest.fetch_max(found, Ordering::SeqCst);
                }
            })
        })
        .collect();
    for n in 0..250 {
        store.create(new_task(n, 0)).await.unwrap();
    }
    stop.store(true, Ordering::SeqCst);
    for reader in readers {
        reader.join().unwrap();
    }
}

/// Readers that are asked again and again while no commit comes through do not keep the log from starting over.
#[tokio::test]
async fn the_log_starts_over_however_much_is_read() {
    let (_dir, path) = file();
    let store = open(&path);
    let stop = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let (store, stop) = (store.clone(), Arc::clone(&stop));
            std::thread::spawn(move || {
                while !stop.load(Ordering::SeqCst) {
                    now(store.orphans(1));
                }
            })
        })
        .collect();
    let (readers_of, patience) = (Arc::clone(&store.0.readers), Duration::from_secs(2));
    let db = Connections::new(&path, patience).checkpointer(patience).unwrap();
    let around =
        Around { gate: Arc::default(), commits: Arc::clone(readers_of.commits()), readers: readers_of };
    for n in 0..20 {
        store.create(new_task(n, 0)).await.unwrap();
        assert!(!start_over(&db, &around).unwrap().held_up, "held up after {n}");
    }
    stop.store(true, Ordering::SeqCst);
    for reader in readers {
        reader.join().unwrap();
    }
}
