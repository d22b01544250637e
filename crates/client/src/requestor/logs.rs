//! From which level on a server logs for this client, and what it logs apart from calls.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::value::{RawValue, to_raw_value};
use taskgate_task::Payload;
use taskgate_wire::{LogLevel, Version, meta, method};
use tokio::time::Instant;

use super::connect::{Connection, Era, Inner};
use super::drive::Retries;
use super::error::CallError;
use crate::session::{CallOptions, Heard, Lane, Notifications};

/// How long a connection waits until its server knows the level: messages are the lesser part of a call.
const SETTING: Duration = Duration::from_secs(1);
/// The capability of servers that log.
const CAPABILITY: &str = "logging";

/// What a connection knows of logging.
pub(super) struct Logging {
    level: Option<LogLevel>,
    /// What was heard since the level was set, until somebody listens.
    early: Mutex<Option<Notifications>>,
}

impl Logging {
    pub(super) fn new(level: Option<LogLevel>) -> Logging {
        Logging { level, early: Mutex::default() }
    }

    /// From which level on the server is to log, if it was said.
    pub(super) fn level(&self) -> Option<LogLevel> {
        self.level
    }
}

impl Connection {
    /// Sets the level of a session, where the server has one.
    pub(super) async fn set_level(&self) {
        let (Some(level), Lane::Legacy(_)) = (self.logging.level, self.lane) else { return };
        let Ok(params) = to_raw_value(&serde_json::json!({ "level": level })) else { return };
        if !self.session.server().has(self.lane, CAPABILITY) {
            return;
        }
        *self.logging.early.lock() = Some(self.session.notifications());
        let asked =
            self.session.call(self.lane, method::SET_LEVEL, Some(&params), CallOptions::default()).outcome();
        match tokio::time::timeout(SETTING, asked).await {
            Ok(Ok(_)) => {}
            Ok(Err(failure)) => {
                tracing::warn!(%failure, "the server did not set the level of its log messages")
            }
            Err(_) => tracing::warn!("the server takes its time to set the level of its log messages"),
        }
    }

    /// The params of a request that says its level itself (2026-07-28); `None` where they stay as they are. On a subscription there
    /// are no log messages.
    pub(super) fn with_level(&self, name: &str, params: Option<&RawValue>) -> Option<Payload> {
        let (Some(level), Lane::Modern(_)) = (self.logging.level, self.lane) else { return None };
        if name == method::LISTEN {
            return None;
        }
        let params = params.map(Payload::from_raw);
        // What is no object is refused when it is sent.
        meta::edit(params.as_ref(), |members| {
            members.set(meta::LOG_LEVEL, to_raw_value(&level)?);
            Ok(())
        })
        .ok()
    }
}

/// What a server logs apart from calls. A connection that is lost is made again, with the same level.
pub struct Logs {
    inner: Arc<Inner>,
    connection: Arc<Connection>,
    heard: Notifications,
    since: Instant,
    retries: Retries,
}

impl fmt::Debug for Logs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Logs").field("endpoint", &self.inner.identity).finish_non_exhaustive()
    }
}

impl Logs {
    pub(super) async fn open(inner: Arc<Inner>) -> Result<Logs, CallError> {
        let opened = tokio::time::timeout(inner.deadline, listen(&inner)).await;
        let late = |_| CallError::Deadline { handle: None, after: inner.deadline };
        let (connection, heard) = opened.map_err(late)??;
        let retries = Retries::new(inner.patience);
        Ok(Logs { inner, connection, heard, since: Instant::now(), retries })
    }

    /// The params of the next `notifications/message`, as they came. Cancel safe.
    ///
    /// # Errors
    ///
    /// Why there will be none: the server cannot be reached for longer than the client's patience, or logs no more in this way.
    pub async fn next(&mut self) -> Result<Payload, CallError> {
        loop {
            let why = tokio::select! {
                biased;
                heard = self.heard.next() => match heard {
                    Some(Heard::Notification { method, params: Some(params) }) if method == method::LOG_MESSAGE => {
                        return Ok(params);
                    }
                    Some(_) => continue,
                    None => self.connection.session.closed().await,
                },
                why = self.connection.session.stale() => why,
            };
            self.reconnect(why.to_string()).await?;
        }
    }

    async fn reconnect(&mut self, mut why: String) -> Result<(), CallError> {
        // One that has held for so long is no failure in a row.
        if self.since.elapsed() >= self.inner.patience {
            self.retries.reset();
        }
        loop {
            let wait = self.retries.failed();
            let wait = wait.ok_or_else(|| CallError::Unreachable { handle: None, why: why.clone() })?;
            tokio::time::sleep(wait).await;
            match listen(&self.inner).await {
                Ok((connection, heard)) => {
                    (self.connection, self.heard, self.since) = (connection, heard, Instant::now());
                    return Ok(());
                }
                Err(CallError::Unreachable { why: again, .. }) => why = again,
                Err(error) => return Err(error),
            }
        }
    }
}

/// Listens in a session.
async fn listen(inner: &Inner) -> Result<(Arc<Connection>, Notifications), CallError> {
    let connection = inner.connection(Era::Session(Version::NEWEST_WITH_SESSION)).await?;
    if connection.lane.version().is_stateless() {
        let version = connection.lane.version().as_str();
        return Err(CallError::Unsupported(format!(
            "it speaks {version} only, in which servers log during requests and not apart from them; follow a call with a log level instead"
        )));
    }
    if !connection.session.server().has(connection.lane, CAPABILITY) {
        return Err(CallError::Unsupported(
            "it says that it logs nothing (no capability \"logging\")".to_owned(),
        ));
    }
    let early = connection.logging.early.lock().take();
    let heard = early.unwrap_or_else(|| connection.session.notifications());
    Ok((connection, heard))
}
