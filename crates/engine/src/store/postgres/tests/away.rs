//! The database goes away and comes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use taskgate_task::Step;

use super::{NOW, Server, admin, new_task, number, on, open, options, report, soon, terminate};
use crate::{PostgresOptions, PostgresStore, Store};

/// Sessions are ended again and again in the middle of the load: every write is made, and made once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_write_is_lost_or_doubled_when_sessions_end() {
    let options = PostgresOptions { patience: Duration::from_secs(60), ..options() };
    let store = open(&options);
    let admin = admin(&options).await;
    let stop = Arc::new(AtomicBool::new(false));
    let callers = (0..8).map(|_| {
        let (store, stop) = (store.clone(), Arc::clone(&stop));
        tokio::spawn(async move {
            let mut made = 0;
            while !stop.load(Ordering::SeqCst) {
                let task = store.create(new_task()).await.unwrap();
                for version in 2..5 {
                    let change = store.apply(task.id, report("…"), NOW).await.unwrap();
                    assert_eq!(change.task.version, version);
                }
                let ended = store.apply(task.id, Step::Cancel, NOW).await.unwrap().task;
                assert_eq!(store.get(task.id).await.unwrap(), Some(ended));
                made += 1;
            }
            made
        })
    });
    let callers: Vec<_> = callers.collect();
    let mut ended = 0;
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(150)).await;
        ended += terminate(&admin, &options).await;
    }
    stop.store(true, Ordering::SeqCst);
    let made: i64 = soon(join_all(callers)).await.into_iter().map(Result::unwrap).sum();
    assert!(ended > 20 && made > 0, "{ended} sessions ended, {made} tasks made");
    assert_eq!(number(&admin, "SELECT count(*) FROM task WHERE status = 5 AND version = 5").await, made);
    assert_eq!(number(&admin, "SELECT count(*) FROM event").await, 2 * made);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_database_that_is_gone_is_named_and_one_that_is_back_is_used() {
    let server = Server::start();
    let url = server.url().replace("postgres@", "postgres:hunter2@");
    let patient = PostgresOptions { patience: Duration::from_secs(60), ..on(&url) };
    let hasty = PostgresOptions { patience: Duration::from_millis(600), ..patient.clone() };
    let (store, hasty_store) = (open(&patient), open(&hasty));
    let task = store.create(new_task()).await.unwrap();
    for order in ["stop", "kill"] {
        server.order(order);
        let begun = Instant::now();
        let errors = [
            hasty_store.get(task.id).await.unwrap_err().to_string(),
            hasty_store.apply(task.id, report("lost"), NOW).await.unwrap_err().to_string(),
            hasty_store.create(new_task()).await.unwrap_err().to_string(),
            hasty_store.leave(super::NODE).await.unwrap_err().to_string(),
        ];
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        for (number, error) in errors.iter().enumerate() {
            assert!(error.contains("cannot reach the database at 127.0.0.1:"), "{error}");
            assert!(error.contains("/postgres: "), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
            assert_eq!(error.contains("nothing was written"), number > 0, "{error}");
        }
        let error = soon(PostgresStore::connect(hasty.clone())).await.unwrap_err().to_string();
        assert!(error.contains("cannot reach the database") && !error.contains("hunter2"), "{error}");

        let reported = tokio::spawn(store.apply(task.id, report(order), NOW));
        let asked = tokio::spawn(store.get(new_task().id));
        tokio::time::sleep(Duration::from_millis(500)).await;
        server.order("start");
        let told = soon(reported).await.unwrap().unwrap();
        assert_eq!(told.task.status_message.as_deref(), Some(order));
        assert_eq!(soon(asked).await.unwrap().unwrap(), None);
        // What the hasty one was refused was not done behind its back.
        assert_eq!(soon(store.get(task.id)).await.unwrap(), Some(told.task));
        soon(async { while hasty_store.get(task.id).await.is_err() {} }).await;
    }
    let admin = admin(&patient).await;
    assert_eq!(number(&admin, "SELECT count(*) FROM task").await, 1);
}

/// A store that is dropped while its database is away does not hold up whoever drops it for longer than its patience.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_store_can_be_dropped_while_the_database_is_away() {
    let server = Server::start();
    let store = open(&PostgresOptions { patience: Duration::from_millis(500), ..on(server.url()) });
    server.order("kill");
    let created = store.create(new_task());
    let begun = Instant::now();
    tokio::task::spawn_blocking(move || drop(store)).await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let error = created.await.unwrap_err().to_string();
    assert!(error.contains("nothing was written"), "{error}");
}
