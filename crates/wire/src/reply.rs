//! What is answered to a task verb.

use taskgate_task::{Payload, Task};

/// What is answered to a task verb, before a dialect puts it into words.
#[derive(Debug, Clone, Copy)]
pub enum Reply<'a> {
    /// A call became this task.
    Created {
        /// The task.
        task: &'a Task,
        /// What a host may tell its model at once.
        immediate: Option<&'a str>,
    },
    /// Where a task stands.
    State(&'a Task),
    /// How a terminal task ended: what the call itself would have been answered.
    Outcome(&'a Task),
    /// Some of the caller's tasks.
    Page {
        /// The tasks.
        tasks: &'a [Task],
        /// Where the next page starts.
        next: Option<i64>,
    },
    /// The task is cancelled.
    Cancelled(&'a Task),
    /// Heard; look at the task to see what came of it.
    Acknowledged,
}

/// An encoded reply: the `result`, or the `error` object.
pub type Encoded = Result<Payload, Payload>;
