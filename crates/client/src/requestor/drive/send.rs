//! Making the call: once, unless it is certain that it has not arrived.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::to_raw_value;
use taskgate_task::{InvalidPayload, Payload};
use taskgate_wire::dialect::d2025_10_20;
use taskgate_wire::hosted::{self, HostedTask};
use taskgate_wire::tool::TaskSupport;
use taskgate_wire::{Dialect, ErrorCode, Id, RawObject, meta, method, translate};

use super::super::builder::TaskUse;
use super::super::call::CallRequest;
use super::super::connect::Connection;
use super::super::endpoint::Endpoint;
use super::super::error::{CallError, RpcFailure};
use super::super::event::{Event, Progress};
use super::super::handle::Handle;
use super::first::{Original, by_metadata, created};
use super::follow::Start;
use super::round::Round;
use super::{Driver, Kind, Lost, SAID_WITHIN, cancelled, kind_of};
use crate::FailureKind;
use crate::session::{CallEvent, CallFailure, Notifications, PendingCall};

/// How long a server of 2026-07-28 may take to say what became of a call that it was told is cancelled: it need not say.
const SAID_SOON: Duration = Duration::from_secs(2);
/// How long a call over HTTP that is cancelled may still turn out to be a task: letting go of its stream cancels only what is
/// none, and a handle that is on its way would be lost with it.
const ON_ITS_WAY: Duration = Duration::from_millis(500);

/// What became of the call when it was made once.
pub(super) enum Sent {
    /// It has a result.
    Result(Payload),
    /// The server has made a task of it.
    Task(Box<Start>),
    /// It may have arrived, and is looked for by the id that its metadata gave it. This is what happened.
    Sought(Box<Start>, String),
    /// The server wants answers first.
    Asked(Payload),
    /// It was refused for a reason that is gone now. Nothing has run.
    Corrected,
    /// It has not arrived, for this reason, and may be made again.
    Missed(String),
    /// It may have arrived, and its key will tell. This is what happened.
    Lost(String),
    /// Its server has never seen it.
    Unknown,
}

/// How a call is made.
#[derive(Default)]
struct How<'a> {
    asks: bool,
    key: Option<&'a str>,
    /// Whether it is only to be found.
    finds: bool,
    round: Option<&'a Round>,
    /// The task that its metadata makes of it (2025-10-20).
    first: Option<&'a Handle>,
}

impl Driver {
    /// Takes what happens to a request: a server may ask, and tell how far it is, on the stream of any. How it ended, if it has.
    pub(super) fn heard(&mut self, event: CallEvent) -> Option<Result<Payload, CallFailure>> {
        match event {
            CallEvent::Progress(raw) => self.feed.push(Event::Progress(Progress::read(raw))),
            CallEvent::Log(raw) => self.feed.push(Event::Log(raw)),
            CallEvent::Question(question) => self.questions.live(question),
            CallEvent::QuestionWithdrawn { id, .. } => self.questions.withdrawn(&id),
            CallEvent::Notification { .. } => {}
            CallEvent::Done(outcome) => return Some(outcome),
        }
        None
    }

    /// Makes the call once. `corrected` says whether what is known of the tool was renewed for it already.
    pub(super) async fn send(
        &mut self,
        connection: &Arc<Connection>,
        request: &CallRequest,
        round: Option<&Round>,
        corrected: &mut bool,
    ) -> Result<Sent, CallError> {
        let asks = match self.asks(connection, request).await? {
            Ok(asks) => asks,
            // It was only to be learned how to make it.
            Err(failure) if is_lost(&failure) => return Ok(Sent::Missed(failure.to_string())),
            Err(failure) => return not_answered(failure, &How::default(), request),
        };
        let key = request.idempotency_key.as_deref().filter(|_| connection.honours_keys && asks);
        self.account.sending(&self.inner, request, key.is_some()).await?;
        let first = self.named(connection, request)?;
        if let Some(handle) = &first {
            // Whatever happens from now on, the task can be found.
            self.account.accepted(handle).await?;
        }
        let how = How { asks, key, round, finds: false, first: first.as_ref() };
        match self.attempt(connection, request, &how).await? {
            Ok(sent) => Ok(sent),
            Err(error) => {
                let code = translate::code_of(&error);
                let is = |known: ErrorCode| code == Some(known.number().into());
                // Both say that it was looked at and not begun; what is known of the tool may be out of date.
                let is_mistaken = is(ErrorCode::HeaderMismatch)
                    || (is(ErrorCode::MethodNotFound) && connection.dialect == Some(Dialect::D2025_11_25));
                if is_mistaken
                    && !std::mem::replace(corrected, true)
                    && self.corrects(connection, request, asks).await?
                {
                    return Ok(Sent::Corrected);
                }
                Err(refused(request, error))
            }
        }
    }

