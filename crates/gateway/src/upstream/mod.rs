//! Upstream servers: connecting to them, keeping them up, knowing what they list.

mod asking;
mod call;
mod catalog;
mod checkpoint;
mod checks;
mod command;
mod discreet;
mod ending;
mod holder;
mod hosted;
pub mod in_process;
mod interest;
mod job;
mod listening;
mod log_level;
mod one_tool;
mod runner;
mod schema;
mod shelf;
mod supervise;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use taskgate_client::session::{Lane, LaneDescription, Lanes, ServerDescription, Session};
use taskgate_engine::{Report, Runner};
use taskgate_task::Owner;
use taskgate_wire::{LogLevel, RpcError};
use tokio::sync::{broadcast, oneshot, watch};

use crate::policy::{UpstreamKind, UpstreamSpec};

pub use asking::unanswered;
pub use catalog::{Catalog, Hints, Known, declares, is_method_not_found};
pub use checkpoint::{Checkpoint, NotSaved};
pub use command::{
    CommandRunner, CommandTool, Commands, Group, NoPattern, NoWord, Output, Pattern, Stdin, Word, Yard,
};
pub use discreet::{Discreet, Marks, check_secrets, redacted};
pub use ending::failed;
pub use holder::Holder;
pub use hosted::with_tasks;
pub use interest::Interest;
pub use job::{CALLBACKS, Callbacks, JobRunner, JobTool, presets};
pub use listening::keep_listening;
pub use runner::{McpRunner, Request};
pub use schema::{InvalidSchema, ToolSchema};

/// One upstream server and its connection.
pub struct Upstream {
    name: String,
    spec: RwLock<Arc<UpstreamSpec>>,
    /// Counts the servers that it has been: with a new one the connection to the old one is given up.
    server_number: watch::Sender<u64>,
    state: watch::Receiver<State>,
    shelf: shelf::Shelf,
    interests: interest::Interests,
    log_level: log_level::Asked,
    /// What it said of itself when it was last up.
    described: RwLock<Option<Described>>,
    /// Tools of which it has said that it makes tasks of their calls or nothing (2026-07-28).
    needs_tasks: RwLock<HashSet<String>>,
    changes: broadcast::Sender<Change>,
    holder: Holder,
    /// Cloned by everything that runs on it.
    running: Arc<()>,
    /// Runs its tool, if it is no server.
    own: RwLock<Option<Arc<dyn Runner>>>,
    /// Tells by its end that nobody has the upstream any more.
    _alive: oneshot::Sender<()>,
}

/// Whether an upstream can be called.
#[derive(Clone)]
pub enum State {
    /// Being connected for the first time, or again at once: then its server has only lost the session.
    Starting,
    /// Connected, and its tools are known.
    Up(Session),
    /// Gone; it is being restarted after a pause.
    Restarting(Arc<str>),
    /// Gone again and again; it is still tried, but rarely.
    CrashLoop(Arc<str>),
}

impl State {
    /// Whether a connection is being made that is worth waiting for.
    fn is_coming(&self) -> bool {
        match self {
            State::Starting => true,
            // Whoever keeps it up is about to notice.
            State::Up(session) => session.is_stale(),
            State::Restarting(_) | State::CrashLoop(_) => false,
        }
    }
}

/// Something an upstream says that belongs to no call.
#[derive(Debug, Clone)]
pub struct Change {
    /// The notification's method.
    pub method: String,
    /// Its params, without any subscription id.
    pub params: Option<taskgate_task::Payload>,
    /// The resource whose subscription it came by, if that is known.
    pub subscribed: Option<String>,
    /// Whether it was said on a connection that one owner has for itself.
    pub is_private: bool,
}

/// What an upstream begins with.
pub struct Beginning {
    /// Where what it says goes that belongs to no call.
    pub changes: broadcast::Sender<Change>,
    /// Whose its connection is.
    pub holder: Holder,
    /// From which level on it shall log, if somebody has said so already.
    pub log_level: Option<LogLevel>,
    /// Whether what it has is to be said, too, when it is up.
    pub is_news: bool,
}

/// How long a call waits for an upstream that has never been up yet.
const FIRST_START: Duration = Duration::from_secs(30);
/// How long an upstream takes to start, if all is well.
const USUAL_START: Duration = Duration::from_secs(1);

