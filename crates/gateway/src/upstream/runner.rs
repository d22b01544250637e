use std::sync::Weak;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use taskgate_client::session::{CallEvent, CallFailure, CallOptions, Lane, Session};
use taskgate_engine::{Ending, Report, Runner, Work};
use taskgate_task::{InvalidPayload, Outcome, Payload, Question, Round};
use taskgate_wire::{Capabilities, LogLevel, RawObject, RpcError, meta, method};

use super::asking::Asking;
use super::{Upstream, lane};

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
}

/// Runs requests on an upstream.
pub struct McpRunner(pub Weak<Upstream>);

/// What a result decides here. Every member is looked at on its own, so that one of a wrong type does not take the
/// rest of a result, and the work behind it, away from the caller.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResultShape<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    result_type: Option<&'a RawValue>,
    #[serde(borrow, default)]
    is_error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    input_requests: Option<&'a RawValue>,
    #[serde(borrow, default)]
    request_state: Option<&'a RawValue>,
}

/// Tells `null` from absent: only the absence of a `resultType` stands for "complete".
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

impl Runner for McpRunner {
    fn run(&self, work: Work, report: Report) -> BoxFuture<'static, Ending> {
        let upstream = self.0.clone();
        Box::pin(async move {
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
            let request = serde_json::from_str::<Request>(work.description.as_str())
                .map_err(|error| RpcError::internal(format!("The stored request cannot be read: {error}")));
            match session.and_then(|session| Ok((session, request?))) {
                Ok((session, request)) => {
                    if let (Some(level), true, Some(upstream)) =
                        (request.log_level, request.stateless, upstream.upgrade())
                    {
                        upstream.log_at_least(&session, level).await;
                    }
                    call(&session, request, work.round, &report).await
                }
                Err(error) => failed(error.to_payload(), error.message),
            }
        })
    }
}

