//! The connection of a client: opened when it is needed, and opened anew when it is lost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use serde_json::value::{RawValue, to_raw_value};
use taskgate_task::Payload;
use taskgate_wire::dialect::d2025_10_20;
use taskgate_wire::tool::{TaskSupport, ToolFacts};
use taskgate_wire::{
    Capabilities, Dialect, ErrorCode, ListKind, LogLevel, Pages, RawObject, Version, hosted, meta, method,
    translate,
};
use tokio::sync::{Mutex, mpsc};

use super::builder::{ClientBuilder, Handler, TaskUse};
use super::endpoint::Endpoint;
use super::error::{CallError, ConnectError};
use super::handle::{FIRST, Handle};
use super::hosting::{Host, Kept};
use super::logs::Logging;
use super::pace::Pace;
use crate::session::{
    CallFailure, CallOptions, Heard, Lane, Notifications, OpenError, OpenOptions, PendingCall, Session,
    TaskRequest,
};

/// How long a server may take to say whether it knows a task in the session it was made in.
const FINDING: Duration = Duration::from_secs(10);
/// All calls of a client are one caller's.
const OWNER: &str = "client";

/// What the clones of a client share.
pub(super) struct Inner {
    pub(super) endpoint: Endpoint,
    pub(super) identity: String,
    pub(super) able: Capabilities,
    pub(super) handler: Option<Handler>,
    /// Hosts tasks for the server, where that is wanted.
    pub(super) host: Option<Arc<Host>>,
    pub(super) pace: Pace,
    pub(super) deadline: Duration,
    pub(super) patience: Duration,
    pub(super) tasks: TaskUse,
    #[cfg(feature = "ledger")]
    pub(super) ledger: Option<crate::ledger::Ledger>,
    log_level: Option<LogLevel>,
    options: OpenOptions,
    /// What is declared where tasks are wanted (2026-07-28).
    with_tasks: Payload,
    newest: Mutex<Slot>,
    /// For tasks of a server that has learned a newer generation since.
    in_session: Mutex<Slot>,
}

#[derive(Default)]
struct Slot {
    connection: Option<Arc<Connection>>,
    /// Whether the server ended at the sight of the probe.
    hates_probe: bool,
}

/// Which generation is to be spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Era {
    /// The newest.
    Newest,
    /// The one in which a session has this version, where the server still has it.
    Session(Version),
}

impl Era {
    /// The era in which tasks of this version are asked about.
    pub(super) fn of(version: &str) -> Era {
        match Version::from_wire(version) {
            Some(version) if !version.is_stateless() => Era::Session(version),
            None if version == FIRST => Era::Session(Version::NEWEST_WITH_SESSION),
            _ => Era::Newest,
        }
    }
}

impl Inner {
    pub(super) fn new(builder: ClientBuilder) -> Result<Inner, ConnectError> {
        let impossible = |error: taskgate_task::InvalidPayload| ConnectError::Start(error.to_string());
        let asked =
            if builder.handler.is_some() { super::Answers::ELICITATION } else { super::Answers::default() };
        let mut capabilities = builder.answers.unwrap_or(asked).capabilities();
        let mut options = OpenOptions::new(&builder.name, &builder.version);
        options.prefer = builder.prefer;
        options.capabilities = Payload::from_value(&capabilities).map_err(impossible)?;
        let able = Capabilities::parse(options.capabilities.as_raw()).unwrap_or_default();
        if builder.hosting.is_some() {
            let mut declared = capabilities.clone();
            declared["tasks"] = Host::capability(able);
            options.session_capabilities = Some(Payload::from_value(&declared).map_err(impossible)?);
        }
        capabilities["extensions"] = serde_json::json!({ meta::TASKS_EXTENSION: {} });
        let identity = builder.endpoint.identity();
        #[cfg(feature = "ledger")]
        let kept = Kept::of(builder.hosted, &identity);
        #[cfg(not(feature = "ledger"))]
        let kept = Kept::default();
        Ok(Inner {
            identity,
            endpoint: builder.endpoint,
            able,
            handler: builder.handler,
            host: builder.hosting.map(|hosting| Host::new(hosting, kept)),
            pace: builder.pace,
            deadline: builder.deadline,
            patience: builder.patience,
            tasks: builder.tasks,
            log_level: builder.log_level,
            #[cfg(feature = "ledger")]
            ledger: builder.ledger,
            with_tasks: Payload::from_value(&capabilities).map_err(impossible)?,
            options,
            newest: Mutex::default(),
            in_session: Mutex::default(),
        })
    }

