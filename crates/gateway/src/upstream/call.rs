//! Making a call: how often it may be made, and what it means if it has no answer.

use std::sync::Weak;
use std::time::Duration;

use taskgate_client::session::{CallEvent, CallFailure, Lane};
use taskgate_client::transport::http::Named;
use taskgate_client::{FailureKind, RequestFailure};
use taskgate_engine::{Ending, Report, Work};
use taskgate_task::{InvalidPayload, Payload, Round, pause_before};
use taskgate_wire::{
    ErrorCode, ListKind, LogLevel, Params, RawObject, RpcError, hosted as wire, meta, method, translate,
};

use super::asking::Asking;
use super::checkpoint::Ticket;
use super::ending::{ended, failed, failed_with, message_of, progress_line};
use super::hosted::{self, Begun, Forgotten, Handle, Line, Start, follow};
use super::{Request, Upstream};

/// How long work waits before it is tried again with a server that was there a moment ago.
const PAUSE: Duration = Duration::from_secs(1);

/// A call that is to be made.
pub struct Call<'a> {
    pub upstream: &'a Weak<Upstream>,
    pub line: Line,
    pub request: &'a Request,
    pub work: &'a Work,
    /// The answers it is made with.
    pub round: Option<&'a Round>,
    /// With which a handler in this program finds its checkpoints.
    pub ticket: Option<&'a Ticket>,
}

impl Call<'_> {
    /// Makes the call, which was made `calls` times before, and sees it through.
    pub async fn see_through(mut self, mut calls: u32, report: &Report) -> Ending {
        let request = self.request;
        let mut asks = request.task_ttl.is_some();
        let (mut is_renewed, mut is_relisted) = (false, false);
        loop {
            let params = match params(&self.line, request, self.round, asks, self.ticket) {
                Ok(params) => params,
                Err(error) => return failed_with(&error.to_string()),
            };
            let error = match attempt(&self.line, &request.method, params, asks, calls + 1, report).await {
                Ok(ending) => return ending,
                Err(NotDone::Forgotten(forgotten)) => {
                    calls += 1;
                    match Box::pin(self.may_again(calls, forgotten, report)).await {
                        Ok(()) => self.round = None,
                        Err(ending) => return ending,
                    }
                    continue;
                }
                // It has looked at the headers and nothing else. What they must be its list of tools says, which may have
                // changed.
                Err(NotDone::Answered(error)) if is_header_mismatch(&error) && !is_relisted => {
                    is_relisted = true;
                    if let Some(upstream) = self.upstream.upgrade() {
                        Box::pin(upstream.renew(ListKind::Tools)).await;
                    }
                    continue;
                }
                Err(NotDone::Answered(error)) => error,
                // The server has not looked at it, so nothing is done twice. Once: a server that loses every session has none.
                Err(NotDone::Failed(failure)) if failure.kind == FailureKind::SessionLost && !is_renewed => {
                    is_renewed = true;
                    let session = match self.upstream.upgrade() {
                        Some(upstream) => Box::pin(upstream.session(&self.work.owner)).await,
                        None => Err(RpcError::internal("The gateway is shutting down")),
                    };
                    match session {
                        Ok(session) => self.line = Line::new(session, request, request.stateless),
                        Err(error) => return failed(error.to_payload(), error.message),
                    }
                    continue;
                }
                Err(NotDone::Failed(failure)) => {
                    return not_answered(self.upstream, &failure, self.work, report);
                }
            };
            // A server that cannot do without has done nothing yet.
            if asks
                || request.method != method::TOOLS_CALL
                || !wire::needs_tasks(&error)
                || !may_ask(self.upstream, request)
            {
                let summary = message_of(&error);
                return failed(error, summary);
            }
            asks = true;
        }
    }

    /// Waits until the call may be made again, of whose task the server no longer knows: nothing of it goes on there. If it
    /// may not be, that is its end.
    pub async fn may_again(
        &self,
        calls: u32,
        Forgotten(ending): Forgotten,
        report: &Report,
    ) -> Result<(), Ending> {
        if calls >= self.request.max_calls.unwrap_or(1) {
            return Err(ending);
        }
        report
            .go_on("The server has forgotten the task it made of this call, and is called again.".to_owned());
        tokio::time::sleep(pause_before(calls + 1, 0)).await;
        Ok(())
    }
}

/// Whether an error says that headers and body disagree (2026-07-28).
fn is_header_mismatch(error: &Payload) -> bool {
    translate::code_of(error) == Some(ErrorCode::HeaderMismatch.number().into())
}

/// The end of a call that has no answer while its server, as far as is known, goes on.
fn not_answered(upstream: &Weak<Upstream>, failure: &RequestFailure, work: &Work, report: &Report) -> Ending {
    let name = upstream.upgrade().map(|upstream| upstream.name().to_owned()).unwrap_or_default();
    let message = format!("The server {name:?}: {failure}");
    match failure.kind {
        // It may have been done or may still be going on. What becomes of it is a question of its class.
        FailureKind::Interrupted => Ending::Lost { message },
        // Work that was interrupted has no caller who could try again.
        FailureKind::Unreachable | FailureKind::SessionLost if report.is_task() && work.is_taken_up => {
            Ending::PutBack { pause: PAUSE, message }
        }
        _ => failed_with(&message),
    }
}

/// Whether the upstream may be asked for a task, as it demands.
fn may_ask(upstream: &Weak<Upstream>, request: &Request) -> bool {
    let tool = Params::parse(request.params.as_ref()).and_then(|params| params.tool());
    upstream.upgrade().zip(tool.ok()).is_some_and(|(upstream, tool)| upstream.needs_task(&tool))
}

