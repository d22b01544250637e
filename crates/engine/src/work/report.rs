use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use taskgate_task::{Inputs, MAX_STATE, Payload, Question, Refusal, Step, TaskId};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::inline::InlineEvent;
use crate::{Engine, EngineError, StoreError};

/// Where work says how it is getting on, and asks.
///
/// The same handle serves a call that is answered at once and one that has become a task: the work
/// is never told, and never started twice.
#[derive(Debug, Clone)]
pub struct Report(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    mode: Mutex<Mode>,
    last_sign: Mutex<Instant>,
    /// The work has said that it waits, and has given no sign since.
    waits: AtomicBool,
    /// What a host may tell its model as soon as the work has become a task.
    immediate: Mutex<Option<String>>,
    /// Who listens to a task while it is being carried for the first time. What is said to nobody is lost.
    listener: Option<mpsc::UnboundedSender<InlineEvent>>,
    /// Why the work has not begun yet, if it has been let wait for its turn.
    queued: Mutex<Option<String>>,
    /// In whose words the work says how it is getting on, if not in its own.
    words: OnceLock<Words>,
}

/// Puts what is said for people into other words.
struct Words(Box<dyn Fn(String) -> String + Send + Sync>);

impl std::fmt::Debug for Words {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Words")
    }
}

#[derive(Debug)]
enum Mode {
    Inline { events: mpsc::UnboundedSender<InlineEvent>, checkpoint: Option<Payload> },
    Task { engine: Engine, id: TaskId, fence: u64, told_at: Option<Instant> },
}

/// Whoever waits for the answer to one question of an inline call.
#[derive(Debug)]
pub struct AnswerTo {
    /// The question.
    pub question: Question,
    /// Where its answer goes. It is closed when the work takes the question back.
    pub reply: oneshot::Sender<Answered>,
}

/// An answer, or the error object of a requestor who could not give one.
pub type Answered = Result<Payload, Payload>;

/// Progress of a task is written to the store at most this often; each line replaces the last one.
const TELL_EVERY: std::time::Duration = std::time::Duration::from_millis(250);

impl Report {
    pub(crate) fn inline(events: mpsc::UnboundedSender<InlineEvent>) -> Self {
        Report::new(Mode::Inline { events, checkpoint: None }, None)
    }

    pub(crate) fn task(engine: Engine, id: TaskId, fence: u64) -> Self {
        Report::listened(engine, id, fence, None)
    }

    /// For a task whose progress and logs somebody listens to.
    pub(crate) fn listened(
        engine: Engine,
        id: TaskId,
        fence: u64,
        listener: Option<mpsc::UnboundedSender<InlineEvent>>,
    ) -> Self {
        Report::new(Mode::Task { engine, id, fence, told_at: None }, listener)
    }

    fn new(mode: Mode, listener: Option<mpsc::UnboundedSender<InlineEvent>>) -> Self {
        let last_sign = Mutex::new(Instant::now());
        let (mode, waits) = (Mutex::new(mode), AtomicBool::new(false));
        let (immediate, queued) = (Mutex::default(), Mutex::default());
        Report(Arc::new(Shared {
            mode,
            last_sign,
            waits,
            immediate,
            listener,
            queued,
            words: OnceLock::new(),
        }))
    }

    /// From here on what is said for people is put into other words, such as without what must not be seen. What is passed on as it
    /// came is not. Only the first who asks for it is heard.
    pub fn says_as(&self, words: impl Fn(String) -> String + Send + Sync + 'static) {
        let _ = self.0.words.set(Words(Box::new(words)));
    }

    fn in_words(&self, message: String) -> String {
        match self.0.words.get() {
            Some(Words(words)) => words(message),
            None => message,
        }
    }

    /// From here on everything goes to the task, which is made with what was put down so far.
    pub(crate) fn becomes<T>(
        &self,
        engine: Engine,
        id: TaskId,
        create: impl FnOnce(Option<Payload>) -> T,
    ) -> T {
        let mut mode = self.0.mode.lock();
        let task = Mode::Task { engine, id, fence: 1, told_at: None };
        let checkpoint = match std::mem::replace(&mut *mode, task) {
            Mode::Inline { checkpoint, .. } => checkpoint,
            Mode::Task { .. } => None,
        };
        // Called under the lock: whatever the work says from now on queues up behind it.
        create(checkpoint)
    }

