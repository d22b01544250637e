//! Tasks that an upstream hosts for calls of ours: asking for one, keeping its handle, following it and stopping it.
//!
//! Such work outlives this process. The handle is put down before anything else is done with it, and whoever goes on with
//! the work follows the handle: the tool is called once.

mod asks;
mod begun;
mod follow;
mod inputs;
mod voice;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use taskgate_client::session::{CallFailure, CallOptions, Lane, PendingCall, Session};
use taskgate_engine::NotStopped;
use taskgate_task::{InvalidPayload, Payload};
use taskgate_wire::{Dialect, ErrorCode, RawObject, Version, meta, method, translate};

use super::asking::Whom;
use super::{Request, lane};

pub use begun::{Begun, keep};
pub use follow::{Forgotten, Start, follow};

/// The way back to a task of an upstream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handle {
    /// The upstream's own id for it.
    pub id: String,
    /// The version it was made under.
    pub era: String,
    /// How many times the call had been made when it was made.
    #[serde(skip_serializing_if = "is_one", default = "one")]
    pub calls: u32,
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes it so")]
fn is_one(count: &u32) -> bool {
    *count == 1
}

/// What is put down of a call, for whoever goes on with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// The upstream has made a task of it.
    Task(Handle),
    /// A handler in this program has saved how far it has come.
    Saved(Payload),
}

impl Mark {
    /// Reads [`Mark::write`] back.
    pub fn read(checkpoint: &Payload) -> Result<Mark, InvalidPayload> {
        Ok(serde_json::from_str(checkpoint.as_str())?)
    }

    /// The checkpoint.
    pub fn write(&self) -> Result<Payload, InvalidPayload> {
        Payload::from_value(self)
    }
}

/// Where a call is made, and for whom.
#[derive(Clone)]
pub struct Line {
    pub session: Session,
    pub lane: Lane,
    /// Who may be asked, and what.
    pub whom: Whom,
    options: CallOptions,
}

impl Line {
    /// For this request, on the lane that fits `stateless`.
    pub fn new(session: Session, request: &Request, stateless: bool) -> Line {
        let options = CallOptions {
            owner: Some(request.caller.clone()),
            capabilities: request.capabilities.clone(),
            client_info: None,
        };
        let lane = lane(&session, stateless);
        Line { session, lane, whom: Whom::of(request), options }
    }

    /// The same for the task of this handle: on the lane it was made on, if the server still has it.
    pub fn back_to(handle: &Handle, session: Session, request: &Request) -> Line {
        let stateless = Version::from_wire(&handle.era).is_some_and(Version::is_stateless);
        Line::new(session, request, stateless)
    }

    /// The generation of tasks that is spoken here, if there is one.
    pub fn dialect(&self) -> Option<Dialect> {
        Dialect::of(self.lane.version())
    }

    /// Makes a call. With `tasks`, as a client that can be answered with a task.
    pub fn call(&self, name: &str, params: Option<&RawValue>, tasks: bool) -> PendingCall {
        let mut options = self.options.clone();
        if tasks {
            options.capabilities = Some(with_tasks(options.capabilities.as_ref()));
        }
        self.session.call(self.lane, name, params, options)
    }

    /// Asks something about a task.
    fn about(&self, name: &str, id: &str) -> PendingCall {
        let params = to_raw_value(&serde_json::json!({ "taskId": id })).ok();
        self.call(name, params.as_deref(), true)
    }

    /// Cancels a task without waiting to hear of it, where nothing more can be done if that fails.
    pub fn let_go_of(&self, id: &str) {
        self.about(method::TASKS_CANCEL, id).abandon();
    }
}

/// A client's capabilities and the tasks extension.
fn with_tasks(capabilities: Option<&Payload>) -> Payload {
    let edit = || {
        let mut all = capabilities.map(|all| RawObject::parse(all.as_str())).transpose()?.unwrap_or_default();
        let extensions = all.get("extensions").map(ToOwned::to_owned);
        let mut extensions =
            extensions.as_ref().and_then(|raw| RawObject::parse(raw.get()).ok()).unwrap_or_default();
        extensions.set(meta::TASKS_EXTENSION, to_raw_value(&serde_json::json!({}))?);
        all.set("extensions", extensions.to_raw()?);
        all.to_payload()
    };
    edit().unwrap_or_else(|_| Payload::null())
}

