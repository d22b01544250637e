//! Several nodes on one store, in time that stands still until it is moved.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use taskgate_task::{Carrier, Failure, Owner, Status, TaskId, WorkClass};
use tokio::time::{Instant, sleep};

use super::bench::{Bench, Moody, asked, json, question, result, settle};
use crate::{EngineError, Launch, MemoryStore, Store};

/// Nodes that live.
pub async fn nodes<const N: usize>() -> [Bench; N] {
    let first = Bench::over(Moody::over(MemoryStore::shared()));
    let mut nodes = vec![first];
    for _ in 1..N {
        nodes.push(nodes[0].another());
    }
    for node in &nodes {
        node.engine.rescue().await.expect("joined");
        node.engine.start_upkeep();
    }
    settle().await;
    nodes.try_into().unwrap_or_else(|_| panic!("as many nodes as asked for"))
}

/// As a process dies: nothing of it gets to the store any more.
pub fn kill(node: &Bench) {
    node.store.away.store(true, Ordering::SeqCst);
}

pub fn repeatable(bench: &Bench) -> Launch {
    Launch { class: WorkClass::Repeatable, ..bench.launch() }
}

async fn event_words(bench: &Bench, id: TaskId) -> Vec<Status> {
    bench.store.events(id).await.expect("events").into_iter().map(|event| event.to).collect()
}

/// Case 4: any node answers, cancels and hears of what another one runs, at once and without looking for it.
#[tokio::test(start_paused = true)]
async fn any_node_reaches_work_on_another() {
    let [mut a, b] = nodes().await;
    let (task, run) = a.task(a.launch()).await;
    let (owner, id) = (task.owner.clone(), task.id);
    let since = Instant::now();
    let mut watch = b.engine.watch(&owner, id).await.expect("watched on b");
    let mut answers = run.report.ask(vec![question("q")]).await.expect("asked on a");
    assert_eq!(watch.changed().await.expect("heard on b").status, Status::InputRequired);
    b.engine.answer(&owner, id, vec![("q".to_owned(), json("{\"n\":1}"))]).await.expect("answered on b");
    assert_eq!(answers.remove(0).await.expect("heard on a"), Ok(json("{\"n\":1}")));
    while watch.current().status != Status::Working {
        watch.changed().await.expect("heard on b");
    }
    let cancelled = b.engine.cancel(&owner, id).await.expect("cancelled on b");
    settle().await;
    assert_eq!((cancelled.status, a.stopped(), a.engine.carried()), (Status::Cancelled, 1, 0));

    let (task, run) = a.task(a.launch()).await;
    let (engine, id) = (b.engine.clone(), task.id);
    let waiting = tokio::spawn(async move { engine.wait(&Owner::local(), id).await });
    settle().await;
    run.end.send(result("{}")).expect("heard");
    assert_eq!(waiting.await.expect("no panic").expect("ended").status, Status::Completed);
    assert!(since.elapsed() < Duration::from_millis(50), "{:?}", since.elapsed());
}

/// What is not told is found by looking.
#[tokio::test(start_paused = true)]
async fn what_was_not_told_is_found() {
    let [mut a, b] = nodes().await;
    let (task, run) = a.task(a.launch()).await;
    a.store.deaf.store(true, Ordering::SeqCst);
    b.store.deaf.store(true, Ordering::SeqCst);
    let mut answers = run.report.ask(vec![question("q")]).await.expect("asked on a");
    let mut watch = b.engine.watch(&task.owner, task.id).await.expect("watched on b");
    assert_eq!(watch.current().status, Status::InputRequired);
    b.engine.answer(&task.owner, task.id, vec![("q".to_owned(), json("1"))]).await.expect("answered on b");
    assert_eq!(answers.remove(0).await.expect("heard on a"), Ok(json("1")));
    run.end.send(result("{}")).expect("heard");
    while !watch.current().status.is_terminal() {
        watch.changed().await.expect("heard on b");
    }
    let (task, _run) = a.task(a.launch()).await;
    b.engine.cancel(&task.owner, task.id).await.expect("cancelled on b");
    sleep(Duration::from_millis(2100)).await;
    assert_eq!((a.stopped(), a.engine.carried()), (1, 0));
}

