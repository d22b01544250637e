//! Log levels: a session sets one for all that follows, a request of 2026-07-28 says its own.

use std::sync::{Arc, Weak};

use futures_util::future::join_all;
use parking_lot::Mutex;
use taskgate_task::{Owner, Payload};
use taskgate_wire::{LogLevel, RpcError, method};

use super::{Answer, Caller, Request};
use crate::gateway::Gateway;
use crate::session::Session;

/// The sessions that have set a level.
#[derive(Default)]
pub struct Levels(Mutex<Vec<Weak<Session>>>);

impl Levels {
    /// Notes a session.
    fn note(&self, session: &Arc<Session>) {
        let mut sessions = self.0.lock();
        sessions.retain(|known| {
            known.upgrade().is_some_and(|known| known.log_level().is_some() && !Arc::ptr_eq(&known, session))
        });
        sessions.push(Arc::downgrade(session));
    }

    /// The most talkative level of all, or of all of this owner.
    pub fn most_talkative(&self, owner: Option<&Owner>) -> Option<LogLevel> {
        let sessions = self.0.lock();
        let known = sessions.iter().filter_map(Weak::upgrade);
        let heard = known.filter(|known| owner.is_none_or(|owner| known.owner() == owner));
        heard.filter_map(|known| known.log_level()).min()
    }
}

impl Gateway {
    /// `logging/setLevel`: the session's own level, and the upstreams' as far as they have one.
    pub(crate) async fn set_level(&self, session: &Arc<Session>, request: &Request<'_>) -> Answer {
        let level = request.params.level().map_err(|error| error.to_payload())?;
        session.set_log_level(level);
        let owner = session.owner();
        let levels = &self.0.pool.levels;
        levels.note(session);
        let upstreams = self.upstreams(owner).await;
        let asked = upstreams.iter().map(|upstream| {
            let of = upstream.is_for_one().then_some(owner);
            let wanted = levels.most_talkative(of).unwrap_or(level);
            upstream.set_log_level(wanted, request.raw.filter(|_| wanted == level))
        });
        let mut answers: Vec<Answer> = join_all(asked).await.into_iter().flatten().collect();
        let good = answers.iter().position(Result::is_ok).unwrap_or(0);
        if answers.is_empty() {
            return Err(RpcError::method_not_found(method::SET_LEVEL).to_payload());
        }
        answers.swap_remove(good)
    }
}

/// The level a request's messages are wanted from; `None` if the caller leaves it to the server.
pub fn wanted(caller: &Caller, request: &Request<'_>) -> Option<LogLevel> {
    match caller {
        Caller::Session(session) => session.log_level(),
        Caller::Stateless { .. } => request.meta.log_level.and_then(LogLevel::from_raw),
    }
}

/// Whether a caller wants a message. A session that has set no level gets what the server thinks fit; a 2026-07-28 request
/// that names none gets nothing.
pub fn wants(caller: &Caller, request: &Request<'_>, message: &Payload) -> bool {
    match wanted(caller, request) {
        Some(level) => is_at_least(message, level),
        None => !caller.is_stateless(),
    }
}

/// Whether a message is at least this urgent. One of a level nobody knows is passed on.
pub fn is_at_least(message: &Payload, level: LogLevel) -> bool {
    LogLevel::of_message(message).is_none_or(|of| of >= level)
}

/// -32602 for a level of a 2026-07-28 request that does not exist (2026-07-28, logging).
pub fn check(request: &Request<'_>) -> Result<(), RpcError> {
    match request.meta.log_level {
        Some(raw) if LogLevel::from_raw(raw).is_none() => {
            let text = "Invalid params: _meta io.modelcontextprotocol/logLevel must be a log level";
            Err(RpcError::invalid_params(text))
        }
        _ => Ok(()),
    }
}
