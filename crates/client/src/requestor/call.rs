use std::fmt;
use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use taskgate_wire::method;

use super::builder::TaskUse;
use super::error::CallError;
use super::event::Event;
use super::feed::{Feed, Order};
use super::handle::Handle;
use super::result::CallResult;

/// A call of a tool, or another request.
#[derive(Clone)]
pub struct CallRequest {
    /// The tool; the method of another request.
    pub tool: String,
    /// Its arguments: an object. The params of another request.
    pub arguments: Value,
    /// Whether `tool` is the method of a request rather than a tool: `resources/read`, `prompts/get`, `completion/complete`. Such
    /// a request can be a task by its metadata only (2025-10-20).
    pub is_request: bool,
    /// How long the server is to keep a task that it makes of the call (2025-11-25; later ones decide themselves).
    pub ttl: Option<Duration>,
    /// A name for the call: sent again under the same name, it finds the task of the first time. It is only sent to servers that
    /// say that they honour it. With a ledger there is one without being asked for.
    pub idempotency_key: Option<String>,
    /// How long the call may take in all, instead of what holds for the client.
    pub deadline: Option<Duration>,
    /// Whether it may become a task, instead of what holds for the client.
    pub task: Option<TaskUse>,
}

impl CallRequest {
    /// A call of this tool, with everything else as it holds for the client.
    pub fn new(tool: impl Into<String>, arguments: Value) -> CallRequest {
        CallRequest {
            tool: tool.into(),
            arguments,
            is_request: false,
            ttl: None,
            idempotency_key: None,
            deadline: None,
            task: None,
        }
    }
}

impl CallRequest {
    /// A request with this method and these params, an object.
    pub fn request(method: impl Into<String>, params: Value) -> CallRequest {
        CallRequest { is_request: true, ..CallRequest::new(method, params) }
    }

    /// The method it is sent with.
    pub(super) fn method(&self) -> &str {
        if self.is_request { &self.tool } else { method::TOOLS_CALL }
    }
}

impl fmt::Debug for CallRequest {
    /// Arguments may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallRequest").field("tool", &self.tool).finish_non_exhaustive()
    }
}

/// A call that is under way, whatever its server makes of it.
///
/// It goes on by itself; nothing has to be polled. [`PendingCall::next`] tells what happens, [`PendingCall::result`] (or
/// awaiting it) what comes of it. Dropped, it is as with [`PendingCall::detach`].
#[derive(Debug)]
pub struct PendingCall {
    feed: Arc<Feed>,
}

impl PendingCall {
    pub(super) fn new(feed: Arc<Feed>) -> PendingCall {
        PendingCall { feed }
    }

    /// The next thing that happens; `None` after [`Event::Done`]. Cancel safe.
    pub async fn next(&mut self) -> Option<Event> {
        self.feed.next().await
    }

    /// What comes of the call. With a ledger, it is noted here that the call is over: a result that nobody took is there again in
    /// the next life of the program. Questions that nobody has taken with [`PendingCall::next`] are cancelled.
    ///
    /// # Errors
    ///
    /// Why there is no result. That a tool says that it failed is a result.
    pub async fn result(self) -> Result<CallResult, CallError> {
        while let Some(event) = self.feed.next().await {
            // Nobody else will.
            if let Event::Asked(input) = event {
                input.cancel();
            }
        }
        self.feed.take().await.unwrap_or(Err(CallError::Detached))
    }

    /// The way back to its task; `None` if it is none, or not yet.
    pub fn handle(&self) -> Option<Handle> {
        self.feed.handle().cloned()
    }

    /// Stops following. A task goes on, and its handle is the way back to it. A call that is no task yet is given up: nobody
    /// could ever ask for its result.
    pub fn detach(self) -> Option<Handle> {
        self.handle()
    }

    /// Cancels the call, in the way that fits what has become of it, and waits for how it ends. One whose task has no name yet
    /// is cancelled as soon as it has one.
    ///
    /// # Errors
    ///
    /// [`CallError::Cancelled`], if it was cancelled. A call that was over before has its own end.
    pub async fn cancel(self) -> Result<CallResult, CallError> {
        self.request_cancel();
        self.result().await
    }

    /// The same without waiting: what follows is told by [`PendingCall::next`].
    pub fn request_cancel(&self) {
        self.feed.order.send_if_modified(|order| {
            let is_first = *order == Order::Follow;
            if is_first {
                *order = Order::Cancel;
            }
            is_first
        });
    }
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        self.feed.order.send_replace(Order::Leave);
    }
}

impl IntoFuture for PendingCall {
    type Output = Result<CallResult, CallError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.result())
    }
}