    /// Looks for a call that may have arrived, by its key. Nothing runs by that.
    pub(super) async fn find(
        &mut self,
        connection: &Arc<Connection>,
        request: &CallRequest,
        lost: &Lost,
    ) -> Result<Sent, CallError> {
        let uncertain = |why: &str| CallError::Uncertain { why: why.to_owned() };
        let key = request.idempotency_key.as_deref().filter(|_| connection.honours_keys);
        let key = key.ok_or_else(|| uncertain(&lost.why))?;
        let how = How { asks: true, key: Some(key), finds: true, round: None, first: None };
        match self.attempt(connection, request, &how).await? {
            Ok(sent) => Ok(sent),
            Err(error) if hosted::is_unknown_key(&error) && lost.may_send => Ok(Sent::Unknown),
            Err(error) => {
                let error = RpcFailure::read(error);
                Err(uncertain(&format!("{}; the server does not know the call: {error}", lost.why)))
            }
        }
    }

    /// Makes a call in this way, or looks for it. `Err` within is the error that it was answered with.
    async fn attempt(
        &mut self,
        connection: &Arc<Connection>,
        request: &CallRequest,
        how: &How<'_>,
    ) -> Result<Result<Sent, Payload>, CallError> {
        let params = params(connection.dialect, request, how).and_then(|params| match how.first {
            Some(handle) => d2025_10_20::requestor::as_task(&params, &handle.task, request.ttl),
            None => Ok(params),
        });
        let params = params.map_err(|error| CallError::Params(error.to_string()))?;
        // From before the call: what is said of its task may overtake the answer that names it.
        let mut heard = connection.session.notifications();
        let call = connection.call(request.method(), Some(params.as_raw()), how.asks);
        let token = call.id().clone();
        if let Some(round) = how.round {
            self.round_sent(round);
        }
        let is_http = matches!(self.inner.endpoint, Endpoint::Url(_));
        let connection_of_call = connection.clone();
        let mut sending =
            Sending { call: Some(call), connection: connection_of_call, is_owed: how.asks, is_http };
        let answer = loop {
            tokio::select! {
                biased;
                event = sending.next() => if let Some(answer) = self.heard(event) {
                    break answer;
                },
                handle = created(how.first, &mut heard) => {
                    let original = Original::new(sending.call.take());
                    return Ok(Ok(Sent::Task(Box::new(self.made(connection, handle, original, token, heard)))));
                }
                // Questions of a call have a stream of their own to be answered by.
                _ = self.questions.next() => {}
                () = cancelled(&mut self.orders) => {
                    return sending.cancel().await.map(|raw| Ok(Sent::Result(raw)));
                }
            }
        };
        drop(sending);
        match answer {
            Err(failure)
                if is_lost(&failure)
                    && let Some(handle) = how.first =>
            {
                let start = self.made(connection, handle, Original::default(), token, heard);
                Ok(Ok(Sent::Sought(Box::new(start), failure.to_string())))
            }
            Ok(raw) => self.answered(connection, request, how.asks, raw, token, heard).await.map(Ok),
            Err(CallFailure::Rpc(error)) => Ok(Err(error)),
            Err(failure) => not_answered(failure, how, request).map(Ok),
        }
    }

    /// Whether the call asks for a task, or may be answered with one.
    async fn asks(
        &mut self,
        connection: &Arc<Connection>,
        request: &CallRequest,
    ) -> Result<Result<bool, CallFailure>, CallError> {
        let wanted = request.task.unwrap_or(self.inner.tasks);
        if wanted == TaskUse::Always && request.is_request {
            return Err(CallError::Unsupported("only calls of tools become tasks".to_owned()));
        }
        if wanted == TaskUse::Always && !connection.hosts_tasks {
            return Err(CallError::Unsupported("it makes no tasks of tool calls".to_owned()));
        }
        if request.is_request {
            return Ok(Ok(false));
        }
        if wanted == TaskUse::Never {
            return Ok(Ok(false));
        }
        Ok(match connection.dialect {
            _ if by_metadata(connection, wanted) => Ok(false),
            None => Ok(false),
            Some(Dialect::D2026_07_28) => Ok(true),
            Some(Dialect::D2025_11_25) if !connection.hosts_tasks => Ok(false),
            Some(Dialect::D2025_11_25) if wanted == TaskUse::Always => Ok(true),
            Some(Dialect::D2025_11_25) => {
                let connection = connection.clone();
                let support = self.unless_cancelled(None, connection.task_support(&request.tool)).await?;
                support.map(|support| support != TaskSupport::Forbidden)
            }
        })
    }

