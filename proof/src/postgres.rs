//! A private Postgres, by the script that all tests of this repository start theirs with.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

use crate::peers;

/// A Postgres server of our own. It goes when this value or the process does, however that ends.
pub struct Postgres {
    url: String,
    script: Mutex<Script>,
    databases: AtomicUsize,
}

struct Script {
    _process: Child,
    orders: ChildStdin,
    said: Lines<BufReader<ChildStdout>>,
}

impl Postgres {
    /// Starts one.
    pub fn start() -> Postgres {
        let script = peers::files().join("postgres");
        let mut process = Command::new(&script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", script.display()));
        let (Some(orders), Some(said)) = (process.stdin.take(), process.stdout.take()) else {
            unreachable!("both are pipes")
        };
        let mut said = BufReader::new(said).lines();
        // What is missing it has said on standard error.
        let url = said.next().expect("no Postgres for the tests: see above").expect("a line");
        let script = Mutex::new(Script { _process: process, orders, said });
        Postgres { url, script, databases: AtomicUsize::new(0) }
    }

    /// The one that the tests of this process share.
    pub fn shared() -> &'static Postgres {
        static SHARED: OnceLock<Postgres> = OnceLock::new();
        SHARED.get_or_init(Postgres::start)
    }

    /// Makes a new database and returns its URL.
    pub fn database(&self) -> String {
        let name = format!("site_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        psql(&self.url, &format!("CREATE DATABASE {name}"));
        let (server, _) = self.url.rsplit_once('/').expect("the URL names a database");
        format!("{server}/{name}")
    }

    /// `stop`, `kill` or `start`; returns when it is done.
    pub fn order(&self, order: &str) {
        let mut script = self.script.lock().expect("nobody panics with it");
        writeln!(script.orders, "{order}").expect("the script listens");
        script.said.next().expect("the server's script has ended").expect("a line");
    }
}

/// What these statements print. `psql` comes with the server, and shares nothing with the library that taskgate uses.
pub fn psql(url: &str, statements: &str) -> String {
    let mut command = Command::new("psql");
    command.args(["--no-psqlrc", "--quiet", "--no-align", "--tuples-only", "--set", "ON_ERROR_STOP=1"]);
    let output = command.args(["--command", statements]).arg(url).output().expect("psql is installed");
    assert!(output.status.success(), "psql: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}
