//! Work in the hands of a test, a store with moods, and a clock that stands still until it is moved.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use taskgate_task::{
    Change, Event, IdempotencyKey, LifetimePolicy, NewTask, NodeId, Outcome, Owner, Payload, Question, Step,
    Task, TaskId, Timestamp, WorkClass,
};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use crate::store::{Heard, Kept, KeptTask, Node, Page, Stored, Tally};
use crate::{
    Clock, Ending, Engine, Feed, Launch, MemoryStore, NodeSettings, NotStopped, Report, Runner, Store,
    StoreError, Work,
};

/// A clock that goes with tokio's, so that pausing one pauses both. It can be set ahead.
pub struct TokioClock {
    since: Instant,
    pub ahead: Mutex<Duration>,
}

impl TokioClock {
    fn new(since: Instant) -> Arc<TokioClock> {
        Arc::new(TokioClock { since, ahead: Mutex::default() })
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000).after(self.since.elapsed() + *self.ahead.lock())
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
    /// The work that was stopped where it went on.
    stops: Mutex<Vec<Work>>,
    refuses_to_stop: Mutex<usize>,
    /// Why work that was begun before cannot be got at, if it cannot.
    out_of_reach: Mutex<Option<String>>,
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

    fn reach(&self, work: &Work) -> Result<(), String> {
        // Lists spare what can be long, and where the work is cannot be told without it.
        let is_known = work.checkpoint.as_ref().is_some_and(|put_down| put_down.as_str() != "null");
        self.out_of_reach.lock().clone().filter(|_| is_known).map_or(Ok(()), Err)
    }

    fn stop(&self, work: Work) -> BoxFuture<'static, Result<(), NotStopped>> {
        let mut refusals = self.refuses_to_stop.lock();
        if *refusals > 0 {
            *refusals -= 1;
            return Box::pin(std::future::ready(Err(NotStopped("not yet".to_owned()))));
        }
        self.stops.lock().push(work);
        Box::pin(std::future::ready(Ok(())))
    }
}

/// A memory store that can be slow to answer, or broken for a while.
#[derive(Default)]
pub struct Moody {
    store: MemoryStore,
    pub broken: AtomicUsize,
    /// How long after the commit its caller hears of it.
    pub slow: Mutex<Option<Duration>>,
    /// How long a record is on its way to whoever asked for it.
    pub late: Mutex<Option<Duration>>,
    /// Cut off from a shared store: nothing gets there, and nothing is heard.
    pub away: AtomicBool,
    /// Not told of what others do.
    pub deaf: AtomicBool,
}

impl Moody {
    /// A store that several nodes share, as one of them sees it.
    pub fn over(store: MemoryStore) -> Arc<Moody> {
        Arc::new(Moody { store, ..Moody::default() })
    }

    fn reach<T: Send + 'static>(&self, ask: impl FnOnce(&MemoryStore) -> Stored<T>) -> Stored<T> {
        if self.away.load(Ordering::SeqCst) {
            return Box::pin(std::future::ready(Err(StoreError::Failed("out of reach".to_owned()))));
        }
        ask(&self.store)
    }

    fn slowly<T: Send + 'static>(&self, written: Stored<T>) -> Stored<T> {
        after(*self.slow.lock(), written)
    }
}

/// Done by the call, told later: as over a network.
fn after<T: Send + 'static>(pause: Option<Duration>, done: Stored<T>) -> Stored<T> {
    let Some(pause) = pause else { return done };
    Box::pin(async move {
        sleep(pause).await;
        done.await
    })
}

impl Store for Arc<Moody> {
    fn create(&self, new: NewTask) -> Stored<Task> {
        self.slowly(self.reach(|store| store.create(new)))
    }

    fn apply(&self, id: TaskId, step: Step, now: Timestamp) -> Stored<Change> {
        let broken = self.broken.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if broken.is_ok() {
            return Box::pin(std::future::ready(Err(StoreError::Failed("the disk is full".to_owned()))));
        }
        self.slowly(self.reach(|store| store.apply(id, step, now)))
    }

    fn get(&self, id: TaskId) -> Stored<Option<Task>> {
        after(*self.late.lock(), self.reach(|store| store.get(id)))
    }

    fn work(&self, id: TaskId) -> Stored<Option<Payload>> {
        self.reach(|store| store.work(id))
    }

    fn keyed(&self, owner: &Owner, key: &IdempotencyKey) -> Stored<Option<(TaskId, bool)>> {
        self.reach(|store| store.keyed(owner, key))
    }

    fn tally(&self, owner: Option<&Owner>) -> Stored<Tally> {
        self.reach(|store| store.tally(owner))
    }

    fn list(&self, owner: &Owner, after: Option<i64>, limit: usize) -> Stored<Page> {
        self.reach(|store| store.list(owner, after, limit))
    }

    fn all(&self, after: Option<i64>, limit: usize) -> Stored<Page> {
        self.reach(|store| store.all(after, limit))
    }

    fn due(&self, now: Timestamp, limit: usize) -> Stored<Vec<TaskId>> {
        self.reach(|store| store.due(now, limit))
    }

    fn ready(&self, now: Timestamp, limit: usize) -> Stored<Vec<Task>> {
        self.reach(|store| store.ready(now, limit))
    }

    fn orphans(&self, limit: usize) -> Stored<Vec<Task>> {
        self.reach(|store| store.orphans(limit))
    }

