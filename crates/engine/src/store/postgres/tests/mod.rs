// Claims are made by unwrapping.
#![allow(clippy::unwrap_used)]

mod away;
mod commit;
mod layout;
mod proxy;
mod server;
mod shared;
mod tls;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use taskgate_task::{Lifetime, NewTask, NodeId, Owner, Payload, Step, TaskId, Timestamp, WorkClass};
use tokio_postgres::{Client, NoTls};

use super::{PostgresOptions, PostgresStore};
use crate::Store;
use crate::store::conformance;
use server::Server;

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);
const NODE: NodeId = NodeId::from_number(7);

fn count() -> u32 {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    COUNT.fetch_add(1, Ordering::Relaxed)
}

/// A schema of its own on the shared server, with fewer sessions than usual, since many tests run at once. Its sessions
/// go by the schema's name.
pub(in crate::store) fn options() -> PostgresOptions {
    on(Server::shared().url())
}

fn on(url: &str) -> PostgresOptions {
    let schema = format!("t_{}", count());
    let url = format!("{url}?application_name={schema}");
    PostgresOptions { schema, readers: 4, lanes: 2, ..PostgresOptions::new(url) }
}

/// Connects; the store has a thread of its own, so any thread may wait for it.
pub(in crate::store) fn open(options: &PostgresOptions) -> PostgresStore {
    let connecting = PostgresStore::connect(options.clone());
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(connecting).unwrap()
        });
        waiting.join().unwrap()
    })
}

/// A session of an administrator who looks at what the store does.
async fn admin(options: &PostgresOptions) -> Client {
    let (client, wire) = tokio_postgres::connect(&options.url, NoTls).await.unwrap();
    tokio::spawn(wire);
    let sql = format!("SET application_name TO admin; SET search_path TO {}", options.schema);
    client.batch_execute(&sql).await.unwrap();
    client
}

/// The answer to a question for one number.
async fn number(admin: &Client, sql: &str) -> i64 {
    admin.query_one(sql, &[]).await.unwrap().get(0)
}

/// Ends all sessions of the store, as an administrator or a dying server does.
async fn terminate(admin: &Client, options: &PostgresOptions) -> usize {
    let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1";
    admin.query(sql, &[&options.schema]).await.unwrap().len()
}

fn new_task() -> NewTask {
    let mut entropy = [0x5a; 19];
    entropy[..3].copy_from_slice(&count().to_be_bytes()[1..]);
    NewTask {
        id: TaskId::from_entropy(NOW, entropy),
        owner: Owner::local(),
        runner: "echo".to_owned(),
        work: Payload::parse(r#"{"name":"echo"}"#.to_owned()).unwrap(),
        class: WorkClass::Live,
        max_attempts: 5,
        node: NODE,
        key: None,
        checkpoint: None,
        lifetime: Lifetime {
            run_deadline: NOW.after(Duration::from_secs(60)),
            idle_limit: None,
            retention: Duration::from_secs(10),
            ttl: Duration::from_secs(70),
        },
        poll_interval: Duration::from_secs(1),
        status_message: None,
        created_at: NOW,
    }
}

fn report(message: &str) -> Step {
    Step::Report { fence: 1, message: message.to_owned() }
}

/// Fails instead of hanging.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), future).await.expect("it takes too long")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn postgres_conforms() {
    conformance::run_all(|| open(&options())).await;
}

/// The client would write what callers sent to the log, if that could be asked of it.
#[test]
fn parameters_of_statements_cannot_be_logged() {
    assert!(log::STATIC_MAX_LEVEL <= log::LevelFilter::Info);
}

/// What waits when the store is dropped is written, as on the other store on disk.
#[tokio::test]
async fn writes_that_wait_when_the_store_is_dropped_are_kept() {
    let options = options();
    let store = open(&options);
    let created: Vec<_> = (0..50).map(|_| store.create(new_task())).collect();
    drop(store);
    for created in created {
        created.await.unwrap();
    }
    assert_eq!(number(&admin(&options).await, "SELECT count(*) FROM task").await, 50);
}
