//! The answer to a request of 2026-07-28: one JSON object where that is enough, an SSE stream where there is more to say.
//! The stream and the work are one: it cannot be resumed, and its end is the end of the work.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, Stream};
use serde::Deserialize;
use taskgate_task::Payload;
use taskgate_wire::{Id, Message, sse};
use tokio::time::{Interval, MissedTickBehavior};

use super::{json, json_body};
use crate::backlog::Unread;
use crate::bounds::{Limit, Refusal};
use crate::route::Answer;
use crate::server::message;

/// How long a request may be quiet before its answer becomes a stream, so that comments can keep it open.
pub const QUIET: Duration = Duration::from_secs(1);

/// A request being answered.
pub struct Reply {
    /// Its id.
    pub id: Id,
    /// What becomes the answer.
    pub run: BoxFuture<'static, Answer>,
    /// What comes before the answer.
    pub messages: Unread,
    /// How often an idle stream gets a comment.
    pub keep_alive: Duration,
    /// Whether the caller reads SSE.
    pub can_stream: bool,
}

impl Reply {
    /// Waits for what comes first and answers in the fitting way.
    pub async fn respond(mut self) -> Response {
        if !self.can_stream {
            // Nothing but the answer can reach this caller: whoever would ask it something is told so.
            drop(self.messages);
            return whole(self.id, self.run.await, true);
        }
        let first = tokio::select! {
            biased;
            Some(first) = self.messages.recv() => Some(first),
            answer = &mut self.run => match self.messages.try_recv() {
                None => return whole(self.id, answer, true),
                Some(first) => {
                    self.run = Box::pin(std::future::ready(answer));
                    Some(first)
                }
            },
            () = tokio::time::sleep(QUIET) => None,
        };
        let id = self.id;
        events(Events {
            // The first byte goes out at once, so that proxies and clients see the stream open.
            opening: Some(
                first.map_or_else(|| sse::KEEP_ALIVE.to_owned(), |first| sse::event(&first.to_text())),
            ),
            messages: self.messages,
            last: Some(Box::pin(self.run.map(move |answer| message(id, answer)))),
            ticks: ticks(self.keep_alive),
        })
    }
}

/// An answer as one JSON object.
pub fn whole(id: Id, answer: Answer, statuses: bool) -> Response {
    if let Err(error) = &answer
        && let Some((limit, seconds)) = Refusal::read(error)
    {
        return limited(limit, seconds, message(id, answer).to_text());
    }
    let status = match &answer {
        Err(error) if statuses => status_of(error),
        _ => StatusCode::OK,
    };
    let is_long = answer.as_ref().is_ok_and(|result| result.as_str().len() > LONG);
    let message = message(id, answer);
    match is_long.then(|| message.to_parts()).flatten() {
        Some((head, result, tail)) => json_body(status, pieces(head, result, tail)),
        None => json(status, message.to_text()),
    }
}

/// What a limit refuses, as the answer.
pub fn refused(id: Option<Id>, refusal: &Refusal) -> Response {
    let seconds = u16::try_from(refusal.retry_after.as_millis().div_ceil(1000)).unwrap_or(u16::MAX);
    limited(refusal.limit, seconds, Message::error(id, &refusal.to_error()).to_text())
}

fn limited(limit: Limit, seconds: u16, text: String) -> Response {
    let status =
        if limit.is_of_caller() { StatusCode::TOO_MANY_REQUESTS } else { StatusCode::SERVICE_UNAVAILABLE };
    let mut response = json(status, text);
    response.headers_mut().insert(header::RETRY_AFTER, seconds.max(1).into());
    response
}

/// From how many bytes on a result is sent from where it lies instead of from a copy.
const LONG: usize = 64 << 10;

/// A body of three pieces, of known length.
fn pieces(head: String, result: Payload, tail: &'static str) -> Body {
    struct Text(Payload);
    impl AsRef<[u8]> for Text {
        fn as_ref(&self) -> &[u8] {
            self.0.as_str().as_bytes()
        }
    }
    Body::new(Pieces(
        [head.into(), Bytes::from_owner(Text(result)), Bytes::from_static(tail.as_bytes())].into(),
    ))
}

struct Pieces(VecDeque<Bytes>);

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|piece| Ok(http_body::Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        http_body::SizeHint::with_exact(self.0.iter().map(|piece| piece.len() as u64).sum())
    }
}

/// The same, or nothing for a request that was cancelled and gets no answer.
pub fn answered(id: Id, answer: Option<Answer>, statuses: bool) -> Response {
    match answer {
        Some(answer) => whole(id, answer, statuses),
        None => StatusCode::ACCEPTED.into_response(),
    }
}

/// 2026-07-28: an unknown method is 404; metadata, version and capability errors are 400; other errors are answers.
fn status_of(error: &Payload) -> StatusCode {
    #[derive(Deserialize)]
    struct Code {
        code: i64,
    }
    match serde_json::from_str::<Code>(error.as_str()).map(|error| error.code) {
        Ok(-32601) => StatusCode::NOT_FOUND,
        Ok(-32700 | -32600 | -32022..=-32020) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

/// A response whose body is a stream of events.
pub fn events(body: impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static) -> Response {
    let mut response = Response::new(Body::from_stream(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// When an idle stream gets its comments.
pub fn ticks(keep_alive: Duration) -> Interval {
    let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + keep_alive, keep_alive);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Messages as they come, then the last one.
struct Events {
    opening: Option<String>,
    messages: Unread,
    last: Option<BoxFuture<'static, Message>>,
    ticks: Interval,
}

impl Stream for Events {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if let Some(opening) = this.opening.take() {
            return Poll::Ready(Some(Ok(opening.into())));
        }
        let Some(last) = &mut this.last else { return Poll::Ready(None) };
        // The work first: what it says on the way is in the queue before its end is seen.
        let end = last.as_mut().poll(context);
        let mut batch = String::new();
        while let Poll::Ready(Some(message)) = this.messages.poll_recv(context) {
            batch.push_str(&sse::event(&message.to_text()));
        }
        if let Poll::Ready(message) = end {
            // Polling may stop early to let others run; what is left in the queue would be lost with it.
            while let Some(message) = this.messages.try_recv() {
                batch.push_str(&sse::event(&message.to_text()));
            }
            this.last = None;
            batch.push_str(&sse::event(&message.to_text()));
        }
        if !batch.is_empty() {
            this.ticks.reset();
            return Poll::Ready(Some(Ok(batch.into())));
        }
        ready!(this.ticks.poll_tick(context));
        Poll::Ready(Some(Ok(Bytes::from_static(sse::KEEP_ALIVE.as_bytes()))))
    }
}
