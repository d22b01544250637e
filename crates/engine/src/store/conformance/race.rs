//! Who is first, wins; nobody is first twice.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use futures_util::future::join_all;
use taskgate_task::{Change, NewTask, Refusal, Status, Step, Task, TaskId, Timestamp};
use tokio::runtime::Handle;

use super::sample::{self, NOW, RUN_DEADLINE};
use crate::{Store, StoreError};

/// Cancel, completion and expiry released at one barrier: exactly one terminal state, which never changes.
///
/// CASES.md, case 3 ("a late worker turns cancelled into completed, or a cancel rewrites a finished task").
pub async fn one_of_many_wins_and_stays<S: Store>(make: impl Fn() -> S, rounds: usize) {
    let store = make();
    let mut racer = sample::new_task();
    // Long enough that the late tick finds nothing to delete.
    racer.lifetime.retention = Duration::from_secs(3600);
    let racers = (0..rounds).map(|_| NewTask { id: sample::id(), ..racer.clone() });
    let created = join_all(racers.map(|racer| store.create(racer))).await;
    let ids: Vec<TaskId> = created.into_iter().map(|task| task.unwrap().id).collect();
    let contenders: [(Step, Timestamp); 4] =
        [(Step::Cancel, NOW), (sample::finish(), NOW), (Step::Tick, RUN_DEADLINE), (Step::Cancel, NOW)];
    let start = Barrier::new(contenders.len() + 1);
    let (store, ids, start) = (&store, &ids, &start);
    let runtime = &Handle::current();
    let race = || {
        thread::scope(|scope| {
            let threads = contenders.map(|(step, now)| {
                scope.spawn(move || {
                    let race = |id: &TaskId| {
                        start.wait();
                        runtime.block_on(store.apply(*id, step.clone(), now))
                    };
                    ids.iter().map(race).collect::<Vec<_>>()
                })
            });
            let reader = scope.spawn(move || {
                for id in ids {
                    start.wait();
                    // Whatever a reader sees as the end, it must see for ever after.
                    if let Some(ended) = runtime.block_on(ended(store, *id)) {
                        assert_eq!(runtime.block_on(store.get(*id)).unwrap(), Some(ended));
                    }
                }
            });
            reader.join().unwrap();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    };
    let results: Vec<Vec<Result<Change, StoreError>>> = tokio::task::block_in_place(race);
    for (round, id) in ids.iter().enumerate() {
        let record = ended(store, *id).await.unwrap();
        let mut winners = 0;
        for result in results.iter().map(|results| &results[round]) {
            match result {
                Ok(change) => {
                    winners += 1;
                    assert_eq!(change.task, record);
                }
                Err(StoreError::Refused(Refusal::Terminal(status))) => assert_eq!(*status, record.status),
                // The tick of a task that has ended finds that it is not yet due for deletion.
                Err(StoreError::Refused(Refusal::NotDue)) => assert_ne!(record.status, Status::Failed),
                Err(other) => panic!("{other}"),
            }
        }
        assert_eq!(winners, 1, "round {round}");
        assert_eq!(store.events(*id).await.unwrap().len(), 2, "round {round}");
    }
}

async fn ended(store: &impl Store, id: TaskId) -> Option<Task> {
    store.get(id).await.unwrap().filter(|task| task.status.is_terminal())
}
