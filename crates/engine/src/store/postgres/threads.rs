use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::StoreError;

/// How long what was committed may still be told to the other nodes.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// What has to end before the thread does: the lanes, and then whoever tells the other nodes what they have committed.
#[derive(Debug)]
pub(super) struct Tasks {
    pub(super) lanes: Vec<JoinHandle<()>>,
    pub(super) notifier: JoinHandle<()>,
}

/// A thread with a runtime of its own, which moves everything between the store and the database.
///
/// So a store can be used from any executor, and what waits to be written when it is dropped is written before that
/// has happened.
#[derive(Debug)]
pub(super) struct Thread {
    handle: Handle,
    thread: Option<thread::JoinHandle<()>>,
}

impl Thread {
    /// Starts the thread, which ends with the tasks it is given, or when it cannot be given any.
    pub(super) fn start(end: oneshot::Receiver<Tasks>) -> Result<Self, StoreError> {
        let broken = |error: std::io::Error| {
            StoreError::Failed(format!("the thread for the database cannot be started: {error}"))
        };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(broken)?;
        let handle = runtime.handle().clone();
        let thread = thread::Builder::new().name("taskgate-postgres".to_owned()).spawn(move || {
            runtime.block_on(async {
                let Ok(Tasks { lanes, notifier }) = end.await else { return };
                for lane in lanes {
                    let _ = lane.await;
                }
                let _ = tokio::time::timeout(LAST_WORDS, notifier).await;
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
