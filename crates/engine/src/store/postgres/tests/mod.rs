// Claims are made by unwrapping.
#![allow(clippy::unwrap_used)]

mod server;

use std::sync::atomic::{AtomicUsize, Ordering};

use super::{PostgresOptions, PostgresStore};
use crate::store::conformance;
use server::Server;

/// A schema of its own on the shared server, with fewer sessions than usual, since many tests run at once.
pub(in crate::store) fn options() -> PostgresOptions {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let schema = format!("t_{}", COUNT.fetch_add(1, Ordering::Relaxed));
    PostgresOptions { schema, readers: 4, lanes: 2, ..PostgresOptions::new(Server::shared().url()) }
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

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn postgres_conforms() {
    conformance::run_all(|| open(&options())).await;
}
