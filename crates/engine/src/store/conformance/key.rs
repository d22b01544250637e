//! Idempotency keys: a repeated creation finds the first one.

use futures_util::future::try_join_all;
use taskgate_task::{IdempotencyKey, NewTask, Owner, Step};

use super::sample::{self, NOW};
use crate::{Store, StoreError};

fn key(tool: &str, key: &str) -> IdempotencyKey {
    IdempotencyKey { tool: tool.to_owned(), key: key.to_owned(), digest: [1; 32] }
}

fn keyed(key: IdempotencyKey) -> NewTask {
    NewTask { key: Some(key), ..sample::new_task() }
}

/// One task for a key of an owner and tool; other owners and tools have keys of their own.
pub async fn a_key_is_taken_once<S: Store>(make: impl Fn() -> S) {
    let store = make();
    let first = sample::create(&store, keyed(key("render", "k"))).await.id;
    let again = store.create(keyed(key("render", "k"))).await;
    assert!(matches!(again, Err(StoreError::KeyTaken { id, same: true }) if id == first), "{again:?}");
    let other = IdempotencyKey { digest: [2; 32], ..key("render", "k") };
    let conflict = store.create(keyed(other.clone())).await;
    assert!(matches!(conflict, Err(StoreError::KeyTaken { id, same: false }) if id == first), "{conflict:?}");
    let local = Owner::local();
    assert_eq!(store.keyed(&local, &key("render", "k")).await.unwrap(), Some((first, true)));
    assert_eq!(store.keyed(&local, &other).await.unwrap(), Some((first, false)));
    assert_eq!(store.keyed(&local, &key("render", "K")).await.unwrap(), None);
    sample::create(&store, keyed(key("render", "k2"))).await;
    sample::create(&store, keyed(key("print", "k"))).await;
    sample::create(&store, NewTask { owner: Owner::named("b"), ..keyed(key("render", "k")) }).await;
    assert_eq!(store.list(&local, None, 10).await.unwrap().tasks.len(), 3);
}

/// The key is kept for as long as the task is, whatever becomes of it, and free afterwards.
pub async fn a_key_lives_as_long_as_its_task<S: Store>(make: impl Fn() -> S) {
    let store = make();
    let first = sample::create(&store, keyed(key("render", "k"))).await.id;
    let ended = sample::apply(&store, first, sample::finish(), NOW).await.task;
    assert!(store.create(keyed(key("render", "k"))).await.is_err());
    store.apply(first, Step::Tick, ended.due_at()).await.unwrap();
    assert_eq!(store.keyed(&Owner::local(), &key("render", "k")).await.unwrap(), None);
    sample::create(&store, keyed(key("render", "k"))).await;
}

/// Of many at once exactly one is first, and all the others are told which.
pub async fn one_of_many_gets_the_key<S: Store>(make: impl Fn() -> S) {
    let store = make();
    for round in 0..20 {
        let news = (0..16).map(|_| keyed(key("render", &round.to_string())));
        let creating: Vec<_> = news.map(|new| tokio::spawn(store.create(new))).collect();
        let results = try_join_all(creating).await.unwrap();
        let winners: Vec<_> = results.iter().filter_map(|result| result.as_ref().ok()).collect();
        assert_eq!(winners.len(), 1, "{results:?}");
        for result in &results {
            if let Err(error) = result {
                let told = matches!(error, StoreError::KeyTaken { id, same: true } if *id == winners[0].id);
                assert!(told, "{error:?}");
            }
        }
    }
}
