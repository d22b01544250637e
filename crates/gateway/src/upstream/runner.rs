use std::borrow::Cow;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use taskgate_engine::{Ending, NotStopped, Report, Runner, Work};
use taskgate_task::{InvalidPayload, Payload};
use taskgate_wire::{LogLevel, Params, RpcError, method};

use crate::rules::Grounds;

use super::Upstream;
use super::call::Call;
use super::checkpoint::Ticket;
use super::ending::{failed, failed_with, refused};
use super::hosted::{self, Line, Mark, Start, follow};

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
    /// How many times the call may be made in all, should the upstream forget the task it has made of it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub max_calls: Option<u32>,
    /// Whether the call must not be made again, should it be lost before the upstream has given a way back to it.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub is_once: bool,
    /// Whether the call or its result are held against the tool's schemas.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub is_checked: bool,
    /// Whether the tool may put down how far it has come, if it is one in this program.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub may_save: bool,
    /// On what grounds the call was allowed, if there were rules: they are asked again before it is begun later.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub grounds: Option<Grounds>,
}

impl Request {
    /// The request that is to be done.
    pub fn of(work: &Work) -> Result<Arc<Request>, String> {
        work.description.read().map_err(unreadable)
    }

    /// The name of the tool that is called, as its server knows it; `None` if it calls none.
    pub fn tool(&self) -> Option<String> {
        let params =
            Params::parse(self.params.as_ref()).ok().filter(|_| self.method == method::TOOLS_CALL)?;
        params.name().ok().map(Cow::into_owned)
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

fn unreadable(error: impl std::fmt::Display) -> String {
    format!("The stored request cannot be read: {error}")
}

/// Runs requests on an upstream.
pub struct McpRunner(pub Weak<Upstream>);

impl Runner for McpRunner {
    fn run(&self, work: Work, report: Report) -> BoxFuture<'static, Ending> {
        let upstream = self.0.clone();
        // From now on, not from when it is first looked at: a server that is replaced in between must stay for it.
        let in_use = upstream.upgrade().map(|upstream| upstream.in_use());
        Box::pin(async move {
            let _running = in_use;
            let (request, mark) = match read(&work) {
                Ok(read) => read,
                Err(error) => return failed_with(&format!("The stored request cannot be read: {error}")),
            };
            let params = if request.is_checked { Params::parse(request.params.as_ref()).ok() } else { None };
            let checked = params.as_ref().and_then(|params| params.tool().ok());
            // What has begun was taken when it did. The upstream is not kept: it may be gone before its last call is.
            if let (Some(tool), Some(params)) = (&checked, &params)
                && mark.is_none()
                && work.round.is_none()
                && let Some(upstream) = upstream.upgrade()
                && let Err(why) = upstream.check_arguments(tool, params.arguments())
            {
                return refused(&why);
            }
            if mark.is_none() && request.is_once && work.is_taken_up && work.round.is_none() {
                return interrupted();
            }
            let session = match upstream.upgrade() {
                // Whoever makes a new call hears at once that the server is down. Work that was interrupted or answered
                // has no caller who could try again.
                Some(upstream) if report.is_task() && work.is_taken_up => {
                    let session = upstream.session_at_last(report.clone());
                    drop(upstream);
                    Box::pin(session).await
                }
                Some(upstream) => upstream.session(&work.owner).await,
                None => Err(RpcError::internal("The gateway is shutting down")),
            };
            // Its owner has, or gets, a connection of its own there.
            if report.is_task() && upstream.upgrade().is_some_and(|upstream| !upstream.serves(&work.owner)) {
                let message = "The server is connected anew, and now keeps a session for each of its users";
                return Ending::PutBack { pause: Duration::ZERO, message: message.to_owned() };
            }
            let ending = match (session, mark) {
                (Ok(session), Some(Mark::Task(handle))) => {
                    // Boxed, as are the ways below that few calls take: each call's future is as large as its largest part.
                    let line = Box::pin(Line::back_to(&handle, session, &request)).await;
                    let heard = line.session.notifications();
                    let calls = handle.calls;
                    let start = Start { line: line.clone(), handle, first: None, token: None, heard };
                    match Box::pin(follow(start, &report)).await {
                        Ok(ending) => ending,
                        Err(forgotten) => {
                            let call = Call {
                                upstream: &upstream,
                                line,
                                request: &request,
                                work: &work,
                                round: None,
                                ticket: None,
                            };
                            match Box::pin(call.may_again(calls, forgotten, &report)).await {
                                Ok(()) => Box::pin(call.see_through(calls, &report)).await,
                                Err(ending) => ending,
                            }
                        }
                    }
                }
                (Ok(session), mark) => {
                    let saved = match mark {
                        Some(Mark::Saved(saved)) => Some(saved),
                        _ => None,
                    };
                    if let (Some(level), true, Some(upstream)) =
                        (request.log_level, request.stateless, upstream.upgrade())
                    {
                        Box::pin(upstream.log_at_least(&session, level)).await;
                    }
                    // From before the call to its end: the handler finds its checkpoints there.
                    let ticket = upstream
                        .upgrade()
                        .filter(|upstream| request.may_save && upstream.is_in_process())
                        .and_then(|_| Ticket::issue(&report, saved));
                    let line = Line::new(session, &request, request.stateless);
                    let (round, ticket) = (work.round.as_ref(), ticket.as_ref());
                    let call =
                        Call { upstream: &upstream, line, request: &request, work: &work, round, ticket };
                    call.see_through(0, &report).await
                }
                (Err(error), _) => failed(error.to_payload(), error.message),
            };
            match checked.and_then(|tool| Some((tool, upstream.upgrade()?))) {
                Some((tool, upstream)) => upstream.check_output(&tool, ending),
                None => ending,
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
fn read(work: &Work) -> Result<(Arc<Request>, Option<Mark>), InvalidPayload> {
    let request = work.description.read()?;
    Ok((request, work.checkpoint.as_ref().map(Mark::read).transpose()?))
}

/// The end of a call that may have been made and must not be made twice.
fn interrupted() -> Ending {
    let message = "The work was interrupted before the server had given a way back to it.";
    let error = RpcError::internal(message).with_data(&serde_json::json!({ "reason": "interrupted" }));
    failed(error.to_payload(), message.to_owned())
}
