//! A disk that fills up under the real `taskgate serve`.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rusqlite::Connection;
use serde_json::json;
use taskgate_proof::ledger::Fact;
use taskgate_proof::modern::Modern;
use taskgate_proof::program::Program;
use taskgate_proof::wait;
use taskgate_proof::witness::Witness;

use crate::site::Site;
use crate::store::Store;

/// A small file system of its own, in a mount namespace that this process holds: it goes with the test, however that ends.
struct Disk {
    holder: Child,
    /// Where it is for those inside.
    inside: PathBuf,
    /// Where it is for everybody else.
    outside: PathBuf,
}

impl Disk {
    fn mount(folder: PathBuf, size: &str) -> Disk {
        fs::create_dir(&folder).expect("the folder can be written");
        let script =
            format!("mount -t tmpfs -o size={size} none '{}' && echo mounted && cat", folder.display());
        let mut holder = Command::new("unshare");
        holder.args(["--mount", "sh", "-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut holder = holder.spawn().expect("unshare");
        let mut line = String::new();
        let stdout = holder.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("it speaks");
        assert_eq!(line, "mounted\n", "the disk cannot be mounted");
        let inside = folder.strip_prefix("/").expect("an absolute path");
        let outside = PathBuf::from(format!("/proc/{}/root", holder.id())).join(inside);
        Disk { holder, inside: folder, outside }
    }

    /// The same command with this disk in its place.
    fn with(&self, command: &Command) -> Command {
        let mut inside = Command::new("nsenter");
        inside.args(["--mount", "--target", &self.holder.id().to_string(), "--"]);
        inside.arg(command.get_program()).args(command.get_args());
        inside
    }

    fn ballast(&self) -> PathBuf {
        self.outside.join("ballast")
    }

    /// Takes all the room there is.
    fn fill(&self) {
        let mut file = File::options().create(true).append(true).open(self.ballast()).expect("it is there");
        while file.write_all(&[b'x'; 4096]).is_ok() {}
    }

    /// Gives the room back.
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

fn serve(site: &Site, disk: &Disk) -> (Program, SocketAddr) {
    Program::serve(disk.with(&site.node("one", "")))
}

/// The database is what it should be.
fn is_intact(site: &Site) {
    let said: String = Connection::open(match &site.store {
        Store::Sqlite(path) => path,
        Store::Postgres(_) => unreachable!("a disk holds a file"),
    })
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
        let mut site = Site::with(|folder| {
            let mounted = Disk::mount(folder.join("disk"), "8m");
            let store = Store::Sqlite(mounted.inside.join("tasks.db"));
            disk = Some(mounted);
            store
        });
        let disk = disk.expect("mounted");
        let (mut gateway, mut address) = serve(&site, &disk);
        // From out here the file lies elsewhere.
        site.store = Store::Sqlite(disk.outside.join("tasks.db"));
        let mut client = Witness::modern(&site.ledger, "client", address);
        let mut create = |client: &mut Witness<'_>, tool: &str, label: &str, gate: Option<&str>| {
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
            // It starts on the full disk and says what it can say.
            (gateway, address) = serve(&site, &disk);
            assert_eq!(Modern::new(address).get(&finished)["status"], "completed");
            client = Witness::modern(&site.ledger, "client again", address);
            assert_eq!(create(&mut client, "work_repeatable", "too late", None), None);
        }
        disk.free();
        wait::until("room for another task", || {
            number += 1;
            create(&mut client, "work_repeatable", &format!("after {number}"), None)
        });
        // What was done while there was no room was not lost with it, unless its process was.
        let end = if is_killed { "failed" } else { "completed" };
        Modern::new(address).until(&running[0], end);
        drop(client);
        let store = site.store.clone();
        let closed = {
            site.store = store;
            site.close(gateway, address)
        };
        let effects =
            closed.evidence.effects.iter().filter(|effect| effect.label == "work_repeatable").count();
        assert_eq!(effects, if is_killed { 2 } else { 1 });
        println!("{} tasks before the disk was full; {}", number, closed.summary());
        drop(disk);
    }
}
