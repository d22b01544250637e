//! A gateway with a runtime of its own, so that it can be killed like a process: everything stops at once, nothing is
//! told to anyone, and only what was committed is left.

use std::path::Path;
use std::time::Duration;

use taskgate_gateway::{GatewayBuilder, SqliteOptions, SqliteStore};
use tokio::runtime::Runtime;

use super::Server;

/// A gateway that can be killed.
pub struct Life {
    runtime: Option<Runtime>,
    /// Where it serves.
    pub server: Option<Server>,
}

impl Life {
    /// Starts a gateway on this file.
    pub async fn start(file: &Path, builder: impl FnOnce() -> GatewayBuilder + Send + 'static) -> Life {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let file = file.to_owned();
        let started = runtime.spawn(async move {
            let store = open(&file).await;
            Server::start(builder().store(store).build().await.expect("gateway")).await
        });
        let server = started.await.expect("started");
        Life { runtime: Some(runtime), server: Some(server) }
    }

    /// The server.
    pub fn server(&self) -> &Server {
        self.server.as_ref().expect("alive")
    }

    /// Kills it.
    pub async fn kill(mut self) {
        self.server = None;
        self.stop_runtime().await;
    }

    async fn stop_runtime(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            let stop = move || runtime.shutdown_timeout(Duration::from_secs(5));
            tokio::task::spawn_blocking(stop).await.expect("stopped");
        }
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Opens the file as soon as whoever had it before has let go.
pub async fn open(file: &Path) -> SqliteStore {
    let mut last = None;
    for _ in 0..200 {
        match SqliteStore::open(SqliteOptions::new(file)) {
            Ok(store) => return store,
            Err(error) => last = Some(error),
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("the file cannot be opened: {last:?}");
}