    /// Whether it is settled what became of the work: its task has ended or is gone, or its call was never one. To be
    /// asked when the run has ended.
    ///
    /// # Errors
    ///
    /// [`EngineError::Store`] if the store cannot be read.
    pub async fn is_settled(&self) -> Result<bool, EngineError> {
        let (engine, id) = match &*self.0.mode.lock() {
            Mode::Inline { .. } => return Ok(true),
            Mode::Task { engine, id, .. } => (engine.clone(), *id),
        };
        let task = engine.0.store.get(id).await?;
        Ok(task.is_none_or(|task| task.status.is_terminal()))
    }

    /// A call that is no task has ended by itself: nothing of it goes on elsewhere.
    pub(crate) fn is_over(&self) {
        if let Mode::Inline { checkpoint, .. } = &mut *self.0.mode.lock() {
            *checkpoint = None;
        }
    }

    /// What a call that is no task yet has put down.
    pub(crate) fn put_down(&self) -> Option<Payload> {
        match &*self.0.mode.lock() {
            Mode::Inline { checkpoint, .. } => checkpoint.clone(),
            Mode::Task { .. } => None,
        }
    }

    /// Puts down what another attempt needs to go on with the work, should this one end before it; it replaces what was put
    /// down before. It is durable when the future resolves. A call that is no task yet keeps it until it is one.
    ///
    /// From then on dropping the run does not stop the work: see [`Runner::stop`](crate::Runner::stop).
    ///
    /// # Errors
    ///
    /// [`EngineError::Terminal`] if the task has ended, [`EngineError::TooLong`] beyond [`MAX_STATE`], [`EngineError::Store`]
    /// if another attempt carries it now or the store failed: what was put down before still stands.
    pub async fn checkpoint(&self, state: Payload) -> Result<(), EngineError> {
        self.sign();
        let kept = match &mut *self.0.mode.lock() {
            Mode::Inline { .. } if state.as_str().len() > MAX_STATE => {
                return Err(StoreError::Refused(Refusal::TooLong(state.as_str().len())).into());
            }
            Mode::Inline { checkpoint, .. } => {
                *checkpoint = Some(state);
                return Ok(());
            }
            Mode::Task { engine, id, fence, .. } => {
                engine.0.store.apply(*id, Step::Checkpoint { fence: *fence, state }, engine.now())
            }
        };
        kept.await?;
        Ok(())
    }

    /// When the work last gave a sign of life.
    pub(crate) fn last_sign(&self) -> Instant {
        *self.0.last_sign.lock()
    }

    /// The work counts as alive now.
    pub(crate) fn alive(&self) {
        *self.0.last_sign.lock() = Instant::now();
    }

    /// A sign of life of the work itself, with nothing to tell.
    pub fn sign(&self) {
        self.alive();
        self.0.waits.store(false, Ordering::Relaxed);
    }

    /// Whether the work waits for something that is not its own: that is no silence of the work.
    pub(crate) fn waits(&self) -> bool {
        self.0.waits.load(Ordering::Relaxed)
    }

    /// The work cannot go on before something happens that is not its own, as the line for people says. The idle limit does
    /// not count until its next sign of life.
    pub fn wait(&self, message: String) {
        self.line(message);
        self.0.waits.store(true, Ordering::Relaxed);
    }

    /// What the work has waited for has happened, as the line for people says.
    pub fn go_on(&self, message: String) {
        self.line(message);
    }

    /// The work waits for its turn to begin, which is no silence of it. Should its call become a task meanwhile, the task says so from
    /// its beginning.
    pub fn queued(&self, message: String) {
        self.alive();
        *self.0.queued.lock() = Some(message);
        self.0.waits.store(true, Ordering::Relaxed);
    }

    /// The work's turn has come.
    pub fn begins(&self, message: String) {
        *self.0.queued.lock() = None;
        self.line(message);
    }

    pub(crate) fn waits_for_its_turn(&self) -> Option<String> {
        self.0.queued.lock().clone()
    }

    /// A line that must not be left out, as progress may be: nothing may follow it for a long time.
    fn line(&self, message: String) {
        let message = self.in_words(message);
        self.sign();
        if let Mode::Task { engine, id, fence, .. } = &*self.0.mode.lock() {
            tell(engine, *id, *fence, message);
        }
    }

