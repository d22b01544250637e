//! Creating and reading back.

use futures_util::future::join_all;
use taskgate_task::{Owner, Payload, Step, Task};

use super::sample;
use crate::{Store, StoreError};

/// What was created is what is read, and what the pure core says it is.
pub async fn a_created_task_reads_back_in_every_field<S: Store>(make: impl Fn() -> S) {
    let store = make();
    for new in [sample::new_task(), sample::unusual_task()] {
        let expected = Task::create(&new);
        assert_eq!(sample::create(&store, new.clone()).await, expected);
        assert_eq!(store.get(new.id).await.unwrap(), Some(expected.clone()));
        assert_eq!(store.work(new.id).await.unwrap(), Some(new.work));
        let expected = [Task { checkpoint: expected.checkpoint.map(|_| Payload::null()), ..expected }];
        assert_eq!(store.list(&new.owner, None, 10).await.unwrap().tasks, expected);
    }
}

/// Large payloads and long texts come back byte for byte.
pub async fn a_mebibyte_reads_back<S: Store>(make: impl Fn() -> S) {
    let store = make();
    let large = Payload::from_value(&"🦀é\"\\\n".repeat(120_000)).unwrap();
    assert!(large.as_str().len() > 1 << 20);
    let mut new = sample::new_task();
    new.work = large.clone();
    sample::create(&store, new.clone()).await;
    assert_eq!(store.work(new.id).await.unwrap(), Some(large.clone()));
    let outcome = taskgate_task::Outcome::Error { body: large.clone(), summary: "é".repeat(1 << 19) };
    sample::apply(&store, new.id, Step::Finish { fence: 1, outcome }, sample::NOW).await;
    let Some(task) = store.get(new.id).await.unwrap() else { panic!("the task is gone") };
    assert!(matches!(task.outcome, Some(taskgate_task::Outcome::Error { body, .. }) if body == large));
}

/// What is long is kept through changes that have nothing to do with it, replaced where it changes, and gone with its use.
pub async fn what_is_long_lasts_as_long_as_it_is_wanted<S: Store>(make: impl Fn() -> S) {
    let store = make();
    let long = |letter: &str, length| Payload::from_value(&letter.repeat(length)).unwrap();
    let mut new = sample::new_task();
    new.class = taskgate_task::WorkClass::Resumable;
    new.work = long("w", 100_000);
    let id = sample::create(&store, new.clone()).await.id;
    for (letter, length) in [("a", 70_000), ("b", 90_000), ("c", 10), ("d", 80_000)] {
        let state = long(letter, length);
        sample::apply(&store, id, Step::Checkpoint { fence: 1, state: state.clone() }, sample::NOW).await;
        let told = sample::apply(&store, id, sample::report(letter), sample::NOW).await.task;
        assert_eq!(told.checkpoint, Some(state));
        assert_eq!(store.work(id).await.unwrap().as_ref(), Some(&new.work));
    }
    let body = long("r", 200_000);
    let outcome = taskgate_task::Outcome::Result { body, is_error: false, summary: None };
    let ended = sample::apply(&store, id, Step::Finish { fence: 1, outcome }, sample::NOW).await.task;
    assert_eq!(ended.checkpoint, None);
    assert_eq!(store.work(id).await.unwrap(), None);
    store.apply(id, Step::Tick, ended.due_at()).await.unwrap();
    assert_eq!(store.get(id).await.unwrap(), None);
}

/// Two tasks never share a locator, not even with different secrets.
pub async fn a_taken_id_is_refused_and_keeps_what_it_had<S: Store>(make: impl Fn() -> S) {
    let store = make();
    let first = sample::create(&store, sample::new_task()).await;
    for id in [first.id, sample::forged(first.id)] {
        let mut second = sample::unusual_task();
        second.id = id;
        assert!(matches!(store.create(second).await, Err(StoreError::IdTaken)));
    }
    assert_eq!(store.get(first.id).await.unwrap().as_ref(), Some(&first));
    assert_eq!(store.events(first.id).await.unwrap().len(), 1);
    assert_eq!(store.orphans(10).await.unwrap().len(), 1);
}

/// To whoever knows the locator only, the task does not exist, whatever is asked.
pub async fn a_locator_without_its_secret_opens_nothing<S: Store>(make: impl Fn() -> S) {
    let store = make();
    let task = sample::create(&store, sample::new_task()).await;
    for id in [sample::forged(task.id), sample::id()] {
        assert_eq!(store.get(id).await.unwrap(), None);
        assert_eq!(store.work(id).await.unwrap(), None);
        assert_eq!(store.events(id).await.unwrap(), []);
        let cancelled = store.apply(id, Step::Cancel, sample::NOW).await;
        assert!(matches!(cancelled, Err(StoreError::NotFound)), "{cancelled:?}");
    }
    assert_eq!(store.get(task.id).await.unwrap(), Some(task));
}

/// Waiting writes may be committed together; none is lost.
pub async fn creates_at_the_same_time_are_all_kept<S: Store>(make: impl Fn() -> S) {
    let store = make();
    let news: Vec<_> = (0..1500).map(|_| sample::new_task()).collect();
    let created = join_all(news.iter().cloned().map(|new| store.create(new))).await;
    let created: Vec<Task> = created.into_iter().map(Result::unwrap).collect();
    assert_eq!(store.list(&Owner::local(), None, usize::MAX).await.unwrap().tasks, created);
}
