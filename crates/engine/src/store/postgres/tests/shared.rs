//! Two stores on one database: two nodes.

use std::time::Duration;

use futures_util::future::join_all;
use taskgate_task::{IdempotencyKey, NewTask, NodeId, TaskId};
use tokio::sync::mpsc::UnboundedReceiver;

use super::proxy::{Network, Proxy};
use super::{NOW, Server, admin, new_task, number, open, options, report, soon, terminate};
use crate::store::{Heard, Node};
use crate::{PostgresOptions, Store, StoreError};

async fn next(heard: &mut UnboundedReceiver<Heard>) -> Heard {
    soon(heard.recv()).await.unwrap()
}

/// Waits until the changes of just these tasks have been heard, each at least once.
async fn hear(heard: &mut UnboundedReceiver<Heard>, ids: &[TaskId]) {
    let mut missing: Vec<i64> = ids.iter().map(|id| id.locator()).collect();
    while !missing.is_empty() {
        match next(heard).await {
            Heard::Changed(locators) => {
                for locator in locators {
                    assert!(ids.iter().any(|id| id.locator() == locator), "{locator:x}");
                    missing.retain(|wanted| *wanted != locator);
                }
            }
            Heard::Gap => panic!("nothing was missed"),
        }
    }
}

#[tokio::test]
async fn nodes_hear_of_each_other_and_not_of_themselves() {
    let options = options();
    let (a, b) = (open(&options), open(&options));
    let (mut at_a, mut at_b) = (a.others().unwrap(), b.others().unwrap());
    // From here on they listen.
    assert_eq!(next(&mut at_a).await, Heard::Gap);
    assert_eq!(next(&mut at_b).await, Heard::Gap);
    let own: Vec<TaskId> = join_all((0..3).map(|_| a.create(new_task())))
        .await
        .into_iter()
        .map(|task| task.unwrap().id)
        .collect();
    hear(&mut at_b, &own).await;
    let theirs = b.create(new_task()).await.unwrap().id;
    hear(&mut at_a, &[theirs]).await;
    b.apply(own[0], report("from b"), NOW).await.unwrap();
    hear(&mut at_a, &[own[0]]).await;
    // Many at once fit in several notifications.
    let many: Vec<TaskId> = join_all((0..1000).map(|_| a.create(new_task())))
        .await
        .into_iter()
        .map(|task| task.unwrap().id)
        .collect();
    hear(&mut at_b, &many).await;

    terminate(&admin(&options).await, &options).await;
    loop {
        match next(&mut at_b).await {
            Heard::Gap => break,
            Heard::Changed(_) => {}
        }
    }
    b.others().unwrap();
    let after = a.create(new_task()).await.unwrap().id;
    loop {
        match next(&mut at_b).await {
            Heard::Changed(locators) if locators.contains(&after.locator()) => break,
            _ => {}
        }
    }
}

#[tokio::test]
async fn of_two_nodes_one_gets_the_key() {
    let options = options();
    let (a, b) = (open(&options), open(&options));
    for round in 0..40 {
        let key = IdempotencyKey { tool: "t".to_owned(), key: round.to_string(), digest: [7; 32] };
        let new = || NewTask { key: Some(key.clone()), ..new_task() };
        let (at_a, at_b) = tokio::join!(a.create(new()), b.create(new()));
        let (won, lost) = if at_a.is_ok() { (at_a, at_b) } else { (at_b, at_a) };
        let won = won.unwrap();
        assert!(matches!(lost, Err(StoreError::KeyTaken { id, same: true }) if id == won.id), "{lost:?}");
    }
    assert_eq!(number(&admin(&options).await, "SELECT count(*) FROM task").await, 40);
}

#[tokio::test]
async fn a_node_is_renewed_or_buried_and_never_both() {
    let options = options();
    let (a, b) = (open(&options), open(&options));
    let later = NOW.after(Duration::from_secs(10));
    for round in 0..60 {
        let id = NodeId::from_number(1000 + round);
        let node = Node { id, name: "n".to_owned(), joined_at: NOW, lease_until: NOW };
        a.join(node.clone()).await.unwrap();
        let (renewed, buried) = tokio::join!(a.renew(id, later), b.bury(id, NOW));
        let (renewed, buried) = (renewed.unwrap(), buried.unwrap());
        assert_ne!(renewed, buried, "round {round}");
        let left = b.nodes().await.unwrap();
        let expected = if renewed { vec![Node { lease_until: later, ..node }] } else { vec![] };
        assert_eq!(left, expected);
        a.leave(id).await.unwrap();
    }
}

/// Both write to the same tasks, in opposite orders, and to the same keys.
#[tokio::test]
async fn crossing_writes_do_not_wait_for_each_other_for_ever() {
    let options = PostgresOptions { lanes: 1, ..options() };
    let (a, b) = (open(&options), open(&options));
    let tasks = join_all((0..80).map(|_| a.create(new_task()))).await;
    let ids: Vec<TaskId> = tasks.into_iter().map(|task| task.unwrap().id).collect();
    for round in 0..15 {
        let keyed = |number: usize| {
            let key = format!("{round}-{number}");
            NewTask { key: Some(IdempotencyKey { tool: "t".to_owned(), key, digest: [0; 32] }), ..new_task() }
        };
        let mut writes: Vec<_> = ids.iter().map(|id| a.apply(*id, report("a"), NOW)).collect();
        writes.extend(ids.iter().rev().map(|id| b.apply(*id, report("b"), NOW)));
        let mut creates: Vec<_> = (0..40).map(|number| a.create(keyed(number))).collect();
        creates.extend((0..40).rev().map(|number| b.create(keyed(number))));
        let created = join_all(creates).await;
        assert_eq!(created.iter().filter(|created| created.is_ok()).count(), 40);
        for write in join_all(writes).await {
            write.unwrap();
        }
    }
    for id in ids {
        assert_eq!(a.get(id).await.unwrap().unwrap().version, 31);
    }
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    let admin = admin(&options).await;
    // A server's statistics come a little late.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(number(&admin, deadlocks).await, 0);
}

#[tokio::test]
async fn the_clock_is_that_of_the_database() {
    let options = options();
    let store = open(&options);
    let admin = admin(&options).await;
    let sql = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
    let before = number(&admin, sql).await;
    let now = store.clock().now().as_millis();
    let after = number(&admin, sql).await;
    // The machine may be busy; wrong units or a wrong sign are further off.
    assert!(before - 2000 <= now && now <= after + 2000, "{before} {now} {after}");
}

/// A node that is frozen in the middle of a transaction holds its locks no longer than the server's patience with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_frozen_node_does_not_hold_the_others_up() {
    let options = PostgresOptions { statement_timeout: Duration::from_secs(2), ..options() };
    let proxy = Proxy::to(Server::shared().url()).await;
    let through = PostgresOptions { url: proxy.through(&options.url), ..options.clone() };
    let (frozen, other) = (open(&through), open(&options));
    let id = frozen.create(new_task()).await.unwrap().id;
    proxy.set(Network::FreezeAtCommit);
    let held = tokio::spawn(frozen.apply(id, report("frozen"), NOW));
    soon(async {
        while proxy.get() != Network::Fine {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let change = soon(other.apply(id, report("other"), NOW)).await.unwrap();
    assert_eq!(change.task.version, 2);
    // Nothing of what it had begun is left, and it is made again as if it came now.
    let change = soon(held).await.unwrap().unwrap();
    assert_eq!((change.task.version, change.task.status_message.as_deref()), (3, Some("frozen")));
}
