use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;
use taskgate_task::Payload;
use taskgate_wire::dialect::d2025_10_20;
use taskgate_wire::hosted;
use taskgate_wire::{Dialect, Pages, RawObject, method};

use super::builder::ClientBuilder;
use super::call::{CallRequest, PendingCall};
use super::connect::{Era, Inner};
use super::drive::{self, Account, Job};
use super::endpoint::Endpoint;
use super::error::{CallError, ConnectError};
use super::event::TaskState;
use super::handle::Handle;
use super::input::InputAnswer;
use super::logs::Logs;
use super::result::CallResult;

/// Why a task of 2025-10-20 goes on although it should not.
pub(super) const ONLY_BY_ITS_CALL: &str = "a task of 2025-10-20 is cancelled by its call, over the connection that it was made by; whoever comes back to it can only wait for its end";

/// A server, and how calls of it are made. Clones are cheap and share the connection, which is made again when it is lost.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("endpoint", &self.0.identity).finish_non_exhaustive()
    }
}

impl Client {
    /// Begins to say how to connect.
    pub fn builder(endpoint: impl Into<Endpoint>) -> ClientBuilder {
        ClientBuilder::new(endpoint.into())
    }

    pub(super) async fn connect(builder: ClientBuilder) -> Result<Client, ConnectError> {
        let inner = Arc::new(Inner::new(builder)?);
        #[cfg(feature = "ledger")]
        if let Some(host) = &inner.host {
            let restored = host.restore(inner.handler.as_ref()).await;
            restored.map_err(|error| ConnectError::Start(error.to_string()))?;
        }
        let connected = tokio::time::timeout(inner.deadline, inner.connection(Era::Newest)).await;
        connected.map_err(|_| ConnectError::Deadline(inner.deadline))??;
        Ok(Client(inner))
    }

    #[cfg(feature = "ledger")]
    pub(super) fn inner(&self) -> &Arc<Inner> {
        &self.0
    }

    /// Calls a tool. Must be called within a tokio runtime; the call goes on by itself.
    pub fn call(&self, tool: impl Into<String>, arguments: Value) -> PendingCall {
        self.call_with(CallRequest::new(tool, arguments))
    }

    /// The same, with more to say about it.
    pub fn call_with(&self, request: CallRequest) -> PendingCall {
        drive::start(self.0.clone(), Job::Call(request), Account::of(&self.0))
    }

    /// Makes another request than a call of a tool, such as `resources/read`: it is followed as a call is, questions that its server asks
    /// meanwhile are answered, and with [`TaskUse::ByMetadata`](super::TaskUse::ByMetadata) it can be a task. Its result is in
    /// [`CallResult::raw`].
    pub fn request(&self, method: impl Into<String>, params: Value) -> PendingCall {
        self.call_with(CallRequest::request(method, params))
    }

    /// Goes on following a task, of this process or another.
    pub fn resume(&self, handle: Handle) -> PendingCall {
        drive::start(self.0.clone(), Job::Resume(handle), Account::of(&self.0))
    }

    /// How a task stands.
    ///
    /// # Errors
    ///
    /// Why that is not known. [`CallError::Expired`], if the server does not know the task.
    pub async fn get(&self, handle: &Handle) -> Result<TaskState, CallError> {
        let (dialect, answer) = self.0.about(method::TASKS_GET, handle, &[]).await?;
        let read = match dialect {
            Dialect::D2025_11_25 if handle.is_first() => d2025_10_20::requestor::hosted(&answer),
            _ => hosted::state(dialect, &answer),
        };
        let read =
            read.ok_or_else(|| CallError::InvalidResponse("the task's state is no object".to_owned()))?;
        Ok(TaskState::new(handle.task.clone(), &read, answer, None))
    }

    /// The result of a task, as soon as there is one.
    ///
    /// # Errors
    ///
    /// Why there is none.
    pub async fn result_of(&self, handle: &Handle) -> Result<CallResult, CallError> {
        self.resume(handle.clone()).result().await
    }

    /// Answers a question of a task by its key, which [`TaskState::inputs`] and [`Input::key`](super::Input::key) tell. In
    /// 2025-11-25 the server asks by a stream: it is waited for there, as long as the deadline allows.
    ///
    /// # Errors
    ///
    /// Why the server has not got it.
    pub async fn answer(&self, handle: &Handle, key: &str, answer: InputAnswer) -> Result<(), CallError> {
        self.0.answer(handle, key, answer).await
    }

    /// Cancels a task; one that is over stays as it is. In 2026-07-28 that is a wish: the task's state tells what has become of
    /// it.
    ///
    /// # Errors
    ///
    /// Why the server was not told. [`CallError::Expired`], if it does not know the task.
    pub async fn cancel(&self, handle: &Handle) -> Result<(), CallError> {
        if handle.is_first() {
            return Err(CallError::Unsupported(ONLY_BY_ITS_CALL.to_owned()));
        }
        match self.0.about(method::TASKS_CANCEL, handle, &[]).await {
            Ok(_) => Ok(()),
            // In 2025-11-25 a task that is over is refused with the same code as one that is unknown.
            Err(CallError::Expired { .. }) => self.get(handle).await.map(|_| ()),
            Err(error) => Err(error),
        }
    }