impl Upstream {
    /// Connects in the background and keeps the connection up until the handle is dropped. `own` runs the tool of what is no
    /// server.
    pub fn start(spec: UpstreamSpec, own: Option<Arc<dyn Runner>>, beginning: Beginning) -> Arc<Upstream> {
        let (sender, state) = watch::channel(State::Starting);
        let (alive, dropped) = oneshot::channel();
        let is_news = beginning.is_news;
        let upstream = Upstream::new(spec, own, beginning, state, alive);
        let kept_up = supervise::keep_up(Arc::downgrade(&upstream), sender, is_news);
        tokio::spawn(async move {
            tokio::select! {
                () = kept_up => {}
                // Nobody has the upstream any more. The connection ends with the last call on it.
                _ = dropped => {}
            }
        });
        upstream
    }

    /// One that is down and stays so, for this reason.
    pub fn refused(spec: UpstreamSpec, beginning: Beginning, why: &str) -> Arc<Upstream> {
        let (_, state) = watch::channel(State::Restarting(why.into()));
        Upstream::new(spec, None, beginning, state, oneshot::channel().0)
    }

    fn new(
        spec: UpstreamSpec,
        own: Option<Arc<dyn Runner>>,
        beginning: Beginning,
        state: watch::Receiver<State>,
        alive: oneshot::Sender<()>,
    ) -> Arc<Upstream> {
        let Beginning { changes, holder, log_level, is_news: _ } = beginning;
        holder.expect(&spec);
        Arc::new(Upstream {
            name: spec.name.clone(),
            spec: RwLock::new(Arc::new(spec)),
            server_number: watch::Sender::new(0),
            state,
            shelf: shelf::Shelf::default(),
            interests: interest::Interests::default(),
            log_level: log_level::Asked::from(log_level),
            described: RwLock::default(),
            needs_tasks: RwLock::default(),
            changes,
            holder,
            running: Arc::default(),
            own: RwLock::new(own),
            _alive: alive,
        })
    }

    /// What is configured for it.
    pub fn spec(&self) -> Arc<UpstreamSpec> {
        self.spec.read().clone()
    }

