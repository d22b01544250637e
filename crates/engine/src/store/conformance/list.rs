//! Listing an owner's tasks.

use taskgate_task::{Outcome, Owner, Payload, Step, TaskId};

use super::sample;
use crate::{Store, Tally};

/// The owner is compared before anything else, byte for byte.
pub async fn owners_see_their_own_tasks_only<S: Store>(make: impl Fn() -> S) {
    let store = make();
    let names = ["a", "A", "a ", "ab", "", "ä", "a\u{308}", "%", "anonymous"];
    let mut kept = Vec::new();
    for _ in 0..3 {
        for name in names {
            kept.push(fill(&store, &Owner::named(name), 1).await[0]);
        }
    }
    for (n, name) in names.iter().enumerate() {
        let page = store.list(&Owner::named(name), None, 100).await.unwrap();
        let expected: Vec<TaskId> = kept.iter().skip(n).step_by(names.len()).copied().collect();
        assert_eq!(page.tasks.iter().map(|task| task.id).collect::<Vec<_>>(), expected, "{name:?}");
        assert_eq!(page.next, None);
    }
    assert!(store.list(&Owner::named("b"), None, 100).await.unwrap().tasks.is_empty());
}

/// What is told of an owner's tasks is what there is of them: by status, and with the bytes that are kept.
pub async fn a_store_says_how_much_it_holds<S: Store>(make: impl Fn() -> S) {
    let store = make();
    let (mine, other) = (Owner::local(), Owner::named("other"));
    assert_eq!(store.tally(None).await.unwrap(), Tally::default());
    let ids = fill(&store, &mine, 3).await;
    fill(&store, &other, 2).await;
    let before = store.tally(Some(&mine)).await.unwrap();
    assert_eq!((before.open(), before.stored()), (3, 3));
    assert!(before.bytes > 0, "what callers sent is kept");
    let text = Payload::parse(format!("\"{}\"", "x".repeat(100_000))).unwrap();
    let outcome = Outcome::Result { body: text, is_error: false, summary: None };
    sample::apply(&store, ids[0], Step::Finish { fence: 1, outcome }, sample::NOW).await;
    let cancelled = sample::apply(&store, ids[1], Step::Cancel, sample::NOW).await.task;
    let after = store.tally(Some(&mine)).await.unwrap();
    assert_eq!((after.open(), after.stored()), (1, 3));
    // Encrypted, it is a third more.
    assert!(after.bytes > 100_000 && after.bytes < 135_000, "{after:?}");
    store.apply(ids[1], Step::Tick, cancelled.due_at()).await.unwrap();
    let all = store.tally(None).await.unwrap();
    assert_eq!((all.open(), all.stored()), (3, 4));
    assert_eq!(store.tally(Some(&Owner::named("nobody"))).await.unwrap(), Tally::default());
}

/// Pages of any size hold every task once, oldest first, and the last one says that it is.
pub async fn pages_join_without_gap_or_overlap<S: Store>(make: impl Fn() -> S) {
    let store = make();
    let owner = Owner::local();
    let mine = fill(&store, &owner, 24).await;
    fill(&store, &Owner::named("other"), 5).await;
    for limit in [1, 5, 8, 23, 24, 25, usize::MAX] {
        let (mut seen, mut pages, mut after) = (Vec::new(), 0, None);
        loop {
            let page = store.list(&owner, after, limit).await.unwrap();
            assert!(page.tasks.len() <= limit);
            seen.extend(page.tasks.iter().map(|task| task.id));
            pages += 1;
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        assert_eq!(seen, mine, "{limit}");
        assert_eq!(pages, mine.len().div_ceil(limit), "{limit}");
    }
    // A place in the list stays good when the task there is gone.
    let ended = sample::apply(&store, mine[3], Step::Cancel, sample::NOW).await.task;
    store.apply(mine[3], Step::Tick, ended.due_at()).await.unwrap();
    assert_eq!(store.list(&owner, Some(mine[3].locator()), 1).await.unwrap().tasks[0].id, mine[4]);
}

/// A requestor that pages while tasks come and end misses none of those it had.
pub async fn tasks_added_meanwhile_push_nothing_out<S: Store>(make: impl Fn() -> S) {
    let store = make();
    let owner = Owner::local();
    let mut all = fill(&store, &owner, 20).await;
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = store.list(&owner, after, 6).await.unwrap();
        seen.extend(page.tasks.iter().map(|task| task.id));
        let Some(next) = page.next else { break };
        after = Some(next);
        if all.len() < 30 {
            all.extend(fill(&store, &owner, 5).await);
        }
        sample::apply(&store, seen[seen.len() - 1], Step::Cancel, sample::NOW).await;
    }
    assert_eq!(seen, all);
}

/// A list leaves out the outcomes' bodies, says of a checkpoint only that there is one, and leaves out nothing else.
pub async fn a_list_says_how_tasks_ended<S: Store>(make: impl Fn() -> S) {
    let store = make();
    let mut expected = Vec::new();
    let body = || sample::json(r#"{"content":[]}"#);
    let outcomes = [
        Outcome::Result { body: body(), is_error: false, summary: Some("fine".to_owned()) },
        Outcome::Result { body: body(), is_error: true, summary: None },
        Outcome::Error { body: body(), summary: "broken".to_owned() },
    ];
    for outcome in outcomes {
        let id = fill(&store, &Owner::local(), 1).await[0];
        let mut task = sample::apply(&store, id, Step::Finish { fence: 1, outcome }, sample::NOW).await.task;
        match task.outcome.as_mut().unwrap() {
            Outcome::Result { body, .. } | Outcome::Error { body, .. } => *body = Payload::null(),
        }
        expected.push(task);
    }
    for state in ["{}".to_owned(), format!("\"{}\"", "x".repeat(100_000))] {
        let id = fill(&store, &Owner::local(), 1).await[0];
        let checkpoint = Step::Checkpoint { fence: 1, state: sample::json(&state) };
        let mut task = sample::apply(&store, id, checkpoint, sample::NOW).await.task;
        task.checkpoint = Some(Payload::null());
        expected.push(task);
    }
    assert_eq!(store.list(&Owner::local(), None, 10).await.unwrap().tasks, expected);
}

/// Pages over all owners hold every task once, oldest first; the place before a task is where it is found.
pub async fn whoever_runs_the_store_sees_all_tasks<S: Store>(make: impl Fn() -> S) {
    let store = make();
    let mut kept = Vec::new();
    for name in ["ada", "bob", "ada", ""] {
        kept.extend(fill(&store, &Owner::named(name), 3).await);
    }
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = store.all(after, 5).await.unwrap();
        seen.extend(page.tasks.iter().map(|task| task.id));
        let Some(next) = page.next else { break };
        after = Some(next);
    }
    assert_eq!(seen, kept);
    let before = kept[7].locator() - 1;
    assert_eq!(store.all(Some(before), 1).await.unwrap().tasks[0].id, kept[7]);
    assert!(store.all(Some(kept[11].locator()), 1).await.unwrap().tasks.is_empty());
}

async fn fill(store: &impl Store, owner: &Owner, count: usize) -> Vec<TaskId> {
    let mut ids = Vec::new();
    for _ in 0..count {
        let mut new = sample::new_task();
        new.owner = owner.clone();
        ids.push(sample::create(store, new).await.id);
    }
    ids
}
