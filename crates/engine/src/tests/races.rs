//! What two nodes do at the same moment, and what is heard of it late.

use std::sync::atomic::Ordering;
use std::time::Duration;

use taskgate_task::{Carrier, Loss, Status};
use tokio::time::{Instant, sleep, sleep_until};

use super::bench::{json, question, result, settle};
use super::nodes::{nodes, repeatable};
use crate::{EngineError, Store};

const LATE: Option<Duration> = Some(Duration::from_secs(1));

/// Case 4: whoever follows a task and takes it over meanwhile reads a record from before that; it must not stop the new attempt.
#[tokio::test(start_paused = true)]
async fn an_older_record_does_not_stop_a_newer_attempt() {
    let [mut a, mut b] = nodes().await;
    let (task, _run) = a.task(repeatable(&a)).await;
    let _watch = b.engine.watch(&task.owner, task.id).await.expect("watched on b");
    *b.store.late.lock() = LATE;
    a.engine.drain(Duration::ZERO).await;
    let run = b.run().await;
    sleep(Duration::from_secs(5)).await;
    assert_eq!((b.stopped(), b.engine.carried()), (0, 1));
    *b.store.late.lock() = None;
    run.end.send(result("{}")).expect("heard");
    settle().await;
    assert_eq!(b.get(&task).await.status, Status::Completed);
}

/// Case 4: an answer given on another node may be heard of before the asker knows that its question is out.
#[tokio::test(start_paused = true)]
async fn an_answer_may_overtake_its_question() {
    let [mut a, b] = nodes().await;
    let (task, run) = a.task(a.launch()).await;
    *a.store.slow.lock() = LATE;
    let report = run.report.clone();
    let asking = tokio::spawn(async move { report.ask(vec![question("q")]).await });
    settle().await;
    b.engine.answer(&task.owner, task.id, vec![("q".to_owned(), json("1"))]).await.expect("answered on b");
    settle().await;
    assert!(!asking.is_finished());
    let mut answers = asking.await.expect("no panic").expect("asked");
    let answer = tokio::time::timeout(Duration::from_secs(10), answers.remove(0)).await;
    assert_eq!(answer.expect("in time").expect("an answer"), Ok(json("1")));
}

/// Case 3: work that others have lost sight of, and that begins anew where it was all the time, runs there once.
#[tokio::test(start_paused = true)]
async fn a_newer_attempt_stops_the_older_one_here() {
    let [mut a] = nodes().await;
    let (task, older) = a.task(repeatable(&a)).await;
    a.engine.lose(task.id, task.fence, Loss::ShutDown).await.expect("lost");
    let run = a.run().await;
    settle().await;
    assert_eq!((a.stopped(), a.engine.carried()), (1, 1));
    let late = older.report.ask(vec![question("ghost")]).await;
    assert!(matches!(late, Err(EngineError::Store(_))), "{late:?}");
    run.end.send(result("{}")).expect("heard");
    settle().await;
    assert_eq!(a.get(&task).await.status, Status::Completed);
}

/// A database whose clock is set tells it to one node before the others: nobody is dead for that.
#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_buries_nobody() {
    let [mut a, b] = nodes().await;
    let (task, run) = a.task(a.launch()).await;
    sleep(Duration::from_secs(100)).await;
    *b.clock.ahead.lock() = Duration::from_secs(3600);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(b.store.nodes().await.expect("nodes").len(), 2);
    run.end.send(result("{}")).expect("heard");
    settle().await;
    assert_eq!(a.get(&task).await.status, Status::Completed);
}

/// A node whose last heartbeat was by a clock that ran ahead is buried when it has been silent for long, not in an hour.
#[tokio::test(start_paused = true)]
async fn a_lease_by_a_clock_that_ran_ahead_ends_too() {
    let [mut a, mut b] = nodes().await;
    *a.clock.ahead.lock() = Duration::from_secs(3600);
    sleep(Duration::from_secs(30)).await;
    let (task, _run) = a.task(repeatable(&a)).await;
    super::nodes::kill(&a);
    let run = tokio::time::timeout(Duration::from_secs(60), b.run()).await.expect("taken over");
    assert_eq!((run.work.attempt, b.get(&task).await.carrier), (2, Carrier::Node(b.engine.node())));
}

/// A node that is in touch again, and has not noticed yet that it was buried, begins nothing and acknowledges nothing: others
/// would take it over at once, and so would this node itself.
#[tokio::test(start_paused = true)]
async fn a_buried_node_begins_nothing_before_it_has_joined_again() {
    let start = Instant::now();
    let [mut a, mut b] = nodes().await;
    let (task, _run) = a.task(repeatable(&a)).await;
    super::nodes::kill(&a);
    let _taken = b.run().await;
    // Shortly after a heartbeat that did not get through; the next one is five seconds away.
    sleep_until(start + Duration::from_millis(60_200)).await;
    a.store.away.store(false, Ordering::SeqCst);
    let early = a.engine.submit(a.launch(), None, None).await;
    assert!(matches!(&early, Err(EngineError::OutOfTouch)), "{early:?}");
    b.engine.drain(Duration::ZERO).await;
    sleep_until(start + Duration::from_secs(90)).await;
    let run = a.runs.try_recv().expect("begun");
    assert_eq!(run.work.attempt, 2);
    assert!(a.runs.try_recv().is_err(), "it was begun more than once");
    assert_eq!(a.get(&task).await.carrier, Carrier::Node(a.engine.node()));
    assert!(a.engine.submit(a.launch(), None, None).await.is_ok());
}

/// A question that is out is out, even if the store goes away in the moment after.
#[tokio::test(start_paused = true)]
async fn a_question_outlives_a_store_that_goes_away() {
    let [mut a, b] = nodes().await;
    let (task, run) = a.task(a.launch()).await;
    *a.store.slow.lock() = LATE;
    let report = run.report.clone();
    let asking = tokio::spawn(async move { report.ask(vec![question("q")]).await });
    settle().await;
    super::nodes::kill(&a);
    let mut answers = asking.await.expect("no panic").expect("asked");
    *a.store.slow.lock() = None;
    a.store.away.store(false, Ordering::SeqCst);
    b.engine.answer(&task.owner, task.id, vec![("q".to_owned(), json("1"))]).await.expect("answered on b");
    assert_eq!(answers.remove(0).await.expect("an answer"), Ok(json("1")));
}
