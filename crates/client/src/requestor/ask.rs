//! Single requests: asked again where that does no harm, within one deadline.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use taskgate_task::Payload;
use taskgate_wire::{Dialect, ErrorCode, method};

use super::builder::TaskUse;
use super::connect::{Connection, Era, Inner, may_come_back};
use super::drive::{Retries, is_of_connection, key_of};
use super::error::{CallError, RpcFailure};
use super::handle::Handle;
use super::hosting::with_related;
use super::input::InputAnswer;
use crate::FailureKind;
use crate::session::{CallEvent, CallFailure, PendingCall};

/// How long a server may take to take in an answer.
const TAKEN_WITHIN: Duration = Duration::from_secs(2);

impl Inner {
    /// Within the client's deadline.
    pub(super) async fn in_time<T>(
        &self,
        handle: Option<&Handle>,
        what: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, CallError> {
        let late = |_| CallError::Deadline { handle: handle.cloned().map(Box::new), after: self.deadline };
        tokio::time::timeout(self.deadline, what).await.map_err(late)?
    }

    /// The version that is spoken.
    pub(super) async fn version(&self) -> Result<taskgate_wire::Version, CallError> {
        let spoken = async { Ok(self.connection(Era::Newest).await?.lane.version()) };
        self.in_time(None, spoken).await
    }

    /// Asks something that may be asked any number of times.
    async fn ask(
        &self,
        era: Era,
        handle: Option<&Handle>,
        request: impl Fn(&Connection) -> Result<PendingCall, CallError>,
    ) -> Result<(Arc<Connection>, Payload), CallError> {
        let mut retries = Retries::new(self.patience);
        loop {
            let why = match self.connection(era).await {
                Ok(connection) => {
                    let connection = match handle {
                        Some(handle) => self.back_to(handle, connection).await,
                        None => connection,
                    };
                    match request(&connection)?.outcome().await {
                        Ok(answer) => return Ok((connection, answer)),
                        Err(failure) if may_again(&failure) => failure.to_string(),
                        Err(failure) => return Err(refused(failure, handle)),
                    }
                }
                Err(error) if may_come_back(&error) => error.to_string(),
                Err(error) => return Err(error.into()),
            };
            match retries.failed() {
                Some(wait) => tokio::time::sleep(wait).await,
                None => return Err(CallError::Unreachable { handle: handle.cloned().map(Box::new), why }),
            }
        }
    }

    /// Asks something about a task.
    pub(super) async fn about(
        &self,
        name: &str,
        handle: &Handle,
        more: &[(&str, Value)],
    ) -> Result<(Dialect, Payload), CallError> {
        self.is_ours(handle)?;
        let mut params = serde_json::json!({ "taskId": handle.task });
        for (name, value) in more {
            params[*name] = value.clone();
        }
        let params = to_raw_value(&params).map_err(|error| CallError::Params(error.to_string()))?;
        let asked = self.ask(Era::of(&handle.version), Some(handle), |connection| {
            connection.dialect_for(handle).ok_or_else(no_tasks)?;
            if connection.speaks_first(handle) {
                return Ok(connection.about_this(name, handle));
            }
            Ok(connection.call(name, Some(&params), true))
        });
        let (connection, answer) = self.in_time(Some(handle), asked).await?;
        Ok((connection.dialect_for(handle).ok_or_else(no_tasks)?, answer))
    }

    fn is_ours(&self, handle: &Handle) -> Result<(), CallError> {
        if handle.endpoint == self.identity {
            return Ok(());
        }
        Err(CallError::WrongEndpoint { theirs: handle.endpoint.clone(), ours: self.identity.clone() })
    }

    /// A page of the tasks there are.
    pub(super) async fn list_tasks(&self, cursor: Option<&RawValue>) -> Result<Payload, CallError> {
        let params = cursor.map(|cursor| to_raw_value(&serde_json::json!({ "cursor": cursor }))).transpose();
        let params = params.map_err(|error| CallError::Params(error.to_string()))?;
        let asked = self.ask(Era::Newest, None, |connection| {
            let is_named = self.tasks == TaskUse::ByMetadata && !connection.lane.version().is_stateless();
            if connection.dialect != Some(Dialect::D2025_11_25) && !is_named {
                let version = connection.lane.version().as_str();
                return Err(CallError::Unsupported(format!("{version} has no list of tasks")));
            }
            Ok(connection.call(method::TASKS_LIST, params.as_deref(), false))
        });
        match asked.await {
            Ok((_, page)) => Ok(page),
            Err(CallError::Rpc(error)) if error.code == i64::from(ErrorCode::MethodNotFound.number()) => {
                Err(CallError::Unsupported(format!("it does not list its tasks: {error}")))
            }
            Err(error) => Err(error),
        }
    }

    /// The definitions of the tools.
    pub(super) async fn tools(&self) -> Result<Vec<Payload>, CallError> {
        let listed = async {
            let mut retries = Retries::new(self.patience);
            loop {
                let failure = match self.connection(Era::Newest).await?.list_tools().await {
                    Ok(tools) => return Ok(tools.into_iter().map(|tool| tool.definition).collect()),
                    Err(failure) if may_again(&failure) => failure,
                    Err(failure) => return Err(refused(failure, None)),
                };
                match retries.failed() {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => return Err(CallError::Unreachable { handle: None, why: failure.to_string() }),
                }
            }
        };
        self.in_time(None, listed).await
    }

    /// Answers a question of a task.
    pub(super) async fn answer(
        &self,
        handle: &Handle,
        key: &str,
        answer: InputAnswer,
    ) -> Result<(), CallError> {
        self.is_ours(handle)?;
        let answered = async {
            let connection = self.connection(Era::of(&handle.version)).await?;
            let connection = self.back_to(handle, connection).await;
            match connection.dialect.ok_or_else(no_tasks)? {
                Dialect::D2025_11_25 => answer_live(&connection, handle, key, answer).await,
                Dialect::D2026_07_28 => self.answer_listed(handle, key, answer).await,
            }
        };
        self.in_time(Some(handle), answered).await
    }

    async fn answer_listed(&self, handle: &Handle, key: &str, answer: InputAnswer) -> Result<(), CallError> {
        let (dialect, state) = self.about(method::TASKS_GET, handle, &[]).await?;
        let asked = taskgate_wire::hosted::state(dialect, &state).and_then(|state| state.input_requests);
        let asked = asked.and_then(|asked| serde_json::from_str::<Value>(asked.as_str()).ok());
        let name = asked.as_ref().and_then(|asked| asked.get(key)?.get("method")?.as_str());
        // An answer to a question that is not open is taken and ignored, which would look like success.
        let name = name.ok_or_else(|| CallError::InputRefused(format!("no question {key:?} is open")))?;
        let result = answer.into_result(name).map_err(CallError::InputRefused)?;
        let responses = serde_json::json!({ key: result });
        self.about(method::TASKS_UPDATE, handle, &[("inputResponses", responses)]).await.map(|_| ())
    }
}

/// Waits for the question on the stream of the task's result, and answers it there.
async fn answer_live(
    connection: &Connection,
    handle: &Handle,
    key: &str,
    answer: InputAnswer,
) -> Result<(), CallError> {
    let mut waiting = connection.about(method::TASKS_RESULT, &handle.task);
    loop {
        match waiting.next().await {
            CallEvent::Question(question) if key_of(&question.method, question.params.as_ref()) == key => {
                let result = answer.into_result(&question.method).map_err(CallError::InputRefused)?;
                question.reply.answer(with_related(&handle.task, result));
                // The answer must not be overtaken by the end of the stream that it belongs to.
                let _ = tokio::time::timeout(TAKEN_WITHIN, waiting.next()).await;
                return Ok(());
            }
            CallEvent::Done(Err(failure)) => return Err(refused(failure, Some(handle))),
            CallEvent::Done(Ok(_)) => {
                return Err(CallError::InputRefused(format!(
                    "the task is over, and no question {key:?} is open"
                )));
            }
            _ => {}
        }
    }
}

fn no_tasks() -> CallError {
    CallError::Unsupported("it speaks no version that has tasks".to_owned())
}

/// Whether a request without an answer may be made again. (Only what does no harm the second time is asked here.)
fn may_again(failure: &CallFailure) -> bool {
    let is_lost = |kind| matches!(kind, FailureKind::Interrupted);
    is_of_connection(failure) || matches!(failure, CallFailure::Request(failure) if is_lost(failure.kind))
}

/// What a failed request means.
fn refused(failure: CallFailure, handle: Option<&Handle>) -> CallError {
    match failure {
        CallFailure::Rpc(error) => {
            let error = RpcFailure::read(error);
            match handle {
                Some(handle) if error.code == i64::from(ErrorCode::InvalidParams.number()) => {
                    CallError::Expired { handle: Box::new(handle.clone()) }
                }
                _ => CallError::Rpc(error),
            }
        }
        CallFailure::Request(failure) if failure.kind == FailureKind::Refused => {
            CallError::Refused(failure.what)
        }
        CallFailure::Params(why) => CallError::Params(why),
        failure => CallError::InvalidResponse(failure.to_string()),
    }
}
