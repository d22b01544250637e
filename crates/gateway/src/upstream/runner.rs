use std::sync::Weak;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use taskgate_client::session::{CallEvent, CallFailure, Lane};
use taskgate_engine::{Ending, NotStopped, Report, Runner, Work};
use taskgate_task::{InvalidPayload, Payload, Round};
use taskgate_wire::{LogLevel, Params, RawObject, RpcError, hosted as wire, meta, method};

use super::Upstream;
use super::asking::Asking;
use super::checkpoint::Ticket;
use super::ending::{ended, failed, failed_with, message_of, progress_line};
use super::hosted::{self, Begun, Handle, Line, Mark, Start, follow};

/// A request to an upstream, as it is kept with its task.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Request {
    /// The method; `tools/call` for a task.
    pub method: String,
    /// The params as the caller sent them, with the upstream's own name for the tool.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub params: Option<Payload>,
    /// Whether the caller speaks 2026-07-28 or later.
    pub stateless: bool,
    /// The caller's capabilities.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub capabilities: Option<Payload>,
    /// From which level on the caller wants log messages, if it said so.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub log_level: Option<LogLevel>,
    /// Who asks; questions of the upstream that could belong to several callers are refused.
    pub caller: String,
    /// For how many milliseconds a task of the upstream's own is wanted, if it is asked for one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub task_ttl: Option<u64>,
    /// Whether the call must not be made again, should it be lost before the upstream has given a way back to it.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub is_once: bool,
    /// Whether the tool may put down how far it has come, if it is one in this program.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub may_save: bool,
}

impl Request {
    /// The request that is to be done.
    pub fn of(work: &Work) -> Result<Request, String> {
        serde_json::from_str(work.description.as_str()).map_err(unreadable)
    }

    /// The arguments of a call: a JSON object, as it came.
    pub fn arguments(&self) -> Result<String, String> {
        #[derive(Deserialize)]
        struct Params {
            #[serde(default)]
            arguments: Option<Payload>,
        }
        let params = self.params.as_ref().map(|params| serde_json::from_str::<Params>(params.as_str()));
        let arguments = params.transpose().map_err(unreadable)?.and_then(|params| params.arguments);
        Ok(arguments.map_or_else(|| "{}".to_owned(), |given| given.as_str().to_owned()))
    }
}

fn unreadable(error: serde_json::Error) -> String {
    format!("The stored request cannot be read: {error}")
}

/// Runs requests on an upstream.
pub struct McpRunner(pub Weak<Upstream>);

impl Runner for McpRunner {
    fn run(&self, work: Work, report: Report) -> BoxFuture<'static, Ending> {
        let upstream = self.0.clone();
        Box::pin(async move {
            let (request, mark) = match read(&work) {
                Ok(read) => read,
                Err(error) => return failed_with(&format!("The stored request cannot be read: {error}")),
            };
            if mark.is_none() && request.is_once && work.is_taken_up && work.round.is_none() {
                return interrupted();
            }
            let session = match upstream.upgrade() {
                // Whoever makes a new call hears at once that the server is down. Work that was interrupted or answered
                // has no caller who could try again.
                Some(upstream) if report.is_task() && work.is_taken_up => {
                    let session = upstream.session_at_last(report.clone());
                    drop(upstream);
                    session.await
                }
                Some(upstream) => upstream.session().await,
                None => Err(RpcError::internal("The gateway is shutting down")),
            };
            match (session, mark) {
                (Ok(session), Some(Mark::Task(handle))) => {
                    let heard = session.notifications();
                    let line = Line::back_to(&handle, session, &request);
                    follow(Start { line, handle, first: None, token: None, heard }, &report).await
                }
                (Ok(session), mark) => {
                    let saved = match mark {
                        Some(Mark::Saved(saved)) => Some(saved),
                        _ => None,
                    };
                    if let (Some(level), true, Some(upstream)) =
                        (request.log_level, request.stateless, upstream.upgrade())
                    {
                        upstream.log_at_least(&session, level).await;
                    }
                    // From before the call to its end: the handler finds its checkpoints there.
                    let ticket = upstream
                        .upgrade()
                        .filter(|upstream| request.may_save && upstream.is_in_process())
                        .and_then(|_| Ticket::issue(&report, saved));
                    let line = Line::new(session, &request, request.stateless);
                    call(&upstream, &line, &request, work.round.as_ref(), ticket.as_ref(), &report).await
                }
                (Err(error), _) => failed(error.to_payload(), error.message),
            }
        })
    }

    fn stop(&self, work: Work) -> BoxFuture<'static, Result<(), NotStopped>> {
        let session = self.0.upgrade().map(|upstream| upstream.session_ever());
        Box::pin(async move {
            match (read(&work), session) {
                (Ok((request, Some(Mark::Task(handle)))), Some(session)) => {
                    hosted::stop_at(session, &request, &handle).await
                }
                (Ok((_, Some(Mark::Task(_)))), None) => {
                    Err(NotStopped("the gateway is shutting down".to_owned()))
                }
                // Dropping the run has stopped it.
                (Ok((_, None | Some(Mark::Saved(_)))), _) => Ok(()),
                (Err(error), _) => {
                    tracing::warn!(%error, "what was put down of stopped work cannot be read");
                    Ok(())
                }
            }
        })
    }
}