    /// Deletes a task of 2025-10-20, with its result. Servers need not, least of all while it runs; a result that is no secret goes
    /// by itself.
    ///
    /// # Errors
    ///
    /// Why it is still there. [`CallError::Unsupported`] for tasks of other generations, which nobody can delete.
    pub async fn delete(&self, handle: &Handle) -> Result<(), CallError> {
        if !handle.is_first() {
            let why = format!("tasks of {} cannot be deleted", handle.version);
            return Err(CallError::Unsupported(why));
        }
        self.0.about(method::TASKS_DELETE, handle, &[]).await.map(drop)
    }

    /// The tasks that the server knows for this client, with what is known of them (2025-11-25; and 2025-10-20, where tasks are asked
    /// for [by metadata](super::TaskUse::ByMetadata)).
    ///
    /// # Errors
    ///
    /// [`CallError::Unsupported`], where the server has no such list.
    pub async fn list(&self) -> Result<Vec<TaskState>, CallError> {
        self.0.in_time(None, self.all_tasks()).await
    }

    async fn all_tasks(&self) -> Result<Vec<TaskState>, CallError> {
        let mut tasks = Vec::new();
        let mut pages = Pages::default();
        loop {
            let page = self.0.list_tasks(pages.cursor()).await?;
            let page = RawObject::parse(page.as_str())
                .map_err(|error| CallError::InvalidResponse(error.to_string()))?;
            let listed = page.get("tasks").map_or("[]", RawValue::get);
            let listed: Vec<&RawValue> = serde_json::from_str(listed)
                .map_err(|error| CallError::InvalidResponse(error.to_string()))?;
            tasks.extend(listed.into_iter().filter_map(|raw| {
                let raw = Payload::from_raw(raw);
                // Each of the two generations that have a list has its own words for how often to ask, and how long it is kept.
                let words = ["pollFrequency", "keepAlive"];
                let is_first = RawObject::parse(raw.as_str())
                    .is_ok_and(|task| words.iter().any(|word| task.get(word).is_some()));
                let state = match is_first {
                    true => d2025_10_20::requestor::hosted(&raw)?,
                    false => hosted::state(Dialect::D2025_11_25, &raw)?,
                };
                // What has no id cannot be asked about.
                Some(TaskState::new(hosted::told_of(&raw)?, &state, raw, None))
            }));
            match pages.turn(&page) {
                Ok(true) => {}
                Ok(false) => return Ok(tasks),
                // Those that it has listed are there all the same.
                Err(wrong) => {
                    tracing::warn!("the server's list of tasks has no end: {wrong}");
                    return Ok(tasks);
                }
            }
        }
    }

    /// What the server logs apart from calls. It does so in sessions: a server of 2026-07-28 that has none logs during requests
    /// only, which [`Event::Log`](super::Event::Log) tells.
    ///
    /// # Errors
    ///
    /// Why it cannot be heard. [`CallError::Unsupported`], where the server logs nothing in this way.
    pub async fn logs(&self) -> Result<Logs, CallError> {
        Logs::open(self.0.clone()).await
    }

    /// The definitions of the server's tools, as they came.
    ///
    /// # Errors
    ///
    /// Why they are not known.
    pub async fn tools(&self) -> Result<Vec<Payload>, CallError> {
        self.0.tools().await
    }

    /// The way back to a task whose id is known from elsewhere: [`Client::list`], say.
    ///
    /// # Errors
    ///
    /// Why the server cannot be asked which version it speaks.
    pub async fn handle(
        &self,
        task: impl Into<String>,
        tool: impl Into<String>,
    ) -> Result<Handle, CallError> {
        Ok(Handle {
            endpoint: self.0.identity.clone(),
            version: self.0.version().await?.as_str().to_owned(),
            task: task.into(),
            session: None,
            tool: tool.into(),
            created: 0,
        })
    }

    /// What handles and ledgers know the server by.
    pub fn identity(&self) -> &str {
        &self.0.identity
    }

    /// What the server said of itself: its name and version. `None` while there is no connection.
    pub fn server_info(&self) -> Option<Payload> {
        self.0.present().and_then(|connection| connection.session.server().server_info().cloned())
    }

    /// The protocol version that is spoken. `None` while there is no connection.
    pub fn protocol_version(&self) -> Option<&'static str> {
        self.0.present().map(|connection| connection.lane.version().as_str())
    }

    /// Ends the connection; a child process is stopped before this returns. Whatever is asked afterwards, by calls that are
    /// followed too, connects again.
    pub async fn close(&self) {
        self.0.close().await;
    }
}