/// The work of a dead node is taken over by its class when its lease is over, and not before.
#[tokio::test(start_paused = true)]
async fn the_work_of_a_dead_node_is_taken_over_after_its_lease() {
    let [mut a, mut b] = nodes().await;
    let (live, _live) = a.task(a.launch()).await;
    let (again, again_run) = a.task(repeatable(&a)).await;
    let (parked, parked_run) = a.task(a.launch()).await;
    parked_run.end.send(asked(&["k"], "1")).expect("heard");
    settle().await;
    sleep(Duration::from_secs(100)).await;
    assert_eq!(b.get(&live).await.status, Status::Working);
    kill(&a);
    let since = Instant::now();
    let run = b.run().await;
    // The last heartbeat was up to 5 s ago, and b looks every 5 s.
    let took = since.elapsed();
    assert!(took > Duration::from_secs(10) && took < Duration::from_secs(21), "{took:?}");
    assert_eq!((run.work.attempt, b.get(&again).await.carrier), (2, Carrier::Node(b.engine.node())));
    assert_eq!(b.get(&live).await.failure, Some(Failure::Interrupted));
    assert_eq!(b.get(&parked).await.status, Status::InputRequired);
    // Its answers start it wherever they are given.
    b.engine.answer(&parked.owner, parked.id, vec![("k".to_owned(), json("1"))]).await.expect("answered");
    assert_eq!(b.run().await.work.round.expect("a round").state, json("1"));
    // What the dead node still wants to say is not heard, when it comes back to life.
    a.store.away.store(false, Ordering::SeqCst);
    again_run.report.progress(Some("ghost".to_owned()), json("{}"));
    assert!(again_run.report.checkpoint(json("1")).await.is_err());
    assert!(again_run.report.ask(vec![question("ghost")]).await.is_err());
    let _ = again_run.end.send(result("\"ghost\""));
    run.end.send(result("\"alive\"")).expect("heard");
    sleep(Duration::from_secs(10)).await;
    let ended = b.get(&again).await;
    assert_eq!((ended.status, ended.attempts), (Status::Completed, 2));
    assert!(format!("{:?}", ended.outcome).contains("alive"));
    let terminal = |status: &Status| status.is_terminal();
    for task in [&live, &again] {
        assert_eq!(event_words(&b, task.id).await.iter().filter(|status| terminal(status)).count(), 1);
    }
}

/// A node that was frozen past its lease stops what others carry now, and goes on as another node.
#[tokio::test(start_paused = true)]
async fn a_frozen_node_wakes_up_as_another() {
    let [mut a, mut b] = nodes().await;
    let before = a.engine.node();
    let (_again, _run) = a.task(repeatable(&a)).await;
    kill(&a);
    let _taken = b.run().await;
    assert_eq!(a.stopped(), 0);
    a.store.away.store(false, Ordering::SeqCst);
    sleep(Duration::from_secs(6)).await;
    assert_eq!((a.stopped(), a.engine.carried()), (1, 0));
    assert_ne!(a.engine.node(), before);
    let ids: Vec<_> = b.store.nodes().await.expect("nodes").iter().map(|node| node.id).collect();
    assert!(ids.contains(&a.engine.node()) && !ids.contains(&before), "{ids:?}");
    // As that it carries work for as long as the work takes.
    let (task, run) = a.task(a.launch()).await;
    sleep(Duration::from_secs(600)).await;
    run.end.send(result("{}")).expect("heard");
    settle().await;
    assert_eq!(b.get(&task).await.status, Status::Completed);
}

