//! `taskgate tasks`.

use std::time::Duration;

use clap::Subcommand;
use taskgate_gateway::Status;
use taskgate_gateway::admin::TaskFilter;

use super::{Place, duration};
use crate::display::Output;

/// What whoever runs the store does with tasks, whoever owns them.
#[derive(Debug, Subcommand)]
pub enum Tasks {
    /// List tasks, the newest last.
    List(List),
    /// Show a task and everything that has happened to it.
    Show(Named),
    /// End a task as cancelled, and stop its work.
    Cancel(Named),
    /// End a task as failed, and stop its work.
    Fail(Fail),
    /// Take a task's work away from whoever carries it and begin it anew, if it is work that can be repeated.
    Requeue(Named),
    /// Delete tasks that ended some time ago, before their retention is over.
    Prune(Prune),
}

/// `taskgate tasks list`.
#[derive(Debug, clap::Args)]
pub struct List {
    /// Which store.
    #[command(flatten)]
    pub place: Place,
    /// Which tasks.
    #[command(flatten)]
    pub filter: Filter,
    /// How many of the newest are shown.
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    pub limit: usize,
    /// How it is printed: for people, or as an object of JSON a line.
    #[arg(long, value_enum, default_value_t)]
    pub output: Output,
}

/// Which tasks.
#[derive(Debug, Default, clap::Args)]
pub struct Filter {
    /// Only tasks in this status. Can be given several times.
    #[arg(long, value_name = "STATUS", value_parser = status)]
    pub status: Vec<Status>,
    /// Only tasks of this owner.
    #[arg(long, value_name = "NAME")]
    pub owner: Option<String>,
    /// Only tasks on this upstream.
    #[arg(long, value_name = "NAME")]
    pub upstream: Option<String>,
    /// Only tasks of this tool, by its upstream's name for it, that have not ended: of others it is not kept.
    #[arg(long, value_name = "NAME")]
    pub tool: Option<String>,
    /// Only tasks made at least so long ago.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub older_than: Option<Duration>,
    /// Only tasks made less than so long ago.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub newer_than: Option<Duration>,
}

impl Filter {
    /// The same for whoever answers.
    pub fn wanted(&self) -> TaskFilter {
        TaskFilter {
            status: self.status.clone(),
            owner: self.owner.clone(),
            upstream: self.upstream.clone(),
            tool: self.tool.clone(),
            older_than_ms: self.older_than.map(millis),
            newer_than_ms: self.newer_than.map(millis),
        }
    }
}

/// One task.
#[derive(Debug, clap::Args)]
pub struct Named {
    /// The task's id, or the first 16 digits of it.
    #[arg(value_name = "TASK")]
    pub task: String,
    /// Which store.
    #[command(flatten)]
    pub place: Place,
    /// How it is printed: for people, or as an object of JSON.
    #[arg(long, value_enum, default_value_t)]
    pub output: Output,
}

/// `taskgate tasks fail`.
#[derive(Debug, clap::Args)]
pub struct Fail {
    /// Which task.
    #[command(flatten)]
    pub named: Named,
    /// What its requestor is told.
    #[arg(long, value_name = "TEXT", default_value = "The task was ended by an operator.")]
    pub message: String,
}

/// `taskgate tasks prune`.
#[derive(Debug, clap::Args)]
pub struct Prune {
    /// Those that ended at least so long ago, such as 7d.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub ended_before: Duration,
    /// Which store.
    #[command(flatten)]
    pub place: Place,
    /// Only those of this owner.
    #[arg(long, value_name = "NAME")]
    pub owner: Option<String>,
    /// Only those on this upstream.
    #[arg(long, value_name = "NAME")]
    pub upstream: Option<String>,
    /// Only those that ended so. Can be given several times.
    #[arg(long, value_name = "STATUS", value_parser = status)]
    pub status: Vec<Status>,
    /// Delete nothing; say how many it would be.
    #[arg(long)]
    pub dry_run: bool,
    /// How it is printed: for people, or as an object of JSON.
    #[arg(long, value_enum, default_value_t)]
    pub output: Output,
}

/// Milliseconds, for requests.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn status(text: &str) -> Result<Status, String> {
    Status::from_word(text).ok_or_else(|| {
        let words: Vec<&str> = Status::ALL.iter().map(|status| status.as_str()).collect();
        format!("write one of {}", words.join(", "))
    })
}
