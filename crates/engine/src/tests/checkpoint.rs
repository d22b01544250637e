//! Work that puts down where it is, or where it goes on.

use std::time::Duration;

use taskgate_task::{Carrier, IdempotencyKey, Payload, Status, WorkClass};
use tokio::time::sleep;

use super::bench::{Bench, json, result, settle};
use crate::{Ending, EngineError, InlineEvent, Launch, Store};

fn of(class: WorkClass, bench: &Bench) -> Launch {
    Launch { class, ..bench.launch() }
}

/// The next attempt gets what the last one put down last.
#[tokio::test(start_paused = true)]
async fn resumable_work_goes_on_from_its_last_checkpoint() {
    let mut bench = Bench::new();
    let call = bench.engine.start(of(WorkClass::Resumable, &bench), None).expect("started");
    let run = bench.run().await;
    // Before it is a task, and after.
    run.report.checkpoint(json("1")).await.expect("kept");
    let task = call.become_task(None).await.expect("created");
    // In the very first commit: a crash right after it would begin the work once more.
    assert_eq!((task.version, &task.checkpoint), (1, &Some(json("1"))));
    assert_eq!(bench.get(&task).await.checkpoint, Some(json("1")));
    run.report.checkpoint(json("{\"n\": 2.0}")).await.expect("kept");
    let mut engine = bench.restarted();
    engine.rescue().await.expect("rescued");
    let again = bench.run().await;
    assert_eq!((again.work.attempt, &again.work.checkpoint), (2, &Some(json("{\"n\": 2.0}"))));
    // The attempt before has nothing to say any more.
    assert!(run.report.checkpoint(json("3")).await.is_err());
    // As long as it comes further each time it may die as often as it wants.
    for n in 0..20 {
        engine = bench.restarted();
        engine.rescue().await.expect("rescued");
        bench.run().await.report.checkpoint(json(&n.to_string())).await.expect("kept");
    }
    engine = bench.restarted();
    engine.rescue().await.expect("rescued");
    let last = bench.run().await;
    assert_eq!(last.work.checkpoint, Some(json("19")));
    last.end.send(result("{}")).expect("heard");
    let ended = engine.wait(&task.owner, task.id).await.expect("ended");
    assert_eq!((ended.status, ended.checkpoint), (Status::Completed, None));
    assert!(bench.stops().is_empty());
}

/// Case 10: cancelling stops the work where it goes on, until that has succeeded; then it is forgotten.
#[tokio::test(start_paused = true)]
async fn cancelling_stops_work_that_goes_on_elsewhere() {
    let mut bench = Bench::new();
    let upkeep = bench.engine.start_upkeep();
    let (task, run) = bench.task(of(WorkClass::External, &bench)).await;
    run.report.checkpoint(json("\"job 7\"")).await.expect("kept");
    bench.refuse_to_stop(2);
    let cancelled = bench.engine.cancel(&task.owner, task.id).await.expect("cancelled");
    assert_eq!(cancelled.status, Status::Cancelled);
    settle().await;
    assert_eq!(bench.stopped(), 1);
    assert!(bench.stops().is_empty());
    sleep(Duration::from_secs(5)).await;
    let stops = bench.stops();
    assert_eq!(
        stops.iter().map(|work| work.checkpoint.clone()).collect::<Vec<_>>(),
        [Some(json("\"job 7\""))]
    );
    let now = bench.get(&task).await;
    assert_eq!((now.carrier, now.checkpoint), (Carrier::Nobody, None));
    assert_eq!(
        (now.status, now.ended_at, now.updated_at),
        (cancelled.status, cancelled.ended_at, cancelled.updated_at)
    );
    assert_eq!(bench.store.work(task.id).await.expect("read"), None);
    assert_eq!(bench.engine.carried(), 0);
    upkeep.abort();
}

