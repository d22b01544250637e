use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use taskgate_task::Payload;
use taskgate_wire::{ErrorCode, Message, Version, method};
use tokio::time::timeout;

use super::call::PendingCall;
use super::event::CallFailure;
use super::lane::{Lane, LaneDescription, Lanes, ServerDescription};
use super::options::{OpenOptions, object};
use super::params::{Stamp, stamp};
use super::shared::Lifeline;
use super::table::{Entry, Kind};
use crate::transport::CloseReason;
use crate::transport::http::{FailureKind, RequestFailure};

/// Why a session could not be opened.
#[derive(Debug, Clone, thiserror::Error)]
pub enum OpenError {
    /// The connection ended upon the probe. Some servers give up at the sight of anything but `initialize`: start the
    /// server again and open it with a version that has a session as the preferred one.
    #[error("the server ended the connection instead of answering server/discover: {0}")]
    ClosedOnProbe(CloseReason),
    /// The connection ended.
    #[error("{0}")]
    Closed(CloseReason),
    /// The request that was to open the session has no answer.
    #[error("{0}")]
    Request(RequestFailure),
    /// The server refused `initialize` with this error object.
    #[error("the server refused initialize: {}", .0.as_str())]
    Refused(Payload),
    /// There is no version both sides speak. These are the server's.
    #[error("no common protocol version; the server offers {}", .0.join(", "))]
    NoCommonVersion(Vec<String>),
    /// `initialize` was not answered in time.
    #[error("initialize was not answered within {0:?}")]
    TimedOut(Duration),
    /// `initialize` was answered with something that is no answer to it.
    #[error("the answer to initialize makes no sense: {0}")]
    BadAnswer(String),
}

/// What the probe told.
enum Probed {
    /// A server without sessions, or with both; the versions it lists.
    Modern { answer: Option<Payload>, versions: Vec<String> },
    /// A server of the time before.
    Legacy,
    /// Nothing so far. A server that is slow to start may still answer.
    Silent(PendingCall),
}

/// Finds out what the server speaks and opens the lanes that are wanted.
pub(super) async fn open(
    line: &Arc<Lifeline>,
    options: &OpenOptions,
) -> Result<(Lanes, ServerDescription), OpenError> {
    let mut opened = Opened::default();
    if !options.prefer.is_stateless() && !options.both_lanes {
        opened.initialize(line, options, options.prefer, None).await?;
        return Ok(opened.into_parts());
    }
    let newest_session =
        if options.prefer.is_stateless() { Version::NEWEST_WITH_SESSION } else { options.prefer };
    match probe(line, options).await? {
        Probed::Legacy => opened.initialize(line, options, newest_session, None).await?,
        Probed::Silent(probe) => opened.initialize(line, options, newest_session, Some(probe)).await?,
        Probed::Modern { answer, versions } => {
            let session = best(&versions, |version| !version.is_stateless());
            if !opened.discovered(answer, &versions) {
                // A server of both eras that does not know our newest version is met on the other one.
                let version = session.ok_or(OpenError::NoCommonVersion(versions))?;
                opened.initialize(line, options, version, None).await?;
            } else if let Some(version) = session.filter(|_| options.both_lanes) {
                match opened.initialize(line, options, version, None).await {
                    Ok(()) => {}
                    Err(OpenError::Closed(reason)) => return Err(OpenError::Closed(reason)),
                    Err(error) => tracing::debug!(%error, "the server lists a version it does not open"),
                }
            }
        }
    }
    Ok(opened.into_parts())
}

/// Sends `server/discover`.
async fn probe(line: &Arc<Lifeline>, options: &OpenOptions) -> Result<Probed, OpenError> {
    let version = if options.prefer.is_stateless() { options.prefer } else { Version::V2026_07_28 };
    let modern = Stamp::Modern {
        version,
        info: options.client_info.as_raw(),
        capabilities: options.capabilities.as_raw(),
    };
    let mut call = PendingCall::start(line, method::DISCOVER, Entry::new(Kind::Opening), |number| {
        stamp(None, number, &modern).map(Some).map_err(|error| CallFailure::Params(error.to_string()))
    });
    match timeout(options.probe_timeout, call.done()).await {
        Err(_) => Ok(Probed::Silent(call)),
        Ok(Err(CallFailure::Closed(reason))) => Err(OpenError::ClosedOnProbe(reason)),
        // Whatever else is asked will not arrive either.
        Ok(Err(CallFailure::Request(failure))) if failure.kind == FailureKind::Unreachable => {
            Err(OpenError::Request(failure))
        }
        Ok(outcome) => Ok(judge(outcome)),
    }
}

/// Only an answer that makes sense, or an error that exists since the modern versions, tells a modern server. Every
/// other error, whatever its code, comes from a server that does not know the method (2026-07-28, stdio).
fn judge(outcome: Result<Payload, CallFailure>) -> Probed {
    match outcome {
        Ok(answer) => match read::<Discovered>(&answer) {
            Some(Discovered { versions: Some(versions) }) => {
                Probed::Modern { answer: Some(answer), versions }
            }
            _ => Probed::Legacy,
        },
        Err(CallFailure::Rpc(error)) => match read::<Refusal>(&error) {
            Some(refusal) if refusal.is_modern() => {
                let versions = refusal.data.map(|data| data.supported).unwrap_or_default();
                Probed::Modern { answer: None, versions }
            }
            _ => Probed::Legacy,
        },
        Err(_) => Probed::Legacy,
    }
}

