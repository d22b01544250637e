use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use taskgate_access::AccessConfig;
use taskgate_client::transport::Link;
use taskgate_client::transport::http::HttpServer;
use taskgate_client::transport::stdio::StdioCommand;
use taskgate_credentials::redact;
use taskgate_engine::NodeSettings;
use taskgate_task::{LifetimePolicy, WorkClass};

use crate::audit::AuditSettings;
use crate::bounds::LimitSettings;
use crate::hosts::HostSettings;
use crate::upstream::{CommandTool, JobTool};

/// When a call of a tool becomes a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TaskMode {
    /// A call that ends within `inline_for` is answered directly, a longer one becomes a task. In 2025-11-25
    /// the caller decides with `params.task`.
    #[default]
    Auto,
    /// Every call is a task; callers that cannot have one are refused.
    Always,
    /// No call is a task.
    Never,
}

/// What is configured for a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolPolicy {
    /// When a call becomes a task.
    pub tasks: TaskMode,
    /// With [`TaskMode::Auto`]: how long a call may take before it becomes a task.
    pub inline_for: Duration,
    /// Run limit, idle limit and retention.
    pub lifetime: LifetimePolicy,
    /// How often requestors are told to look.
    pub poll_interval: Duration,
    /// What happens to a running call when this process dies; `None` reads it from the tool's annotations.
    pub class: Option<WorkClass>,
    /// How often work that may be started again is started in all, before it is given up. Work with checkpoints is
    /// counted anew from each of them.
    pub max_attempts: u32,
    /// What a host may tell its model at once when a call became a task.
    pub immediate_response: Option<String>,
    /// The arguments that are secrets, by their names; a dot goes into an object. Nothing is told of their values.
    pub secret_arguments: Vec<String>,
    /// Whether arguments are held against the tool's `inputSchema` before anything starts. Those of a command always are.
    pub check_arguments: bool,
    /// What becomes of a result that is not as the tool's `outputSchema` says.
    pub check_output: CheckOutput,
}

impl Default for ToolPolicy {
    fn default() -> Self {
        ToolPolicy {
            tasks: TaskMode::Auto,
            inline_for: Duration::from_secs(2),
            lifetime: LifetimePolicy::default(),
            poll_interval: Duration::from_secs(1),
            class: None,
            max_attempts: 5,
            immediate_response: None,
            secret_arguments: Vec::new(),
            check_arguments: false,
            check_output: CheckOutput::Off,
        }
    }
}

impl ToolPolicy {
    /// The default policy, but every call is a task.
    pub fn always() -> Self {
        ToolPolicy { tasks: TaskMode::Always, ..ToolPolicy::default() }
    }

    /// The default policy, but no call is a task.
    pub fn never() -> Self {
        ToolPolicy { tasks: TaskMode::Never, ..ToolPolicy::default() }
    }
}

/// What becomes of a result that is not as its tool's `outputSchema` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CheckOutput {
    /// Nobody looks.
    #[default]
    Off,
    /// It is passed on, and the log tells of it.
    Warn,
    /// The call ends with an error of the tool in its place.
    Error,
}

/// Where an upstream's messages go.
#[derive(Clone)]
pub enum UpstreamKind {
    /// A child process that speaks MCP over stdio.
    Process(StdioCommand),
    /// A server that is a URL.
    Http(HttpServer),
    /// A server in this program; called once for each connection.
    InProcess(Arc<dyn Fn() -> Link + Send + Sync>),
    /// A command that is a tool. It outlives this process.
    Command(CommandTool),
    /// A job of an API that is a tool. It outlives this process, too.
    Job(Box<JobTool>),
}

/// Which protocol generation is spoken with an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Speak {
    /// Whatever it offers, the newest first.
    #[default]
    Auto,
    /// `initialize` and a session, even if it offers more.
    Session,
}

/// Whether an upstream that hosts tasks itself is asked for them.
///
/// What a task of the upstream is worth depends on whether it outlives this process, and no server says that. One on stdio
/// dies with its gateway, and usually its tasks with it; then asking for them costs a poll interval and wins nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UpstreamTasks {
    /// Where a call cannot be made otherwise.
    #[default]
    Auto,
    /// Wherever the upstream offers it and our own call is, or may become, a task: it keeps its tasks when this process ends.
    Always,
    /// Never, even if some of its tools can then not be called.
    Never,
}

/// Who shares a connection to an upstream.
///
/// What a session of 2025-11-25 or earlier holds at its server is one user's. Servers of 2026-07-28 have no sessions: one connection to
/// one that is a URL serves all, whatever is said here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpstreamSessions {
    /// Each owner has a connection of its own, which is a process of its own where the server is a child process.
    Owner,
    /// All share one.
    Shared,
}

