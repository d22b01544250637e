//! Deleting, which upkeep does once the retention is over.

use taskgate_task::{Step, Timestamp};

use super::sample;
use crate::{Store, StoreError};

/// Record, work and events go together, and the others stay.
pub async fn a_deleted_task_leaves_nothing<S: Store>(make: impl Fn() -> S) {
    let store = make();
    let before = sample::create(&store, sample::new_task()).await;
    let new = sample::new_task();
    let id = sample::create(&store, new.clone()).await.id;
    let after = sample::create(&store, sample::new_task()).await;
    let ended = sample::apply(&store, id, sample::finish(), sample::NOW).await.task;
    let deleted = store.apply(id, Step::Tick, ended.due_at()).await.unwrap();
    assert!(deleted.delete);

    assert_eq!(store.get(id).await.unwrap(), None);
    assert_eq!(store.work(id).await.unwrap(), None);
    assert_eq!(store.events(id).await.unwrap(), []);
    assert_eq!(store.due(Timestamp::NEVER, 10).await.unwrap(), [before.id, after.id]);
    assert!(matches!(store.apply(id, Step::Tick, ended.due_at()).await, Err(StoreError::NotFound)));
    assert_eq!(store.list(&new.owner, None, 10).await.unwrap().tasks, [before.clone(), after]);
    assert_eq!(store.events(before.id).await.unwrap().len(), 1);

    // Nothing of the old life shines through in a new one.
    sample::create(&store, new).await;
    assert_eq!(store.events(id).await.unwrap().len(), 1);
}
