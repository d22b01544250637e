//! A place where a gateway in front of the scripted server is killed and started again.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use rusqlite::{Connection, OpenFlags};
use taskgate_proof::program::Program;
use taskgate_proof::programs;

const SERVER: &str = env!("CARGO_BIN_EXE_scripted-server");

/// A folder with a configuration, a store and what the scripted server writes down. Its path marks the processes.
pub struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Place {
        let folder = tempfile::Builder::new().prefix("taskgate-crash-").tempdir().expect("a folder");
        let place = Place { folder };
        place.bring_server();
        let config = format!(
            r#"
            listen = "127.0.0.1:0"
            single_user = true
            store = "tasks.db"
            [defaults]
            tasks = "always"
            [[upstream]]
            name = "scripted"
            command = [{:?}, {:?}]
            [upstream.tools.hold_again]
            after_crash = "repeat"
            [upstream.tools.ask_again]
            after_crash = "repeat"
            [upstream.tools.work]
            after_crash = "fail"
            "#,
            place.server(),
            place.path()
        );
        place.write("taskgate.toml", &config);
        place
    }

    /// The program of the upstream: its command line begins with this.
    pub fn server(&self) -> PathBuf {
        self.path().join("server")
    }

    /// Puts the scripted server where the gateway looks for it.
    pub fn bring_server(&self) {
        std::os::unix::fs::symlink(SERVER, self.server()).expect("the folder can be written");
    }

    /// Takes it away: it runs on, but cannot be started again.
    pub fn take_server(&self) {
        self.remove("server");
    }

    /// Writes a file in the folder: the scripted server looks for some.
    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.path().join(name), text).expect("the folder can be written");
    }

    /// Removes a file in the folder.
    pub fn remove(&self, name: &str) {
        fs::remove_file(self.path().join(name)).expect("the file is there");
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn store(&self) -> PathBuf {
        self.path().join("tasks.db")
    }

    pub fn mark(&self) -> &str {
        self.path().to_str().expect("a plain path")
    }

    pub fn serve(&self) -> (Program, SocketAddr) {
        let mut command = Command::new(programs::taskgate());
        command.args(["serve", "--config"]).arg(self.path().join("taskgate.toml"));
        Program::serve(command)
    }

    /// How often the work with this label has begun.
    pub fn begun(&self, label: &str) -> usize {
        self.noted("begun", label)
    }

    /// How often the scripted server has noted this line in this file.
    pub fn noted(&self, file: &str, line: &str) -> usize {
        let text = fs::read_to_string(self.path().join(file)).unwrap_or_default();
        text.lines().filter(|noted| *noted == line).count()
    }

    /// How many tasks have each status, and the tasks whose events are not as they must be.
    pub fn audit(&self) -> (BTreeMap<String, usize>, Vec<String>) {
        let store =
            Connection::open_with_flags(self.store(), OpenFlags::SQLITE_OPEN_READ_ONLY).expect("the store");
        let mut statuses = BTreeMap::new();
        let mut wrong = Vec::new();
        // A task has one terminal event exactly if it has ended, and nothing comes after that.
        let mut rows = store
            .prepare(
                "SELECT format('%016x', locator), status,
                        (SELECT count(*) FROM event WHERE task = locator AND to_status >= 3),
                        (SELECT to_status FROM event WHERE task = locator ORDER BY version DESC LIMIT 1)
                 FROM task",
            )
            .expect("the store has its tables");
        let mut rows = rows.query([]).expect("the store can be read");
        while let Some(row) = rows.next().expect("a row") {
            let read = |column| row.get::<_, i64>(column).expect("a number");
            let (status, ends, last) = (read(1), read(2), read(3));
            let words = ["working", "input_required", "completed", "failed", "cancelled"];
            let word = words.get((status - 1) as usize).copied().unwrap_or("unknown");
            *statuses.entry(word.to_owned()).or_insert(0) += 1;
            if ends != i64::from(status >= 3) || last != status {
                let locator: String = row.get(0).expect("a text");
                wrong.push(format!("{locator} is {word} with {ends} terminal events, the last to {last}"));
            }
        }
        (statuses, wrong)
    }
}