    fn carried(&self, node: NodeId, after: i64, limit: usize) -> Stored<Vec<Task>> {
        self.reach(|store| store.carried(node, after, limit))
    }

    fn versions(&self, ids: Vec<TaskId>) -> Stored<Vec<(TaskId, u64)>> {
        self.reach(|store| store.versions(ids))
    }

    fn events(&self, id: TaskId) -> Stored<Vec<Event>> {
        self.reach(|store| store.events(id))
    }

    fn dump(&self, after: Option<i64>, limit: usize) -> Stored<Vec<Kept>> {
        self.reach(|store| store.dump(after, limit))
    }

    fn load(&self, kept: Vec<Kept>) -> Stored<()> {
        self.reach(|store| store.load(kept))
    }

    fn rewrite(&self, kept: Vec<KeptTask>) -> Stored<usize> {
        self.reach(|store| store.rewrite(kept))
    }

    fn keep(&self, name: &str, fresh: Vec<u8>) -> Stored<Vec<u8>> {
        self.reach(|store| store.keep(name, fresh))
    }

    fn join(&self, node: Node) -> Stored<()> {
        self.reach(|store| store.join(node))
    }

    fn renew(&self, node: NodeId, until: Timestamp) -> Stored<bool> {
        self.reach(|store| store.renew(node, until))
    }

    fn leave(&self, node: NodeId) -> Stored<()> {
        self.reach(|store| store.leave(node))
    }

    fn bury(&self, node: NodeId, now: Timestamp) -> Stored<bool> {
        self.reach(|store| store.bury(node, now))
    }

    fn nodes(&self) -> Stored<Vec<Node>> {
        self.reach(|store| store.nodes())
    }

    fn feed(&self) -> &Feed {
        self.store.feed()
    }

    fn others(&self) -> Option<mpsc::UnboundedReceiver<Heard>> {
        let (mut all, store) = (self.store.others()?, self.clone());
        let (teller, heard) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(told) = all.recv().await {
                let is_cut = store.deaf.load(Ordering::SeqCst) || store.away.load(Ordering::SeqCst);
                if !is_cut && teller.send(told).is_err() {
                    return;
                }
            }
        });
        Some(heard)
    }
}

pub struct Bench {
    pub engine: Engine,
    pub store: Arc<Moody>,
    script: Arc<Script>,
    pub runs: mpsc::UnboundedReceiver<Run>,
    pub clock: Arc<TokioClock>,
}

impl Bench {
    pub fn new() -> Bench {
        Bench::over(Arc::default())
    }

    /// A node on this store.
    pub fn over(store: Arc<Moody>) -> Bench {
        let (runs, taken) = mpsc::unbounded_channel();
        let script = Arc::new(Script {
            runs,
            stopped: Arc::default(),
            stops: Mutex::default(),
            refuses_to_stop: Mutex::default(),
            out_of_reach: Mutex::default(),
        });
        let clock = TokioClock::new(Instant::now());
        let engine = engine(&store, &script, &clock);
        Bench { engine, store, script, runs: taken, clock }
    }

    /// Another process on the same store.
    pub fn restarted(&self) -> Engine {
        engine(&self.store, &self.script, &self.clock)
    }

    /// Another node on the same shared store, with work and tests of its own and a clock that agrees.
    pub fn another(&self) -> Bench {
        let mut bench = Bench::over(Moody::over(self.store.store.another()));
        bench.clock = TokioClock::new(self.clock.since);
        bench.engine = engine(&bench.store, &bench.script, &bench.clock);
        bench
    }

    /// Knows another runner from now on.
    pub fn know(&self, runner: &str) {
        self.engine.add_runner(runner, self.script.clone());
    }

    /// The work that was stopped where it went on.
    pub fn stops(&self) -> Vec<Work> {
        self.script.stops.lock().clone()
    }

    /// The next attempts to stop work fail.
    pub fn refuse_to_stop(&self, times: usize) {
        *self.script.refuses_to_stop.lock() = times;
    }

    /// What was begun before cannot be got at from here.
    pub fn is_out_of_reach(&self, why: &str) {
        *self.script.out_of_reach.lock() = Some(why.to_owned());
    }

    pub fn launch(&self) -> Launch {
        Launch {
            owner: Owner::local(),
            runner: "script".to_owned(),
            with: self.script.clone(),
            work: json("{\"do\":1}").into(),
            class: WorkClass::Live,
            max_attempts: 5,
            lifetime: LifetimePolicy::default(),
            poll_interval: Duration::from_secs(1),
            immediate: None,
            queued: None,
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

    pub async fn get(&self, task: &Task) -> Task {
        self.engine.get(&task.owner, task.id).await.expect("a task")
    }

    pub fn stopped(&self) -> usize {
        self.script.stopped.load(Ordering::SeqCst)
    }
}

/// The longest result the engines here keep.
pub const MAX_RESULT: usize = 10_000;

fn engine(store: &Arc<Moody>, script: &Arc<Script>, clock: &Arc<TokioClock>) -> Engine {
    let settings = NodeSettings {
        name: "test".to_owned(),
        lease: Duration::from_secs(15),
        heartbeat: Duration::from_secs(5),
        poll: Duration::from_secs(2),
        max_result: MAX_RESULT,
    };
    let engine = Engine::with_clock(Arc::new(store.clone()), settings, clock.clone()).expect("an engine");
    engine.add_runner("script", script.clone());
    engine
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
