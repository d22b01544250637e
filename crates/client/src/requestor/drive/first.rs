//! Tasks as SEP-1686 first had them (2025-10-20): the call names its task and is answered all the same, so that its answer and what
//! its task says race each other. Until the server says that there is a task, it is a plain call.

use std::sync::Arc;

use taskgate_wire::dialect::d2025_10_20::requestor;
use taskgate_wire::hosted::{HostedStatus, HostedTask};
use taskgate_wire::{Id, method};

use super::super::builder::TaskUse;
use super::super::call::CallRequest;
use super::super::client::ONLY_BY_ITS_CALL;
use super::super::connect::Connection;
use super::super::error::{CallError, RpcFailure};
use super::super::event::Event;
use super::super::handle::{FIRST, Handle};
use super::super::random;
use super::follow::{Following, Start, Step};
use super::{Driver, final_result, is_of_connection};
use crate::session::{CallEvent, CallFailure, Heard, Notifications, PendingCall};

/// The call that is the task. Let go of, it is not cancelled: the task goes on.
#[derive(Default)]
pub(super) struct Original(Option<PendingCall>);

impl Original {
    pub(super) fn new(call: Option<PendingCall>) -> Original {
        Original(call)
    }

    /// Whether its answer may still come.
    pub(super) fn is_there(&self) -> bool {
        self.0.is_some()
    }

    pub(super) async fn next(&mut self) -> CallEvent {
        match &mut self.0 {
            Some(call) => call.next().await,
            None => std::future::pending().await,
        }
    }

    pub(super) fn let_go(&mut self) {
        if let Some(call) = self.0.take() {
            call.abandon();
        }
    }

    /// Cancels the task with its call. Says whether that was possible.
    pub(super) fn cancel(&mut self) -> bool {
        let call = self.0.take();
        let is_there = call.is_some();
        if let Some(call) = call {
            call.cancel("The caller does not want it any more");
        }
        is_there
    }
}

impl Drop for Original {
    fn drop(&mut self) {
        self.let_go();
    }
}

/// Whether a call is to name its task here.
pub(super) fn by_metadata(connection: &Connection, wanted: TaskUse) -> bool {
    wanted == TaskUse::ByMetadata && !connection.lane.version().is_stateless()
}

/// Resolves once the server says that it has made this task; what else it says is of no interest to a call.
pub(super) async fn created<'a>(first: Option<&'a Handle>, heard: &mut Notifications) -> &'a Handle {
    let Some(handle) = first else { return std::future::pending().await };
    loop {
        match heard.next().await {
            Some(Heard::Notification { method, params: Some(params) })
                if method == method::TASK_CREATED
                    && requestor::related_to(&params).as_ref() == Some(&handle.task) =>
            {
                return handle;
            }
            Some(_) => {}
            // The call hears of that itself.
            None => return std::future::pending().await,
        }
    }
}

impl Driver {
    /// The way to the task that the call's metadata will make of it, if it is to name one. The id is new, and nobody can guess it.
    pub(super) fn named(
        &self,
        connection: &Connection,
        request: &CallRequest,
    ) -> Result<Option<Handle>, CallError> {
        if !by_metadata(connection, request.task.unwrap_or(self.inner.tasks)) {
            return Ok(None);
        }
        Ok(Some(Handle {
            endpoint: self.inner.identity.clone(),
            version: FIRST.to_owned(),
            task: random::name().map_err(|error| CallError::Params(error.to_string()))?,
            session: connection.session_name(),
            tool: request.tool.clone(),
            created: super::super::now(),
        }))
    }

    /// The task is there, or may be. Its handle was noted before the call was sent.
    pub(super) fn made(
        &mut self,
        connection: &Arc<Connection>,
        handle: &Handle,
        original: Original,
        token: Id,
        heard: Notifications,
    ) -> Start {
        if original.is_there() {
            self.feed.keep(handle.clone());
            connection.holds_session(true);
            self.feed.push(Event::Accepted(handle.clone()));
        }
        let (connection, handle) = (connection.clone(), handle.clone());
        Start { connection, handle, first: None, original, token: Some(token), heard }
    }
}

impl Following<'_> {
    /// Something has happened to the call that is the task.
    pub(super) async fn heard_original(&mut self, event: CallEvent) -> Step {
        let outcome = self.driver.heard(event)?;
        self.original.let_go();
        match outcome {
            Ok(result) => Some(final_result(result)),
            Err(CallFailure::Rpc(error)) => Some(Err(CallError::Failed {
                status: HostedStatus::Failed,
                message: self.last.as_ref().and_then(|task| task.message.clone()),
                error: Some(RpcFailure::read(error)),
            })),
            Err(failure) if is_of_connection(&failure) => self.reconnect(failure.to_string()).await,
            Err(failure) => {
                tracing::debug!(%failure, "the answer to a call that is a task was lost");
                self.driver.questions.stream_ended();
                self.only_asks();
                None
            }
        }
    }

    /// What follows from where such a task stands.
    pub(super) fn stands_first(&mut self, task: HostedTask) -> Step {
        match task.status {
            HostedStatus::Working => {
                self.driver.questions.settled();
                None
            }
            // Its questions are requests of the server.
            HostedStatus::InputRequired => None,
            // Whichever comes first: the answer to the call, or this one.
            HostedStatus::Completed => {
                self.is_over = true;
                self.open_result()
            }
            HostedStatus::Cancelled => Some(Err(CallError::Cancelled { message: task.message })),
            status @ (HostedStatus::Failed | HostedStatus::Unknown(_)) => {
                Some(Err(CallError::Failed { status, message: task.message, error: None }))
            }
        }
    }

    /// Only its call can be cancelled; afterwards its state tells whether that has been heeded.
    pub(super) fn cancel_first(&mut self) -> Step {
        if !self.original.cancel() {
            return Some(Err(CallError::Unsupported(ONLY_BY_ITS_CALL.to_owned())));
        }
        self.winds_down();
        None
    }
}
