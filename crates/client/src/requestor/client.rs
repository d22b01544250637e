use serde_json::Value;
use taskgate_task::Payload;

use super::builder::ClientBuilder;
use super::call::{CallRequest, PendingCall};
use super::endpoint::Endpoint;
use super::error::{CallError, ConnectError};
use super::event::TaskState;
use super::handle::Handle;
use super::input::InputAnswer;
use super::result::CallResult;

/// A server, and how calls of it are made. Clones are cheap and share the connection, which is made again when it is lost.
#[derive(Debug, Clone)]
pub struct Client;

impl Client {
    /// Begins to say how to connect.
    pub fn builder(endpoint: impl Into<Endpoint>) -> ClientBuilder {
        ClientBuilder::new(endpoint.into())
    }

    /// Calls a tool. Must be called within a tokio runtime; the call goes on by itself.
    pub fn call(&self, tool: impl Into<String>, arguments: Value) -> PendingCall {
        self.call_with(CallRequest::new(tool, arguments))
    }

    /// The same, with more to say about it.
    pub fn call_with(&self, request: CallRequest) -> PendingCall {
        let _ = request;
        PendingCall::new(Default::default())
    }

    /// Goes on following a task, of this process or another.
    pub fn resume(&self, handle: Handle) -> PendingCall {
        let _ = handle;
        PendingCall::new(Default::default())
    }

    /// Goes on with every call to this server that the ledger knows as unfinished. One that was sent and whose answer was never
    /// seen ends as [`CallError::Uncertain`]: its arguments are not kept. See [`Client::resume_all_with`].
    ///
    /// # Errors
    ///
    /// Why the ledger cannot be read.
    #[cfg(feature = "ledger")]
    pub async fn resume_all(&self) -> Result<Vec<PendingCall>, CallError> {
        Err(CallError::Unsupported("not there yet".to_owned()))
    }

    /// How a task stands.
    ///
    /// # Errors
    ///
    /// Why that is not known. [`CallError::Expired`], if the server does not know the task.
    pub async fn get(&self, handle: &Handle) -> Result<TaskState, CallError> {
        let _ = handle;
        Err(CallError::Unsupported("not there yet".to_owned()))
    }

    /// The result of a task, as soon as there is one.
    ///
    /// # Errors
    ///
    /// Why there is none.
    pub async fn result_of(&self, handle: &Handle) -> Result<CallResult, CallError> {
        self.resume(handle.clone()).result().await
    }

    /// Answers a question of a task by its key, which [`TaskState::inputs`] and [`Input::key`](super::Input::key) tell.
    ///
    /// # Errors
    ///
    /// Why the server has not got it.
    pub async fn answer(&self, handle: &Handle, key: &str, answer: InputAnswer) -> Result<(), CallError> {
        let _ = (handle, key, answer);
        Err(CallError::Unsupported("not there yet".to_owned()))
    }

    /// Cancels a task. One that is over stays as it is.
    ///
    /// # Errors
    ///
    /// Why the server was not told, or what it said.
    pub async fn cancel(&self, handle: &Handle) -> Result<(), CallError> {
        let _ = handle;
        Err(CallError::Unsupported("not there yet".to_owned()))
    }

    /// The tasks that the server knows for this client (2025-11-25).
    ///
    /// # Errors
    ///
    /// [`CallError::Unsupported`], where the server has no such list.
    pub async fn list(&self) -> Result<Vec<TaskState>, CallError> {
        Err(CallError::Unsupported("not there yet".to_owned()))
    }

    /// The definitions of the server's tools, as they came.
    ///
    /// # Errors
    ///
    /// Why they are not known.
    pub async fn tools(&self) -> Result<Vec<Payload>, CallError> {
        Err(CallError::Unsupported("not there yet".to_owned()))
    }

    /// Says of itself what the server said: its name and version, if it did.
    pub fn server_info(&self) -> Option<Payload> {
        None
    }

    /// The protocol version that is spoken.
    pub fn protocol_version(&self) -> Option<&'static str> {
        None
    }

    /// Ends the connection; a child process is stopped before this returns. Calls that are followed connect again.
    pub async fn close(&self) {}

    pub(super) async fn connect(builder: ClientBuilder) -> Result<Client, ConnectError> {
        let _ = builder;
        Err(ConnectError::Start("not there yet".to_owned()))
    }
}
