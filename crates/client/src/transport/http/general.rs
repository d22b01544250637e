//! The stream of a session that belongs to no request (up to 2025-11-25).

use std::time::Duration;

use reqwest::header::HeaderValue;
use taskgate_wire::sse::{SseEvent, SseReader};
use tokio::time::Instant;

use super::answer::{content_type, messages, tells_lost};
use super::failure::RequestFailure;
use super::headers::LAST_EVENT_ID;
use super::line::Line;

/// How long to wait before the stream is opened again: at first, and at most. It grows while streams end at once.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// A stream that lasted this long was a good one.
const GOOD: Duration = Duration::from_secs(10);

/// Keeps the stream open as long as the session lives. Returns where the server has none.
pub(super) async fn keep_open(line: &Line) {
    let mut reader = SseReader::new(line.server.message_limit);
    let mut was_open = false;
    let mut pause = PAUSE.0;
    loop {
        let mut headers = line.session_headers();
        if let Some(Ok(last)) = reader.last_id().map(HeaderValue::from_str) {
            headers.insert(LAST_EVENT_ID, last);
        }
        let since = Instant::now();
        match line.get(headers).await {
            Err(failure) => {
                tracing::debug!(%failure, "no general stream");
                line.concluded(&failure).await;
            }
            Ok(response) => match response.status() {
                status if status.is_success() && content_type(&response) == "text/event-stream" => {
                    was_open = true;
                    listen(line, response, &mut reader).await;
                }
                status if status.is_server_error() && was_open => {}
                status => {
                    tracing::debug!(%status, "the server has no general stream");
                    // A server without such a stream may know neither the method nor the path.
                    if was_open && tells_lost(line, response).await {
                        line.concluded(&line.session_lost()).await;
                    }
                    return;
                }
            },
        }
        pause = if since.elapsed() >= GOOD { PAUSE.0 } else { (pause * 2).min(PAUSE.1) };
        tokio::time::sleep(reader.retry().unwrap_or(pause).max(pause / 2)).await;
    }
}

/// Passes on what a stream brings until it ends.
async fn listen(line: &Line, mut response: reqwest::Response, reader: &mut SseReader) {
    while let Ok(Some(chunk)) = response.chunk().await {
        for event in reader.push(&chunk) {
            match event {
                SseEvent::Data { data, is_message: true } => {
                    for message in messages(data.as_bytes()) {
                        match message {
                            Ok(message) => line.arrived(message, None).await,
                            Err(malformed) => {
                                tracing::debug!(error = %malformed.error, "skipped something that is no message");
                            }
                        }
                    }
                }
                SseEvent::Data { .. } => {}
                SseEvent::TooLong { limit } => {
                    let failure =
                        RequestFailure::malformed(format!("a message is longer than {limit} bytes"));
                    tracing::warn!(server = %line.name(), %failure, "skipped");
                }
            }
        }
    }
    reader.cut();
}