/// What is to be done, and how far an earlier attempt has come.
fn read(work: &Work) -> Result<(Request, Option<Mark>), InvalidPayload> {
    let request = serde_json::from_str(work.description.as_str())?;
    Ok((request, work.checkpoint.as_ref().map(Mark::read).transpose()?))
}

/// The end of a call that may have been made and must not be made twice.
fn interrupted() -> Ending {
    let message = "The work was interrupted before the server had given a way back to it.";
    let error = RpcError::internal(message).with_data(&serde_json::json!({ "reason": "interrupted" }));
    failed(error.to_payload(), message.to_owned())
}

/// Makes the call and sees it through.
async fn call(
    upstream: &Weak<Upstream>,
    line: &Line,
    request: &Request,
    round: Option<&Round>,
    ticket: Option<&Ticket>,
    report: &Report,
) -> Ending {
    let mut asks = request.task_ttl.is_some();
    loop {
        let params = match params(line, request, round, asks, ticket) {
            Ok(params) => params,
            Err(error) => return failed_with(&error.to_string()),
        };
        let error = match attempt(line, &request.method, params, asks, report).await {
            Ok(ending) => return ending,
            Err(error) => error,
        };
        // A server that cannot do without has done nothing yet.
        if asks
            || request.method != method::TOOLS_CALL
            || !wire::needs_tasks(&error)
            || !may_ask(upstream, request)
        {
            let summary = message_of(&error);
            return failed(error, summary);
        }
        asks = true;
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

/// Makes the call once. `Err` is the error the upstream answered with.
async fn attempt(
    line: &Line,
    name: &str,
    params: Option<Payload>,
    asks: bool,
    report: &Report,
) -> Result<Ending, Payload> {
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
                CallEvent::QuestionWithdrawn { id, .. } => asking.take_back(&id, report).await,
                CallEvent::Notification { .. } => {}
                CallEvent::Done(Ok(result)) => break result,
                CallEvent::Done(Err(CallFailure::Rpc(error))) => return Err(error),
                // A server that died is not called again even if it could be: the call may be what it dies of.
                CallEvent::Done(Err(failure)) => return Ok(failed_with(&failure.to_string())),
            },
            due = asking.next() => asking.go_on(due, report).await,
        }
    };
    let created = line.dialect().filter(|_| name == method::TOOLS_CALL);
    let made = match created.and_then(|dialect| wire::created(dialect, &result)) {
        None => return Ok(ended(result)),
        Some(made) => made,
    };
    Ok(match (made, heard) {
        // To whoever did not declare tasks this is just one of the result types that do not exist.
        (Err(_), None) if matches!(line.lane, Lane::Modern(_)) => ended(result),
        (Err(error), _) => failed_with(&error.to_string()),
        (Ok((id, _)), None) => {
            // Whoever did not ask for it will not look for it.
            line.let_go_of(&id);
            failed_with("The server answered with a task although none was asked for")
        }
        (Ok((id, first)), Some(heard)) => {
            let handle = Handle { id, era: line.lane.version().as_str().to_owned() };
            match hosted::keep(line, &handle, report).await {
                Ok(()) => {
                    let line = line.clone();
                    follow(Start { line, handle, first: Some(first), token: Some(token), heard }, report)
                        .await
                }
                Err(error) => failed_with(&format!("The handle of the server's task was not kept: {error}")),
            }
        }
    })
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