/// A store that is gone for all nodes costs nothing when it comes back: nobody is buried for what nobody could do.
#[tokio::test(start_paused = true)]
async fn a_store_that_was_gone_for_all_costs_no_work() {
    let [mut a, mut b] = nodes().await;
    let (on_a, run_a) = a.task(a.launch()).await;
    let (on_b, run_b) = b.task(b.launch()).await;
    for pause in [30, 200] {
        for node in [&a, &b] {
            node.store.away.store(true, Ordering::SeqCst);
        }
        sleep(Duration::from_secs(pause)).await;
        b.store.away.store(false, Ordering::SeqCst);
        sleep(Duration::from_secs(7)).await;
        a.store.away.store(false, Ordering::SeqCst);
        sleep(Duration::from_secs(60)).await;
        assert_eq!(b.store.nodes().await.expect("nodes").len(), 2);
    }
    // An outcome that could not be written meanwhile is written now.
    a.store.away.store(true, Ordering::SeqCst);
    run_a.end.send(result("{}")).expect("heard");
    sleep(Duration::from_secs(5)).await;
    a.store.away.store(false, Ordering::SeqCst);
    run_b.end.send(result("{}")).expect("heard");
    sleep(Duration::from_secs(10)).await;
    for task in [&on_a, &on_b] {
        assert_eq!(a.get(task).await.status, Status::Completed);
    }
}

/// A node that shuts down hands over at once; nobody waits for its lease.
#[tokio::test(start_paused = true)]
async fn a_drained_node_hands_over_at_once() {
    let [mut a, mut b] = nodes().await;
    let (again, _again) = a.task(repeatable(&a)).await;
    let (live, _live) = a.task(a.launch()).await;
    let since = Instant::now();
    a.engine.drain(Duration::from_secs(1)).await;
    let run = b.run().await;
    assert_eq!((run.work.attempt, run.work.is_taken_up), (1, true));
    assert!(since.elapsed() < Duration::from_secs(3));
    assert_eq!(b.get(&live).await.failure, Some(Failure::Interrupted));
    assert_eq!(b.get(&again).await.carrier, Carrier::Node(b.engine.node()));
    assert_eq!(b.store.nodes().await.expect("nodes").len(), 1);
    assert!(matches!(a.engine.start(a.launch(), None), Err(EngineError::Draining)));
}

/// In a rolling upgrade not every node knows every runner: work waits for one that does.
#[tokio::test(start_paused = true)]
async fn work_waits_for_a_node_that_knows_its_runner() {
    let [mut a, b] = nodes().await;
    let (task, _run) = a.task(Launch { runner: "new".to_owned(), ..repeatable(&a) }).await;
    kill(&a);
    sleep(Duration::from_secs(40)).await;
    assert_eq!(b.get(&task).await.status, Status::Working);
    let mut c = b.another();
    c.know("new");
    c.engine.rescue().await.expect("joined");
    c.engine.start_upkeep();
    assert_eq!(c.run().await.work.attempt, 2);
    kill(&c);
    sleep(Duration::from_secs(100)).await;
    assert_eq!(b.get(&task).await.failure, Some(Failure::NoRunner));
}