#[derive(Default)]
struct Opened {
    lanes: Lanes,
    server: ServerDescription,
}

impl Opened {
    fn into_parts(self) -> (Lanes, ServerDescription) {
        (self.lanes, self.server)
    }

    /// Notes what the probe told; false if there is no common modern version.
    fn discovered(&mut self, answer: Option<Payload>, versions: &[String]) -> bool {
        let version = match best(versions, Version::is_stateless) {
            Some(version) => version,
            // An error that only modern servers know, and no list with it: the version was not the problem.
            None if versions.is_empty() && answer.is_none() => Version::V2026_07_28,
            None => return false,
        };
        self.lanes.modern = Some(Lane::Modern(version));
        self.server.modern = Some(describe(answer));
        true
    }

    /// Sends `initialize`, and `notifications/initialized` once it was answered.
    async fn initialize(
        &mut self,
        line: &Arc<Lifeline>,
        options: &OpenOptions,
        version: Version,
        probe: Option<PendingCall>,
    ) -> Result<(), OpenError> {
        let params = object(&serde_json::json!({
            "protocolVersion": version.as_str(),
            "capabilities": options.session_capabilities.as_ref().unwrap_or(&options.capabilities),
            "clientInfo": &options.client_info,
        }));
        let mut call =
            PendingCall::start(line, method::INITIALIZE, Entry::new(Kind::Opening), |_| Ok(Some(params)));
        let answer = match timeout(options.initialize_timeout, call.done()).await {
            Err(_) => Err(OpenError::TimedOut(options.initialize_timeout)),
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(CallFailure::Closed(reason))) => return Err(OpenError::Closed(reason)),
            Ok(Err(CallFailure::Rpc(error))) => Err(OpenError::Refused(error)),
            Ok(Err(CallFailure::Request(failure))) => Err(OpenError::Request(failure)),
            Ok(Err(other)) => Err(OpenError::BadAnswer(other.to_string())),
        };
        let answer = match answer {
            Ok(answer) => answer,
            // A modern server that was slow to start has answered the probe in the meantime.
            Err(error) => return if self.discovered_late(probe).await { Ok(()) } else { Err(error) },
        };
        let Some(Initialized { version: agreed }) = read(&answer) else {
            return Err(OpenError::BadAnswer("it has no protocolVersion".to_owned()));
        };
        let version = match Version::from_wire(&agreed) {
            Some(version) if !version.is_stateless() => version,
            _ => return Err(OpenError::NoCommonVersion(vec![agreed])),
        };
        line.0.outbox.send(Message::Notification { method: method::INITIALIZED.to_owned(), params: None });
        self.lanes.legacy = Some(Lane::Legacy(version));
        self.server.legacy = Some(describe(Some(answer)));
        Ok(())
    }

    /// Whether the probe was answered after its time, by a modern server.
    async fn discovered_late(&mut self, probe: Option<PendingCall>) -> bool {
        let Some(mut probe) = probe else { return false };
        // Requests are answered in any order, but what has not arrived by now is not waited for.
        match timeout(Duration::ZERO, probe.done()).await.map(judge) {
            Ok(Probed::Modern { answer, versions }) => self.discovered(answer, &versions),
            _ => false,
        }
    }
}

/// The newest of our versions that is listed.
fn best(versions: &[String], wanted: impl Fn(Version) -> bool) -> Option<Version> {
    Version::ALL
        .into_iter()
        .find(|version| wanted(*version) && versions.iter().any(|listed| listed == version.as_str()))
}

fn describe(answer: Option<Payload>) -> LaneDescription {
    let described = answer.as_ref().and_then(read::<Described>).unwrap_or_default();
    let keep = |raw: &RawValue| Payload::from_raw(raw);
    let info = described.server_info.or(described.meta.and_then(|meta| meta.server_info));
    LaneDescription {
        capabilities: described.capabilities.map_or_else(|| object(&serde_json::json!({})), keep),
        server_info: info.map(keep),
        instructions: described.instructions.map(keep),
        answer: answer.clone(),
    }
}

fn read<'a, T: Deserialize<'a>>(answer: &'a Payload) -> Option<T> {
    serde_json::from_str(answer.as_str()).ok()
}

#[derive(Deserialize)]
struct Discovered {
    #[serde(default, rename = "supportedVersions")]
    versions: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Initialized {
    #[serde(rename = "protocolVersion")]
    version: String,
}

#[derive(Deserialize)]
struct Refusal {
    code: i64,
    #[serde(default)]
    data: Option<Supported>,
}

#[derive(Deserialize, Default)]
struct Supported {
    #[serde(default)]
    supported: Vec<String>,
}

impl Refusal {
    fn is_modern(&self) -> bool {
        [
            ErrorCode::HeaderMismatch,
            ErrorCode::MissingRequiredClientCapability,
            ErrorCode::UnsupportedProtocolVersion,
        ]
        .iter()
        .any(|code| i64::from(code.number()) == self.code)
    }
}

#[derive(Deserialize, Default)]
struct Described<'a> {
    #[serde(borrow, default)]
    capabilities: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "serverInfo")]
    server_info: Option<&'a RawValue>,
    #[serde(borrow, default)]
    instructions: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "_meta")]
    meta: Option<DescribedMeta<'a>>,
}

#[derive(Deserialize)]
struct DescribedMeta<'a> {
    #[serde(borrow, default, rename = "io.modelcontextprotocol/serverInfo")]
    server_info: Option<&'a RawValue>,
}
