//! Everything of a store, given to another one.

use taskgate_task::{Failure, NewTask, Outcome, Payload, Step, WorkClass};

use super::sample::{self, NOW, later};
use crate::store::{DUMP_SIZE, Kept, KeptTask};
use crate::{Store, StoreError};

/// What was dumped, loaded elsewhere and dumped again is the same in every field, whatever class and state a task has; and
/// it goes on as it would have.
pub async fn a_loaded_store_is_the_dumped_one<S: Store>(make: impl Fn() -> S) {
    let store = make();
    let secret = store.secret("seal").await.unwrap();
    for class in WorkClass::ALL {
        for (path, key) in paths().into_iter().zip(["", "\0", "ключ"].into_iter().cycle()) {
            let new = NewTask { class, ..sample::unusual_task() };
            let key = new
                .key
                .clone()
                .map(|known| taskgate_task::IdempotencyKey { key: format!("{key} {:?}", new.id), ..known });
            let created_at = NOW;
            let id = sample::create(&store, NewTask { key, created_at, ..new }).await.id;
            for (number, step) in (1..).zip(path) {
                // What a class refuses is another path's subject.
                let _ = store.apply(id, step, later(number * 1000)).await;
            }
        }
    }
    let dumped = everything(&store, 7).await;
    assert_eq!(dumped.len(), 1 + WorkClass::ALL.len() * paths().len());
    for kept in &dumped {
        if let Kept::Task(kept) = kept {
            let (id, owner) = (kept.task.id, &kept.task.owner);
            assert_eq!(store.get(id).await.unwrap().as_ref(), Some(&kept.task));
            assert_eq!(store.work(id).await.unwrap(), kept.work);
            assert_eq!(store.events(id).await.unwrap(), kept.events);
            let key = kept.key.as_ref().unwrap();
            assert_eq!(store.keyed(owner, key).await.unwrap(), Some((id, true)));
            assert_eq!(kept.flaws(), [""; 0], "{kept:?}");
        }
    }

    let other = make();
    assert_ne!(other.secret("seal").await.unwrap(), secret);
    for some in dumped.chunks(5) {
        other.load(some.to_vec()).await.unwrap();
    }
    assert_eq!(everything(&other, 100).await, dumped);
    assert_eq!(other.secret("seal").await.unwrap(), secret);
    for time in [later(5000), taskgate_task::Timestamp::NEVER] {
        assert_eq!(other.due(time, 1000).await.unwrap(), store.due(time, 1000).await.unwrap());
        assert_eq!(other.ready(time, 1000).await.unwrap(), store.ready(time, 1000).await.unwrap());
    }
    assert_eq!(other.orphans(1000).await.unwrap().len(), store.orphans(1000).await.unwrap().len());
    for task in tasks(&dumped) {
        let (key, id, owner) = (task.key.as_ref().unwrap(), task.task.id, &task.task.owner);
        assert_eq!(other.keyed(owner, key).await.unwrap(), Some((id, true)));
        let (one, two) =
            (store.apply(id, Step::Cancel, later(60_000)), other.apply(id, Step::Cancel, later(60_000)));
        assert_eq!(format!("{:?}", one.await), format!("{:?}", two.await));
    }
}

/// A page ends when it is long enough, so that whoever carries a store over never holds all of it.
pub async fn a_page_of_long_tasks_is_short<S: Store>(make: impl Fn() -> S) {
    let store = make();
    let long = Payload::from_value(&"x".repeat(DUMP_SIZE / 2)).unwrap();
    for _ in 0..3 {
        sample::create(&store, NewTask { work: long.clone(), ..sample::new_task() }).await;
    }
    let page = store.dump(None, 100).await.unwrap();
    assert_eq!(page.len(), 2);
    let rest = store.dump(Some(tasks(&page)[1].task.id.locator()), 100).await.unwrap();
    assert_eq!(rest.len(), 1);
    assert_eq!(store.dump(Some(tasks(&rest)[0].task.id.locator()), 100).await.unwrap(), []);
}