/// The same when the process dies between the cancel and the stop, and when a limit ends the task.
#[tokio::test(start_paused = true)]
async fn what_was_not_stopped_before_a_crash_is_stopped_after_it() {
    let mut bench = Bench::new();
    let (task, run) = bench.task(of(WorkClass::External, &bench)).await;
    run.report.checkpoint(json("1")).await.expect("kept");
    bench.refuse_to_stop(usize::MAX);
    bench.engine.cancel(&task.owner, task.id).await.expect("cancelled");
    settle().await;
    bench.refuse_to_stop(0);
    let engine = bench.restarted();
    engine.rescue().await.expect("rescued");
    sleep(Duration::from_secs(3)).await;
    assert_eq!(bench.stops().len(), 1);
    assert_eq!(bench.get(&task).await.carrier, Carrier::Nobody);

    let mut launch = of(WorkClass::External, &bench);
    launch.lifetime.run_limit = Duration::from_secs(10);
    let (limited, run) = bench.task(launch).await;
    run.report.checkpoint(json("2")).await.expect("kept");
    sleep(Duration::from_secs(11)).await;
    assert_eq!(bench.get(&limited).await.status, Status::Failed);
    assert_eq!(bench.stops().last().and_then(|work| work.checkpoint.clone()), Some(json("2")));
}

/// A shutdown and a crash leave such work alone; the next process finds it, as often as it takes.
#[tokio::test(start_paused = true)]
async fn external_work_outlives_its_processes() {
    let mut bench = Bench::new();
    let (task, run) = bench.task(of(WorkClass::External, &bench)).await;
    run.report.checkpoint(json("1")).await.expect("kept");
    bench.engine.drain(Duration::from_secs(1)).await;
    assert_eq!((bench.stopped(), bench.stops().len()), (1, 0));
    for _ in 0..10 {
        let engine = bench.restarted();
        engine.rescue().await.expect("rescued");
        let run = bench.run().await;
        assert_eq!((run.work.attempt, &run.work.checkpoint), (1, &Some(json("1"))));
    }
    // A node that cannot get at it leaves it to others.
    let engine = bench.restarted();
    engine.rescue().await.expect("rescued");
    let away = Ending::PutBack { pause: Duration::from_secs(3), message: "on another host".to_owned() };
    bench.run().await.end.send(away).expect("heard");
    settle().await;
    assert_eq!(bench.get(&task).await.status_message.as_deref(), Some("on another host"));
    bench.run().await.end.send(result("{}")).expect("heard");
    assert_eq!(engine.wait(&task.owner, task.id).await.expect("ended").status, Status::Completed);
}

/// Work that died under a process that lives is treated as if both had died.
#[tokio::test(start_paused = true)]
async fn lost_work_is_treated_by_its_class() {
    let mut bench = Bench::new();
    let lost = || Ending::Lost { message: "the server died".to_owned() };
    let (live, run) = bench.task(bench.launch()).await;
    run.end.send(lost()).expect("heard");
    settle().await;
    let live = bench.get(&live).await;
    assert_eq!((live.status, live.status_message.as_deref()), (Status::Failed, Some("the server died")));
    let (again, run) = bench.task(of(WorkClass::Repeatable, &bench)).await;
    run.end.send(lost()).expect("heard");
    settle().await;
    assert_eq!(bench.get(&again).await.status_message.as_deref(), Some("the server died"));
    assert_eq!(bench.run().await.work.attempt, 2);
}

/// A caller who gives up a call that is no task leaves nothing going on elsewhere.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_given_up_is_stopped_where_it_goes_on() {
    let mut bench = Bench::new();
    let call = bench.engine.start(bench.launch(), None).expect("started");
    bench.run().await.report.checkpoint(json("1")).await.expect("kept");
    drop(call);
    settle().await;
    assert_eq!(bench.stops().len(), 1);
    let mut call = bench.engine.start(bench.launch(), None).expect("started");
    let run = bench.run().await;
    run.report.checkpoint(json("1")).await.expect("kept");
    run.end.send(result("{}")).expect("heard");
    assert!(matches!(call.next().await, InlineEvent::Ended(_)));
    drop(call);
    settle().await;
    assert_eq!(bench.stops().len(), 1);
    // Work that was lost sight of may still go on.
    let mut call = bench.engine.start(bench.launch(), None).expect("started");
    let run = bench.run().await;
    run.report.checkpoint(json("1")).await.expect("kept");
    run.end.send(Ending::Lost { message: "the server died".to_owned() }).expect("heard");
    assert!(matches!(call.next().await, InlineEvent::Ended(_)));
    drop(call);
    settle().await;
    assert_eq!(bench.stops().len(), 2);
}