/// Makes the call and sees it through.
async fn call(session: &Session, request: Request, round: Option<Round>, report: &Report) -> Ending {
    let able =
        request.capabilities.as_ref().and_then(|raw| Capabilities::parse(raw.as_raw())).unwrap_or_default();
    let params = match round {
        None => Ok(request.params),
        Some(round) => with_answers(request.params.as_ref(), &round).map(Some),
    };
    let params = match params {
        Ok(params) => params,
        Err(error) => return failed_with(&error.to_string()),
    };
    let options =
        CallOptions { owner: Some(request.caller), capabilities: request.capabilities, client_info: None };
    let lane = lane(session, request.stateless);
    let params = match (lane, request.log_level) {
        // There is no level for a whole session in 2026-07-28: each request says it.
        (Lane::Modern(_), Some(level)) if !request.stateless => with_log_level(params, level),
        _ => Ok(params),
    };
    let params = match params {
        Ok(params) => params,
        Err(error) => return failed_with(&error.to_string()),
    };
    let mut call = session.call(lane, &request.method, params.as_ref().map(Payload::as_raw), options);
    let mut asking = Asking::default();
    loop {
        tokio::select! {
            biased;
            event = call.next() => match event {
                CallEvent::Progress(raw) => report.progress(progress_line(&raw), raw),
                CallEvent::Log(raw) => report.log(raw),
                CallEvent::Question(question) => {
                    if !method::is_question(&question.method) && (report.is_task() || request.stateless) {
                        // There is no way to put it to such a caller.
                        question.reply.refuse(RpcError::method_not_found(&question.method).to_payload());
                        continue;
                    }
                    if report.is_task() && let Err(missing) = able.allow(&question.method, question.params.as_ref()) {
                        // Nobody who holds the handle could answer it, and it must not be sent to them.
                        let why = format!("The client did not declare {missing}");
                        question.reply.refuse(RpcError::internal(why).to_payload());
                        continue;
                    }
                    asking.gather(question);
                }
                CallEvent::QuestionWithdrawn { id, .. } => asking.take_back(&id, report).await,
                CallEvent::Notification { .. } => {}
                CallEvent::Done(Ok(result)) => return ended(result),
                CallEvent::Done(Err(CallFailure::Rpc(error))) => {
                    let summary = message_of(&error);
                    return failed(error, summary);
                }
                // A server that died is not called again even if it could be: the call may be what it dies of.
                CallEvent::Done(Err(failure)) => return failed_with(&failure.to_string()),
            },
            due = asking.next() => asking.go_on(due, report).await,
        }
    }
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

/// What a result means. A `resultType` that is not known makes it invalid, whatever the server's version: taken for a
/// result, a handle or a question of some other protocol would look like success.
fn ended(result: Payload) -> Ending {
    if !result.as_str().starts_with('{') {
        return failed_with("The server's result is no object");
    }
    let shape: ResultShape = match serde_json::from_str(result.as_str()) {
        Ok(shape) => shape,
        Err(error) => return failed_with(&format!("The server's result cannot be read: {error}")),
    };
    let kind = shape.result_type.map_or("\"complete\"", RawValue::get);
    if kind == "\"input_required\"" {
        let state = shape.request_state.map_or_else(Payload::null, Payload::from_raw);
        return match questions(shape.input_requests) {
            Ok(questions) => Ending::Asked { questions, state, raw: result },
            Err(error) => failed_with(&format!("The server's questions cannot be read: {error}")),
        };
    }
    if kind != "\"complete\"" {
        // "A resultType of any value unrecognized by the client MUST be considered invalid."
        let kind = short(kind.to_owned());
        return failed_with(&format!("The server answered with an unknown resultType: {kind}"));
    }
    // Only `true` says error. Whatever else stands there, the caller gets to see it, and a result is not called failed
    // on a guess.
    let is_error = shape.is_error.is_some_and(|said| said.get() == "true");
    let summary = if is_error { shape.content.and_then(first_text) } else { None };
    Ending::Finished(Outcome::Result { body: result, is_error, summary })
}

fn questions(requests: Option<&RawValue>) -> Result<Vec<Question>, InvalidPayload> {
    let requests = requests.map(|raw| RawObject::parse(raw.get())).transpose()?.unwrap_or_default();
    requests.iter().map(|(key, request)| question(key, request)).collect()
}

fn question(key: &str, request: &RawValue) -> Result<Question, InvalidPayload> {
    #[derive(Deserialize)]
    struct Shape {
        method: String,
        #[serde(default)]
        params: Option<Payload>,
    }
    let shape: Shape = serde_json::from_str(request.get())?;
    let params = shape.params.map(meta::without_progress_token);
    Ok(Question { key: key.to_owned(), method: shape.method, params })
}

fn failed(body: Payload, summary: String) -> Ending {
    Ending::Finished(Outcome::Error { body, summary })
}

fn failed_with(message: &str) -> Ending {
    failed(RpcError::internal(message).to_payload(), message.to_owned())
}

fn message_of(error: &Payload) -> String {
    #[derive(Deserialize)]
    struct Shape {
        message: String,
    }
    serde_json::from_str::<Shape>(error.as_str())
        .map_or_else(|_| "The server answered with an error.".to_owned(), |shape| short(shape.message))
}

/// The first text of a result's content, short enough for a status line.
fn first_text(content: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Block {
        #[serde(default)]
        text: Option<String>,
    }
    let blocks: Vec<Block> = serde_json::from_str(content.get()).ok()?;
    blocks.into_iter().find_map(|block| block.text).map(short)
}

/// A text of a server's, short enough for a status line: it is stored and sent again and again.
fn short(text: String) -> String {
    match text.char_indices().nth(300) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Progress as a line for people: the message, else how far of how much.
fn progress_line(raw: &Payload) -> Option<String> {
    #[derive(Deserialize)]
    struct Shape<'a> {
        #[serde(default)]
        message: Option<String>,
        #[serde(borrow, default)]
        progress: Option<&'a RawValue>,
        #[serde(borrow, default)]
        total: Option<&'a RawValue>,
    }
    let shape: Shape = serde_json::from_str(raw.as_str()).ok()?;
    let far = match (shape.progress, shape.total) {
        (Some(progress), Some(total)) => Some(format!("{}/{}", progress.get(), total.get())),
        (Some(progress), None) => Some(progress.get().to_owned()),
        (None, _) => None,
    };
    match (shape.message, far) {
        (Some(message), _) if !message.is_empty() => Some(short(message)),
        (_, far) => far.map(|far| short(format!("Progress: {far}"))),
    }
}