/// One upstream server.
#[derive(Clone)]
pub struct UpstreamSpec {
    /// Its name: in messages, in stored tasks, and as the prefix on a clash of names. Must stay the same across restarts.
    pub name: String,
    /// How to reach it.
    pub kind: UpstreamKind,
    /// Put before every tool and prompt name, followed by `_`. `None`: only the upstream's name, and only where two upstreams clash.
    pub prefix: Option<String>,
    /// Which generation to speak with it.
    pub speak: Speak,
    /// Whether it is asked for tasks of its own.
    pub upstream_tasks: UpstreamTasks,
    /// Who shares a connection to it. A server that is a URL has one for each owner, if nothing else is said; others have one.
    pub sessions: UpstreamSessions,
    /// The policy of tools that have none of their own.
    pub policy: ToolPolicy,
    /// Policies by the upstream's own tool names.
    pub tools: HashMap<String, ToolPolicy>,
}

impl UpstreamSpec {
    /// An upstream with default policies.
    pub fn new(name: impl Into<String>, kind: UpstreamKind) -> Self {
        let sessions = match &kind {
            UpstreamKind::Http(_) => UpstreamSessions::Owner,
            UpstreamKind::Process(_)
            | UpstreamKind::InProcess(_)
            | UpstreamKind::Command(_)
            | UpstreamKind::Job(_) => UpstreamSessions::Shared,
        };
        UpstreamSpec {
            name: name.into(),
            kind,
            prefix: None,
            speak: Speak::Auto,
            upstream_tasks: UpstreamTasks::Auto,
            sessions,
            policy: ToolPolicy::default(),
            tools: HashMap::new(),
        }
    }

    /// Whether it may be asked for tasks of its own.
    pub fn may_host_tasks(&self) -> bool {
        self.upstream_tasks != UpstreamTasks::Never
    }

    /// Whether `other` says the same.
    pub fn is_same(&self, other: &UpstreamSpec) -> bool {
        let told = |spec: &UpstreamSpec| (spec.name.clone(), spec.prefix.clone(), spec.upstream_tasks);
        self.is_same_server(other)
            && told(self) == told(other)
            && self.policy == other.policy
            && self.tools == other.tools
    }

    /// Whether `other` is reached in the same way and spoken to in the same way: a connection to the one serves the other.
    pub fn is_same_server(&self, other: &UpstreamSpec) -> bool {
        let same = match (&self.kind, &other.kind) {
            (UpstreamKind::Process(one), UpstreamKind::Process(other)) => one == other,
            (UpstreamKind::InProcess(one), UpstreamKind::InProcess(other)) => Arc::ptr_eq(one, other),
            (UpstreamKind::Command(one), UpstreamKind::Command(other)) => one == other,
            (UpstreamKind::Http(one), UpstreamKind::Http(other)) => one == other,
            (UpstreamKind::Job(one), UpstreamKind::Job(other)) => one == other,
            (
                UpstreamKind::Process(_)
                | UpstreamKind::Http(_)
                | UpstreamKind::InProcess(_)
                | UpstreamKind::Command(_)
                | UpstreamKind::Job(_),
                _,
            ) => false,
        };
        same && self.speak == other.speak && self.sessions == other.sessions
    }

    /// The policy of a tool, by the upstream's own name for it.
    pub fn policy_of(&self, tool: &str) -> &ToolPolicy {
        self.tools.get(tool).unwrap_or(&self.policy)
    }
}

/// What is configured for the servers this gateway offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The name and version told to clients.
    pub server_name: String,
    /// Where the MCP endpoint lies.
    pub path: String,
    /// The address under which others reach this server, without the endpoint's path, for APIs that tell of news of their jobs.
    pub public_url: Option<String>,
    /// Host names, without port, under which the server may be addressed. Loopback names are always allowed.
    pub allowed_hosts: Vec<String>,
    /// Origins a browser may come from, such as `https://app.example`. Loopback origins are always allowed.
    pub allowed_origins: Vec<String>,
    /// Whose tokens are taken, and what they allow; `None` if nobody need show one.
    pub auth: Option<AccessConfig>,
    /// All callers are one known user, `local`. For loopback servers only.
    pub single_user: bool,
    /// What tasks of a session of 2025-11-25 or earlier belong to, if its client is not known.
    pub bind: Bind,
    /// Whether the upstreams may be replaced while this serves ([`Gateway::reload`](crate::Gateway::reload)): clients are told
    /// that lists may change.
    pub reloads: bool,
    /// The longest accepted request body or line, in bytes.
    pub max_message: usize,
    /// How often an open stream gets a comment that keeps it open.
    pub keep_alive: Duration,
    /// How long a session without any stream or request is kept.
    pub session_idle: Duration,
    /// How many sessions there may be at a time.
    pub max_sessions: usize,
    /// How long an owner's own connections to upstreams are kept that nothing of the owner's uses.
    pub owner_session_idle: Duration,
    /// How many owners may have connections of their own to upstreams at a time.
    pub max_owner_sessions: usize,
    /// How many requests of one session may be open at a time, and so how many streams besides the general one.
    pub session_requests: usize,
    /// How streams of sessions behave.
    pub streams: StreamSettings,
    /// Where it is kept who has done what; `None` if it is not.
    pub audit: Option<AuditSettings>,
    /// How much may be asked of this gateway.
    pub limits: LimitSettings,
    /// What connections of clients may cost.
    pub connections: ConnectionSettings,
    /// The certificate with which connections are encrypted; without it they are not.
    pub tls: Option<TlsFiles>,
    /// How callers that cannot have a task are treated.
    pub hosts: HostSettings,
    /// How long a shutdown waits for running work.
    pub drain_grace: Duration,
    /// What this node keeps, and how it lives among others that share its store.
    pub node: NodeSettings,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            server_name: "taskgate".to_owned(),
            path: "/mcp".to_owned(),
            public_url: None,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            auth: None,
            single_user: false,
            bind: Bind::default(),
            reloads: false,
            max_message: 16 * 1024 * 1024,
            keep_alive: Duration::from_secs(10),
            session_idle: Duration::from_secs(3600),
            max_sessions: 10_000,
            owner_session_idle: Duration::from_secs(600),
            max_owner_sessions: 1000,
            session_requests: 1000,
            streams: StreamSettings::default(),
            audit: None,
            limits: LimitSettings::default(),
            connections: ConnectionSettings::default(),
            tls: None,
            hosts: HostSettings::default(),
            drain_grace: Duration::from_secs(10),
            node: NodeSettings::default(),
        }
    }
}

