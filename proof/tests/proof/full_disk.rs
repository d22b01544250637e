//! A disk that fills up under the real `taskgate serve`.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rusqlite::{Connection, OpenFlags};
use serde_json::json;
use taskgate_proof::ledger::Fact;
use taskgate_proof::modern::Modern;
use taskgate_proof::program::Program;
use taskgate_proof::wait;
use taskgate_proof::witness::Witness;

use crate::site::Site;
use crate::store::Store;

/// A small file system of its own. A process holds it that lets it go when its stdin ends, so it goes with the test,
/// however that ends.
struct Disk {
    holder: Child,
    folder: PathBuf,
}

impl Disk {
    fn mount(folder: PathBuf, size: &str) -> Disk {
        fs::create_dir(&folder).expect("the folder can be written");
        // Not in its arguments, by which the processes of a site are told.
        let script =
            r#"mount -t tmpfs -o size="$SIZE" none "$DISK" && echo mounted && cat; umount -l "$DISK""#;
        let mut holder = Command::new("sh");
        holder.env("SIZE", size).env("DISK", &folder).args(["-c", script]);
        holder.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut holder = holder.spawn().expect("a shell");
        let mut line = String::new();
        let stdout = holder.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("it speaks");
        assert_eq!(line, "mounted\n", "the disk cannot be mounted");
        Disk { holder, folder }
    }

    fn ballast(&self) -> PathBuf {
        self.folder.join("ballast")
    }

    /// Takes all the room there is.
    fn fill(&self) {
        let mut file = File::options().create(true).append(true).open(self.ballast()).expect("it is there");
        while file.write_all(&[b'x'; 4096]).is_ok() {}
    }

    /// Gives so many bytes back.
    fn give(&self, bytes: u64) {
        let file = File::options().write(true).open(self.ballast()).expect("it is there");
        let length = file.metadata().expect("it has a length").len();
        file.set_len(length - bytes).expect("it can be cut");
    }

    /// Gives all the room back.
    fn free(&self) {
        fs::remove_file(self.ballast()).expect("it can be removed");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.holder.stdin = None;
        let _ = self.holder.wait();
    }
}

/// The database is what it should be.
fn is_intact(site: &Site) {
    let Store::Sqlite(path) = &site.store else { unreachable!("a disk holds a file") };
    // Only reading, so that what a killed process has left is left to the next one.
    let said: String = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)
        .and_then(|store| store.query_row("PRAGMA integrity_check", [], |row| row.get(0)))
        .expect("the store can be checked");
    assert_eq!(said, "ok");
}

/// Issue 4, Proof: when the disk is full, clients are told so and nothing is acknowledged; what was acknowledged before is still
/// there, work that ends meanwhile is written down as soon as there is room, and the file is intact at every moment, after a
/// `kill -9` in that state, too.
#[test]
#[cfg_attr(not(can_mount), ignore = "this test mounts a small disk of its own, which is not allowed here")]
fn a_full_disk_loses_nothing_that_was_acknowledged() {
    for is_killed in [false, true] {
        let mut disk = None;
        let site = Site::with(|folder| {
            let mounted = Disk::mount(folder.join("disk"), "8m");
            let store = Store::Sqlite(mounted.folder.join("tasks.db"));
            disk = Some(mounted);
            store
        });
        let disk = disk.expect("mounted");
        let (mut gateway, mut address) = site.serve();
        let mut client = Witness::modern(&site.ledger, "client", address);
        let create = |client: &mut Witness<'_>, tool: &str, label: &str, gate: Option<&str>| {
            client.create(tool, &json!({ "label": label, "hold": gate })).expect("an answer")
        };
        let finished = create(&mut client, "work_live", "finished", None).expect("a handle");
        Modern::new(address).until(&finished, "completed");
        let running = ["work_live", "work_repeatable"].map(|tool| {
            let task = create(&mut client, tool, tool, Some("open")).expect("a handle");
            wait::until(tool, || site.has_done(tool, "done").then_some(()));
            task
        });
        let asking = create(&mut client, "ask_live", "asking", None).expect("a handle");
        let key = Modern::new(address).until(&asking, "input_required")["inputRequests"]
            .as_object()
            .and_then(|open| open.keys().next().cloned())
            .expect("a question");
        site.look();

        disk.fill();
        // What is left of the room is used up: from some call on each one is refused.
        let mut refused = 0;
        let mut number = 0;
        while refused < 20 {
            number += 1;
            match create(&mut client, "work_repeatable", &format!("late {number}"), None) {
                Some(_) => refused = 0,
                None => refused += 1,
            }
            assert!(number < 20_000, "the disk does not fill up");
            disk.fill();
        }
        assert!(!client.answer(&asking, &key).expect("an answer"), "an answer was acknowledged");
        assert!(!client.cancel(&running[0]).expect("an answer"), "a cancel was acknowledged");
        let entries = site.ledger.entries();
        let said = entries.iter().filter_map(|entry| match &entry.fact {
            Fact::Refused { error, .. } => Some(error.as_str()),
            _ => None,
        });
        for error in said {
            assert!(error.contains("The task store failed; nothing was acknowledged"), "{error}");
        }
        // Readers are served.
        for task in running.iter().chain([&finished, &asking]) {
            client.get(task).expect("an answer").expect("a task");
        }
        // Work that ends now ends for nobody yet.
        site.open("open");
        wait::until("the ends of work", || {
            let said = gateway.said();
            (said.matches("cannot store what became of an attempt").count() >= 2).then_some(())
        });
        assert_eq!(Modern::new(address).get(&running[0])["status"], "working");
        site.look();
        is_intact(&site);

        if is_killed {
            gateway.kill();
            site.look();
            is_intact(&site);
            // Without any room it says why it does not start, and has changed nothing.
            let refused = Program::start(site.node("one"));
            wait::until("a word about the disk", || refused.said().contains("disk is full").then_some(()));
            refused.kill();
            is_intact(&site);
            // With a little it serves what there is.
            disk.give(64 * 1024);
            (gateway, address) = site.serve();
            assert_eq!(Modern::new(address).get(&finished)["status"], "completed");
            client = Witness::modern(&site.ledger, "client again", address);
        }
        disk.free();
        wait::until("room for another task", || {
            number += 1;
            create(&mut client, "work_repeatable", &format!("after {number}"), None)
        });
        // What was done while there was no room was not lost with it, unless its process was.
        let end = if is_killed { "failed" } else { "completed" };
        Modern::new(address).until(&running[0], end);
        let closed = site.close(gateway, address);
        let effects =
            closed.evidence.effects.iter().filter(|effect| effect.label == "work_repeatable").count();
        assert_eq!(effects, if is_killed { 2 } else { 1 });
        println!("{} tasks before the disk was full; {}", number, closed.summary());
        drop(disk);
    }
}