    /// Learns anew what the server says of the tool. Says whether the call would now be made in another way.
    async fn corrects(
        &mut self,
        connection: &Arc<Connection>,
        request: &CallRequest,
        asked: bool,
    ) -> Result<bool, CallError> {
        if connection.dialect != Some(Dialect::D2025_11_25) {
            let renewed = self.unless_cancelled(None, connection.list_tools()).await?;
            return Ok(renewed.is_ok());
        }
        connection.forget_tools();
        Ok(self.asks(connection, request).await?.is_ok_and(|asks| asks != asked))
    }

    async fn answered(
        &mut self,
        connection: &Arc<Connection>,
        request: &CallRequest,
        asks: bool,
        raw: Payload,
        token: Id,
        heard: Notifications,
    ) -> Result<Sent, CallError> {
        // The handle first: whatever else is wrong with the answer, the task must not be lost.
        match connection.dialect.and_then(|dialect| hosted::created(dialect, &raw)) {
            Some(Ok((task, first))) if asks => {
                let start = self.accepted(connection, request, task, first, token, heard).await?;
                return Ok(Sent::Task(Box::new(start)));
            }
            Some(Ok((task, _))) => {
                // Whoever did not ask for it will not look for it.
                connection.let_go_of(&task);
                return Err(CallError::InvalidResponse(
                    "it is a task although none was asked for".to_owned(),
                ));
            }
            Some(Err(error)) => return Err(CallError::InvalidResponse(error.to_string())),
            None => {}
        }
        match kind_of(&raw)? {
            Kind::Complete => Ok(Sent::Result(raw)),
            Kind::InputRequired if connection.lane.version().is_stateless() => Ok(Sent::Asked(raw)),
            Kind::InputRequired => {
                Err(CallError::InvalidResponse("it asks in a way that this version does not have".to_owned()))
            }
        }
    }

    /// Notes the handle before anything else is done with the task.
    async fn accepted(
        &mut self,
        connection: &Arc<Connection>,
        request: &CallRequest,
        task: String,
        first: HostedTask,
        token: Id,
        heard: Notifications,
    ) -> Result<Start, CallError> {
        let handle = Handle {
            endpoint: self.inner.identity.clone(),
            version: connection.lane.version().as_str().to_owned(),
            task,
            session: connection.session_name(),
            tool: request.tool.clone(),
            created: super::super::now(),
        };
        // Known at once: should the call be given up while this is written, it is a task that goes on. It is told when it is
        // written.
        self.feed.keep(handle.clone());
        connection.holds_session(true);
        if let Err(error) = self.account.accepted(&handle).await {
            connection.let_go_of(&handle.task);
            connection.holds_session(false);
            return Err(error);
        }
        self.feed.push(Event::Accepted(handle.clone()));
        let (connection, first, original) = (connection.clone(), Some(first), Original::default());
        Ok(Start { connection, handle, first, original, token: Some(token), heard })
    }
}

/// What follows from having no answer.
fn not_answered(failure: CallFailure, how: &How<'_>, request: &CallRequest) -> Result<Sent, CallError> {
    let why = failure.to_string();
    if is_lost(&failure) {
        return match how {
            // Looking for it again does no harm.
            How { finds: true, .. } => Ok(Sent::Missed(why)),
            How { key: Some(_), .. } => Ok(Sent::Lost(why)),
            How { key: None, .. } => Err(CallError::Uncertain { why }),
        };
    }
    match failure {
        CallFailure::Rpc(error) => Err(refused(request, error)),
        CallFailure::Params(why) => Err(CallError::Params(why)),
        CallFailure::Request(failure) => match failure.kind {
            FailureKind::Unreachable | FailureKind::SessionLost => Ok(Sent::Missed(why)),
            FailureKind::Refused => Err(CallError::Refused(why)),
            FailureKind::Malformed | FailureKind::Interrupted => Err(CallError::InvalidResponse(why)),
        },
        CallFailure::Malformed(_) | CallFailure::Closed(_) | CallFailure::Ended(_) | CallFailure::Taken => {
            Err(CallError::InvalidResponse(why))
        }
    }
}

/// Whether a request may have arrived or not.
fn is_lost(failure: &CallFailure) -> bool {
    match failure {
        CallFailure::Closed(_) => true,
        CallFailure::Request(failure) => failure.kind == FailureKind::Interrupted,
        _ => false,
    }
}

/// A call that may be answered with a task.
///
/// Given up before that is known, it must not be forgotten: the task is cancelled as soon as it has a name.
struct Sending {
    call: Option<PendingCall>,
    connection: Arc<Connection>,
    is_owed: bool,
    /// Whether its stream is its own, and letting go of it cancels it (2026-07-28).
    is_http: bool,
}

