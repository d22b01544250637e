use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use taskgate_wire::{LogLevel, Version};

use super::client::Client;
use super::endpoint::Endpoint;
use super::error::ConnectError;
use super::hosting::Hosting;
use super::input::{Answers, Input, InputAnswer};
use super::pace::Pace;
#[cfg(feature = "ledger")]
use crate::ledger::Ledger;

/// How long a call may take in all where nothing else is said.
const DEADLINE: Duration = Duration::from_secs(24 * 60 * 60);
/// How long a server may be away where nothing else is said.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether calls may become tasks of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TaskUse {
    /// Where the tool can: work that takes long is then not lost with a connection.
    #[default]
    Auto,
    /// Never. Tools that cannot do without are refused by their server.
    Never,
    /// In any case; a call of a server without tasks fails. (2026-07-28 leaves it to the server.)
    Always,
    /// In the words of 2025-10-20, wherever there are sessions: the call names its task in its metadata. A server that does not
    /// know them ignores that and just answers, so this loses nothing; but no server of that generation says what it knows, a tool
    /// that must be a task refuses such a call elsewhere, and so it is never done unasked. As [`TaskUse::Auto`] in 2026-07-28.
    ByMetadata,
}

/// The program's answers to questions.
pub(super) type Handler = Arc<dyn Fn(Input) -> Answering + Send + Sync>;
/// An answer in the making.
pub(super) type Answering = Pin<Box<dyn Future<Output = InputAnswer> + Send>>;

/// How to connect to a server, and how to make calls of it.
pub struct ClientBuilder {
    pub(super) endpoint: Endpoint,
    pub(super) name: String,
    pub(super) version: String,
    pub(super) answers: Option<Answers>,
    pub(super) handler: Option<Handler>,
    pub(super) hosting: Option<Hosting>,
    pub(super) pace: Pace,
    pub(super) deadline: Duration,
    pub(super) patience: Duration,
    pub(super) prefer: Version,
    pub(super) tasks: TaskUse,
    pub(super) log_level: Option<LogLevel>,
    #[cfg(feature = "ledger")]
    pub(super) ledger: Option<Ledger>,
    #[cfg(feature = "ledger")]
    pub(super) hosted: Option<Ledger>,
}

impl std::fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientBuilder").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl ClientBuilder {
    pub(super) fn new(endpoint: Endpoint) -> ClientBuilder {
        ClientBuilder {
            endpoint,
            name: "taskgate-client".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            answers: None,
            handler: None,
            hosting: None,
            pace: Pace::default(),
            deadline: DEADLINE,
            patience: PATIENCE,
            prefer: Version::V2026_07_28,
            tasks: TaskUse::default(),
            log_level: None,
            #[cfg(feature = "ledger")]
            ledger: None,
            #[cfg(feature = "ledger")]
            hosted: None,
        }
    }

    /// The name of the program, which the server is told.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Its version.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = version.into();
        self
    }

    /// What the program can be asked. Without a handler, questions come as [`Event::Asked`](super::Event::Asked). Nothing,
    /// where neither is said.
    pub fn answers(mut self, answers: Answers) -> Self {
        self.answers = Some(answers);
        self
    }

    /// Answers the questions of servers; what the handler returns, or gave to the question itself before. Unless [`ClientBuilder::answers`] says otherwise, it is for questions to people: by form
    /// and by URL.
    pub fn input_handler<F, A>(mut self, handler: F) -> Self
    where
        F: Fn(Input) -> A + Send + Sync + 'static,
        A: Future<Output = InputAnswer> + Send + 'static,
    {
        self.handler = Some(Arc::new(move |input| Box::pin(handler(input))));
        self
    }

    /// Hosts tasks for servers of 2025-11-25 that ask for one when they ask something: their question need not be answered while
    /// a connection lasts. They are kept in memory, unless `keep_hosted_tasks` (feature `ledger`) says where else.
    pub fn host_tasks(mut self, hosting: Hosting) -> Self {
        self.hosting = Some(hosting);
        self
    }

    /// How often tasks are asked about.
    pub fn pace(mut self, pace: Pace) -> Self {
        self.pace = pace;
        self
    }

    /// How long a call, or any other request, may take in all: connecting, waiting, asking again. A day, if not said.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// How long a server may be away before a call is given up as unreachable; its task can be resumed later. A minute, if not
    /// said.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Which protocol version to ask for first; the newest, if not said. What is spoken the server decides.
    pub fn prefer(mut self, version: Version) -> Self {
        self.prefer = version;
        self
    }

    /// Whether calls may become tasks.
    pub fn tasks(mut self, tasks: TaskUse) -> Self {
        self.tasks = tasks;
        self
    }

    /// From which level on the server is to log, for [`Event::Log`](super::Event::Log) and [`Client::logs`]. Where this is not said, a
    /// server of 2026-07-28 logs nothing, and one with sessions what it thinks fit.
    pub fn log_level(mut self, level: LogLevel) -> Self {
        self.log_level = Some(level);
        self
    }

    /// Keeps the tasks that are hosted in this ledger, with their questions and answers, so that they outlast the program: a server that
    /// comes back gets their states and results. A question that was being thought about is asked of the input handler again; without
    /// one its task has failed. This is for [`ClientBuilder::host_tasks`], and may be the ledger of the calls.
    #[cfg(feature = "ledger")]
    pub fn keep_hosted_tasks(mut self, ledger: Ledger) -> Self {
        self.hosted = Some(ledger);
        self
    }

    /// Keeps account of every call, so that [`Client::resume_all`] goes on with them after a crash.
    #[cfg(feature = "ledger")]
    pub fn ledger(mut self, ledger: Ledger) -> Self {
        self.ledger = Some(ledger);
        self
    }

    /// Connects.
    ///
    /// # Errors
    ///
    /// Why there is no connection. This is not tried again.
    pub async fn connect(self) -> Result<Client, ConnectError> {
        Client::connect(self).await
    }
}