/// A call whose task could not be kept, either.
#[tokio::test(start_paused = true)]
async fn a_call_that_cannot_become_a_task_is_stopped_where_it_goes_on() {
    let mut bench = Bench::new();
    let call = bench.engine.start(bench.launch(), None).expect("started");
    bench.run().await.report.checkpoint(json("1")).await.expect("kept");
    bench.store.away.store(true, std::sync::atomic::Ordering::SeqCst);
    assert!(call.become_task(None).await.is_err());
    settle().await;
    assert_eq!(
        bench.stops().iter().map(|work| work.checkpoint.clone()).collect::<Vec<_>>(),
        [Some(json("1"))]
    );
}

/// What a run has put aside it can clear away when its outcome is stored, and not before.
#[tokio::test(start_paused = true)]
async fn a_run_can_see_that_its_outcome_is_stored() {
    let mut bench = Bench::new();
    let (_, run) = bench.task(bench.launch()).await;
    let report = run.report.clone();
    assert!(!report.is_settled().await.expect("read"));
    run.end.send(result("{}")).expect("heard");
    settle().await;
    assert!(report.is_settled().await.expect("read"));
}

fn key(digest: u8) -> Option<IdempotencyKey> {
    Some(IdempotencyKey { tool: "render".to_owned(), key: "k".to_owned(), digest: [digest; 32] })
}

/// Case 35: the same call twice is one task and one run; the same key for another call is a conflict.
#[tokio::test(start_paused = true)]
async fn a_repeated_submission_finds_the_first() {
    let mut bench = Bench::new();
    let (first, second) = tokio::join!(
        bench.engine.submit(bench.launch(), key(1), None),
        bench.engine.submit(bench.launch(), key(1), None)
    );
    let (first, second) = (first.expect("submitted"), second.expect("submitted"));
    assert_eq!(first.task.id, second.task.id);
    assert_eq!([first.is_new, second.is_new].iter().filter(|new| **new).count(), 1);
    let run = bench.run().await;
    assert!(bench.runs.try_recv().is_err());
    let conflict = bench.engine.submit(bench.launch(), key(2), None).await;
    assert!(matches!(conflict, Err(EngineError::KeyConflict)), "{conflict:?}");
    let owner = first.task.owner.clone();
    let found = bench.engine.keyed(&owner, &key(1).expect("a key")).await.expect("read").expect("found");
    assert_eq!(found.id, first.task.id);
    run.end.send(result("{\"n\":1}")).expect("heard");
    let ended = bench.engine.wait(&owner, first.task.id).await.expect("ended");
    assert_eq!(ended.status, Status::Completed);
    let late = bench.engine.submit(bench.launch(), key(1), None).await.expect("submitted");
    assert_eq!((late.is_new, late.task.outcome), (false, ended.outcome));
    assert!(bench.runs.try_recv().is_err());
}

/// Whoever submits and goes away at once leaves a task that is carried, or none.
#[tokio::test(start_paused = true)]
async fn a_submission_outlives_its_caller() {
    let mut bench = Bench::new();
    *bench.store.slow.lock() = Some(Duration::from_secs(1));
    let submitting = tokio::spawn({
        let (engine, launch) = (bench.engine.clone(), bench.launch());
        async move { engine.submit(launch, None, None).await.map(drop) }
    });
    settle().await;
    submitting.abort();
    let run = bench.run().await;
    assert_eq!(*run.work.description.text(), Payload::parse("{\"do\":1}".to_owned()).expect("JSON"));
    assert_eq!(bench.engine.carried(), 1);
}

/// Work that nobody can stop any more is looked for until some time after its run limit; then its record can go.
#[tokio::test(start_paused = true)]
async fn stopping_is_given_up_after_the_run_limit() {
    let mut bench = Bench::new();
    bench.engine.start_upkeep();
    bench.refuse_to_stop(usize::MAX);
    let mut launch = bench.launch();
    launch.lifetime.run_limit = Duration::from_secs(60);
    let (task, run) = bench.task(launch).await;
    run.report.checkpoint(json("1")).await.expect("put down");
    bench.engine.cancel(&task.owner, task.id).await.expect("cancelled");
    let carrier = async || bench.store.get(task.id).await.expect("read").map(|task| task.carrier);
    sleep(Duration::from_secs(600)).await;
    assert_ne!(carrier().await, Some(Carrier::Nobody));
    sleep(Duration::from_secs(70)).await;
    assert_eq!(carrier().await, Some(Carrier::Nobody));
}
