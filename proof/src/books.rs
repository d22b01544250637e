//! What a store holds at one moment, whatever kind of store it is.

/// A whole store, read at one moment.
#[derive(Debug, Clone, Default)]
pub struct Books {
    /// The store's own time, in milliseconds since 1970.
    pub now: i64,
    /// Whether one process alone uses it: its node then needs no lease.
    pub exclusive: bool,
    /// The records, by locator.
    pub tasks: Vec<TaskRow>,
    /// The events, by task and version.
    pub events: Vec<EventRow>,
    /// The nodes and until when their leases last.
    pub nodes: Vec<(i64, i64)>,
}

/// A record, as far as the checker looks at it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskRow {
    /// The handle.
    pub id: String,
    /// The first half of the handle; events name it.
    pub locator: i64,
    /// 1 live, 2 repeatable, 3 resumable, 4 external.
    pub class: i64,
    /// 1 working, 2 input_required, 3 completed, 4 failed, 5 cancelled.
    pub status: i64,
    /// The number of writes.
    pub version: i64,
    /// The fencing token.
    pub fence: i64,
    /// How many attempts are counted.
    pub attempts: i64,
    /// The node that carries it.
    pub carrier: Option<i64>,
    /// Else from when on it may be begun.
    pub ready_at: Option<i64>,
    /// 1 result, 2 result that says it is an error, 3 error.
    pub outcome_kind: Option<i64>,
    /// 1 run limit, 2 idle limit, 3 interrupted, 4 no runner.
    pub failure: Option<i64>,
}

/// An event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EventRow {
    /// The task's locator.
    pub task: i64,
    /// The version of the record it led to.
    pub version: i64,
    /// When, in the store's time.
    pub at: i64,
    /// The status before; none at the creation.
    pub from: Option<i64>,
    /// The status after.
    pub to: i64,
    /// Why.
    pub why: String,
}

impl TaskRow {
    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.status >= 3
    }
}

impl EventRow {
    /// Whether an attempt begins here, the first one included.
    pub fn is_beginning(&self) -> bool {
        self.from.is_none() || BEGINNINGS.contains(&self.why.as_str())
    }
}

/// What the store says when it begins another attempt.
const BEGINNINGS: [&str; 4] =
    ["started again", "carried on from its checkpoint", "carried on with the answers", "taken up again"];

/// The word for a status.
pub fn word(status: i64) -> &'static str {
    match status {
        1 => "working",
        2 => "input_required",
        3 => "completed",
        4 => "failed",
        5 => "cancelled",
        _ => "unknown",
    }
}
