//! What an operator orders, on the node that carries the work and on another one.

use std::time::Duration;

use taskgate_task::{Carrier, Order, Refusal, Status};

use super::bench::{Bench, Moody, result, settle};
use super::nodes::{nodes, repeatable};
use crate::{Engine, EngineError, MemoryStore, NodeSettings, Store};

fn fail() -> Order {
    Order::Fail { message: "the disk is full".to_owned() }
}

#[tokio::test(start_paused = true)]
async fn work_that_is_put_back_begins_anew_and_its_old_run_is_stopped() {
    let [mut a, mut b] = nodes().await;
    for orders_here in [true, false] {
        let (task, old) = a.task(repeatable(&a)).await;
        let stopped = a.stopped();
        let engine = if orders_here { &a.engine } else { &b.engine };
        engine.order(task.id, Order::Requeue).await.expect("ordered");
        settle().await;
        assert_eq!(a.stopped(), stopped + 1);
        assert!(old.end.send(result("{\"late\":1}")).is_err());
        // Whichever node was first.
        let fresh = tokio::select! {
            run = a.run() => run,
            run = b.run() => run,
            () = tokio::time::sleep(Duration::from_secs(1)) => panic!("nobody begins it"),
        };
        fresh.end.send(result("{}")).expect("heard");
        settle().await;
        assert_eq!(a.get(&task).await.status, Status::Completed);
    }
}

#[tokio::test(start_paused = true)]
async fn what_an_operator_ends_on_one_node_stops_on_another() {
    let [mut a, b] = nodes().await;
    for (order, status) in [(Order::Cancel, Status::Cancelled), (fail(), Status::Failed)] {
        let (task, _run) = a.task(a.launch()).await;
        let stopped = a.stopped();
        assert_eq!(b.engine.order(task.id, order.clone()).await.expect("ordered").status, status);
        settle().await;
        assert_eq!((a.stopped(), a.engine.carried()), (stopped + 1, 0));
        let again = b.engine.order(task.id, order).await;
        assert!(matches!(again, Err(EngineError::Terminal(_))), "{again:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_order_that_does_not_fit_changes_nothing() {
    let mut bench = Bench::new();
    let (task, run) = bench.task(bench.launch()).await;
    for (order, refusal) in [(Order::Requeue, Refusal::NotRepeatable), (Order::Prune, Refusal::NotDue)] {
        let refused = bench.engine.order(task.id, order).await;
        assert!(matches!(refused, Err(EngineError::Refused(why)) if why == refusal), "{refused:?}");
    }
    run.end.send(result("{}")).expect("it still runs");
    settle().await;
    assert_eq!(bench.get(&task).await.status, Status::Completed);
    bench.engine.order(task.id, Order::Prune).await.expect("ordered");
    assert!(bench.store.get(task.id).await.expect("read").is_none());
    let gone = bench.engine.order(task.id, Order::Prune).await;
    assert!(matches!(gone, Err(EngineError::NotFound)), "{gone:?}");
}

/// Whoever only gives orders has no runners, and must not take it for a lack of them: the work is left to those that have.
#[tokio::test(start_paused = true)]
async fn a_process_without_runners_leaves_the_work_to_others() {
    let mut bench = Bench::over(Moody::over(MemoryStore::new()));
    let (task, run) = bench.task(repeatable(&bench)).await;
    run.report.checkpoint(super::bench::json("{\"at\":1}")).await.expect("put down");
    let orders =
        Engine::new(std::sync::Arc::new(bench.store.clone()), NodeSettings::default()).expect("an engine");
    orders.begin_nothing();
    orders.order(task.id, Order::Requeue).await.expect("ordered");
    settle().await;
    let back = bench.get(&task).await;
    assert!(matches!((back.status, back.carrier), (Status::Working, Carrier::Ready(_))), "{back:?}");
    let cancelled = orders.order(task.id, Order::Cancel).await.expect("ordered");
    settle().await;
    assert!(matches!(cancelled.carrier, Carrier::Ready(_)), "its work is still to be stopped");
    assert_eq!(bench.get(&task).await.carrier, cancelled.carrier);
}