/// To whom tasks of callers belong that are not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Bind {
    /// To whoever has their ids: no two such callers can be told apart.
    #[default]
    Owner,
    /// To the session they are made in. Nobody else sees them, and when it has ended nobody does. What is made outside of sessions
    /// (2026-07-28) belongs to whoever has its id.
    Session,
}

/// What connections of clients may cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionSettings {
    /// How many may be open at a time.
    pub max: usize,
    /// How long one may take until the head of a request is there, the silence before it included.
    pub head_timeout: Duration,
    /// How long the body of a request may take.
    pub body_timeout: Duration,
    /// The longest head of a request, in bytes.
    pub max_head: usize,
}

impl Default for ConnectionSettings {
    fn default() -> Self {
        ConnectionSettings {
            max: 16_384,
            head_timeout: Duration::from_secs(60),
            body_timeout: Duration::from_secs(60),
            max_head: 128 * 1024,
        }
    }
}

/// Where a certificate and its key lie, as PEM. They are read again when they change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, and those that vouch for it.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// The authorities whose certificates clients have to show; without them none is asked for.
    pub client_ca: Option<PathBuf>,
}

/// How streams of sessions over HTTP behave, and what is kept of them for clients that come back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamSettings {
    /// How many events of a stream are kept.
    pub replay_events: usize,
    /// How many bytes of a stream are kept.
    pub replay_size: usize,
    /// How many bytes of all streams of a session are kept.
    pub session_replay: usize,
    /// How long a stream is kept after its end or after its client left, whatever is later.
    pub replay_for: Duration,
    /// After how long a connection is closed so that the client comes back for the rest; `None` never closes one.
    pub close_after: Option<Duration>,
    /// How long clients are told to wait before they come back.
    pub retry: Duration,
    /// Which requests of a client carry the questions of a task of 2025-11-25.
    pub task_questions: TaskQuestions,
}

/// Which requests carry a task's questions to a client of 2025-11-25 over HTTP. Whatever is chosen, the general stream
/// carries those that no request has taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TaskQuestions {
    /// A `tasks/result`, whose stream stays open until the task ends. A poll is answered with plain JSON: the protocol
    /// advises against making a stream of it, as its client wants to be done soon.
    #[default]
    Result,
    /// A `tasks/get`, too: what is due stands before its answer on a stream that ends with it. For clients and proxies that
    /// cannot keep a stream open.
    Get,
}

impl Default for StreamSettings {
    fn default() -> Self {
        StreamSettings {
            replay_events: 256,
            replay_size: 1024 * 1024,
            session_replay: 8 * 1024 * 1024,
            replay_for: Duration::from_secs(300),
            close_after: None,
            retry: Duration::from_secs(1),
            task_questions: TaskQuestions::default(),
        }
    }
}

/// The URL of a database. Shown, in whatever way, it is without its password.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseUrl(String);

impl DatabaseUrl {
    /// This URL.
    pub fn new(url: impl Into<String>) -> Self {
        let url = url.into();
        let user = url.split_once("://").and_then(|(_, rest)| rest.rsplit_once('@')).map(|(user, _)| user);
        user.and_then(|user| user.split_once(':'))
            .into_iter()
            .for_each(|(_, password)| redact::know(password));
        DatabaseUrl(url)
    }

    /// The whole URL.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What may follow the question mark includes passwords as well.
        let place = self.0.split_once('?').map_or(self.0.as_str(), |(place, _)| place);
        match (place.split_once("://"), place.rsplit_once('@')) {
            (Some((scheme, _)), Some((user, host))) => {
                let user = user.trim_start_matches(scheme).trim_start_matches("://");
                write!(f, "{scheme}://{}@{host}", user.split_once(':').map_or(user, |(user, _)| user))
            }
            _ => f.write_str(place),
        }
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatabaseUrl({self})")
    }
}

/// Where tasks are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StorePlace {
    /// A SQLite file.
    Sqlite(PathBuf),
    /// A Postgres database, which several nodes can share.
    Postgres(DatabaseUrl),
    /// Memory: gone with the process.
    Memory,
}