/// CASE 4: what goes on at one machine is left to the node there, whenever it comes, and is not taken from it by one that cannot get at
/// it. So is the stopping of what has ended.
#[tokio::test(start_paused = true)]
async fn work_out_of_reach_is_left_to_a_node_that_can_get_at_it() {
    let [mut a, b] = nodes().await;
    let external = |bench: &Bench| Launch { class: WorkClass::External, ..bench.launch() };
    let (running, run) = a.task(external(&a)).await;
    run.report.checkpoint(json("1")).await.expect("kept");
    let (cancelled, run) = a.task(external(&a)).await;
    run.report.checkpoint(json("2")).await.expect("kept");
    b.is_out_of_reach("at another place");
    kill(&a);
    b.engine.cancel(&cancelled.owner, cancelled.id).await.expect("cancelled");
    sleep(Duration::from_secs(600)).await;
    let waits = b.get(&running).await;
    assert_eq!((waits.status, waits.status_message.as_deref()), (Status::Working, Some("at another place")));
    let events = event_words(&b, running.id).await.len();
    assert!((4..50).contains(&events), "{events} events in ten minutes");
    let mut back = b.another();
    back.engine.rescue().await.expect("joined");
    back.engine.start_upkeep();
    let since = Instant::now();
    assert_eq!(back.run().await.work.checkpoint, Some(json("1")));
    sleep(Duration::from_secs(40)).await;
    assert_eq!(
        back.stops().iter().map(|work| work.checkpoint.clone()).collect::<Vec<_>>(),
        [Some(json("2"))]
    );
    assert!(since.elapsed() < Duration::from_secs(100));
    assert_eq!(b.get(&cancelled).await.carrier, Carrier::Nobody);
    assert!(b.stops().is_empty());
}

/// Many orphans, several heirs: each is begun exactly once.
#[tokio::test(start_paused = true)]
async fn heirs_share_what_is_left_without_doing_anything_twice() {
    let [mut a, mut b, mut c] = nodes().await;
    let mut tasks = Vec::new();
    for _ in 0..600 {
        tasks.push(a.task(repeatable(&a)).await.0);
    }
    kill(&a);
    sleep(Duration::from_secs(30)).await;
    let mut runs = 0;
    for heir in [&mut b, &mut c] {
        while let Ok(run) = heir.runs.try_recv() {
            assert_eq!(run.work.attempt, 2);
            runs += 1;
        }
    }
    assert_eq!(runs, 600);
    assert_eq!(b.engine.carried() + c.engine.carried(), 600);
    for task in &tasks {
        let now = b.get(task).await;
        assert_eq!((now.attempts, now.fence), (2, 3));
    }
    drop(Arc::clone(&b.store));
}

/// However many tasks are out of reach, those behind them are begun.
#[tokio::test(start_paused = true)]
async fn what_is_out_of_reach_holds_up_nobody() {
    let [mut a, mut b] = nodes().await;
    for number in 0..2000 {
        let (_, run) = a.task(Launch { class: WorkClass::External, ..a.launch() }).await;
        run.report.checkpoint(json(&number.to_string())).await.expect("kept");
    }
    b.is_out_of_reach("at another place");
    kill(&a);
    sleep(Duration::from_secs(60)).await;
    for _ in 0..20 {
        let mut c = b.another();
        c.is_out_of_reach("at another place");
        c.engine.rescue().await.expect("joined");
        c.task(repeatable(&c)).await;
        c.engine.drain(Duration::ZERO).await;
        // Whichever of the others stands in the line at that moment.
        tokio::time::timeout(Duration::from_secs(5), b.run()).await.expect("begun");
        sleep(Duration::from_millis(1700)).await;
    }
}

/// A node that shuts down lives among the others for as long as it lets calls finish, be they tasks by then or not yet.
#[tokio::test(start_paused = true)]
async fn a_node_that_drains_slowly_keeps_its_lease() {
    let [mut a, b] = nodes().await;
    let call = a.engine.start(a.launch(), None).expect("started");
    let run = a.run().await;
    let engine = a.engine.clone();
    let draining = tokio::spawn(async move { engine.drain(Duration::from_secs(120)).await });
    sleep(Duration::from_secs(60)).await;
    let task = call.become_task(None).await.expect("a task");
    sleep(Duration::from_secs(30)).await;
    run.end.send(result("{}")).expect("heard");
    draining.await.expect("no panic");
    assert_eq!(b.get(&task).await.status, Status::Completed);
    // It has gone for good.
    sleep(Duration::from_secs(30)).await;
    assert_eq!(b.store.nodes().await.expect("nodes").len(), 1);
}