/// What cannot be loaded whole is not loaded at all.
pub async fn a_load_is_all_or_nothing<S: Store>(make: impl Fn() -> S) {
    let (store, other) = (make(), make());
    for key in ["a", "b"] {
        let key = sample::unusual_task()
            .key
            .map(|known| taskgate_task::IdempotencyKey { key: key.to_owned(), ..known });
        sample::create(&store, NewTask { key, ..sample::unusual_task() }).await;
    }
    let dumped = everything(&store, 10).await;
    let (first, second) = (tasks(&dumped)[0].clone(), tasks(&dumped)[1].clone());
    other.load(vec![Kept::Task(Box::new(second.clone()))]).await.unwrap();
    let secret = other.secret("seal").await.unwrap();
    let fresh = Kept::Secret(crate::store::KeptSecret { name: "seal".to_owned(), value: vec![9; 32] });
    let both = vec![fresh, Kept::Task(Box::new(first.clone())), Kept::Task(Box::new(second.clone()))];
    assert!(matches!(other.load(both).await, Err(StoreError::KeyTaken { .. } | StoreError::IdTaken)));
    assert_eq!(other.get(first.task.id).await.unwrap(), None);
    assert_eq!(other.events(first.task.id).await.unwrap(), []);
    assert_eq!(other.secret("seal").await.unwrap(), secret);

    let mut again = second.clone();
    again.key = None;
    assert!(matches!(other.load(vec![Kept::Task(Box::new(again))]).await, Err(StoreError::IdTaken)));
    let mut same_key = first.clone();
    same_key.key = second.key;
    let taken = other.load(vec![Kept::Task(Box::new(same_key))]).await;
    assert!(matches!(taken, Err(StoreError::KeyTaken { same: true, .. })), "{taken:?}");
    other.load(vec![Kept::Task(Box::new(first))]).await.unwrap();
    assert_eq!(tasks(&everything(&other, 10).await).len(), 2);
}

/// Ways through a task's life. Not every class goes all of each.
fn paths() -> Vec<Vec<Step>> {
    let long = || Payload::from_value(&"\u{1f980}\"\n".repeat(3_000)).unwrap();
    let ask = |resume| Step::Ask {
        fence: 1,
        questions: vec![sample::question("q"), sample::question("r")],
        resume,
    };
    let finish = |outcome| Step::Finish { fence: 1, outcome };
    let checkpoint = |state| Step::Checkpoint { fence: 1, state };
    vec![
        vec![],
        vec![sample::report("läuft")],
        vec![ask(None), sample::answer("q")],
        vec![ask(Some(sample::json("{ \"state\" : 1.0 }"))), sample::answer("q")],
        vec![ask(Some(Payload::null())), sample::answer("q"), sample::answer("r")],
        vec![ask(Some(Payload::null())), sample::answer("q"), sample::answer("r"), sample::begin()],
        vec![checkpoint(sample::json("[1.50]")), sample::lose(1)],
        vec![checkpoint(long()), Step::Cancel],
        vec![checkpoint(long()), Step::Cancel, sample::lose(1)],
        vec![finish(Outcome::Result { body: long(), is_error: false, summary: None })],
        vec![finish(Outcome::Result {
            body: sample::json("{}\n"),
            is_error: true,
            summary: Some("schade".to_owned()),
        })],
        vec![finish(Outcome::Error { body: sample::json("{ \"code\":-1 }"), summary: String::new() })],
        vec![Step::Fail { fence: 1, failure: Failure::IdleLimit, message: "still".to_owned() }],
        vec![Step::Cancel],
    ]
}

async fn everything(store: &impl Store, limit: usize) -> Vec<Kept> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = store.dump(after, limit).await.unwrap();
        after = tasks(&page).last().map(|kept| kept.task.id.locator());
        all.extend(page);
        if after.is_none() {
            return all;
        }
    }
}

fn tasks(kept: &[Kept]) -> Vec<&KeptTask> {
    kept.iter().filter_map(|kept| if let Kept::Task(kept) = kept { Some(&**kept) } else { None }).collect()
}
