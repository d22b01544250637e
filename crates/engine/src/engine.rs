use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use parking_lot::RwLock;
use taskgate_task::{Task, TaskId, Timestamp};

use crate::work::{Executor, Runner};
use crate::{Clock, EngineError, Store, SystemClock};

/// The handle everyone uses: servers, console, admin commands. Cheap to clone.
#[derive(Clone)]
pub struct Engine(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) executor: Executor,
    pub(crate) draining: AtomicBool,
    runners: RwLock<HashMap<String, Arc<dyn Runner>>>,
    last_locator: AtomicI64,
}

impl Engine {
    /// An engine over this store, with the machine's clock.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Engine::with_clock(store, Arc::new(SystemClock))
    }

    /// An engine with a clock of the caller's choice.
    pub fn with_clock(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Engine(Arc::new(Inner {
            store,
            clock,
            executor: Executor::default(),
            draining: AtomicBool::new(false),
            runners: RwLock::default(),
            last_locator: AtomicI64::new(0),
        }))
    }

    /// Makes a runner known under a name. Tasks name their runner, so that work can be started again by another process.
    pub fn add_runner(&self, name: &str, runner: Arc<dyn Runner>) {
        self.0.runners.write().insert(name.to_owned(), runner);
    }

    pub(crate) fn runner(&self, name: &str) -> Option<Arc<dyn Runner>> {
        self.0.runners.read().get(name).cloned()
    }

    /// The store behind it.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.0.store
    }

    /// Now, by the engine's clock.
    pub fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    /// How many tasks this process carries at the moment.
    pub fn carried(&self) -> usize {
        self.0.executor.len()
    }

    /// A fresh id. Within a process locators only go up, so two creations in one millisecond never collide.
    pub(crate) fn fresh_id(&self) -> Result<TaskId, EngineError> {
        let mut entropy = [0; 19];
        getrandom::fill(&mut entropy)
            .map_err(|error| EngineError::Store(format!("no randomness: {error}")))?;
        let id = TaskId::from_entropy(self.now(), entropy);
        let last = self.0.last_locator.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| {
            Some(id.locator().max(last.saturating_add(1)))
        });
        let locator = last.map_or(id.locator(), |last| id.locator().max(last.saturating_add(1)));
        Ok(TaskId::from_parts(locator, id.secret()))
    }

    /// Whether the outcome's retention is over, so that the task no longer exists for anyone.
    pub(crate) fn is_expired(&self, task: &Task) -> bool {
        task.status.is_terminal() && self.now() >= task.due_at()
    }

    /// Whether the engine has been told to start nothing new.
    pub fn is_draining(&self) -> bool {
        self.0.draining.load(Ordering::Relaxed)
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("carried", &self.carried()).finish_non_exhaustive()
    }
}