    /// Makes it what `spec` says, which has the same name, and `own` runs the tool of what is no server. Calls that run already go on with the server they were made to;
    /// later ones wait for the new one, if it is another one.
    pub fn become_what(&self, spec: UpstreamSpec, own: Option<Arc<dyn Runner>>) {
        *self.own.write() = own;
        let is_same = {
            let mut kept = self.spec.write();
            let is_same = kept.is_same_server(&spec);
            *kept = Arc::new(spec);
            is_same
        };
        if !is_same {
            self.holder.expect(&self.spec());
            self.needs_tasks.write().clear();
            let before = self.state();
            self.server_number.send_modify(|number| *number += 1);
            // From now on calls wait for the new one, even if whoever makes it has not begun yet.
            if let State::Up(session) = before {
                session.retire();
            }
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs its tool, if that is a command or a job, which runs apart from this process.
    pub fn own_runner(&self) -> Option<Arc<dyn Runner>> {
        self.own.read().clone()
    }

    /// Whether it is a server in this program.
    pub fn is_in_process(&self) -> bool {
        matches!(self.spec.read().kind, UpstreamKind::InProcess(_))
    }

    /// The connection, for something this owner wants. Waits while it is started for the first time; fails at once while it
    /// is down, and where it is another owner's.
    pub async fn session(&self, owner: &Owner) -> Result<Session, RpcError> {
        let session = match &*self.state.borrow() {
            State::Up(session) if !session.is_stale() => Some(session.clone()),
            State::Up(_) | State::Starting | State::Restarting(_) | State::CrashLoop(_) => None,
        };
        let session = match session {
            Some(session) => session,
            None => Box::pin(self.connection()).await?,
        };
        if self.serves(owner) { Ok(session) } else { Err(self.not_yours()) }
    }

    /// The connection, for what concerns nobody in particular.
    async fn connection(&self) -> Result<Session, RpcError> {
        let mut state = self.state.clone();
        let known = tokio::time::timeout(FIRST_START, state.wait_for(|state| !state.is_coming()));
        let down = |why: &str| {
            Err(RpcError::internal(format!("The server {:?} is not available: {why}", self.name)))
        };
        match known.await {
            Err(_) => down("it did not start in time"),
            Ok(Err(_)) => down("it was shut down"),
            Ok(Ok(state)) => match &*state {
                State::Up(session) => Ok(session.clone()),
                State::Restarting(why) | State::CrashLoop(why) => down(why),
                State::Starting => down("it is starting"),
            },
        }
    }

    /// The connection, however long it takes to come back, for work that was interrupted or answered and that nobody
    /// could ask for again. `report` hears what it waits for. Does not keep the upstream: once nobody else has it, the wait
    /// ends with an error.
    pub fn session_at_last(
        &self,
        report: Report,
    ) -> impl Future<Output = Result<Session, RpcError>> + Send + use<> {
        let (mut state, name) = (self.state.clone(), self.name.clone());
        async move {
            let mut said = None;
            // A start that takes as long as starts take is not worth a word.
            let up = state.wait_for(|state| matches!(state, State::Up(session) if !session.is_stale()));
            let _ = tokio::time::timeout(USUAL_START, up).await;
            loop {
                let why: Arc<str> = match &*state.borrow_and_update() {
                    State::Up(session) if session.is_stale() => "it is being connected again".into(),
                    State::Up(session) => {
                        if said.is_some() {
                            report.go_on(format!("The server {name:?} is there again."));
                        }
                        return Ok(session.clone());
                    }
                    State::Starting => "it is starting".into(),
                    State::Restarting(why) | State::CrashLoop(why) => why.clone(),
                };
                if said.as_ref() != Some(&why) {
                    report.wait(format!("Waiting for the server {name:?}: {why}"));
                    said = Some(why);
                }
                if state.changed().await.is_err() {
                    let why = format!("The server {name:?} is not available: it was shut down");
                    return Err(RpcError::internal(why));
                }
            }
        }
    }

    /// The connection, as soon as there is one. `None` if there will be none. Does not keep the upstream.
    pub fn session_ever(&self) -> impl Future<Output = Option<Session>> + Send + use<> {
        let mut state = self.state.clone();
        async move {
            let is_up = |state: &State| matches!(state, State::Up(session) if !session.is_stale());
            let up = state.wait_for(is_up).await.ok()?;
            match &*up {
                State::Up(session) => Some(session.clone()),
                State::Starting | State::Restarting(_) | State::CrashLoop(_) => None,
            }
        }
    }

    /// Ends the connection in good order, where the other end goes on without us: a session of HTTP.
    pub async fn say_goodbye(&self) {
        if let (UpstreamKind::Http(_), State::Up(session)) = (&self.spec().kind, self.state()) {
            session.close().await;
        }
    }

    /// Where it stands now.
    pub fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// What it says of itself on the lane for callers of either generation; what it said last, if it is down.
    pub async fn described(&self, stateless: bool) -> Option<LaneDescription> {
        match self.connection().await {
            Ok(session) => session.server().of(lane(&session, stateless)).cloned(),
            Err(_) => {
                let said = self.described.read();
                let Described { lanes, server } = said.as_ref()?;
                server.of(lane_of(*lanes, stateless)).cloned()
            }
        }
    }

    /// Whether callers of either generation are served on the lane of 2026-07-28 and later, as far as that is known.
    pub fn is_stateless_for(&self, stateless: bool) -> bool {
        match &*self.state.borrow() {
            State::Up(session) => matches!(lane(session, stateless), Lane::Modern(_)),
            _ => false,
        }
    }
}

/// What a server said of itself, and where.
struct Described {
    lanes: Lanes,
    server: ServerDescription,
}

/// The lane to use for a caller of either generation: its own if the upstream has it, else the other one.
pub fn lane(session: &Session, stateless: bool) -> Lane {
    lane_of(session.lanes(), stateless)
}

fn lane_of(lanes: Lanes, stateless: bool) -> Lane {
    let (first, second) = if stateless { (lanes.modern, lanes.legacy) } else { (lanes.legacy, lanes.modern) };
    // A session always has at least one lane: opening it fails otherwise.
    first.or(second).unwrap_or(Lane::Legacy(taskgate_wire::Version::NEWEST_WITH_SESSION))
}