    /// A connection that works, as far as is known. Cancel safe: what was opened halfway is closed.
    pub(super) async fn connection(&self, era: Era) -> Result<Arc<Connection>, ConnectError> {
        let newest = self.of_slot(&self.newest, self.options.prefer).await;
        let Era::Session(version) = era else { return newest };
        let newest = newest?;
        if !newest.lane.version().is_stateless() {
            return Ok(newest);
        }
        match self.of_slot(&self.in_session, version).await {
            Ok(connection) => Ok(connection),
            // It has left that generation behind; its tasks may have come along.
            Err(ConnectError::Open(OpenError::Refused(_) | OpenError::NoCommonVersion(_))) => Ok(newest),
            Err(error) => Err(error),
        }
    }

    /// The connection over which a task is asked about: in the session it was made in, if its server still knows it there.
    pub(super) async fn back_to(&self, handle: &Handle, connection: Arc<Connection>) -> Arc<Connection> {
        let Some(before) = handle.session.as_deref().and_then(|name| connection.before(name)) else {
            return connection;
        };
        let known = before.about_this(method::TASKS_GET, handle).outcome();
        match tokio::time::timeout(FINDING, known).await {
            Ok(Ok(_)) => Arc::new(before),
            Ok(Err(_)) | Err(_) => connection,
        }
    }

    /// The connection that there is, if there is one.
    pub(super) fn present(&self) -> Option<Arc<Connection>> {
        self.newest.try_lock().ok()?.connection.clone()
    }

    /// Ends the connections; the next request makes new ones.
    pub(super) async fn close(&self) {
        for slot in [&self.newest, &self.in_session] {
            let connection = slot.lock().await.connection.take();
            if let Some(connection) = connection {
                connection.session.close().await;
            }
        }
    }

    async fn of_slot(&self, slot: &Mutex<Slot>, prefer: Version) -> Result<Arc<Connection>, ConnectError> {
        let mut slot = slot.lock().await;
        if let Some(connection) = slot.connection.as_ref().filter(|known| !known.session.is_stale()) {
            return Ok(connection.clone());
        }
        slot.connection = None;
        let mut options = OpenOptions { prefer, ..self.options.clone() };
        if slot.hates_probe && options.prefer.is_stateless() {
            options.prefer = Version::NEWEST_WITH_SESSION;
        }
        let session = match self.open(options.clone()).await {
            // Some servers of before 2026-07-28 end when they are asked something before `initialize`. It is not asked again.
            Err(ConnectError::Open(OpenError::ClosedOnProbe(_))) => {
                options.prefer = Version::NEWEST_WITH_SESSION;
                let session = self.open(options).await?;
                slot.hates_probe = true;
                session
            }
            opened => opened?,
        };
        let connection = Arc::new(Connection::new(session, self.with_tasks.clone(), self.log_level)?);
        connection.set_level().await;
        slot.connection = Some(connection.clone());
        Ok(connection)
    }

    async fn open(&self, mut options: OpenOptions) -> Result<Session, ConnectError> {
        if let Some(host) = &self.host {
            let (sender, requests) = mpsc::unbounded_channel();
            options.host = Some(sender);
            tokio::spawn(serve(Arc::downgrade(host), requests));
        }
        let link = self.endpoint.connect().map_err(ConnectError::Start)?;
        Ok(Session::open(link, options).await?)
    }
}

/// A connection, and what is known of the server at its other end.
pub(super) struct Connection {
    pub(super) session: Session,
    pub(super) lane: Lane,
    /// The generation of tasks spoken here, if there is one.
    pub(super) dialect: Option<Dialect>,
    /// Whether the server says that it makes tasks of tool calls.
    pub(super) hosts_tasks: bool,
    /// Whether it says that a call sent again under its key finds what came of the first.
    pub(super) honours_keys: bool,
    pub(super) logging: Logging,
    with_tasks: Payload,
    tools: Mutex<Option<Arc<Vec<Tool>>>>,
    /// Set when the list of tools has changed.
    tools_changed: Arc<AtomicBool>,
}

