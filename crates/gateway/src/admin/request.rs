use serde::{Deserialize, Serialize};
use taskgate_task::Status;

use super::{EventView, TaskView};

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum AdminRequest {
    /// The newest tasks that the filter lets through.
    List {
        /// Which.
        filter: TaskFilter,
        /// How many at most.
        limit: usize,
    },
    /// One task with its events.
    Show {
        /// Its id, or the first 16 digits of it.
        task: String,
    },
    /// End it as cancelled.
    Cancel {
        /// Its id, or the first 16 digits of it.
        task: String,
    },
    /// End it as failed.
    Fail {
        /// Its id, or the first 16 digits of it.
        task: String,
        /// What its requestor is told.
        message: String,
    },
    /// Begin its work anew.
    Requeue {
        /// Its id, or the first 16 digits of it.
        task: String,
    },
    /// Delete tasks that have ended.
    Prune {
        /// Which.
        filter: TaskFilter,
        /// Those that ended so many milliseconds ago, or earlier.
        ended_before_ms: u64,
        /// Only count them.
        dry_run: bool,
    },
}

/// Which tasks are meant: those to which everything applies that is given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskFilter {
    /// In one of these; none means any.
    pub status: Vec<Status>,
    /// Of this owner.
    pub owner: Option<String>,
    /// On this upstream.
    pub upstream: Option<String>,
    /// Of this tool, by its upstream's name for it. What a task was to do is forgotten when it has ended, so only tasks that
    /// have not ended have a tool.
    pub tool: Option<String>,
    /// Created so many milliseconds ago, or earlier.
    pub older_than_ms: Option<u64>,
    /// Created less than so many milliseconds ago.
    pub newer_than_ms: Option<u64>,
}

/// What is answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum AdminReply {
    /// Tasks, oldest first.
    Tasks {
        /// The newest of them, as many as were asked for.
        tasks: Vec<TaskView>,
        /// How many older ones there are.
        left_out: u64,
    },
    /// One task.
    Task {
        /// Where it stands.
        task: Box<TaskView>,
        /// What has happened to it, oldest first.
        events: Vec<EventView>,
    },
    /// What became of the tasks that were to go.
    Pruned {
        /// How many are gone, or would be.
        count: u64,
        /// How many have to stay because their work is still being stopped.
        kept: u64,
    },
    /// It was not done.
    Refused {
        /// What kind of reason.
        why: Why,
        /// For people.
        message: String,
    },
}

/// Why something was not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// There is no such task.
    NotFound,
    /// It has ended.
    Ended,
    /// It does not fit the task.
    NotPossible,
    /// The request could not be read.
    NoRequest,
    /// The store failed.
    Store,
}
