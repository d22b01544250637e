use std::time::Duration;

/// How much may be asked of this gateway, in all and by one owner. `None` sets no limit.
///
/// Callers that are not known are one owner to their tasks, but not here: each of their sessions is counted as an owner of its own, and
/// requests without a session, which nobody can tell apart, are held only by what counts in all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitSettings {
    /// How many tasks that have not ended there may be.
    pub open_tasks: Option<usize>,
    /// The same of one owner.
    pub owner_open_tasks: Option<usize>,
    /// How many tasks may be kept, those that have ended included.
    pub stored_tasks: Option<usize>,
    /// The same of one owner.
    pub owner_stored_tasks: Option<usize>,
    /// How many bytes of arguments, answers and results may be kept before no further task is made.
    pub stored_size: Option<usize>,
    /// The same of one owner.
    pub owner_stored_size: Option<usize>,
    /// How many calls that can be tasks an owner may make in a second, on average.
    pub owner_creates: Option<usize>,
    /// How many it may make at once.
    pub owner_creates_burst: Option<usize>,
    /// How often an owner may ask for tasks in a second, on average.
    pub owner_polls: Option<usize>,
    /// How often it may do so at once.
    pub owner_polls_burst: Option<usize>,
    /// How many calls of upstreams may run at a time. Others wait for their turn.
    pub calls: Option<usize>,
    /// The same of one owner.
    pub owner_calls: Option<usize>,
    /// How many calls may wait for their turn.
    pub queue: usize,
    /// The same of one owner.
    pub owner_queue: usize,
    /// How many streams may be open that clients listen to: GET, `subscriptions/listen` and `tasks/result`.
    pub streams: Option<usize>,
    /// The same of one owner.
    pub owner_streams: Option<usize>,
    /// How many calls may wait for the answers of callers of 2026-07-28 without being a task.
    pub parked_calls: Option<usize>,
    /// The same of one owner.
    pub owner_parked_calls: Option<usize>,
    /// How many bytes may wait for a client that does not read its stream, or its standard input.
    pub backlog: usize,
    /// After how many unknown ids in a minute an owner's further ones are answered late.
    pub unknown_ids: Option<usize>,
    /// How late.
    pub unknown_ids_delay: Duration,
}

impl Default for LimitSettings {
    fn default() -> Self {
        LimitSettings {
            open_tasks: Some(1_000_000),
            owner_open_tasks: Some(200_000),
            stored_tasks: None,
            owner_stored_tasks: None,
            stored_size: None,
            owner_stored_size: None,
            owner_creates: None,
            owner_creates_burst: None,
            owner_polls: None,
            owner_polls_burst: None,
            calls: Some(50_000),
            owner_calls: Some(20_000),
            queue: 50_000,
            owner_queue: 10_000,
            streams: Some(50_000),
            owner_streams: Some(20_000),
            parked_calls: Some(20_000),
            owner_parked_calls: Some(5_000),
            backlog: 16 << 20,
            unknown_ids: Some(60),
            unknown_ids_delay: Duration::from_secs(1),
        }
    }
}
