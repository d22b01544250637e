//! A client's connection to a stream of its session: the body of a response.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Bytes;
use axum::response::Response;
use futures_util::Stream;
use taskgate_wire::sse;
use tokio::time::{Interval, Sleep};

use super::reply;
use crate::bounds::Places;
use crate::policy::Settings;
use crate::session::Session;
use crate::stream::Reader;

/// Sends what the reader has, as it comes. `place` is what it is counted by, if it is counted by itself.
pub fn respond(
    session: Arc<Session>,
    reader: Reader,
    settings: &Settings,
    place: Option<Places>,
) -> Response {
    let polls = session.negotiated().is_some_and(|negotiated| negotiated.version.has_polling());
    let retry = settings.streams.retry;
    // The first byte goes out at once, so that proxies and clients see the stream open.
    let opening = if polls { reader.prime(retry) } else { sse::KEEP_ALIVE.to_owned() };
    let close = settings.streams.close_after.filter(|_| polls);
    session.stream_opened();
    reply::events(Connection {
        session,
        reader,
        opening,
        ticks: reply::ticks(settings.keep_alive),
        close: close.map(|after| Box::pin(tokio::time::sleep(after))),
        retry,
        is_over: false,
        _place: place,
    })
}

struct Connection {
    session: Arc<Session>,
    reader: Reader,
    opening: String,
    ticks: Interval,
    /// When the client is sent away, to come back for the rest (SEP-1699).
    close: Option<Pin<Box<Sleep>>>,
    retry: Duration,
    is_over: bool,
    _place: Option<Places>,
}

impl Stream for Connection {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.is_over {
            return Poll::Ready(None);
        }
        let mut text = std::mem::take(&mut this.opening);
        match this.reader.poll_text(context) {
            Poll::Ready(Some(events)) => text.push_str(&events),
            Poll::Ready(None) => this.is_over = true,
            Poll::Pending => {}
        }
        if !text.is_empty() {
            this.ticks.reset();
            return Poll::Ready(Some(Ok(text.into())));
        }
        if this.is_over {
            return Poll::Ready(None);
        }
        if this.close.as_mut().is_some_and(|close| close.as_mut().poll(context).is_ready()) {
            this.is_over = true;
            return Poll::Ready(Some(Ok(this.reader.leave(this.retry).into())));
        }
        ready!(this.ticks.poll_tick(context));
        Poll::Ready(Some(Ok(Bytes::from_static(sse::KEEP_ALIVE.as_bytes()))))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.session.touch();
    }
}
