//! A server that is a child process and speaks over its standard streams, one message a line.

mod group;
mod process;
mod pump;
#[cfg(unix)]
mod reaper;
mod tail;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::sync::{mpsc, watch};

use super::Link;
pub use process::ProcessControl;
use tail::Tail;

/// Messages that may wait in either direction before the sender is held back.
const QUEUE: usize = 256;

/// How to start a server.
#[derive(Clone, PartialEq, Eq)]
pub struct StdioCommand {
    /// The program, looked up in `PATH`.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables to set.
    pub env: Vec<(String, String)>,
    /// Whether the process starts with these variables only, instead of ours and these.
    pub clear_env: bool,
    /// The working directory; ours, if not given.
    pub cwd: Option<PathBuf>,
    /// The longest line accepted, in bytes. A longer one is reported as malformed and skipped.
    pub line_limit: usize,
    /// When stopping: how long to wait after stdin was closed, and again after SIGTERM, before the next step.
    pub grace: Duration,
}

impl StdioCommand {
    /// The longest line a server may write where nothing else is said, in bytes.
    pub const LINE_LIMIT: usize = 64 << 20;

    /// A program without arguments, with our environment, 64 MiB lines and 2 s of grace.
    pub fn new(program: impl Into<String>) -> Self {
        StdioCommand {
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            clear_env: false,
            cwd: None,
            line_limit: StdioCommand::LINE_LIMIT,
            grace: Duration::from_secs(2),
        }
    }

    /// With these arguments.
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.args = args.into_iter().map(Into::into).collect();
        self
    }
}

impl fmt::Debug for StdioCommand {
    /// Arguments and values of variables may be secrets, so only their number and names are shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.env.iter().map(|(name, _)| name).collect();
        f.debug_struct("StdioCommand")
            .field("program", &self.program)
            .field("args", &self.args.len())
            .field("env", &names)
            .field("cwd", &self.cwd)
            .finish_non_exhaustive()
    }
}

/// Starts a server in a process group of its own and connects to it. Must be called within a tokio runtime.
///
/// The group is stopped when the [`Link`] is dropped, when [`ProcessControl::stop`] is called and when the server
/// closes its stdout; whatever is left of it is killed when its leader has exited. Should this process itself be
/// killed, a small process that outlives it does the same: see `reaper.rs`.
pub fn spawn(command: &StdioCommand) -> io::Result<Link> {
    let mut start = Command::new(&command.program);
    start.args(&command.args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if command.clear_env {
        start.env_clear();
    }
    start.envs(command.env.iter().map(|(name, value)| (name, value)));
    if let Some(cwd) = &command.cwd {
        start.current_dir(cwd);
    }
    #[cfg(unix)]
    start.process_group(0);
    let mut group = group::Group::reserve();
    let mut child = start.spawn().map_err(|error| why_not(error, command))?;
    let missing = || io::Error::other("the process has no standard streams");
    let pid = child.id().ok_or_else(missing)?;
    // Nothing may fail before the group is guarded, or it would be left behind.
    group.led_by(pid);
    let stdin = child.stdin.take().ok_or_else(missing)?;
    let stdout = child.stdout.take().ok_or_else(missing)?;
    let stderr = child.stderr.take().ok_or_else(missing)?;

    let (out, outgoing) = mpsc::channel(QUEUE);
    let (to_reader, inbound) = mpsc::channel(QUEUE);
    let (stop, stopping) = watch::channel(process::Stop::No);
    let (ended, end) = watch::channel(None);
    let tail = Tail::default();
    let process = process::Process {
        child,
        group,
        writer: tokio::spawn(pump::write(stdin, outgoing, stopping.clone())),
        reader: tokio::spawn(pump::read(stdout, to_reader.clone(), command.line_limit)),
        listener: tokio::spawn(pump::listen(stderr, tail.clone(), command.program.clone())),
        inbound: to_reader,
        stop: stop.clone(),
        stopping,
        tail: tail.clone(),
        grace: command.grace,
    };
    tokio::spawn(process.supervise(ended));
    Ok(Link {
        out,
        inbound,
        control: Some(ProcessControl::new(pid, stop, end, tail)),
        farewell: None,
        named: None,
    })
}

/// The system says "not found" of the program and of its directory in the same words.
fn why_not(error: io::Error, command: &StdioCommand) -> io::Error {
    match &command.cwd {
        Some(cwd) if error.kind() == io::ErrorKind::NotFound && !cwd.is_dir() => {
            io::Error::new(error.kind(), format!("there is no directory {cwd:?} to run it in"))
        }
        _ => error,
    }
}
