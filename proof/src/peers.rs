//! What `peers/setup` has installed: programs that nobody in this project wrote.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::wait;

/// The folder of peers.
pub fn folder() -> PathBuf {
    let folder = match std::env::var_os("TASKGATE_PEERS") {
        Some(folder) => PathBuf::from(folder),
        None => cache().join("taskgate-peers"),
    };
    assert!(
        folder.join("node").is_dir() && folder.join("python-legacy").is_dir(),
        "{} holds no peers: run proof/peers/setup",
        folder.display()
    );
    folder
}

fn cache() -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").expect("HOME is set")).join(".cache");
    std::env::var_os("XDG_CACHE_HOME").map_or_else(home, PathBuf::from)
}

/// The files of the peers that lie in the repository.
pub fn files() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers")
}

/// The pinned Node.js.
pub fn node() -> PathBuf {
    folder().join("node/node_modules/.bin/node")
}

/// A file of an npm package.
pub fn npm(file: &str) -> PathBuf {
    let path = folder().join("node/node_modules").join(file);
    assert!(path.is_file(), "{} is missing: run proof/peers/setup", path.display());
    path
}

/// A program that node is to run.
pub fn node_command(script: &Path) -> Command {
    let mut command = Command::new(node());
    command.arg(script);
    ready(command)
}

/// A program of `peers/rust`.
pub fn rust_command(name: &str) -> Command {
    let path = folder().join("rust/bin").join(name);
    assert!(path.is_file(), "{} is missing: run proof/peers/setup", path.display());
    ready(Command::new(path))
}

/// A program that the Python of this group (`legacy`, `fastmcp`) is to run.
pub fn python_command(group: &str, script: &Path) -> Command {
    let mut command = Command::new(folder().join(format!("python-{group}/bin/python")));
    command.arg(script);
    ready(command)
}

fn ready(mut command: Command) -> Command {
    command.env("TASKGATE_PEERS", folder()).env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

/// Runs a peer to its end, which must come in time.
pub fn run(mut command: Command, limit: Duration) -> Output {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
    let pid = child.id();
    let (done, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(child.wait_with_output()));
    match ended.recv_timeout(limit) {
        Ok(output) => output.unwrap_or_else(|error| panic!("{command:?} has no output: {error}")),
        Err(_) => {
            crate::program::signal(pid, "KILL");
            panic!("{command:?} did not end within {limit:?}");
        }
    }
}

/// What a client said of its run, whatever it was.
#[track_caller]
pub fn reported(name: &str, command: Command) -> Value {
    let output = run(command, wait::DEADLINE * 4);
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|error| {
        panic!("{name} gave no report: {error}\n{text}\n{}", String::from_utf8_lossy(&output.stderr))
    })
}

/// What a client said of its run, if all its checks passed; otherwise the test fails with everything it said.
#[track_caller]
pub fn passed(name: &str, command: Command) -> Value {
    let report = reported(name, command);
    let clean = report["failed"] == 0 && report["crash"].is_null() && report["passed"].as_u64() > Some(0);
    // Only programs that may let known faults of others pass say which of these did not occur.
    let clean = clean && report["stale_allow"].as_array().is_none_or(Vec::is_empty);
    assert!(clean, "{name} failed {}\n{report:#}", report["unexpected"]);
    println!("{name}: {} checks passed", report["passed"]);
    report
}
