//! The records of an attempt, as they lie in its directory.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::DetachedError;

/// What to run. Written and on disk before the supervisor is started.
///
/// The environment is not in it: the supervisor is started with the command's, so that no secret is written down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// The program, looked up in `PATH`, and its arguments.
    pub argv: Vec<String>,
    /// The command's working directory; `/`, if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// When the command is stopped, in milliseconds since the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<i64>,
    /// How long the command has between SIGTERM and SIGKILL, in milliseconds.
    pub grace_ms: u64,
    /// How much of each of stdout and stderr is kept, in bytes. Of more, the beginning and the end are.
    pub output_limit: u64,
}

/// Written and on disk before the command is: from here on it may have run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Begun {
    /// The boot of the machine it was.
    pub(crate) boot_id: String,
    /// The supervisor's session, which is its process id.
    pub(crate) session: i32,
    /// When, in milliseconds since the Unix epoch.
    pub(crate) at_ms: i64,
}

/// The command's first process. Written once it is known.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Leader {
    pub(crate) pid: i32,
    /// When it was started, in ticks since the boot: no two processes of one boot have both numbers.
    pub(crate) start: u64,
}

/// How a command ended. The last thing its supervisor writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Why it ended.
    pub cause: Cause,
    /// How its first process ended; `None` if it never ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    /// When it was begun, in milliseconds since the Unix epoch.
    pub begun_ms: i64,
    /// When its last process had ended, in milliseconds since the Unix epoch.
    pub ended_ms: i64,
    /// The boot of the machine it ended in.
    pub boot_id: String,
    /// What it wrote on stdout and could not be kept because the disk refused it, in bytes.
    #[serde(default)]
    pub stdout_lost: u64,
    /// The same for stderr.
    #[serde(default)]
    pub stderr_lost: u64,
}

/// Why a command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// It was done, one way or the other.
    Itself,
    /// Somebody wanted it stopped.
    Stopped,
    /// It was at its deadline.
    Deadline,
    /// The supervisor was asked to end by SIGTERM, as everybody is when the machine is shut down.
    Shutdown,
    /// It could not be started, for this reason.
    NotStarted(String),
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// With this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// The names of the files in an attempt's directory.
pub(crate) mod name {
    pub(crate) const SPEC: &str = "spec.json";
    pub(crate) const BEGUN: &str = "begun.json";
    pub(crate) const LEADER: &str = "leader.json";
    pub(crate) const STATUS: &str = "status.json";
    pub(crate) const LOCK: &str = "lock";
    pub(crate) const STOP: &str = "stop";
    pub(crate) const STDIN: &str = "stdin";
    pub(crate) const STDOUT: &str = "stdout";
    pub(crate) const STDERR: &str = "stderr";
    pub(crate) const LOG: &str = "supervisor.log";
}

/// The number of this boot of the machine.
pub(crate) fn boot_id() -> Result<String, DetachedError> {
    let path = Path::new("/proc/sys/kernel/random/boot_id");
    let id = fs::read_to_string(path).map_err(DetachedError::file("read", path))?;
    Ok(id.trim().to_owned())
}