    /// Tells whoever listens to the task. Nobody has to.
    fn overheard(&self, event: InlineEvent) {
        if let Some(listener) = &self.0.listener {
            let _ = listener.send(event);
        }
    }

    /// The work is alive and, if `message` is given, this far. `raw` is the notification as it came, for a
    /// caller who listens to it.
    pub fn progress(&self, message: Option<String>, raw: Payload) {
        self.sign();
        let message = message.map(|message| self.in_words(message));
        match &mut *self.0.mode.lock() {
            Mode::Inline { events, .. } => {
                let _ = events.send(InlineEvent::Progress { message, raw });
            }
            Mode::Task { engine, id, fence, told_at } => {
                self.overheard(InlineEvent::Progress { message: message.clone(), raw });
                let Some(message) = message else { return };
                if told_at.is_some_and(|at| at.elapsed() < TELL_EVERY) {
                    return;
                }
                *told_at = Some(Instant::now());
                tell(engine, *id, *fence, message);
            }
        }
    }

    /// What a host may tell its model at once, should this call become a task after that; its status message until there is a better
    /// one.
    pub fn immediate(&self, text: String) {
        *self.0.immediate.lock() = Some(self.in_words(text));
    }

    pub(crate) fn said_at_once(&self) -> Option<String> {
        self.0.immediate.lock().clone()
    }

    /// A log message of the work, as it came. A task keeps none.
    pub fn log(&self, raw: Payload) {
        self.sign();
        match &*self.0.mode.lock() {
            Mode::Inline { events, .. } => {
                let _ = events.send(InlineEvent::Log(raw));
            }
            Mode::Task { .. } => self.overheard(InlineEvent::Log(raw)),
        }
    }

    /// Whether the work has become a task: its questions then wait for whoever holds the handle.
    pub fn is_task(&self) -> bool {
        matches!(&*self.0.mode.lock(), Mode::Task { .. })
    }

    /// Puts questions to the requestor; all of them become visible at once. Returns where the answers will
    /// arrive, in the order of the questions. A receiver that ends without an answer means that none will come.
    pub async fn ask(
        &self,
        questions: Vec<Question>,
    ) -> Result<Vec<oneshot::Receiver<Answered>>, EngineError> {
        self.sign();
        let (replies, answers): (Vec<_>, Vec<_>) = questions.iter().map(|_| oneshot::channel()).unzip();
        let (engine, id, fence) = match &*self.0.mode.lock() {
            Mode::Inline { events, .. } => {
                let asked = questions.into_iter().zip(replies);
                let asked = asked.map(|(question, reply)| AnswerTo { question, reply }).collect();
                let _ = events.send(InlineEvent::Asked(asked));
                return Ok(answers);
            }
            Mode::Task { engine, id, fence, .. } => (engine.clone(), *id, *fence),
        };
        engine.ask(id, fence, questions, replies).await?;
        Ok(answers)
    }

    /// What the task of this work was asked before, by earlier attempts too, and what it was answered; `None` if it is no task.
    ///
    /// # Errors
    ///
    /// [`EngineError::Store`] if the store cannot be read.
    pub async fn asked(&self) -> Result<Option<Inputs>, EngineError> {
        let (engine, id) = match &*self.0.mode.lock() {
            Mode::Inline { .. } => return Ok(None),
            Mode::Task { engine, id, .. } => (engine.clone(), *id),
        };
        Ok(engine.0.store.get(id).await?.map(|task| task.inputs))
    }

    /// Takes back the questions whose receivers were dropped: nobody needs to answer them any more.
    pub async fn take_back(&self) -> Result<(), EngineError> {
        self.alive();
        let (engine, id, fence) = match &*self.0.mode.lock() {
            // Whoever was given the question sees it by its reply.
            Mode::Inline { .. } => return Ok(()),
            Mode::Task { engine, id, fence, .. } => (engine.clone(), *id, *fence),
        };
        engine.take_back(id, fence).await
    }
}

/// Writes a line for people.
fn tell(engine: &Engine, id: TaskId, fence: u64, message: String) {
    // The write is enqueued by the call. Nobody waits for it: a later line, or the end, supersedes it, and a refusal
    // only means that the task has ended meanwhile.
    drop(engine.0.store.apply(id, Step::Report { fence, message }, engine.now()));
}
