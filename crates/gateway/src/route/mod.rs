//! Decides what a request becomes: an engine op, a task, or something to relay. ONE table for each generation.

mod call_tool;
mod capabilities;
mod courier;
mod cursor;
mod d2025_10_20;
mod foreign;
mod hosts;
mod inline;
mod keyed;
mod lifecycle;
mod list;
mod listen;
mod logging;
mod parked;
mod polled;
mod seal;
mod state;
mod subscribe;
mod tasks;
mod whose;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use taskgate_access::Identity;
use taskgate_client::session::CallFailure;
use taskgate_task::{Owner, Payload};
use taskgate_wire::dialect::{d2025_11_25, d2026_07_28};
use taskgate_wire::{Capabilities, Dialect, Id, ListKind, Meta, Params, RpcError, method, translate};

use crate::bounds::is_unknown;
use crate::gateway::{Gateway, Target};
use crate::session::{Outlet, Session};

pub use hosts::method_of_companion;
pub use logging::{Levels, is_at_least};
pub use parked::Parked;
pub use state::States;
pub use subscribe::concerns;

/// A request on its way through the gateway.
pub struct Request<'a> {
    /// Its id.
    pub id: &'a Id,
    /// Its method.
    pub method: &'a str,
    /// Its params as they came.
    pub raw: Option<&'a Payload>,
    /// The known members of its params.
    pub params: Params<'a>,
    /// The known members of its `_meta`.
    pub meta: Meta<'a>,
    /// How it came.
    pub arrival: &'a Arrival,
    /// The tool it names, if somebody has looked for it already.
    pub(crate) tool: Option<&'a Result<Target, RpcError>>,
}

/// How a request came.
#[derive(Clone, Default)]
pub struct Arrival {
    /// Whom its sender has shown to be, where that is needed.
    pub identity: Option<Arc<Identity>>,
    /// From which address, if that is known.
    pub peer: Option<IpAddr>,
}

impl Arrival {
    /// Whom its sender has shown to be.
    pub fn identity(&self) -> Option<&Identity> {
        self.identity.as_deref()
    }
}

impl Request<'_> {
    /// How long what it asks with is, in bytes.
    fn size(&self) -> usize {
        self.raw.map_or(0, |raw| raw.as_str().len())
    }
}

/// Who asks.
#[derive(Clone)]
pub enum Caller {
    /// A session of 2025-11-25 or earlier.
    Session(Arc<Session>),
    /// A request of 2026-07-28 that brings everything itself.
    Stateless {
        /// Whose tasks it sees.
        owner: Owner,
        /// What it can do.
        capabilities: Capabilities,
        /// What it can do, as it said it.
        raw_capabilities: Payload,
    },
}

/// An answer: the `result`, or the `error` object.
pub type Answer = Result<Payload, Payload>;

impl Caller {
    /// Whose tasks it sees.
    pub fn owner(&self) -> &Owner {
        match self {
            Caller::Session(session) => session.owner(),
            Caller::Stateless { owner, .. } => owner,
        }
    }

    /// What it can do.
    pub fn capabilities(&self) -> Capabilities {
        match self {
            Caller::Session(session) => session.negotiated().map(|n| n.capabilities).unwrap_or_default(),
            Caller::Stateless { capabilities, .. } => *capabilities,
        }
    }

    /// What it can do, as it said it.
    pub fn raw_capabilities(&self) -> Option<Payload> {
        match self {
            Caller::Session(session) => session.negotiated().map(|n| n.raw_capabilities),
            Caller::Stateless { raw_capabilities, .. } => Some(raw_capabilities.clone()),
        }
    }

    /// The generation of tasks it speaks, if its version has one.
    pub fn dialect(&self) -> Option<Dialect> {
        match self {
            Caller::Session(session) => session.negotiated().and_then(|n| Dialect::of(n.version)),
            Caller::Stateless { .. } => Some(Dialect::D2026_07_28),
        }
    }

    /// Whether it speaks 2026-07-28 or later.
    pub fn is_stateless(&self) -> bool {
        matches!(self, Caller::Stateless { .. })
    }

    /// A name under which an upstream's questions can be told apart: callers that are one owner may share it,
    /// anonymous callers may not.
    pub fn attribution(&self, id: &Id) -> String {
        match self {
            Caller::Session(session) if session.owner().is_anonymous() => format!("session {}", session.id()),
            Caller::Stateless { owner, .. } if owner.is_anonymous() => {
                // Ids of different callers may be the same; the count makes each request a caller of its own.
                static COUNT: AtomicU64 = AtomicU64::new(0);
                format!("request {id} {}", COUNT.fetch_add(1, Ordering::Relaxed))
            }
            _ => self.owner().to_string(),
        }
    }
}

impl Gateway {
    /// Answers a request. `out` is the request's own stream for whatever comes before the answer.
    pub async fn answer(&self, caller: &Caller, request: &Request<'_>, out: &Outlet) -> Answer {
        match &self.0.audit {
            None => self.answer_plainly(caller, request, out).await,
            // Boxed: whoever keeps no account of requests need not make room for it.
            Some(audit) => Box::pin(self.answer_audited(audit, caller, request, out)).await,
        }
    }

