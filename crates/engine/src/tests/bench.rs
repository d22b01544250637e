//! Work in the hands of a test, a store with moods, and a clock that stands still until it is moved.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use taskgate_task::{
    Change, Event, LifetimePolicy, NewTask, Outcome, Owner, Payload, Question, Step, Task, TaskId, Timestamp,
    WorkClass,
};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use crate::store::Page;
use crate::{Clock, Ending, Engine, Feed, Launch, MemoryStore, Report, Runner, Store, StoreError, Work};

/// A clock that goes with tokio's, so that pausing one pauses both.
struct TokioClock(Instant);

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000).after(self.0.elapsed())
    }
}

/// One run, in the hands of the test.
pub struct Run {
    pub work: Work,
    pub report: Report,
    pub end: tokio::sync::oneshot::Sender<Ending>,
}

/// Work that waits for the test.
struct Script {
    runs: mpsc::UnboundedSender<Run>,
    stopped: Arc<AtomicUsize>,
}

struct Stopped(Option<Arc<AtomicUsize>>);

impl Stopped {
    fn defuse(mut self) {
        self.0 = None;
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        if let Some(stopped) = &self.0 {
            stopped.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl Runner for Script {
    fn run(&self, work: Work, report: Report) -> BoxFuture<'static, Ending> {
        let (end, ended) = tokio::sync::oneshot::channel();
        // The test may have gone.
        let _ = self.runs.send(Run { work, report, end });
        let stopped = Stopped(Some(self.stopped.clone()));
        Box::pin(async move {
            // A run that the test forgets goes on for ever.
            let Ok(ending) = ended.await else { return std::future::pending().await };
            stopped.defuse();
            ending
        })
    }
}

/// A memory store that can be slow to answer, or broken for a while.
#[derive(Default)]
pub struct Moody {
    store: MemoryStore,
    pub broken: AtomicUsize,
    pub slow: Mutex<Option<Duration>>,
}

impl Store for Arc<Moody> {
    fn create(&self, new: NewTask) -> BoxFuture<'static, Result<Task, StoreError>> {
        // Enqueued by the call, committed later: as on disk.
        let (created, slow) = (self.store.create(new), *self.slow.lock());
        Box::pin(async move {
            if let Some(slow) = slow {
                sleep(slow).await;
            }
            created.await
        })
    }

    fn apply(
        &self,
        id: TaskId,
        step: Step,
        now: Timestamp,
    ) -> BoxFuture<'static, Result<Change, StoreError>> {
        let broken = self.broken.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if broken.is_ok() {
            return Box::pin(std::future::ready(Err(StoreError::Failed("the disk is full".to_owned()))));
        }
        self.store.apply(id, step, now)
    }

    fn get(&self, id: TaskId) -> Result<Option<Task>, StoreError> {
        self.store.get(id)
    }

    fn work(&self, id: TaskId) -> Result<Option<Payload>, StoreError> {
        self.store.work(id)
    }

    fn list(&self, owner: &Owner, after: Option<i64>, limit: usize) -> Result<Page, StoreError> {
        self.store.list(owner, after, limit)
    }

    fn due(&self, now: Timestamp, limit: usize) -> Result<Vec<TaskId>, StoreError> {
        self.store.due(now, limit)
    }

    fn open(&self, after: i64, limit: usize) -> Result<Vec<Task>, StoreError> {
        self.store.open(after, limit)
    }

    fn events(&self, id: TaskId) -> Result<Vec<Event>, StoreError> {
        self.store.events(id)
    }

    fn secret(&self, name: &str) -> Result<[u8; 32], StoreError> {
        self.store.secret(name)
    }

    fn feed(&self) -> &Feed {
        self.store.feed()
    }
}

pub struct Bench {
    pub engine: Engine,
    pub store: Arc<Moody>,
    script: Arc<Script>,
    pub runs: mpsc::UnboundedReceiver<Run>,
    clock: Arc<TokioClock>,
}

impl Bench {
    pub fn new() -> Bench {
        let (runs, taken) = mpsc::unbounded_channel();
        let script = Arc::new(Script { runs, stopped: Arc::default() });
        let (store, clock) = (Arc::<Moody>::default(), Arc::new(TokioClock(Instant::now())));
        let engine = Engine::with_clock(Arc::new(store.clone()), clock.clone());
        engine.add_runner("script", script.clone());
        Bench { engine, store, script, runs: taken, clock }
    }

    /// Another process on the same store.
    pub fn restarted(&self) -> Engine {
        let engine = Engine::with_clock(Arc::new(self.store.clone()), self.clock.clone());
        engine.add_runner("script", self.script.clone());
        engine
    }

    pub fn launch(&self) -> Launch {
        Launch {
            owner: Owner::local(),
            runner: "script".to_owned(),
            with: self.script.clone(),
            work: json("{\"do\":1}"),
            class: WorkClass::Live,
            lifetime: LifetimePolicy::default(),
            poll_interval: Duration::from_secs(1),
        }
    }

    /// A task and its run.
    pub async fn task(&mut self, launch: Launch) -> (Task, Run) {
        let task =
            self.engine.start(launch, None).expect("started").become_task(None).await.expect("created");
        (task, self.run().await)
    }

    pub async fn run(&mut self) -> Run {
        self.runs.recv().await.expect("a run")
    }

    pub fn get(&self, task: &Task) -> Task {
        self.engine.get(&task.owner, task.id).expect("a task")
    }

    pub fn stopped(&self) -> usize {
        self.script.stopped.load(Ordering::SeqCst)
    }
}

pub fn json(text: &str) -> Payload {
    Payload::parse(text.to_owned()).expect("JSON")
}

pub fn result(text: &str) -> Ending {
    Ending::Finished(Outcome::Result { body: json(text), is_error: false, summary: None })
}

pub fn question(key: &str) -> Question {
    Question { key: key.to_owned(), method: "elicitation/create".to_owned(), params: None }
}

pub fn asked(keys: &[&str], state: &str) -> Ending {
    let questions = keys.iter().map(|key| question(key)).collect();
    Ending::Asked { questions, state: json(state), raw: json("{}") }
}

/// Lets everything run that can run without time passing.
pub async fn settle() {
    sleep(Duration::from_millis(1)).await;
}
