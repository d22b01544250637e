//! One request and its answer, however that arrives.

use std::time::Duration;

use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Response, StatusCode};
use serde::Deserialize;
use taskgate_task::Payload;
use taskgate_wire::jsonrpc::{is_batch, parse_batch};
use taskgate_wire::sse::{SseEvent, SseReader};
use taskgate_wire::{Id, Malformed, Message, method};

use super::failure::{FailureKind, RequestFailure, root_of};
use super::headers::{self, LAST_EVENT_ID, SESSION_ID};
use super::line::{Line, Repeat};
use crate::transport::number;

/// The longest error body that is looked at.
const ERROR_BODY: usize = 256 << 10;
/// How often in a row a stream that broke is asked for in vain.
const RESUMES: u32 = 5;
/// How long to wait before asking for a stream again: what is usual, and what a server may want at least and at most.
const PAUSE: (Duration, Duration, Duration) =
    (Duration::from_secs(1), Duration::from_millis(100), Duration::from_secs(60));

/// A request that is being made.
pub(super) struct Asked {
    pub(super) id: Id,
    pub(super) method: String,
    pub(super) params: Option<Payload>,
}

impl Asked {
    /// Makes the request and passes on everything that comes of it; the last is its answer, or why there is none.
    pub(super) async fn run(self, line: &Line) {
        if let Err(failure) = self.make(line).await {
            line.failed(self.id, failure).await;
        }
    }

    /// Whether it may be sent twice: of what is known here, everything but the call of a tool.
    fn repeat(&self) -> Repeat {
        let name = self.method.as_str();
        let is_known = method::is_of_clients(name) || name == method::PING || name.starts_with("tasks/");
        if is_known && name != method::TOOLS_CALL { Repeat::Safe } else { Repeat::Never }
    }

    async fn make(&self, line: &Line) -> Result<(), RequestFailure> {
        let version = headers::stateless_version(self.params.as_ref());
        let mut own = HeaderMap::new();
        match version {
            Some(version) => {
                headers::version(&mut own, version.as_str());
                headers::mirror(&mut own, &self.method, self.params.as_ref(), &line.tools.lock());
            }
            None if self.method == method::INITIALIZE => {}
            None => own = line.session_headers(),
        }
        let in_session = own.contains_key(SESSION_ID);
        let message = Message::Request {
            id: self.id.clone(),
            method: self.method.clone(),
            params: self.params.clone(),
        };
        let response = line.post(message.to_text(), own, self.repeat()).await?;
        if !response.status().is_success() {
            return self.refused(line, response, in_session).await;
        }
        if let Some(encoding) = encoding(&response) {
            let what =
                format!("{} answered in the encoding {encoding:?}, which was not asked for", line.name());
            return Err(RequestFailure::malformed(what));
        }
        let session = response.headers().get(SESSION_ID).cloned();
        match content_type(&response).as_str() {
            "text/event-stream" => self.stream(line, response, version.is_none(), session).await,
            "application/json" => {
                let body = whole(line, response, line.server.message_limit).await?;
                let Some(body) = body else {
                    let limit = line.server.message_limit;
                    let what =
                        format!("the answer of {} is longer than {limit} bytes, the limit", line.name());
                    return Err(RequestFailure::malformed(what));
                };
                let mut answered = false;
                for message in messages(&body) {
                    answered |= self.take(line, message, session.as_ref(), true).await?;
                }
                if answered { Ok(()) } else { Err(unanswered(line)) }
            }
            _ if response.status() != StatusCode::OK => {
                Err(RequestFailure::status(&line.name(), response.status(), ""))
            }
            other => {
                let what = format!(
                    "{} answered with {other:?} instead of JSON or an event stream; is `url` the server's MCP endpoint?",
                    line.name()
                );
                Err(RequestFailure::malformed(what))
            }
        }
    }

