//! Idempotency keys: a repeated creation finds the first one.

use futures_util::future::try_join_all;
use taskgate_task::{GivenId, IdempotencyKey, NewTask, Owner, Step};

use super::sample::{self, NOW};
use crate::store::LONGEST_NAMES;
use crate::{Store, StoreError};

fn key(tool: &str, key: &str) -> IdempotencyKey {
    IdempotencyKey { tool: tool.to_owned(), key: key.to_owned(), digest: [1; 32] }
}

fn keyed(key: IdempotencyKey) -> NewTask {
    NewTask { key: Some(key), ..sample::new_task() }
}

/// A name of `length` bytes that no database can make shorter.
fn name(length: usize, seed: u64) -> String {
    let mut state = seed;
    let next = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'!' + u8::try_from((state >> 33) % 90).unwrap())
    });
    next.take(length).collect()
}

/// What a task is found by may be so long and no longer, in every store alike, and what is refused harms nothing.
pub async fn names_are_as_long_as_every_store_can_find<S: Store>(make: impl Fn() -> S) {
    let store = make();
    let made = |owner: usize, tool: usize, key: usize, nuls: usize| {
        let owner = Owner::named(&format!("{}{}", name(owner, 1), "\0".repeat(nuls)));
        let key = IdempotencyKey { tool: name(tool, 2), key: name(key, 3), digest: [1; 32] };
        NewTask { owner, key: Some(key), ..sample::new_task() }
    };
    let most = LONGEST_NAMES;
    for new in [made(most - 2, 1, 1, 0), made(most - 600, 400, 200, 0), made(most - 1202, 1, 1, 600)] {
        let (owner, key) = (new.owner.clone(), new.key.clone().unwrap());
        let task = sample::create(&store, new).await;
        assert_eq!(store.keyed(&owner, &key).await.unwrap(), Some((task.id, true)));
        assert_eq!(store.list(&owner, None, 10).await.unwrap().tasks.len(), 1);
    }
    let beside = sample::new_task();
    let beside_id = beside.id;
    let too_long =
        [made(most - 1, 1, 1, 0), made(1, 1, most - 1, 0), made(most - 1201, 1, 1, 600), made(9000, 1, 1, 0)];
    let refused: Vec<_> = too_long.into_iter().map(|new| store.create(new)).collect();
    let kept = store.create(beside);
    for refused in refused {
        let refused = refused.await;
        assert!(matches!(refused, Err(StoreError::TooLong(_))), "{refused:?}");
    }
    assert_eq!(kept.await.unwrap().id, beside_id);
    let only_owner = NewTask { owner: Owner::named(&name(most + 1, 4)), ..sample::new_task() };
    assert!(matches!(store.create(only_owner).await, Err(StoreError::TooLong(_))));
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

/// An id that a requestor gives its task is the task's in every reading, within its scope, and taken for every other call.
pub async fn a_given_id_is_the_tasks<S: Store>(make: impl Fn() -> S) {
    let store = make();
    for scope in ["", "a session"] {
        let given = GivenId { scope: scope.to_owned(), id: "two\nlines and a \0".to_owned() };
        let own = IdempotencyKey::of_given_id(&given, [1; 32]);
        let made = sample::create(&store, keyed(own.clone())).await;
        assert_eq!(made.given_id, Some(given.clone()));
        assert_eq!(store.get(made.id).await.unwrap().unwrap(), made);
        let page = store.list(&Owner::local(), Some(made.id.locator() - 1), 1).await.unwrap();
        assert_eq!(page.tasks[0].given_id, Some(given.clone()));
        let other = IdempotencyKey::of_given_id(&given, [2; 32]);
        assert_eq!(store.keyed(&Owner::local(), &other).await.unwrap(), Some((made.id, false)));
        let again = store.create(keyed(other)).await;
        assert!(matches!(again, Err(StoreError::KeyTaken { id, same: false }) if id == made.id), "{again:?}");
        let renamed = store.apply(made.id, Step::Cancel, made.created_at).await.unwrap().task;
        assert_eq!(renamed.given_id, Some(given));
    }
    // A key of a call is none.
    assert_eq!(sample::create(&store, keyed(key("render", "\nk"))).await.given_id, None);
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
