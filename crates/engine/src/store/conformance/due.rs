//! What upkeep and recovery ask.

use std::time::Duration;

use taskgate_task::{Step, TaskId, Timestamp};

use super::sample::{self, NOW, RUN_DEADLINE, later};
use crate::Store;

/// Deadlines order the tasks, whatever the order of their creation; a deadline that never comes is never due.
pub async fn the_earliest_is_due_first<S: Store>(make: impl Fn() -> S) {
    let store = make();
    let mut by_deadline: Vec<(Timestamp, TaskId)> = Vec::new();
    for seconds in [50, 10, 30, 20, 40, 30] {
        let mut new = sample::new_task();
        new.lifetime.run_deadline = NOW.after(Duration::from_secs(seconds));
        new.lifetime.ttl = Duration::from_secs(1000);
        by_deadline.push((new.lifetime.run_deadline, new.id));
        sample::create(&store, new).await;
    }
    let mut never = sample::new_task();
    never.lifetime.run_deadline = Timestamp::NEVER;
    never.lifetime.ttl = Duration::from_millis(u64::MAX);
    sample::create(&store, never).await;
    by_deadline.sort();
    let sorted: Vec<TaskId> = by_deadline.iter().map(|(_, id)| *id).collect();
    assert_eq!(store.due(later(9_999), 10).await.unwrap(), []);
    assert_eq!(store.due(later(10_000), 10).await.unwrap(), sorted[..1]);
    assert_eq!(store.due(later(30_000), 10).await.unwrap(), sorted[..4]);
    assert_eq!(store.due(later(30_000), 3).await.unwrap(), sorted[..3]);
    assert_eq!(store.due(later(1_000_000), usize::MAX).await.unwrap(), sorted);
}

/// The end of a task moves what it is due for; so does a longer ttl.
pub async fn ended_tasks_are_due_for_deletion<S: Store>(make: impl Fn() -> S) {
    let store = make();
    let id = sample::create(&store, sample::new_task()).await.id;
    assert_eq!(store.due(RUN_DEADLINE, 10).await.unwrap(), [id]);
    let ended = sample::apply(&store, id, Step::Cancel, RUN_DEADLINE).await.task;
    assert_eq!(store.due(RUN_DEADLINE, 10).await.unwrap(), []);
    assert_eq!(store.due(ended.due_at(), 10).await.unwrap(), [id]);

    let mut short = sample::new_task();
    short.lifetime.ttl = Duration::from_secs(4);
    let short = sample::create(&store, short).await.id;
    assert_eq!(store.due(later(3_000), 10).await.unwrap(), [short]);
    sample::apply(&store, short, Step::Tick, later(3_000)).await;
    assert_eq!(store.due(later(3_000), 10).await.unwrap(), []);
}