    /// Passes on one message; whether it was the answer. An error without an id is one: here nothing else can be meant.
    ///
    /// `is_ours` says whether all that arrives is known to belong to this request.
    async fn take(
        &self,
        line: &Line,
        message: Result<Message, Malformed>,
        session: Option<&HeaderValue>,
        is_ours: bool,
    ) -> Result<bool, RequestFailure> {
        let message = match message {
            Ok(message) => message,
            Err(malformed) if malformed.answers.is_some() => {
                let what =
                    format!("the answer of {} cannot be read: {}", line.name(), malformed.error.message);
                return Err(RequestFailure::malformed(what));
            }
            Err(malformed) => {
                tracing::debug!(error = %malformed.error, "skipped something that is no message");
                return Ok(false);
            }
        };
        let answers =
            |id: &Id| number(id.as_str()).is_some_and(|said| Some(said) == number(self.id.as_str()));
        let (message, is_answer) = match message {
            Message::Response { id, .. } | Message::Error { id: Some(id), .. } if !answers(&id) => {
                tracing::debug!(%id, "skipped an answer to another request");
                return Ok(false);
            }
            Message::Response { result, .. } => {
                let result = self.learn(line, result, session);
                (Message::Response { id: self.id.clone(), result }, true)
            }
            Message::Error { error, .. } => (Message::Error { id: Some(self.id.clone()), error }, true),
            other => (other, false),
        };
        line.arrived(message, Some(&self.id).filter(|_| is_ours)).await;
        Ok(is_answer)
    }

    /// What an answer means for requests to come. Returns what the caller gets of it.
    fn learn(&self, line: &Line, result: Payload, session: Option<&HeaderValue>) -> Payload {
        #[derive(Deserialize)]
        struct Initialized {
            #[serde(rename = "protocolVersion")]
            version: String,
        }
        match self.method.as_str() {
            method::INITIALIZE => {
                let said: Option<Initialized> = serde_json::from_str(result.as_str()).ok();
                line.opened(session.cloned(), said.map(|said| said.version));
            }
            method::TOOLS_LIST if headers::stateless_version(self.params.as_ref()).is_some() => {
                if let Some(valid) = line.tools.lock().learn(&result) {
                    return valid;
                }
            }
            _ => {}
        }
        result
    }

    /// An answer with a status that says no. Most servers say more in the body, which then is the answer.
    async fn refused(&self, line: &Line, response: Response, in_session: bool) -> Result<(), RequestFailure> {
        let status = response.status();
        let error = error_in(line, response).await?;
        if in_session && says_lost(status, error.as_ref()) {
            return Err(line.session_lost());
        }
        // Where the credentials are wrong, who can set them right is not the caller.
        match error.filter(|_| !matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)) {
            Some(error) => {
                line.arrived(Message::Error { id: Some(self.id.clone()), error }, Some(&self.id)).await;
                Ok(())
            }
            None => Err(RequestFailure::status(&line.name(), status, "")),
        }
    }

    /// Reads a stream to the answer. One that breaks before is asked for again, where there is a way to do so.
    async fn stream(
        &self,
        line: &Line,
        mut response: Response,
        can_resume: bool,
        session: Option<HeaderValue>,
    ) -> Result<(), RequestFailure> {
        let mut reader = SseReader::new(line.server.message_limit);
        // There are servers, the reference server among them, that give out more than the rest of this stream. What then comes
        // may be anybody's, and is put to nobody by the stream it came by.
        let mut is_resumed = false;
        loop {
            let why = loop {
                let chunk = match response.chunk().await {
                    Ok(Some(chunk)) => chunk,
                    Ok(None) => break "the stream ended".to_owned(),
                    Err(error) => break root_of(error),
                };
                for event in reader.push(&chunk) {
                    let data = match event {
                        SseEvent::Data { data, is_message: true } => data,
                        SseEvent::Data { .. } => continue,
                        SseEvent::TooLong { limit } => {
                            let what = format!(
                                "{} sent a message that is longer than {limit} bytes, the limit",
                                line.name()
                            );
                            return Err(RequestFailure::malformed(what));
                        }
                    };
                    let mut answered = false;
                    for message in messages(data.as_bytes()) {
                        answered |= self.take(line, message, session.as_ref(), !is_resumed).await?;
                    }
                    if answered {
                        return Ok(());
                    }
                }
            };
            reader.cut();
            let after = reader.last_id().filter(|_| can_resume).map(HeaderValue::from_str);
            let Some(Ok(after)) = after else {
                return Err(RequestFailure::interrupted(&line.name(), &why));
            };
            response = resume(line, after, reader.retry(), &why).await?;
            is_resumed = true;
        }
    }
}