/// A tool as it is listed.
pub(super) struct Tool {
    pub(super) definition: Payload,
    facts: ToolFacts,
}

impl Connection {
    fn new(
        session: Session,
        with_tasks: Payload,
        level: Option<LogLevel>,
    ) -> Result<Connection, ConnectError> {
        let lane = session.lanes().iter().next();
        let lane = lane.ok_or_else(|| ConnectError::Start("the server speaks no version".to_owned()))?;
        let dialect = Dialect::of(lane.version());
        let capabilities = session.server().of(lane).map(|said| &said.capabilities);
        let hosts_tasks =
            capabilities.zip(dialect).is_some_and(|(said, dialect)| hosted::hosts(dialect, said.as_raw()));
        let honours_keys = capabilities.is_some_and(|said| hosted::honours_keys(said.as_raw()));
        let tools_changed = Arc::new(AtomicBool::new(false));
        tokio::spawn(watch_tools(session.notifications(), tools_changed.clone()));
        Ok(Connection {
            session,
            lane,
            dialect,
            hosts_tasks,
            honours_keys,
            logging: Logging::new(level),
            with_tasks,
            tools: Mutex::default(),
            tools_changed,
        })
    }

    /// The name of its session, where tasks may depend on it.
    pub(super) fn session_name(&self) -> Option<String> {
        match self.lane {
            Lane::Legacy(_) => self.session.named()?.name(),
            Lane::Modern(_) => None,
        }
    }

    /// The same server in the session of this name, if that is another one.
    fn before(&self, name: &str) -> Option<Connection> {
        let own = self.session_name()?;
        let session = self.session.resumed(name).filter(|_| own != name)?;
        // The session has the level it was given when it was opened.
        Connection::new(session, self.with_tasks.clone(), self.logging.level()).ok()
    }

    /// A task goes on in its session, which must not end with this program's connection; or has ended.
    pub(super) fn holds_session(&self, holds: bool) {
        if let (Some(named), Lane::Legacy(_)) = (self.session.named(), self.lane) {
            if holds { named.hold() } else { named.release() }
        }
    }

    /// Makes a call. With `tasks`, as a client that can be answered with a task.
    pub(super) fn call(&self, name: &str, params: Option<&RawValue>, tasks: bool) -> PendingCall {
        let capabilities = tasks.then(|| self.with_tasks.clone());
        let options = CallOptions { owner: Some(OWNER.to_owned()), capabilities, ..CallOptions::default() };
        match self.with_level(name, params) {
            Some(params) => self.session.call(self.lane, name, Some(params.as_raw()), options),
            None => self.session.call(self.lane, name, params, options),
        }
    }

    /// Asks something about a task.
    pub(super) fn about(&self, name: &str, task: &str) -> PendingCall {
        let params = to_raw_value(&serde_json::json!({ "taskId": task })).ok();
        self.call(name, params.as_deref(), true)
    }

    /// Asks something about the task of a handle, in the words of its generation.
    pub(super) fn about_this(&self, name: &str, handle: &Handle) -> PendingCall {
        if !self.speaks_first(handle) {
            return self.about(name, &handle.task);
        }
        let params = to_raw_value(&d2025_10_20::requestor::about(&handle.task)).ok();
        self.call(name, params.as_deref(), true)
    }

    /// Whether the task of a handle is asked about here in the words of 2025-10-20.
    pub(super) fn speaks_first(&self, handle: &Handle) -> bool {
        handle.is_first() && !self.lane.version().is_stateless()
    }

    /// The generation in which the task of a handle is asked about. Where that is 2025-10-20 it is the one nearest to it, since
    /// that one belongs to no version; [`Connection::speaks_first`] tells.
    pub(super) fn dialect_for(&self, handle: &Handle) -> Option<Dialect> {
        if self.speaks_first(handle) { Some(Dialect::D2025_11_25) } else { self.dialect }
    }

    /// Cancels a task without waiting to hear of it, where nothing more can be done if that fails.
    pub(super) fn let_go_of(&self, task: &str) {
        self.about(method::TASKS_CANCEL, task).abandon();
    }

