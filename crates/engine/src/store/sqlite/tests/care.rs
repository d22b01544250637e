//! What an administrator does.

use std::fs;
use std::path::Path;

use rusqlite::Connection;
use taskgate_task::{Outcome, Payload, Step};

use super::{NOW, SqliteOptions, SqliteStore, file, new_task, open};
use crate::Store;

/// A file with a task that runs and is long, and one that has ended.
async fn filled(path: &Path) -> [String; 2] {
    let store = open(path);
    store.secret("seal").await.unwrap();
    let running = store.create(new_task(1, 100_000)).await.unwrap().id;
    let ended = store.create(new_task(2, 10)).await.unwrap().id;
    let outcome = Outcome::Result { body: Payload::null(), is_error: false, summary: None };
    store.apply(ended, Step::Finish { fence: 1, outcome }, NOW).await.unwrap();
    [running, ended].map(|id| format!("{:016x}", id.locator()))
}

#[tokio::test]
async fn every_kind_of_damage_is_found_and_told_without_secrets() {
    let damages = [
        ("UPDATE task SET status = 9 WHERE ended_at IS NULL", "CHECK constraint failed in task"),
        ("UPDATE task SET secret = x'00' WHERE ended_at IS NULL", "CHECK constraint failed in task"),
        ("UPDATE task SET inputs = '{' WHERE ended_at IS NULL", "RUNNING: the file is damaged: task.inputs"),
        (
            "UPDATE task SET attempts = -1 WHERE ended_at IS NULL",
            "RUNNING: the file is damaged: task.attempts",
        ),
        (
            "UPDATE task SET work_blob = 77 WHERE ended_at IS NULL",
            "RUNNING: the file is damaged: blob.key 77",
        ),
        (
            "UPDATE task SET work_blob = NULL WHERE ended_at IS NULL",
            "RUNNING: has a blob that it does not know",
        ),
        ("UPDATE task SET work_blob = NULL WHERE ended_at IS NULL", "RUNNING: has lost the description"),
        ("UPDATE task SET work = 'null' WHERE ended_at IS NOT NULL", "ENDED: keeps a description"),
        ("UPDATE blob SET body = 'läufer'", "RUNNING: the file is damaged: blob.body"),
        ("DELETE FROM task WHERE ended_at IS NULL", "RUNNING: has events, but is not there"),
        ("DELETE FROM task WHERE ended_at IS NULL", "RUNNING: has a blob that it does not know"),
        ("DELETE FROM event WHERE to_status = 3", "ENDED: is completed, but 0 of its events are ends"),
        ("DELETE FROM event WHERE version = 1", "ENDED: event 2 comes first"),
        (
            "INSERT INTO event SELECT task, 3, at, who, 3, 3, why FROM event WHERE version = 2",
            "2 of its events are ends",
        ),
        ("UPDATE event SET version = 7 WHERE version = 2", "ENDED: is at version 2, but has event 7"),
        ("UPDATE event SET from_status = 2 WHERE version = 2", "ENDED: event 2 does not begin where"),
        ("UPDATE event SET who = 8", "CHECK constraint failed in event"),
    ];
    for (sql, finding) in damages {
        let (_dir, path) = file();
        let [running, ended] = filled(&path).await;
        let options = SqliteOptions::new(&path);
        let sound = SqliteStore::check(&options).unwrap();
        assert_eq!((sound.tasks, sound.wrong), (2, vec![]));
        let db = Connection::open(&path).unwrap();
        db.execute_batch("PRAGMA ignore_check_constraints = ON").unwrap();
        assert_ne!(db.execute(sql, []).unwrap(), 0, "{sql}");
        drop(db);
        let wrong = SqliteStore::check(&options).unwrap().wrong;
        let finding =
            finding.replace("RUNNING", &format!("task {running}")).replace("ENDED", &format!("task {ended}"));
        assert!(wrong.iter().any(|line| line.contains(&finding)), "{sql}: {finding} in {wrong:?}");
        let all = wrong.concat();
        assert!(!all.contains("xxx") && !all.contains("läufer") && !all.contains("queued"), "{all}");
    }
}

#[tokio::test]
async fn a_damaged_page_is_found() {
    let (_dir, path) = file();
    {
        let store = open(&path);
        for number in 0..100 {
            store.create(new_task(number, 2000)).await.unwrap();
        }
    }
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2 / 4096 * 4096;
    bytes[middle..middle + 4096].fill(0xee);
    fs::write(&path, bytes).unwrap();
    assert_ne!(SqliteStore::check(&SqliteOptions::new(&path)).unwrap().wrong, [""; 0]);
}

#[tokio::test]
async fn care_is_for_files_that_are_there_ours_and_free() {
    let (dir, path) = file();
    let care = |path: &Path| {
        let options = SqliteOptions::new(path);
        let (check, vacuum) = (SqliteStore::check(&options), SqliteStore::vacuum(&options));
        [check.unwrap_err().to_string(), vacuum.unwrap_err().to_string()]
    };
    assert!(care(&path).iter().all(|refusal| refusal.contains("No such file")));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing was made");
    fs::write(&path, "a letter to my aunt".repeat(300)).unwrap();
    assert!(care(&path).iter().all(|refusal| refusal.contains("not a SQLite database")));
    fs::remove_file(&path).unwrap();
    let _store = open(&path);
    assert!(care(&path).iter().all(|refusal| refusal.contains("open in another taskgate")));
}

/// A vacuum makes the file shorter and leaves what is in it alone.
#[tokio::test]
async fn a_vacuum_gives_room_back() {
    let (_dir, path) = file();
    let kept = {
        let store = open(&path);
        for number in 0..20 {
            let id = store.create(new_task(number, 300_000)).await.unwrap().id;
            assert_eq!(id, new_task(number, 0).id);
        }
        for number in (0..20).step_by(2) {
            store.apply(new_task(number, 0).id, Step::Cancel, NOW).await.unwrap();
        }
        store.dump(None, 100).await.unwrap()
    };
    let vacuumed = SqliteStore::vacuum(&SqliteOptions::new(&path)).unwrap();
    assert!(vacuumed.after < vacuumed.before * 2 / 3, "{vacuumed:?}");
    assert_eq!(fs::metadata(&path).unwrap().len(), vacuumed.after);
    assert_eq!(open(&path).dump(None, 100).await.unwrap(), kept);
    assert_eq!(SqliteStore::check(&SqliteOptions::new(&path)).unwrap().wrong, [""; 0]);
}

/// The file of a process that was killed still has its log beside it.
#[tokio::test]
async fn a_log_that_was_left_is_read_too() {
    let (dir, path) = file();
    let store = open(&path);
    let id = store.create(new_task(1, 100_000)).await.unwrap().id;
    let copy = dir.path().join("copy.db");
    for end in ["", "-wal"] {
        fs::copy(format!("{}{end}", path.display()), format!("{}{end}", copy.display())).unwrap();
    }
    let findings = SqliteStore::check(&SqliteOptions::new(&copy)).unwrap();
    assert_eq!((findings.tasks, findings.wrong), (1, vec![]));
    assert!(open(&copy).get(id).await.unwrap().is_some());
}
