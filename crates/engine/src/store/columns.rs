//! How both databases, and exports, write what has no type of its own there.

use std::time::Duration;

use taskgate_task::Task;

/// Counters start at 1 and go up by one, so they never reach the end of a database's numbers.
pub(super) fn count(counter: u64) -> i64 {
    i64::try_from(counter).unwrap_or(i64::MAX)
}

/// A span in milliseconds; what is longer than a database's largest number is as good as for ever.
pub(super) fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

/// A limit beyond a database's numbers becomes its largest. (SQLite takes a negative one for none at all.)
pub(super) fn limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// All questions and answers as JSON; nothing while nothing was ever asked. Work can be parked without a question.
pub(super) fn inputs(task: &Task) -> Result<Option<String>, serde_json::Error> {
    if task.inputs.is_empty() && !task.inputs.is_parked() {
        return Ok(None);
    }
    serde_json::to_string(&task.inputs).map(Some)
}
