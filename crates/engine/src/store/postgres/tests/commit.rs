//! Many writes in one transaction, and what became of it when the network was cut.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use taskgate_task::{Status, Step};

use super::proxy::{Network, Proxy};
use super::{NOW, Server, admin, new_task, number, on, open, options, report, soon};
use crate::{News, Store, StoreError};

/// One transaction leaves the same mark on all the rows it made.
#[tokio::test]
async fn waiting_writes_are_committed_together() {
    let options = crate::PostgresOptions { lanes: 1, ..options() };
    let store = open(&options);
    let held = store.create(new_task()).await.unwrap();
    let admin = admin(&options).await;
    let lock = format!("BEGIN; SELECT FROM task WHERE locator = {} FOR UPDATE", held.id.locator());
    admin.batch_execute(&lock).await.unwrap();
    // This one waits for the lock, and the others for it.
    let first = store.apply(held.id, report("first"), NOW);
    let waiting =
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = ";
    let waiting = format!("{waiting}'{}'", options.schema);
    while number(&admin, &waiting).await == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let news: Vec<_> = (0..100).map(|_| new_task()).collect();
    let created: Vec<_> = news.iter().map(|new| store.create(new.clone())).collect();
    let cancelled: Vec<_> = news.iter().map(|new| store.apply(new.id, Step::Cancel, NOW)).collect();
    let taken = store.create(news[7].clone());
    admin.batch_execute("COMMIT").await.unwrap();
    first.await.unwrap();
    assert!(join_all(created).await.iter().all(Result::is_ok));
    assert!(join_all(cancelled).await.iter().all(|change| change.as_ref().unwrap().task.version == 2));
    assert!(matches!(taken.await, Err(StoreError::IdTaken)));
    assert_eq!(number(&admin, "SELECT count(DISTINCT xmin::text) FROM task WHERE status = 5").await, 1);
}

/// What an administrator has forbidden is refused by the server, in the middle of a batch.
#[tokio::test]
async fn a_write_that_the_server_refuses_fails_alone() {
    let options = crate::PostgresOptions { lanes: 1, ..options() };
    let store = open(&options);
    let forbid = "ALTER TABLE task ADD CHECK (runner <> 'no')";
    admin(&options).await.batch_execute(forbid).await.unwrap();
    let mut writes = Vec::new();
    for number in 0..60 {
        let mut new = new_task();
        if number == 33 {
            new.runner = "no".to_owned();
        }
        writes.push(store.create(new));
    }
    let results = join_all(writes).await;
    for (number, result) in results.iter().enumerate() {
        match result {
            Err(StoreError::Failed(why)) if number == 33 => {
                assert!(
                    why.contains("violates check constraint") && why.contains("nothing was written"),
                    "{why}"
                );
            }
            result => assert!(result.is_ok() && number != 33, "{number}: {result:?}"),
        }
    }
    assert_eq!(number(&admin(&options).await, "SELECT count(*) FROM task").await, 59);
}

/// However the network is cut around a commit, the write is made once and its caller is told so.
#[tokio::test]
async fn a_commit_under_way_is_told_as_it_was() {
    for network in [Network::CutAfterCommit, Network::CutBeforeCommit, Network::SwallowCommit] {
        let proxy = Proxy::to(Server::shared().url()).await;
        let options = on(&proxy.through(Server::shared().url()));
        let store = tokio::task::spawn_blocking({
            let options = options.clone();
            move || open(&options)
        });
        let store = store.await.unwrap();
        let task = store.create(new_task()).await.unwrap();
        let mut follower = store.feed().follow([task.id]);
        for version in 2..6 {
            proxy.set(network);
            let change = soon(store.apply(task.id, report(&version.to_string()), NOW)).await;
            assert_eq!(change.unwrap().task.version, version, "{network:?}");
            assert_eq!(proxy.get(), Network::Fine, "{network:?} did not happen");
            let Some(News::Changed(told)) = soon(follower.next()).await else { panic!("no news") };
            assert_eq!(told.version, version);
        }
        proxy.set(network);
        let new = new_task();
        assert_eq!(soon(store.create(new.clone())).await.unwrap().id, new.id, "{network:?}");
        assert_eq!(store.events(new.id).await.unwrap().len(), 1);
        proxy.set(network);
        let cancelled = soon(store.apply(new.id, Step::Cancel, NOW)).await.unwrap();
        assert_eq!(store.get(new.id).await.unwrap(), Some(cancelled.task));
        assert_eq!(store.events(new.id).await.unwrap().len(), 2);
        // Statements that are about no task go the same way.
        let node =
            crate::store::Node { id: super::NODE, name: "n".to_owned(), joined_at: NOW, lease_until: NOW };
        proxy.set(network);
        soon(store.join(node)).await.unwrap();
        proxy.set(network);
        assert!(soon(store.bury(super::NODE, NOW)).await.unwrap(), "{network:?}");
    }
}

/// While nobody can be asked, nobody is told a tale; and who follows the task hears of it in the end.
#[tokio::test]
async fn a_commit_nobody_can_ask_about_is_called_that() {
    let proxy = Proxy::to(Server::shared().url()).await;
    let url = proxy.through(Server::shared().url());
    let options = crate::PostgresOptions { patience: Duration::from_millis(700), ..on(&url) };
    let store = tokio::task::spawn_blocking(move || open(&options)).await.unwrap();
    let task = store.create(new_task()).await.unwrap();
    let mut follower = store.feed().follow([task.id]);
    proxy.set(Network::CutAfterCommitForLong);
    let begun = Instant::now();
    let error = soon(store.apply(task.id, Step::Cancel, NOW)).await.unwrap_err().to_string();
    assert!(error.contains("could not be found out"), "{error}");
    assert!(begun.elapsed() >= Duration::from_millis(700));
    // A write that comes later waits in vain, and is certain of it.
    let error = soon(store.apply(task.id, Step::Cancel, NOW)).await.unwrap_err().to_string();
    assert!(error.contains("cannot reach the database at 127.0.0.1:"), "{error}");
    assert!(error.contains("nothing was written"), "{error}");
    proxy.set(Network::Fine);
    let Some(News::Changed(told)) = soon(follower.next()).await else { panic!("no news") };
    assert_eq!((told.version, told.status), (2, Status::Cancelled));
}

/// A server that crashes forgets the numbers of transactions that had not reached its disk, and gives them to others. That
/// one of those was committed says nothing about ours.
#[tokio::test]
async fn a_commit_is_not_taken_for_another_one_after_a_crash_of_the_server() {
    let server = Server::start();
    let proxy = Proxy::to(server.url()).await;
    let url = proxy.through(server.url());
    let options = crate::PostgresOptions { patience: Duration::from_secs(60), ..on(&url) };
    let store = tokio::task::spawn_blocking(move || open(&options)).await.unwrap();
    proxy.set(Network::LoseCommitForLong);
    let new = new_task();
    let created = store.create(new.clone());
    while proxy.get() != Network::Down {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    server.order("kill");
    server.order("start");
    let others = admin(&on(server.url())).await;
    for _ in 0..50 {
        others.batch_execute("SELECT pg_current_xact_id()").await.unwrap();
    }
    proxy.set(Network::Fine);
    let created = soon(created).await.unwrap();
    assert_eq!(store.get(new.id).await.unwrap(), Some(created));
}