    /// What a tool says of tasks (2025-11-25). Asked once, and again when the server says that its tools have changed.
    pub(super) async fn task_support(&self, tool: &str) -> Result<TaskSupport, CallFailure> {
        let mut known = self.tools.lock().await;
        let is_old = self.tools_changed.swap(false, Ordering::AcqRel);
        let tools = match known.take().filter(|_| !is_old) {
            Some(tools) => tools,
            None => Arc::new(self.list_tools().await?),
        };
        let found = tools.iter().find(|known| known.facts.name == tool);
        let support = found.map(|tool| tool.facts.task_support).unwrap_or_default();
        *known = Some(tools);
        Ok(support)
    }

    /// Forgets the list of tools, which has turned out to be wrong.
    pub(super) fn forget_tools(&self) {
        self.tools_changed.store(true, Ordering::Release);
    }

    /// The server's tools. (Over HTTP, the arguments that are mirrored into headers are learned on the way.)
    pub(super) async fn list_tools(&self) -> Result<Vec<Tool>, CallFailure> {
        let mut tools = Vec::new();
        let mut pages = Pages::default();
        loop {
            let params = pages.cursor().map(|cursor| serde_json::json!({ "cursor": cursor }));
            let params = params.and_then(|params| to_raw_value(&params).ok());
            let page = match self.call(method::TOOLS_LIST, params.as_deref(), false).outcome().await {
                // A server without a list has nothing to say of its tools.
                Err(CallFailure::Rpc(error)) if pages.is_at_start() && is_unknown_method(&error) => {
                    return Ok(tools);
                }
                page => page?,
            };
            let page = RawObject::parse(page.as_str())
                .map_err(|error| CallFailure::Malformed(format!("tools/list: {error}")))?;
            let listed = page.get(ListKind::Tools.member()).map_or("[]", RawValue::get);
            let listed: Vec<&RawValue> = serde_json::from_str(listed)
                .map_err(|error| CallFailure::Malformed(format!("tools/list: {error}")))?;
            for definition in listed {
                // What has no name is no tool.
                if let Ok(facts) = ToolFacts::read(definition) {
                    tools.push(Tool { definition: Payload::from_raw(definition), facts });
                }
            }
            match pages.turn(&page) {
                Ok(true) => {}
                Ok(false) => return Ok(tools),
                // The tools that it has listed can be called all the same.
                Err(wrong) => {
                    tracing::warn!("the server's list of tools has no end: {wrong}");
                    return Ok(tools);
                }
            }
        }
    }
}

fn is_unknown_method(error: &Payload) -> bool {
    translate::code_of(error) == Some(ErrorCode::MethodNotFound.number().into())
}

/// Answers what the server asks about hosted tasks, until the connection ends.
async fn serve(host: Weak<Host>, mut requests: mpsc::UnboundedReceiver<TaskRequest>) {
    while let Some(request) = requests.recv().await {
        let Some(host) = host.upgrade() else { return };
        host.answer(request);
    }
}

/// Notices that the list of tools has changed, until the connection ends.
async fn watch_tools(mut heard: Notifications, changed: Arc<AtomicBool>) {
    while let Some(heard) = heard.next().await {
        let is_news = match heard {
            Heard::Notification { method, .. } => method == method::TOOLS_CHANGED,
            Heard::Missed(_) => true,
        };
        if is_news {
            changed.store(true, Ordering::Release);
        }
    }
}

impl From<ConnectError> for CallError {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::Open(OpenError::Refused(error)) => CallError::Rpc(super::RpcFailure::read(error)),
            ConnectError::Open(error @ (OpenError::NoCommonVersion(_) | OpenError::BadAnswer(_))) => {
                CallError::InvalidResponse(error.to_string())
            }
            ConnectError::Open(OpenError::Request(failure))
                if failure.kind == crate::FailureKind::Refused =>
            {
                CallError::Refused(failure.what)
            }
            error => CallError::Unreachable { handle: None, why: error.to_string() },
        }
    }
}

/// Whether a connection may be there if it is tried again a little later.
pub(super) fn may_come_back(error: &ConnectError) -> bool {
    match error {
        ConnectError::Open(OpenError::Request(failure)) => failure.kind != crate::FailureKind::Refused,
        ConnectError::Open(open) => {
            matches!(open, OpenError::Closed(_) | OpenError::ClosedOnProbe(_) | OpenError::TimedOut(_))
        }
        ConnectError::Start(_) | ConnectError::Deadline(_) => false,
    }
}
