//! The answer to a request: one JSON object where that is enough, an SSE stream where there is more to say.

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
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Interval, MissedTickBehavior};

use super::json;
use crate::route::Answer;
use crate::server::message;

/// How long a request may be quiet before its answer becomes a stream, so that comments can keep it open.
const QUIET: Duration = Duration::from_secs(1);

/// A request being answered.
pub struct Reply {
    /// Its id.
    pub id: Id,
    /// What becomes the answer; `None` if the request was cancelled and gets none.
    pub run: BoxFuture<'static, Option<Answer>>,
    /// What comes before the answer.
    pub messages: UnboundedReceiver<Message>,
    /// How often an idle stream gets a comment.
    pub keep_alive: Duration,
    /// Whether the caller reads SSE.
    pub can_stream: bool,
    /// Whether errors have their own HTTP status (2026-07-28).
    pub statuses: bool,
}

impl Reply {
    /// Waits for what comes first and answers in the fitting way.
    pub async fn respond(mut self) -> Response {
        if !self.can_stream {
            // Nothing but the answer can reach this caller: whoever would ask it something is told so.
            drop(self.messages);
            let answer = self.run.await;
            return answered(self.id, answer, self.statuses);
        }
        let first = tokio::select! {
            biased;
            Some(first) = self.messages.recv() => Some(first),
            answer = &mut self.run => match self.messages.try_recv() {
                Err(_) => return answered(self.id, answer, self.statuses),
                Ok(first) => {
                    self.run = Box::pin(std::future::ready(answer));
                    Some(first)
                }
            },
            () = tokio::time::sleep(QUIET) => None,
        };
        let id = self.id;
        let last = self.run.map(move |answer| answer.map(|answer| message(id, answer)));
        stream(first, self.messages, Some(Box::pin(last)), self.keep_alive, ())
    }
}

/// An answer as one JSON object.
pub fn whole(id: Id, answer: Answer, statuses: bool) -> Response {
    let status = match &answer {
        Err(error) if statuses => status_of(error),
        _ => StatusCode::OK,
    };
    json(status, message(id, answer).to_text())
}

fn answered(id: Id, answer: Option<Answer>, statuses: bool) -> Response {
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

/// An SSE stream: `first`, then messages as they come, then `last`, if there is one to wait for. `guard` is
/// dropped with the stream.
pub fn stream<G: Send + Unpin + 'static>(
    first: Option<Message>,
    messages: UnboundedReceiver<Message>,
    last: Option<BoxFuture<'static, Option<Message>>>,
    keep_alive: Duration,
    guard: G,
) -> Response {
    let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + keep_alive, keep_alive);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first byte goes out at once, so that proxies and clients see the stream open.
    let opening = first.map_or_else(|| sse::KEEP_ALIVE.to_owned(), |first| sse::event(&first.to_text()));
    let events = Events {
        opening: Some(opening),
        messages: Some(messages),
        waits: last.is_some(),
        last,
        ticks,
        _guard: guard,
    };
    let mut response = Response::new(Body::from_stream(events));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

struct Events<G> {
    opening: Option<String>,
    messages: Option<UnboundedReceiver<Message>>,
    last: Option<BoxFuture<'static, Option<Message>>>,
    /// Whether the stream ends with `last`; otherwise it ends with the messages.
    waits: bool,
    ticks: Interval,
    _guard: G,
}

impl<G: Send + Unpin> Stream for Events<G> {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if let Some(opening) = this.opening.take() {
            return Poll::Ready(Some(Ok(opening.into())));
        }
        // The work first: what it says on the way is in the queue before its end is seen.
        let mut end = None;
        if let Some(last) = &mut this.last
            && let Poll::Ready(message) = last.as_mut().poll(context)
        {
            this.last = None;
            end = Some(message);
        }
        let mut batch = String::new();
        while let Some(messages) = &mut this.messages {
            match messages.poll_recv(context) {
                Poll::Ready(Some(message)) => batch.push_str(&sse::event(&message.to_text())),
                Poll::Ready(None) => this.messages = None,
                Poll::Pending => break,
            }
        }
        if let Some(message) = end {
            // Polling may stop early to let others run; what is left in the queue would be lost with it.
            while let Some(Ok(message)) = this.messages.as_mut().map(UnboundedReceiver::try_recv) {
                batch.push_str(&sse::event(&message.to_text()));
            }
            this.messages = None;
            if let Some(message) = message {
                batch.push_str(&sse::event(&message.to_text()));
            }
        }
        if !batch.is_empty() {
            this.ticks.reset();
            return Poll::Ready(Some(Ok(batch.into())));
        }
        let over = if this.waits { this.last.is_none() } else { this.messages.is_none() };
        if over {
            return Poll::Ready(None);
        }
        ready!(this.ticks.poll_tick(context));
        Poll::Ready(Some(Ok(Bytes::from_static(sse::KEEP_ALIVE.as_bytes()))))
    }
}
