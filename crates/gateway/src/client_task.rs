//! A task that a session's client hosts for a question of ours (2025-11-25): the roles are exchanged, so that a person who
//! takes hours to answer holds up no stream.
//!
//! Which stream a request of ours goes out on no longer matters, once there is a task: the answer is fetched on any that
//! is open.

use std::sync::Arc;
use std::time::Duration;

use taskgate_task::Payload;
use taskgate_wire::hosted::{self, HostedStatus, HostedTask, NoTaskId};
use taskgate_wire::jsonrpc::error_object;
use taskgate_wire::meta::{self, RELATED_TASK};
use taskgate_wire::{Dialect, ErrorCode, RpcError, Version, method, translate};

use crate::session::{Outlet, Session};
use crate::to_client::NoAnswer;

/// How long a client is asked to keep the answer. It may grant less.
const TTL: Duration = Duration::from_secs(24 * 60 * 60);
/// How often a client is asked how far it is, if it does not say how often it wants to be.
const INTERVAL: Duration = Duration::from_secs(1);
/// Within these bounds its own word counts.
const FASTEST: Duration = Duration::from_millis(200);
const SLOWEST: Duration = Duration::from_secs(60);
/// How long it may take to say how far it is before it is asked again.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often it may fail to say so.
const FAILURES: u32 = 3;

/// Params that ask the client to make a task of a question, if it has declared that it hosts such tasks.
pub fn as_task(session: &Session, name: &str, params: Option<&Payload>) -> Option<Payload> {
    let negotiated = session.negotiated()?;
    if negotiated.version != Version::V2025_11_25
        || !hosted::client_hosts(negotiated.raw_capabilities.as_raw(), name)
    {
        return None;
    }
    hosted::as_task(params, TTL).ok()
}

/// The task that a question was answered with, if it was one.
pub fn made_of(
    session: &Arc<Session>,
    outlet: &Outlet,
    answer: &Payload,
) -> Option<Result<ClientTask, NoTaskId>> {
    let made = hosted::created(Dialect::D2025_11_25, answer)?;
    Some(made.map(|(id, state)| ClientTask {
        session: session.clone(),
        outlet: outlet.clone(),
        id,
        state,
        failures: 0,
    }))
}

/// Such a task, as far as it is known.
#[derive(Debug)]
pub struct ClientTask {
    session: Arc<Session>,
    /// The stream it was made on, for as long as that is open.
    outlet: Outlet,
    id: String,
    state: HostedTask,
    failures: u32,
}

impl ClientTask {
    /// Waits for its end: the answer to the question, or why there is none. `None` when the session has ended. Cancel safe.
    pub async fn answer(&mut self) -> Option<Result<Payload, Payload>> {
        loop {
            match &self.state.status {
                HostedStatus::Completed | HostedStatus::Failed => return self.result().await,
                HostedStatus::Cancelled => return Some(Err(self.error("was cancelled by the client"))),
                HostedStatus::Unknown(word) => {
                    let word: String = word.chars().take(40).collect();
                    return Some(Err(self.error(&format!("has a status that is not known: {word}"))));
                }
                HostedStatus::Working | HostedStatus::InputRequired => {}
            }
            self.pause().await;
            match self.ask(method::TASKS_GET).await {
                Asked::Answered(answer) => match hosted::state(Dialect::D2025_11_25, &answer) {
                    Some(state) => (self.state, self.failures) = (state, 0),
                    None => return Some(Err(self.error("was told of with what is no object"))),
                },
                Asked::Refused(error) => return Some(Err(error)),
                Asked::Again => {}
                Asked::Over => return None,
            }
        }
    }

    /// Tells the client that its answer is no longer wanted.
    pub fn cancel(&self) {
        let can = self
            .session
            .negotiated()
            .is_some_and(|said| hosted::client_cancels(said.raw_capabilities.as_raw()));
        if can && let Some(outlet) = self.outlet() {
            // Nobody waits for what it says to that.
            drop(self.session.request(&outlet, method::TASKS_CANCEL, self.about()));
        }
    }

    /// `tasks/result`: what the client would have answered at once.
    async fn result(&mut self) -> Option<Result<Payload, Payload>> {
        loop {
            match self.ask(method::TASKS_RESULT).await {
                Asked::Answered(answer) if answer.as_str().starts_with('{') => {
                    // The relation is between the client and us; whoever asked knows nothing of this task.
                    let own = meta::edit(Some(&answer), |meta| {
                        meta.remove(RELATED_TASK);
                        Ok(())
                    });
                    return Some(Ok(own.unwrap_or(answer)));
                }
                Asked::Answered(_) => return Some(Err(self.error("has a result that is no object"))),
                Asked::Refused(error) => return Some(Err(error)),
                Asked::Again => {}
                Asked::Over => return None,
            }
        }
    }

    /// Waits until it is time to ask again: the client's interval, or its word that something has changed.
    async fn pause(&self) {
        let interval = self.state.poll_interval.unwrap_or(INTERVAL).clamp(FASTEST, SLOWEST);
        tokio::select! {
            () = self.session.hosted_change() => {}
            () = self.session.ended() => {}
            () = tokio::time::sleep(interval) => {}
        }
    }

    /// Asks something about the task, on whatever stream there is.
    async fn ask(&mut self, name: &str) -> Asked {
        let outlet = loop {
            let streams = self.session.streams_changed();
            tokio::pin!(streams);
            streams.as_mut().enable();
            if let Some(outlet) = self.outlet() {
                break outlet;
            }
            tokio::select! {
                () = streams => {}
                () = self.session.ended() => return Asked::Over,
            }
        };
        let (_, answer) = self.session.request(&outlet, name, self.about());
        let failed = tokio::select! {
            answer = answer => match answer {
                Ok(Ok(answer)) => return Asked::Answered(answer),
                Ok(Err(NoAnswer::Error(error))) => error_object(error),
                Ok(Err(NoAnswer::Unreadable(why))) => RpcError::internal(why).to_payload(),
                Err(_) => return Asked::Over,
            },
            // The stream is gone, and what was asked or answered on it may be, too.
            () = outlet.closed() => return Asked::Again,
            () = tokio::time::sleep(PATIENCE) => self.error("is not told of any more"),
        };
        self.failures += 1;
        // It does not know the task; nothing will come of asking again.
        let is_gone = translate::code_of(&failed) == Some(ErrorCode::InvalidParams.number().into());
        if is_gone || self.failures >= FAILURES { Asked::Refused(failed) } else { Asked::Again }
    }

    /// A stream that the client reads.
    fn outlet(&self) -> Option<Outlet> {
        if self.outlet.is_closed() { self.session.general() } else { Some(self.outlet.clone()) }
    }

    fn about(&self) -> Option<Payload> {
        Payload::from_value(&serde_json::json!({ "taskId": self.id })).ok()
    }

    fn error(&self, what: &str) -> Payload {
        let said = self.state.message.as_deref().map(|said| format!(": {said}")).unwrap_or_default();
        RpcError::internal(format!("The task that the client made of the question {what}{said}")).to_payload()
    }
}

/// What came of asking.
enum Asked {
    /// This.
    Answered(Payload),
    /// Nothing, and nothing will.
    Refused(Payload),
    /// Nothing so far.
    Again,
    /// The session has ended.
    Over,
}
