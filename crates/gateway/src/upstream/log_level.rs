//! From which level on an upstream of 2025-11-25 or earlier logs. It has one level for the whole connection, so that is the
//! most talkative one anybody asked for; what is too much for a caller is left out on the way to it.

use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use taskgate_client::session::{CallFailure, CallOptions, Lane, Session};
use taskgate_task::Payload;
use taskgate_wire::{LogLevel, RpcError, method};

use super::catalog::declares;
use super::{Upstream, lane};

/// How long a call waits until the server knows the level that the call wants.
const SETTING: Duration = Duration::from_secs(1);

/// The level that was asked of the server last.
#[derive(Default)]
pub struct Asked(Mutex<Option<LogLevel>>);

impl From<Option<LogLevel>> for Asked {
    fn from(level: Option<LogLevel>) -> Self {
        Asked(Mutex::new(level))
    }
}

impl Upstream {
    /// Sets the level for whoever uses the connection; `params` are those of the caller if its level is the one that counts. `None` if
    /// the server has no log messages.
    pub async fn set_log_level(
        &self,
        level: LogLevel,
        params: Option<&Payload>,
    ) -> Option<Result<Payload, Payload>> {
        // Kept whatever comes of it: an upstream that is down is told when it is back.
        *self.log_level.0.lock() = Some(level);
        let session = match self.connection().await {
            Ok(session) => session,
            Err(error) => return Some(Err(error.to_payload())),
        };
        let lane = lane(&session, false);
        if !declares(&session, lane, "logging") {
            return None;
        }
        match lane {
            // There each request says what it wants.
            Lane::Modern(_) => Some(to_payload(&json!({}))),
            Lane::Legacy(_) => {
                Some(ask(&session, lane, level, params).await.map_err(|failure| match failure {
                    CallFailure::Rpc(error) => error,
                    other => RpcError::internal(other.to_string()).to_payload(),
                }))
            }
        }
    }

    /// Sees to it that the server logs at least from this level on, for a request that says so itself.
    pub async fn log_at_least(&self, session: &Session, level: LogLevel) {
        let lane = lane(session, true);
        if !matches!(lane, Lane::Legacy(_)) || !declares(session, lane, "logging") {
            return;
        }
        {
            let mut asked = self.log_level.0.lock();
            if asked.is_some_and(|asked| asked <= level) {
                return;
            }
            *asked = Some(level);
        }
        // A server that does not answer in time is called all the same: messages are the lesser part of a call.
        let _ = tokio::time::timeout(SETTING, ask(session, lane, level, None)).await;
    }

    /// Asks a new connection for the level the old one had.
    pub fn renew_log_level(&self, session: &Session) {
        let lane = lane(session, false);
        let asked = *self.log_level.0.lock();
        if let (Some(level), Lane::Legacy(_)) = (asked, lane)
            && declares(session, lane, "logging")
            && let Ok(params) = params(level)
        {
            session.call(lane, method::SET_LEVEL, Some(params.as_raw()), CallOptions::default()).abandon();
        }
    }
}

async fn ask(
    session: &Session,
    lane: Lane,
    level: LogLevel,
    theirs: Option<&Payload>,
) -> Result<Payload, CallFailure> {
    let params = match theirs {
        Some(params) => params.clone(),
        None => params(level).map_err(|error| CallFailure::Params(error.to_string()))?,
    };
    session.call(lane, method::SET_LEVEL, Some(params.as_raw()), CallOptions::default()).outcome().await
}

fn params(level: LogLevel) -> Result<Payload, taskgate_task::InvalidPayload> {
    Payload::from_value(&json!({ "level": level }))
}

fn to_payload(value: &serde_json::Value) -> Result<Payload, Payload> {
    Payload::from_value(value).map_err(|error| RpcError::internal(error.to_string()).to_payload())
}
