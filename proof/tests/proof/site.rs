//! A site: one store, nodes in front of servers that leave traces, clients that write down what they learn.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use taskgate_proof::books::Books;
use taskgate_proof::checker::{Evidence, check};
use taskgate_proof::ledger::Ledger;
use taskgate_proof::postgres::Postgres;
use taskgate_proof::program::{Program, nothing_left_of};
use taskgate_proof::witness::Witness;
use taskgate_proof::{effects, programs, wait};

use crate::store::Store;

const SERVER: &str = env!("CARGO_BIN_EXE_effect-server");

/// How long after its last heartbeat a node holds what it runs.
pub const LEASE: Duration = Duration::from_secs(3);

pub struct Site {
    folder: tempfile::TempDir,
    pub store: Store,
    pub ledger: Ledger,
    /// Readings of the store so far.
    books: Mutex<Vec<Books>>,
}

impl Site {
    /// With a file as its store.
    pub fn sqlite() -> Site {
        Site::with(|folder| Store::Sqlite(folder.join("tasks.db")))
    }

    /// With a database of its own on the server that the tests share.
    pub fn postgres() -> Site {
        Site::with(|_| Store::Postgres(Postgres::shared().database()))
    }

    /// Another one with a store of the same kind.
    pub fn like(other: &Site) -> Site {
        match other.store {
            Store::Sqlite(_) => Site::sqlite(),
            Store::Postgres(_) => Site::postgres(),
        }
    }