/// The params as they are sent.
fn params(
    line: &Line,
    request: &Request,
    round: Option<&Round>,
    asks: bool,
    ticket: Option<&Ticket>,
) -> Result<Option<Payload>, InvalidPayload> {
    let params = match round {
        None => request.params.clone(),
        Some(round) => Some(with_answers(request.params.as_ref(), round)?),
    };
    let params = match (line.lane, request.log_level) {
        // There is no level for a whole session in 2026-07-28: each request says it.
        (Lane::Modern(_), Some(level)) if !request.stateless => with_log_level(params, level)?,
        _ => params,
    };
    if request.method != method::TOOLS_CALL {
        return Ok(params);
    }
    let params = hosted::params_for(line, params, request.task_ttl.filter(|_| asks))?;
    match ticket {
        Some(ticket) => ticket.attach(params.as_ref()).map(Some),
        None => Ok(params),
    }
}

/// Why a call that was made once has no result, where more can be said of it than that.
enum NotDone {
    /// The upstream answered with this error.
    Answered(Payload),
    /// The call, or its answer, was lost on its way.
    Failed(RequestFailure),
    /// The upstream has forgotten the task that it had made of it.
    Forgotten(Forgotten),
}

/// Makes the call once, which is the call of this number.
async fn attempt(
    line: &Line,
    name: &str,
    params: Option<Payload>,
    asks: bool,
    calls: u32,
    report: &Report,
) -> Result<Ending, NotDone> {
    // From before the call: what is said of its task may overtake the answer that names it.
    let heard = asks.then(|| line.session.notifications());
    let call = line.call(name, params.as_ref().map(Payload::as_raw), asks);
    let token = call.id().clone();
    let mut call = Begun::new(call, line.clone(), asks);
    let mut asking = Asking::default();
    let result = loop {
        tokio::select! {
            biased;
            event = call.next() => match event {
                CallEvent::Progress(raw) => report.progress(progress_line(&raw), raw),
                CallEvent::Log(raw) => report.log(raw),
                CallEvent::Question(question) => asking.take(question, &line.whom, report),
                CallEvent::QuestionWithdrawn { id, .. } => Box::pin(asking.take_back(&id, report)).await,
                CallEvent::Notification { .. } => {}
                CallEvent::Done(Ok(result)) => break result,
                CallEvent::Done(Err(CallFailure::Rpc(error))) => return Err(NotDone::Answered(error)),
                CallEvent::Done(Err(CallFailure::Request(failure))) => return Err(NotDone::Failed(failure)),
                // A server that died is not called again even if it could be: the call may be what it dies of.
                CallEvent::Done(Err(failure)) => return Ok(failed_with(&failure.to_string())),
            },
            due = asking.next() => Box::pin(asking.go_on(due, report)).await,
        }
    };
    let created = line.dialect().filter(|_| name == method::TOOLS_CALL);
    let made = match created.and_then(|dialect| wire::created(dialect, &result)) {
        None => return Ok(ended(result)),
        Some(made) => made,
    };
    let ending = match (made, heard) {
        // To whoever did not declare tasks this is just one of the result types that do not exist.
        (Err(_), None) if matches!(line.lane, Lane::Modern(_)) => ended(result),
        (Err(error), _) => failed_with(&error.to_string()),
        (Ok((id, _)), None) => {
            // Whoever did not ask for it will not look for it.
            line.let_go_of(&id);
            failed_with("The server answered with a task although none was asked for")
        }
        (Ok((id, first)), Some(heard)) => {
            let session = line.session_name();
            let handle = Handle { id, era: line.lane.version().as_str().to_owned(), session, calls };
            if let Some(immediate) = wire::immediate(&result) {
                report.immediate(immediate);
            }
            match Box::pin(hosted::keep(line, &handle, report)).await {
                Ok(()) => {
                    let line = line.clone();
                    // If this future is dropped or the connection lost, the task may go on, and so must the session that it may
                    // belong to.
                    let named = line.session.named().cloned();
                    named.iter().for_each(Named::hold);
                    let start = Start { line, handle, first: Some(first), token: Some(token), heard };
                    // Boxed: most calls make no task, and each would be as large as the following of one.
                    let followed = Box::pin(follow(start, report)).await;
                    if !matches!(followed, Ok(Ending::Lost { .. })) {
                        named.iter().for_each(Named::release);
                    }
                    return followed.map_err(NotDone::Forgotten);
                }
                Err(error) => failed_with(&format!("The handle of the server's task was not kept: {error}")),
            }
        }
    };
    Ok(ending)
}

/// The params with the level in `_meta`, unless the caller has put one there.
fn with_log_level(params: Option<Payload>, level: LogLevel) -> Result<Option<Payload>, InvalidPayload> {
    let edited = meta::edit(params.as_ref(), |meta| {
        if meta.get(meta::LOG_LEVEL).is_none() {
            meta.set(meta::LOG_LEVEL, serde_json::value::to_raw_value(&level)?);
        }
        Ok(())
    });
    edited.map(Some)
}

/// The request again, with the answers and the state the upstream asked to get back.
fn with_answers(params: Option<&Payload>, round: &Round) -> Result<Payload, InvalidPayload> {
    let mut object = params.map(|params| RawObject::parse(params.as_str())).transpose()?.unwrap_or_default();
    let mut answers = RawObject::default();
    for (key, answer) in &round.answers {
        answers.set(key, answer.as_raw().to_owned());
    }
    object.set("inputResponses", answers.to_raw()?);
    if round.state == Payload::null() {
        object.remove("requestState");
    } else {
        object.set("requestState", round.state.as_raw().to_owned());
    }
    object.to_payload()
}