    /// The same, and nobody keeps account of it.
    pub(crate) async fn answer_plainly(
        &self,
        caller: &Caller,
        request: &Request<'_>,
        out: &Outlet,
    ) -> Answer {
        if matches!(request.method, method::TASKS_GET | method::TASKS_RESULT | method::TASKS_LIST) {
            self.0.limits.poll(caller).map_err(|refusal| refusal.to_error().to_payload())?;
        }
        let answer = match caller {
            Caller::Stateless { .. } => self.answer_stateless(caller, request, out).await,
            Caller::Session(session) => self.answer_in_session(session, caller, request, out).await,
        };
        if let Err(error) = &answer
            && request.method.starts_with("tasks/")
            && is_unknown(error)
        {
            Box::pin(self.0.limits.unknown_id(caller)).await;
        }
        answer
    }

    /// The table for 2026-07-28.
    async fn answer_stateless(&self, caller: &Caller, request: &Request<'_>, out: &Outlet) -> Answer {
        use d2026_07_28::Call;
        logging::check(request).map_err(|error| error.to_payload())?;
        let call = d2026_07_28::decode(request.method, &request.params, caller.capabilities());
        match call.map_err(|error| error.to_payload())? {
            Call::Discover => Box::pin(self.discover(caller)).await,
            Call::ListTools => Box::pin(self.list(ListKind::Tools, caller, request, out)).await,
            Call::CallTool(call) => Box::pin(self.call_tool(caller, request, call, out)).await,
            Call::GetTask(id) => self.get_task(caller, id, out).await,
            Call::UpdateTask(id, answers) => Box::pin(self.update_task(caller, id, answers)).await,
            Call::CancelTask(id) => Box::pin(self.cancel_task(caller, id)).await,
            Call::Listen(filter) => Box::pin(self.listen(caller, request, filter, out)).await,
            Call::Relay => Box::pin(self.relay(caller, request, out)).await,
        }
    }

    /// The table for sessions up to 2025-11-25.
    async fn answer_in_session(
        &self,
        session: &Arc<Session>,
        caller: &Caller,
        request: &Request<'_>,
        out: &Outlet,
    ) -> Answer {
        use d2025_11_25::Call;
        if session.negotiated().is_some() {
            if let Some(answer) = Box::pin(self.first_task_verb(session, caller, request)).await {
                return answer;
            }
            if request.meta.first_task.is_some()
                && let Some(answer) = Box::pin(self.first_task(session, caller, request, out)).await
            {
                return answer;
            }
        }
        let tasks = caller.dialect() == Some(Dialect::D2025_11_25);
        let call = d2025_11_25::decode(request.method, &request.params, tasks);
        let call = call.map_err(|error| error.to_payload())?;
        if session.negotiated().is_none() && !matches!(call, Call::Initialize | Call::Ping) {
            let message = "The session is not initialized: send initialize first";
            return Err(RpcError::new(taskgate_wire::ErrorCode::InvalidRequest, message).to_payload());
        }
        let of_tasks =
            matches!(call, Call::GetTask(_) | Call::TaskResult(_) | Call::ListTasks(_) | Call::CancelTask(_));
        if of_tasks || matches!(&call, Call::CallTool(call) if call.task.is_some()) {
            session.shows_tasks();
        }
        match call {
            Call::Initialize => self.initialize(session, request).await,
            Call::Ping => Ok(empty()),
            Call::ListTools => Box::pin(self.list(ListKind::Tools, caller, request, out)).await,
            Call::CallTool(call) => Box::pin(self.call_tool(caller, request, call, out)).await,
            Call::GetTask(id) => Box::pin(self.get_task(caller, id, out)).await,
            Call::TaskResult(id) => Box::pin(self.task_result(session, caller, id, out)).await,
            Call::ListTasks(after) => Box::pin(self.list_tasks(caller, after)).await,
            Call::CancelTask(id) => Box::pin(self.cancel_task(caller, id)).await,
            Call::Relay => Box::pin(self.relay(caller, request, out)).await,
        }
    }
}

/// `{}`.
fn empty() -> Payload {
    Payload::parse("{}".to_owned()).unwrap_or_else(|_| Payload::null())
}

/// An answer with what the caller's era demands, and without what only the upstream's knows. `modern` says whether that is
/// 2026-07-28.
fn in_words_of(caller: &Caller, method: &str, modern: bool, answer: Answer) -> Answer {
    match (caller.is_stateless(), modern) {
        (true, _) => answer.map(|result| translate::with_cache_hints(method, result)),
        (false, true) => answer
            .map(|result| translate::without_cache_hints(method, result))
            .map_err(|error| translate::error_for_session(method, error)),
        (false, false) => answer,
    }
}

/// Why a call of ours has no result, as an error object.
fn failed(failure: CallFailure) -> Payload {
    match failure {
        CallFailure::Rpc(error) => error,
        other => RpcError::internal(other.to_string()).to_payload(),
    }
}