    pub fn with(store: impl FnOnce(&Path) -> Store) -> Site {
        let folder = tempfile::Builder::new().prefix("taskgate-site-").tempdir().expect("a folder");
        let store = store(folder.path());
        Site { folder, store, ledger: Ledger::default(), books: Mutex::default() }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Every process of this site has it in its command line.
    pub fn mark(&self) -> &str {
        self.path().to_str().expect("a plain path")
    }

    /// Makes a file that some work waits for.
    pub fn open(&self, gate: &str) {
        fs::write(self.path().join(gate), "").expect("the folder can be written");
    }

    /// The command that starts this node.
    pub fn node(&self, name: &str) -> Command {
        self.node_at(name, self.store.place())
    }

    /// The command that starts this node, which finds the store in this place.
    pub fn node_at(&self, name: &str, place: &str) -> Command {
        let file = self.configure(name, place);
        let mut command = Command::new(programs::taskgate());
        command.args(["serve", "--config"]).arg(file);
        command
    }

    /// Writes the configuration of a node and returns its file.
    fn configure(&self, name: &str, place: &str) -> PathBuf {
        let folder = self.mark();
        let config = format!(
            r#"
            listen = "127.0.0.1:0"
            single_user = true
            store = {place:?}
            node_name = {name:?}
            drain_grace = "1s"
            lease = "{}s"
            heartbeat = "500ms"
            [defaults]
            tasks = "always"
            poll_interval = "10ms"
            after_crash = "fail"
            [[upstream]]
            name = "old"
            command = [{SERVER:?}, {folder:?}, {name:?}, "session"]
            [upstream.tools.work_repeatable]
            after_crash = "repeat"
            [[upstream]]
            name = "new"
            command = [{SERVER:?}, {folder:?}, {name:?}, "modern"]
            [upstream.tools.plain_repeatable]
            after_crash = "repeat"
            [upstream.tools.ask_repeatable]
            after_crash = "repeat"
            "#,
            LEASE.as_secs(),
        );
        // A command that outlives its gateway needs a directory beside a file.
        let command = match &self.store {
            Store::Postgres(_) => String::new(),
            Store::Sqlite(_) => format!(
                "[[upstream]]\nname = \"apart\"\n[upstream.run]\ntool = \"run_external\"\n\
                 command = [{SERVER:?}, {folder:?}, {name:?}, \"command\"]\n"
            ),
        };
        let file = self.path().join(format!("{name}.toml"));
        fs::write(&file, config + &command).expect("the folder can be written");
        file
    }

    /// Starts the node `one` and waits until it serves.
    pub fn serve(&self) -> (Program, SocketAddr) {
        Program::serve(self.node("one"))
    }

    /// Reads the store, for the checker to compare with what comes later.
    pub fn look(&self) -> Books {
        let books = self.store.read();
        self.books.lock().expect("nobody panics with it").push(books.clone());
        books
    }

    /// Whether this work has had this effect.
    pub fn has_done(&self, label: &str, step: &str) -> bool {
        effects::read(self.path()).iter().any(|effect| effect.label == label && effect.step == step)
    }

    /// Answers whatever is asked until every task of which somebody has the handle has ended and nothing works any more.
    pub fn settle(&self, address: SocketAddr, patience: Duration) {
        let mut client = Witness::modern(&self.ledger, "settling", address);
        let mut open: BTreeSet<String> = self.ledger.handles().into_keys().collect();
        let end = Instant::now() + patience;
        while !open.is_empty() {
            open.retain(|task| {
                let Ok(Some(sight)) = client.get(task) else { return true };
                for key in &sight.open {
                    let _ = client.answer(task, key);
                }
                !sight.has_ended()
            });
            assert!(
                Instant::now() < end,
                "waited {patience:?} in vain for the end of {}",
                self.describe(&open)
            );
            thread::sleep(Duration::from_millis(20));
        }
        wait::until_within(patience, "the end of all work", || {
            self.store.read().tasks.iter().all(|task| task.status != 1).then_some(())
        });
    }

    /// What the store and the last answers say of these tasks.
    fn describe(&self, tasks: &BTreeSet<String>) -> String {
        let books = self.store.read();
        let mut text = format!("{} tasks; the nodes are {:?} at {}\n", tasks.len(), books.nodes, books.now);
        for row in books.tasks.iter().filter(|row| tasks.contains(&row.id)) {
            text.push_str(&format!("{row:?}\n"));
            let events = books.events.iter().filter(|event| event.task == row.locator);
            events.for_each(|event| text.push_str(&format!("  {event:?}\n")));
        }
        let entries = self.ledger.entries();
        let slow = entries.iter().filter(|entry| entry.until - entry.since > Duration::from_secs(5));
        slow.chain(entries.iter().rev().take(5)).for_each(|entry| text.push_str(&format!("{entry:?}\n")));
        text
    }

    /// Reads every handle once more, in the words of both generations.
    pub fn sweep(&self, address: SocketAddr) {
        let mut modern = Witness::modern(&self.ledger, "sweeping", address);
        let mut session = Witness::session(&self.ledger, "sweeping too", address).expect("a session");
        for task in self.ledger.handles().keys() {
            for seen in [modern.get(task), session.get(task)] {
                let seen = seen.expect("an answer").expect("a task");
                // Otherwise this would wait for an answer that nobody gives.
                assert!(seen.has_ended(), "{task} is {}", seen.status);
            }
            session.result(task).expect("an answer");
        }
    }

    /// Settles and reads everything. Returns the moment, on the ledger's clock, at which all was settled.
    pub fn finish(&self, address: SocketAddr) -> Duration {
        self.settle(address, wait::DEADLINE);
        let settled = self.ledger.now();
        self.sweep(address);
        settled
    }

    /// Settles, reads everything, ends the node, and lets the checker look at it all.
    #[track_caller]
    pub fn close(self, gateway: Program, address: SocketAddr) -> Closed {
        let settled = self.finish(address);
        gateway.terminate();
        self.check(settled)
    }

    /// Lets the checker look at what is there now that no process of the site runs any more.
    #[track_caller]
    pub fn check(self, settled: Duration) -> Closed {
        nothing_left_of(self.mark());
        self.look();
        let evidence = Evidence {
            entries: self.ledger.entries(),
            effects: effects::read(self.path()),
            books: std::mem::take(&mut *self.books.lock().expect("nobody panics with it")),
            settled,
            patience: LEASE + Duration::from_secs(5),
        };
        let faults = check(&evidence);
        if !faults.is_empty() {
            let kept = self.keep(&evidence);
            let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
            panic!(
                "{} claims do not hold; the evidence is in {}\n{}",
                faults.len(),
                kept.display(),
                faults.join("\n")
            );
        }
        Closed { evidence }
    }

    /// Writes the evidence where it outlasts the test.
    fn keep(&self, evidence: &Evidence) -> PathBuf {
        let file = std::env::temp_dir().join(format!("taskgate-evidence-{}.txt", std::process::id()));
        let mut text = String::new();
        for entry in &evidence.entries {
            text.push_str(&format!("{entry:?}\n"));
        }
        for effect in &evidence.effects {
            text.push_str(&format!("{effect:?}\n"));
        }
        for books in &evidence.books {
            text.push_str(&format!("now {} nodes {:?}\n", books.now, books.nodes));
            books.tasks.iter().for_each(|row| text.push_str(&format!("{row:?}\n")));
            books.events.iter().for_each(|event| text.push_str(&format!("{event:?}\n")));
        }
        fs::write(&file, text).expect("the evidence can be written");
        file
    }
}

/// What was found to be well.
pub struct Closed {
    pub evidence: Evidence,
}

impl Closed {
    /// The status of each task, in the order of their creation.
    pub fn ends(&self) -> Vec<i64> {
        let last = self.evidence.books.last().expect("the end");
        let mut tasks: Vec<_> = last.tasks.iter().map(|task| (task.locator, task.status)).collect();
        tasks.sort_unstable();
        tasks.into_iter().map(|(_, status)| status).collect()
    }

    /// How many tasks ended as what, how many effects there were.
    pub fn summary(&self) -> String {
        let last = self.evidence.books.last().expect("the end");
        let count = |status| last.tasks.iter().filter(|task| task.status == status).count();
        format!(
            "{} tasks: {} completed, {} failed, {} cancelled, {} still asking; {} effects, {} facts",
            last.tasks.len(),
            count(3),
            count(4),
            count(5),
            count(2),
            self.evidence.effects.len(),
            self.evidence.entries.len()
        )
    }
}