/// Asks for the rest of a stream, a few times.
async fn resume(
    line: &Line,
    after: HeaderValue,
    retry: Option<Duration>,
    why: &str,
) -> Result<Response, RequestFailure> {
    let pause = retry.unwrap_or(PAUSE.0).clamp(PAUSE.1, PAUSE.2);
    let mut last = why.to_owned();
    for attempt in 0..RESUMES {
        tokio::time::sleep((pause * 2u32.pow(attempt)).min(PAUSE.2)).await;
        let mut headers = line.session_headers();
        headers.insert(LAST_EVENT_ID, after.clone());
        match line.get(headers).await {
            Ok(response) if response.status().is_server_error() => {
                last = format!("asked for the rest, it answered with the status {}", response.status());
            }
            Ok(response)
                if response.status().is_success() && content_type(&response) == "text/event-stream" =>
            {
                return Ok(response);
            }
            Ok(response) => {
                let what = format!("it does not give out the rest, status {}", response.status());
                if tells_lost(line, response).await {
                    line.concluded(&line.session_lost()).await;
                }
                return Err(RequestFailure::interrupted(&line.name(), &what));
            }
            Err(failure) => {
                line.concluded(&failure).await;
                last = failure.what;
            }
        }
    }
    Err(RequestFailure::interrupted(&line.name(), &last))
}

/// The error object in the body of an answer, if there is one.
async fn error_in(line: &Line, response: Response) -> Result<Option<Payload>, RequestFailure> {
    if content_type(&response) != "application/json" {
        return Ok(None);
    }
    let body = whole(line, response, ERROR_BODY).await?;
    Ok(body.and_then(|body| match Message::parse(&body) {
        Ok(Message::Error { error, .. }) => Some(error),
        _ => None,
    }))
}

/// Whether an answer to something of the session says that the session is gone.
pub(super) async fn tells_lost(line: &Line, response: Response) -> bool {
    let status = response.status();
    line.has_session() && error_in(line, response).await.is_ok_and(|error| says_lost(status, error.as_ref()))
}

/// Whether an answer says that the session is gone. The status for it is 404; widespread servers made from the TypeScript
/// SDK's examples say 400 and that there is no valid session.
fn says_lost(status: StatusCode, error: Option<&Payload>) -> bool {
    #[derive(Deserialize)]
    struct Said {
        code: i64,
        message: String,
    }
    let said = || error.and_then(|error| serde_json::from_str::<Said>(error.as_str()).ok());
    match status {
        StatusCode::NOT_FOUND => true,
        StatusCode::BAD_REQUEST => {
            said().is_some_and(|said| said.code == -32000 && said.message.to_lowercase().contains("session"))
        }
        _ => false,
    }
}

/// The messages of a body or an event: one, or several in a batch as of 2025-03-26.
pub(super) fn messages(text: &[u8]) -> Vec<Result<Message, Malformed>> {
    if !is_batch(text) {
        return vec![Message::parse(text)];
    }
    match parse_batch(text) {
        Ok(messages) => messages,
        Err(malformed) => vec![Err(malformed)],
    }
}

/// What a body is, in small letters and without its parameters.
pub(super) fn content_type(response: &Response) -> String {
    let said = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    said.split(';').next().unwrap_or("").trim().to_ascii_lowercase()
}

/// How a body is packed, if it is.
fn encoding(response: &Response) -> Option<&str> {
    let said = response.headers().get(CONTENT_ENCODING)?.to_str().ok()?.trim();
    Some(said).filter(|said| !said.is_empty() && !said.eq_ignore_ascii_case("identity"))
}

/// A whole body; `None` if it is longer than the limit.
async fn whole(line: &Line, mut response: Response, limit: usize) -> Result<Option<Vec<u8>>, RequestFailure> {
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if body.len() + chunk.len() > limit => return Ok(None),
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) => return Ok(Some(body)),
            Err(error) => return Err(RequestFailure::interrupted(&line.name(), &root_of(error))),
        }
    }
}

fn unanswered(line: &Line) -> RequestFailure {
    RequestFailure::new(
        FailureKind::Malformed,
        format!("the answer of {} is no JSON-RPC response", line.name()),
    )
}
