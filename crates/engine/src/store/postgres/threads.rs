use std::thread::{self, JoinHandle};

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::StoreError;

/// A thread with a runtime of its own, which moves everything between the store and the database.
///
/// So a store can be used from any executor, and what waits to be written when it is dropped is written before that
/// has happened.
#[derive(Debug)]
pub(super) struct Thread {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Thread {
    /// Starts the thread, which ends when `end` has been answered or dropped.
    pub(super) fn start(
        end: oneshot::Receiver<Vec<tokio::task::JoinHandle<()>>>,
    ) -> Result<Self, StoreError> {
        let broken = |error: std::io::Error| {
            StoreError::Failed(format!("the thread for the database cannot be started: {error}"))
        };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(broken)?;
        let handle = runtime.handle().clone();
        let thread = thread::Builder::new().name("taskgate-postgres".to_owned()).spawn(move || {
            runtime.block_on(async {
                for task in end.await.unwrap_or_default() {
                    let _ = task.await;
                }
            });
            // What is left only listens; a name that is being looked up is not waited for.
            runtime.shutdown_background();
        });
        Ok(Thread { handle, thread: Some(thread.map_err(broken)?) })
    }

    /// Where things run.
    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Waits for the thread's end.
    pub(super) fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
