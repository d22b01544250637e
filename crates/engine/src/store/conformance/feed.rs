//! What followers are told.

use std::time::Duration;

use futures_util::future::join_all;
use taskgate_task::{Step, Task};

use super::sample::{self, NOW};
use crate::{Following, News, Store};

/// From the creation to the deletion, each version once, in order.
pub async fn followers_see_every_version_in_order<S: Store>(make: impl Fn() -> S) {
    let store = make();
    let new = sample::new_task();
    let id = new.id;
    let mut followers = [store.feed().follow([id]), store.feed().follow([sample::id(), id])];
    let created = store.create(new);
    let reports = join_all((0..1000).map(|n| store.apply(id, sample::report(&n.to_string()), NOW)));
    let finished = store.apply(id, sample::finish(), NOW);
    // Something that happens elsewhere in between is not for these followers.
    sample::create(&store, sample::new_task()).await;
    created.await.unwrap();
    assert!(reports.await.iter().all(Result::is_ok));
    let ended = finished.await.unwrap().task;
    store.apply(id, Step::Tick, ended.due_at()).await.unwrap();
    for follower in &mut followers {
        for version in 1..=1002 {
            assert_eq!(changed(follower).await.version, version);
        }
        assert!(matches!(news(follower).await, News::Deleted(deleted) if deleted == id));
    }
}

/// Whoever reads the record after the news finds at least what the news said.
pub async fn news_is_committed_before_it_is_told<S: Store>(make: impl Fn() -> S) {
    let store = make();
    let id = sample::create(&store, sample::new_task()).await.id;
    let mut follower = store.feed().follow([id]);
    let reports: Vec<_> = (0..200).map(|_| store.apply(id, sample::report("…"), NOW)).collect();
    for _ in &reports {
        let told = changed(&mut follower).await;
        assert!(store.get(id).await.unwrap().unwrap().version >= told.version);
    }
    join_all(reports).await;
}

/// A caller that goes away at once takes neither the write nor the news with it.
pub async fn a_write_outlives_its_caller<S: Store>(make: impl Fn() -> S) {
    let store = make();
    let new = sample::new_task();
    let id = new.id;
    let mut follower = store.feed().follow([id]);
    drop(store.create(new));
    drop(store.apply(id, sample::finish(), NOW));
    assert_eq!(changed(&mut follower).await.version, 1);
    let ended = changed(&mut follower).await;
    assert_eq!(store.get(id).await.unwrap(), Some(ended));
}

/// Where nothing was written there is nothing to tell.
pub async fn refusals_are_no_news<S: Store>(make: impl Fn() -> S) {
    let store = make();
    let id = sample::create(&store, sample::new_task()).await.id;
    let mut follower = store.feed().follow([id]);
    sample::refused(&store, id, Step::Tick, NOW).await;
    sample::refused(&store, id, sample::begin(), NOW).await;
    sample::apply(&store, id, sample::answer("nobody asked"), NOW).await;
    assert!(store.create(sample_again(id)).await.is_err());
    sample::apply(&store, id, Step::Cancel, NOW).await;
    assert_eq!(changed(&mut follower).await.version, 2);
}

fn sample_again(id: taskgate_task::TaskId) -> taskgate_task::NewTask {
    taskgate_task::NewTask { id, ..sample::new_task() }
}

async fn changed(follower: &mut Following) -> Task {
    match news(follower).await {
        News::Changed(task) => Task::clone(&task),
        News::Deleted(id) => panic!("{id:?} was deleted"),
    }
}

/// The next piece of news; a store that never tells it fails here instead of hanging.
async fn news(follower: &mut Following) -> News {
    tokio::time::timeout(Duration::from_secs(20), follower.next()).await.unwrap().unwrap()
}
