//! The file: whose it is, who may open it, and that it keeps what it was given.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rusqlite::Connection;
use taskgate_task::{Outcome, Payload, Step};

use super::{NOW, SqliteOptions, SqliteStore, file, new_task, now, open};
use crate::Store;

fn refusal(path: &Path) -> String {
    SqliteStore::open(SqliteOptions::new(path)).unwrap_err().to_string()
}

#[tokio::test]
async fn reopening_finds_everything() {
    let (_dir, path) = file();
    let new = new_task(1, 10_000);
    let store = open(&path);
    store.create(new.clone()).await.unwrap();
    let outcome = Outcome::Result { body: Payload::null(), is_error: true, summary: Some("hm".to_owned()) };
    let task = store.apply(new.id, Step::Finish { fence: 1, outcome }, NOW).await.unwrap().task;
    let running = store.create(new_task(2, 10_000)).await.unwrap();
    let (events, secret) = (store.events(new.id).await.unwrap(), store.secret("seal").await.unwrap());
    drop(store);
    assert!(!path.with_extension("db-wal").exists(), "the log is emptied");
    let store = open(&path);
    assert_eq!(store.get(new.id).await.unwrap(), Some(task));
    assert_eq!(store.work(running.id).await.unwrap(), Some(new.work));
    assert_eq!(now(store.orphans(10)), [running]);
    assert_eq!(store.events(new.id).await.unwrap(), events);
    assert_eq!(store.secret("seal").await.unwrap(), secret);
}

#[test]
fn files_are_for_their_owner_only() {
    let dir = tempfile::tempdir().unwrap();
    let parent = dir.path().join("state/deeper");
    let path = parent.join("tasks.db");
    let store = open(&path);
    drop(store.secret("seal"));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&parent), 0o700);
    for file in fs::read_dir(&parent).unwrap() {
        let file = file.unwrap().path();
        assert_eq!(mode(&file), 0o600, "{file:?}");
    }
}

/// What a process was starting when it was killed has its lock for a moment. The next process must not be refused for that.
#[test]
fn a_lock_that_a_dead_process_has_left_is_waited_for() {
    let (dir, path) = file();
    let lock = dir.path().join("tasks.db.lock");
    // No process can have that number.
    fs::write(&lock, "4194305").unwrap();
    let left = fs::File::open(&lock).unwrap();
    left.lock().unwrap();
    std::thread::scope(|scope| {
        let opened = scope.spawn(|| SqliteStore::open(SqliteOptions::new(&path)).map(drop));
        std::thread::sleep(std::time::Duration::from_millis(100));
        assert!(!opened.is_finished(), "it did not wait");
        drop(left);
        opened.join().unwrap().unwrap();
    });
    // It is not waited for without end.
    fs::write(&lock, "4194305").unwrap();
    let left = fs::File::open(&lock).unwrap();
    left.lock().unwrap();
    assert!(refusal(&path).contains("is open in another taskgate (process 4194305)"));
    drop(left);
}

#[test]
fn a_second_opener_is_refused() {
    let (dir, path) = file();
    let store = open(&path);
    let clone = store.clone();
    std::os::unix::fs::symlink(&path, dir.path().join("other.db")).unwrap();
    for name in ["tasks.db", "other.db", "./tasks.db"] {
        let refusal = refusal(&dir.path().join(name));
        assert!(refusal.contains("is open in another taskgate"), "{refusal}");
        assert!(refusal.contains(&std::process::id().to_string()), "{refusal}");
    }
    drop(store);
    assert!(refusal(&path).contains("another taskgate"), "a clone holds the store too");
    drop(clone);
    open(&path);
}

#[test]
fn files_of_others_are_refused_and_left_alone() {
    let (_dir, path) = file();
    fs::write(&path, "This is a letter to my aunt. ".repeat(100)).unwrap();
    assert!(refusal(&path).contains("is not a SQLite database"), "{}", refusal(&path));
    fs::remove_file(&path).unwrap();

    Connection::open(&path).unwrap().execute_batch("CREATE TABLE theirs (x)").unwrap();
    let before = fs::read(&path).unwrap();
    assert!(refusal(&path).contains("another application"), "{}", refusal(&path));
    assert_eq!(fs::read(&path).unwrap(), before);
    fs::remove_file(&path).unwrap();

    drop(open(&path));
    Connection::open(&path).unwrap().execute_batch("PRAGMA user_version = 99").unwrap();
    assert!(refusal(&path).contains("newer taskgate (layout 99"), "{}", refusal(&path));
}

/// A long log only saves time. A disk without room for it must not keep anyone from what is in the file.
#[test]
fn a_log_without_room_for_its_usual_length_is_no_reason_to_refuse() {
    let (_dir, path) = file();
    drop(open(&path));
    let db = Connection::open(&path).unwrap();
    db.execute_batch("PRAGMA max_page_count = 20").unwrap();
    crate::store::sqlite::open::lengthen_log(&db).unwrap();
    assert!(db.is_autocommit());
    db.execute_batch("CREATE TABLE small (x)").unwrap();
}
