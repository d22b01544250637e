//! The commands that speak to a server as its requestor.

use std::path::PathBuf;
use std::time::Duration;

use taskgate_client::{LogLevel, TaskUse};

use super::duration;
use super::server::Server;
use crate::display::Output;

/// `taskgate call`.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "taskgate call [OPTIONS] ENDPOINT TOOL [KEY=VALUE]...\n       taskgate call [OPTIONS] TOOL [KEY=VALUE]... -- CMD [ARGS]..."
)]
pub struct Call {
    /// The server (a URL or a name, unless it is the command after --), the tool, and its arguments: `key=value` as the tool's
    /// schema has it, `key:=json` for anything.
    #[arg(required = true, value_name = "WORD")]
    pub words: Vec<String>,
    /// All arguments as an object of JSON, as @FILE that holds it, or - for stdin. Single ones are put over it.
    #[arg(long, value_name = "TEXT")]
    pub json: Option<String>,
    /// Print the handle as soon as there is one, and leave the task to go on.
    #[arg(long)]
    pub detach: bool,
    /// Whether the call may become a task: auto, always, never, or by its metadata, as in 2025-10-20: metadata.
    #[arg(long, value_name = "MODE", default_value = "auto", value_parser = task_use)]
    pub tasks: TaskUse,
    /// How long the server is asked to keep the task.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub ttl: Option<Duration>,
    /// A name for the call: sent again under it, it finds its task instead of running a second time, where the server can do that.
    #[arg(long, value_name = "KEY")]
    pub idempotency_key: Option<String>,
    /// From which level on the server is to log meanwhile: debug, info, notice, warning, error, critical, alert or emergency.
    #[arg(long, value_name = "LEVEL", value_parser = log_level)]
    pub log_level: Option<LogLevel>,
    /// How to follow it.
    #[command(flatten)]
    pub look: Look,
    /// How to reach the server.
    #[command(flatten)]
    pub server: Server,
}

/// How something is followed, and for whom it is printed.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Look {
    /// How long to wait in all; the task goes on. A day, if not given.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub deadline: Option<Duration>,
    /// Answers to what the server asks, for scripts: an object by key ("*" for any other), or a list in order.
    #[arg(long, value_name = "FILE")]
    pub answer: Option<PathBuf>,
    /// How it is printed: for people, or as objects of JSON, one a line, of which the last is the result.
    #[arg(long, value_enum, default_value_t)]
    pub output: Output,
}

/// `taskgate watch` and `taskgate result`.
#[derive(Debug, clap::Args)]
pub struct Watch {
    /// Handles, or a server and the id of a task.
    #[arg(required = true, value_name = "HANDLE")]
    pub words: Vec<String>,
    /// How to follow it.
    #[command(flatten)]
    pub look: Look,
    /// How to reach the server.
    #[command(flatten)]
    pub server: Server,
}

/// `taskgate get` and `taskgate cancel`.
#[derive(Debug, clap::Args)]
pub struct One {
    /// A handle, or a server and the id of a task.
    #[arg(required = true, num_args = 1..=2, value_name = "HANDLE")]
    pub words: Vec<String>,
    /// How long to wait for the server.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub deadline: Option<Duration>,
    /// How it is printed: for people, or as an object of JSON.
    #[arg(long, value_enum, default_value_t)]
    pub output: Output,
    /// How to reach the server.
    #[command(flatten)]
    pub server: Server,
}

/// `taskgate answer`.
#[derive(Debug, clap::Args)]
pub struct Answer {
    /// A handle, or a server and the id of a task.
    #[arg(required = true, num_args = 1..=2, value_name = "HANDLE")]
    pub words: Vec<String>,
    /// Answer only the question with this key.
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// How to follow it.
    #[command(flatten)]
    pub look: Look,
    /// How to reach the server.
    #[command(flatten)]
    pub server: Server,
}

/// `taskgate list` and `taskgate tools`.
#[derive(Debug, clap::Args)]
pub struct Of {
    /// The server: a URL or a name, unless it is the command after --.
    #[arg(value_name = "ENDPOINT")]
    pub endpoint: Option<String>,
    /// How long to wait for the server.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub deadline: Option<Duration>,
    /// How it is printed: as a table, or as objects of JSON, one a line.
    #[arg(long, value_enum, default_value_t)]
    pub output: Output,
    /// How to reach the server.
    #[command(flatten)]
    pub server: Server,
}

/// `taskgate logs`.
#[derive(Debug, clap::Args)]
pub struct Logs {
    /// The server: a URL or a name, unless it is the command after --.
    #[arg(value_name = "ENDPOINT")]
    pub endpoint: Option<String>,
    /// From which level on: debug, info, notice, warning, error, critical, alert or emergency.
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = log_level)]
    pub level: LogLevel,
    /// How long to listen; until Ctrl-C, if not given.
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    pub listen_for: Option<Duration>,
    /// How long to wait for the server.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub deadline: Option<Duration>,
    /// How it is printed: for people, or as objects of JSON, one a line.
    #[arg(long, value_enum, default_value_t)]
    pub output: Output,
    /// How to reach the server.
    #[command(flatten)]
    pub server: Server,
}

/// `taskgate resume`.
#[derive(Debug, clap::Args)]
pub struct Resume {
    /// The server: a URL or a name, unless it is the command after --. Without one, every server at which something may be open.
    #[arg(value_name = "ENDPOINT")]
    pub endpoint: Option<String>,
    /// How to follow it.
    #[command(flatten)]
    pub look: Look,
    /// How to reach the server.
    #[command(flatten)]
    pub server: Server,
}

fn log_level(text: &str) -> Result<LogLevel, String> {
    serde_json::from_value(text.into())
        .map_err(|_| "write debug, info, notice, warning, error, critical, alert or emergency".to_owned())
}

fn task_use(text: &str) -> Result<TaskUse, String> {
    match text {
        "auto" => Ok(TaskUse::Auto),
        "always" => Ok(TaskUse::Always),
        "never" => Ok(TaskUse::Never),
        "metadata" => Ok(TaskUse::ByMetadata),
        _ => Err("write auto, always, never or metadata".to_owned()),
    }
}
