//! A server of the demo tools, and commands that speak to it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

/// How long a server has to begin.
const PATIENCE: Duration = Duration::from_secs(30);

/// A gateway that runs for as long as this lives.
pub struct Served {
    child: Child,
    /// The MCP endpoint.
    pub url: String,
    dir: TempDir,
}

impl Served {
    /// The demo as it is without a configuration.
    pub fn demo() -> Served {
        Served::with(&[])
    }

    /// The demo, of which every call is a task at once.
    pub fn tasks() -> Served {
        let dir = tempfile::tempdir().expect("a directory");
        let config = dir.path().join("taskgate.toml");
        let text = "single_user = true\n[defaults]\ntasks = \"always\"\n[[upstream]]\nname = \"demo\"\ndemo = true\n";
        std::fs::write(&config, text).expect("written");
        let words = ["--config".to_owned(), config.display().to_string()];
        Served::at(dir, &words.each_ref().map(String::as_str))
    }

    fn with(words: &[&str]) -> Served {
        Served::at(tempfile::tempdir().expect("a directory"), words)
    }

    fn at(dir: TempDir, words: &[&str]) -> Served {
        let mut command = Command::new(env!("CARGO_BIN_EXE_taskgate"));
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--store"])
            .arg(dir.path().join("tasks.db"))
            .args(words);
        command.env_remove("TASKGATE_STORE").env_remove("TASKGATE_LOG");
        let mut child = command.stderr(Stdio::piped()).spawn().expect("taskgate runs");
        let said = BufReader::new(child.stderr.take().expect("stderr"));
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            for line in said.lines().map_while(Result::ok) {
                if let Some((_, rest)) = line.split_once(" at http://") {
                    let _ = tell.send(format!("http://{}", rest.split(',').next().unwrap_or_default()));
                }
            }
        });
        let url = told.recv_timeout(PATIENCE).expect("it says where it listens");
        Served { child, url, dir }
    }

    /// The store's file.
    pub fn store(&self) -> PathBuf {
        self.dir.path().join("tasks.db")
    }

    /// A file with this text.
    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.dir.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.display().to_string()
    }

    /// A command whose state is this server's alone.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_taskgate"));
        command.args(words).stdin(Stdio::null()).env("XDG_STATE_HOME", self.dir.path().join("state"));
        command.env_remove("TASKGATE_STORE").env_remove("TASKGATE_LOG").current_dir(self.dir.path());
        command
    }

    /// What a command prints, and the code it ends with.
    pub fn run(&self, words: &[&str]) -> Ran {
        Ran::of(&self.command(words).output().expect("taskgate runs"))
    }

    /// The handle of a call that is left to go on.
    pub fn detached(&self, words: &[&str]) -> String {
        let ran = self.run(&[&["call", &self.url], words, &["--detach"]].concat());
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.out.trim().to_owned()
    }

    /// Ends it, as a service manager does. Returns the directory, so that the store can be looked at.
    pub fn end(mut self) -> TempDir {
        let pid = self.child.id().to_string();
        let killed = Command::new("kill").arg(&pid).status().expect("kill runs");
        assert!(killed.success());
        assert!(self.child.wait().expect("it ends").success());
        std::mem::replace(&mut self.dir, tempfile::tempdir().expect("a directory"))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a command printed, and how it ended.
#[derive(Debug)]
pub struct Ran {
    pub out: String,
    pub err: String,
    pub code: i32,
}

impl Ran {
    /// Of an output.
    pub fn of(output: &Output) -> Ran {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ran {
            out: text(&output.stdout),
            err: text(&output.stderr),
            code: output.status.code().expect("it ended by itself"),
        }
    }

    /// The objects it printed.
    pub fn lines(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    }
}

/// A path as a word.
pub fn word(path: &Path) -> &str {
    path.to_str().expect("plain text")
}