impl Sending {
    async fn next(&mut self) -> CallEvent {
        let event = match &mut self.call {
            Some(call) => call.next().await,
            None => CallEvent::Done(Err(CallFailure::Taken)),
        };
        if let CallEvent::Done(_) = &event {
            self.is_owed = false;
        }
        event
    }

    /// Cancels the call in the way of its era, and the task it may turn out to be. A result that comes all the same is one.
    async fn cancel(mut self) -> Result<Payload, CallError> {
        let cancelled = Err(CallError::Cancelled { message: None });
        let Some(call) = self.call.take() else { return cancelled };
        if !self.is_owed {
            call.cancel("The caller does not want it any more");
            return cancelled;
        }
        take_back(call, self.connection.clone(), self.is_http).await.map_or(cancelled, Ok)
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        if let (Some(call), true) = (self.call.take(), self.is_owed)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(take_back(call, self.connection.clone(), self.is_http));
        }
    }
}

/// Tells the server, and cancels the task that the call may turn out to be. Gives its result, should it have one already.
async fn take_back(mut call: PendingCall, connection: Arc<Connection>, is_http: bool) -> Option<Payload> {
    let dialect = connection.dialect?;
    let limit = match dialect {
        Dialect::D2025_11_25 => SAID_WITHIN,
        Dialect::D2026_07_28 if is_http => ON_ITS_WAY,
        Dialect::D2026_07_28 => {
            let params = Payload::from_value(&serde_json::json!({ "requestId": call.id() })).ok();
            connection.session.notify(method::CANCELLED, params);
            SAID_SOON
        }
    };
    let answered = async {
        loop {
            if let CallEvent::Done(outcome) = call.next().await {
                return outcome.ok();
            }
        }
    };
    match tokio::time::timeout(limit, answered).await {
        Ok(Some(result)) => match hosted::created(dialect, &result) {
            Some(Ok((task, _))) => {
                let told = connection.about(method::TASKS_CANCEL, &task).outcome();
                let _ = tokio::time::timeout(SAID_WITHIN, told).await;
                None
            }
            Some(Err(_)) => None,
            None => Some(result).filter(|result| matches!(kind_of(result), Ok(Kind::Complete))),
        },
        Ok(None) => None,
        Err(_) => {
            if dialect == Dialect::D2026_07_28 && !is_http {
                // It was told already.
                call.abandon();
            } else {
                // What has not become a task in all this time is a plain call.
                call.cancel("The caller does not want it any more");
            }
            None
        }
    }
}

/// The params of the call.
fn params(dialect: Option<Dialect>, request: &CallRequest, how: &How<'_>) -> Result<Payload, InvalidPayload> {
    let given = to_raw_value(&request.arguments)?;
    let mut params = RawObject::default();
    if request.is_request {
        params = RawObject::parse(given.get())?;
    } else {
        params.set("name", to_raw_value(&request.tool)?);
        if !how.finds {
            params.set("arguments", given.clone());
        }
    }
    if how.asks && dialect == Some(Dialect::D2025_11_25) {
        let ttl = request.ttl.map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
        let task = ttl.map_or_else(|| serde_json::json!({}), |ttl| serde_json::json!({ "ttl": ttl }));
        params.set("task", to_raw_value(&task)?);
    }
    if let Some(round) = how.round {
        let mut answers = RawObject::default();
        for (key, answer) in &round.answers {
            answers.set(key, answer.as_raw().to_owned());
        }
        if !answers.is_empty() {
            params.set("inputResponses", answers.to_raw()?);
        }
        if let Some(state) = &round.state {
            params.set("requestState", state.as_raw().to_owned());
        }
    }
    let params = params.to_payload()?;
    let Some(key) = how.key else { return Ok(params) };
    meta::edit(Some(&params), |meta| {
        meta.set(meta::IDEMPOTENCY_KEY, to_raw_value(key)?);
        if how.finds {
            meta.set(meta::IDEMPOTENCY_FIND, to_raw_value(&true)?);
        }
        Ok(())
    })
}

/// An error that the call was answered with. Servers say in words only that they have no such tool.
fn refused(request: &CallRequest, error: Payload) -> CallError {
    let error = RpcFailure::read(error);
    let said = error.message.to_lowercase();
    let is_about = [ErrorCode::InvalidParams, ErrorCode::MethodNotFound]
        .iter()
        .any(|code| error.code == i64::from(code.number()));
    if is_about
        && !request.is_request
        && said.contains("tool")
        && (said.contains("unknown") || said.contains("not found"))
    {
        return CallError::ToolNotFound { tool: request.tool.clone(), error };
    }
    CallError::Rpc(error)
}
