use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use taskgate_task::{NodeId, Task, TaskId, Timestamp};
use tokio::sync::mpsc;

use crate::store::Heard;
use crate::work::{Executor, Runner};
use crate::{Clock, EngineError, Store};

/// The handle everyone uses: servers, console, admin commands. Cheap to clone.
#[derive(Clone)]
pub struct Engine(pub(crate) Arc<Inner>);

/// What a node keeps, and how it lives among the others of a shared store. An exclusive store needs nothing of the latter:
/// there, the lock on the file is the lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSettings {
    /// What the node is called in lists for people, beside the number of its process.
    pub name: String,
    /// How long after its last heartbeat a node still holds what it carries. How long the work takes does not matter.
    pub lease: Duration,
    /// How often a node renews its lease; well below the lease, so that one may fail.
    pub heartbeat: Duration,
    /// How often it looks for what it was not told of.
    pub poll: Duration,
    /// The longest result of a task that is kept, in bytes. A longer one fails the task.
    pub max_result: usize,
}

impl Default for NodeSettings {
    fn default() -> Self {
        NodeSettings {
            name: "taskgate".to_owned(),
            lease: Duration::from_secs(15),
            heartbeat: Duration::from_secs(5),
            poll: Duration::from_secs(2),
            max_result: 64 << 20,
        }
    }
}

pub(crate) struct Inner {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) executor: Executor,
    pub(crate) draining: AtomicBool,
    /// This node has taken leave of the others.
    pub(crate) has_left: AtomicBool,
    pub(crate) settings: NodeSettings,
    /// Whether there can be other nodes on this store.
    pub(crate) is_shared: bool,
    pub(crate) others: Mutex<Option<mpsc::UnboundedReceiver<Heard>>>,
    node: AtomicI64,
    /// Until when the store last said that this node holds what it carries.
    lease_until: AtomicI64,
    runners: RwLock<HashMap<String, Arc<dyn Runner>>>,
    last_locator: AtomicI64,
}

impl Engine {
    /// An engine over this store, with the store's clock.
    ///
    /// # Errors
    ///
    /// [`EngineError::Store`] if the operating system gives no random numbers.
    pub fn new(store: Arc<dyn Store>, settings: NodeSettings) -> Result<Self, EngineError> {
        let clock = store.clock();
        Engine::with_clock(store, settings, clock)
    }

    /// An engine with a clock of the caller's choice.
    ///
    /// # Errors
    ///
    /// As [`Engine::new`].
    pub fn with_clock(
        store: Arc<dyn Store>,
        settings: NodeSettings,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, EngineError> {
        // From now on, so that nothing is missed before somebody listens.
        let others = store.others();
        Ok(Engine(Arc::new(Inner {
            is_shared: others.is_some(),
            others: Mutex::new(others),
            store,
            clock,
            executor: Executor::default(),
            draining: AtomicBool::new(false),
            has_left: AtomicBool::new(false),
            settings,
            node: AtomicI64::new(fresh_node()?.as_number()),
            lease_until: AtomicI64::new(i64::MIN),
            runners: RwLock::default(),
            last_locator: AtomicI64::new(0),
        })))
    }

    /// Makes a runner known under a name. Tasks name their runner, so that work can be started again by another process.
    pub fn add_runner(&self, name: &str, runner: Arc<dyn Runner>) {
        self.0.runners.write().insert(name.to_owned(), runner);
    }

    /// Makes a runner unknown. What it runs goes on; what would have to be begun by it fails.
    pub fn remove_runner(&self, name: &str) {
        self.0.runners.write().remove(name);
    }

    pub(crate) fn runner(&self, name: &str) -> Option<Arc<dyn Runner>> {
        self.0.runners.read().get(name).cloned()
    }

    /// The store behind it.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.0.store
    }

    /// Whether there can be other nodes on its store.
    pub fn is_shared(&self) -> bool {
        self.0.is_shared
    }

    /// Now, by the engine's clock.
    pub fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    /// How many tasks this process carries at the moment.
    pub fn carried(&self) -> usize {
        self.0.executor.len()
    }

    /// Which node this is. It becomes another one when it was declared dead and goes on.
    pub fn node(&self) -> NodeId {
        NodeId::from_number(self.0.node.load(Ordering::Relaxed))
    }

    /// Becomes another node.
    pub(crate) fn reborn(&self) -> Result<NodeId, EngineError> {
        let node = fresh_node()?;
        self.0.node.store(node.as_number(), Ordering::Relaxed);
        Ok(node)
    }

    /// The store has taken note that this node lives.
    pub(crate) fn lives_until(&self, until: Timestamp) {
        self.0.lease_until.store(until.as_millis(), Ordering::Relaxed);
    }

    /// Whether this node can be sure that others take it for alive. If it is not, it begins nothing: they may have buried it,
    /// and would take over at once whatever it begins.
    pub(crate) fn holds_its_lease(&self) -> bool {
        !self.0.is_shared || self.now().as_millis() < self.0.lease_until.load(Ordering::Relaxed)
    }

    /// A fresh id. Within a process locators only go up, so two creations in one millisecond never collide.
    pub(crate) fn fresh_id(&self) -> Result<TaskId, EngineError> {
        let id = TaskId::from_entropy(self.now(), entropy()?);
        let last = self.0.last_locator.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| {
            Some(id.locator().max(last.saturating_add(1)))
        });
        let locator = last.map_or(id.locator(), |last| id.locator().max(last.saturating_add(1)));
        Ok(TaskId::from_parts(locator, id.secret()))
    }

    /// Whether the outcome's retention is over, so that the task no longer exists for anyone.
    pub(crate) fn is_expired(&self, task: &Task) -> bool {
        task.ended_at.is_some_and(|ended| self.now() >= ended.after(task.lifetime.retention))
    }

    /// Whether the engine has been told to start nothing new.
    pub fn is_draining(&self) -> bool {
        self.0.draining.load(Ordering::Relaxed)
    }
}

fn fresh_node() -> Result<NodeId, EngineError> {
    Ok(NodeId::from_entropy(entropy()?))
}

pub(crate) fn entropy<const N: usize>() -> Result<[u8; N], EngineError> {
    let mut entropy = [0; N];
    getrandom::fill(&mut entropy).map_err(|error| EngineError::Store(format!("no randomness: {error}")))?;
    Ok(entropy)
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("carried", &self.carried()).finish_non_exhaustive()
    }
}