/// The params of a tool call that asks for a task of `ttl` milliseconds, in the era in which params say so, or for none: what
/// a caller of 2026-07-28 has there means nothing, and must not become a wish on its way.
pub fn params_for(
    line: &Line,
    params: Option<Payload>,
    ttl: Option<u64>,
) -> Result<Option<Payload>, InvalidPayload> {
    if line.dialect() != Some(Dialect::D2025_11_25) {
        return Ok(params);
    }
    let mut object =
        params.as_ref().map(|params| RawObject::parse(params.as_str())).transpose()?.unwrap_or_default();
    if let Some(ttl) = ttl {
        object.set("task", to_raw_value(&serde_json::json!({ "ttl": ttl }))?);
    } else if object.get("task").is_some() {
        object.remove("task");
    } else {
        return Ok(params);
    }
    object.to_payload().map(Some)
}

/// How long a task may take to be cancelled, its server's start included.
const STOPPING: Duration = Duration::from_secs(10);

/// Cancels a task of an upstream. One that is unknown there, or over, is stopped.
pub async fn stop(line: &Line, handle: &Handle) -> Result<(), NotStopped> {
    let cancelled = line.about(method::TASKS_CANCEL, &handle.id).outcome();
    let failure = match tokio::time::timeout(STOPPING, cancelled).await {
        Ok(Ok(_)) => return Ok(()),
        Ok(Err(failure)) => failure,
        Err(_) => return Err(NotStopped(format!("the server did not answer within {STOPPING:?}"))),
    };
    if let CallFailure::Rpc(error) = &failure {
        let code = translate::code_of(error);
        let is = |known: ErrorCode| code == Some(known.number().into());
        if is(ErrorCode::MethodNotFound) {
            tracing::warn!("a server that hosts tasks knows no way to cancel one");
        }
        if is(ErrorCode::InvalidParams) || is(ErrorCode::MethodNotFound) {
            return Ok(());
        }
    }
    Err(NotStopped(failure.to_string()))
}

/// The same from anywhere, with the server as soon as it is there.
pub async fn stop_at(
    session: impl Future<Output = Option<Session>>,
    request: &Request,
    handle: &Handle,
) -> Result<(), NotStopped> {
    match tokio::time::timeout(STOPPING, session).await {
        Ok(Some(session)) => stop(&Line::back_to(handle, session, request), handle).await,
        Ok(None) => Err(NotStopped("the server was shut down".to_owned())),
        Err(_) => Err(NotStopped("the server is not available".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_read_back() {
        let mark = Mark::Task(Handle { id: "a\"b".to_owned(), era: "2025-11-25".to_owned(), calls: 1 });
        let written = mark.write().expect("JSON");
        assert_eq!(written.as_str(), r#"{"task":{"id":"a\"b","era":"2025-11-25"}}"#);
        assert_eq!(Mark::read(&written).expect("read"), mark);
        let saved = Mark::Saved(Payload::parse(r#"{ "n":1.0}"#.to_owned()).expect("JSON"));
        let written = saved.write().expect("JSON");
        assert_eq!(written.as_str(), r#"{"saved":{ "n":1.0}}"#);
        assert_eq!(Mark::read(&written).expect("read"), saved);
        assert!(Mark::read(&Payload::null()).is_err());
    }

    #[test]
    fn the_extension_is_declared_beside_what_was_declared() {
        let json = |text: &str| Payload::parse(text.to_owned()).expect("JSON");
        let with = |text: &str| with_tasks(Some(&json(text))).as_str().to_owned();
        let own = r#""io.modelcontextprotocol/tasks":{}"#;
        assert_eq!(with("{}"), format!(r#"{{"extensions":{{{own}}}}}"#));
        assert_eq!(
            with(r#"{"roots":{ },"extensions":{"x/y":{"a":1.0}}}"#),
            format!(r#"{{"roots":{{ }},"extensions":{{"x/y":{{"a":1.0}},{own}}}}}"#)
        );
        assert_eq!(with(r#"{"extensions":7}"#), format!(r#"{{"extensions":{{{own}}}}}"#));
        assert_eq!(with_tasks(None).as_str(), format!(r#"{{"extensions":{{{own}}}}}"#));
    }
}
