//! Idempotency keys of tasks that are over.

use std::time::Duration;

use taskgate_task::{IdempotencyKey, Status};
use tokio::time::sleep;

use super::bench::{Bench, json, result, settle};
use crate::{EngineError, Launch, Submitted};

fn key(digest: u8) -> Option<IdempotencyKey> {
    Some(IdempotencyKey { tool: "t".to_owned(), key: "k".to_owned(), digest: [digest; 32] })
}

async fn submit(bench: &Bench, launch: Launch, digest: u8) -> Result<Submitted, EngineError> {
    bench.engine.submit(launch, key(digest), Some(Duration::from_secs(10))).await
}

/// Case 35: a key is free when its task has expired, for the same call and for another one, though upkeep has not come by yet.
#[tokio::test(start_paused = true)]
async fn the_key_of_an_expired_task_is_free() {
    for digest in [1, 2] {
        let mut bench = Bench::new();
        let first = submit(&bench, bench.launch(), 1).await.expect("created");
        bench.run().await.end.send(result("{}")).expect("heard");
        settle().await;
        assert_eq!(bench.get(&first.task).await.status, Status::Completed);
        let again = submit(&bench, bench.launch(), digest).await;
        match digest {
            1 => assert!(!again.expect("found").is_new),
            _ => assert!(matches!(again, Err(EngineError::KeyConflict)), "{again:?}"),
        }
        sleep(Duration::from_secs(11)).await;
        let found = bench.engine.keyed(&first.task.owner, &key(digest).expect("a key")).await;
        assert!(matches!(found, Ok(None)), "{found:?}");
        let anew = submit(&bench, bench.launch(), digest).await.expect("created");
        assert!(anew.is_new && anew.task.id != first.task.id);
        bench.run().await;
    }
}

/// While its work is still being stopped a record cannot go, and whoever comes with its key is told so.
#[tokio::test(start_paused = true)]
async fn the_key_of_work_that_will_not_stop_says_so() {
    let mut bench = Bench::new();
    bench.refuse_to_stop(usize::MAX);
    let first = submit(&bench, bench.launch(), 1).await.expect("created").task;
    bench.run().await.report.checkpoint(json("1")).await.expect("put down");
    bench.engine.cancel(&first.owner, first.id).await.expect("cancelled");
    sleep(Duration::from_secs(11)).await;
    let again = submit(&bench, bench.launch(), 1).await;
    assert!(matches!(&again, Err(EngineError::KeyExpiring)), "{again:?}");
    bench.refuse_to_stop(0);
    sleep(Duration::from_secs(3)).await;
    assert!(submit(&bench, bench.launch(), 1).await.expect("created").is_new);
}
