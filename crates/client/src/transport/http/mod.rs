//! A server that is a URL: MCP over Streamable HTTP, 2025-03-26 to 2026-07-28.
//!
//! Every message of ours is a request of its own, and what comes back on its stream belongs to it. So there is no
//! connection that could end: a request fails for itself, and what that says of the requests to come is told beside it.

mod answer;
mod challenge;
mod discovery;
mod failure;
mod general;
mod headers;
mod line;
mod named;
mod oauth;
mod server;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::value::RawValue;
use taskgate_task::Payload;
use taskgate_wire::{Id, Message, Version, method};
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

use super::Link;
use answer::Asked;
use line::{Line, Opened, Repeat};

#[cfg(feature = "fuzzing")]
pub use challenge::challenged;
pub use failure::{FailureKind, RequestFailure};
pub use named::Named;
pub use oauth::TokenServer;
pub use reqwest::header::HeaderName;
pub use server::{Auth, HttpServer, ServerUrl};

/// Messages that may wait in either direction before the sender is held back.
const QUEUE: usize = 256;
/// How long a server may take to accept what has no answer.
const ACCEPTING: Duration = Duration::from_secs(30);
/// How long the end of a session may take: nobody should wait for it.
const ENDING: Duration = Duration::from_secs(2);

/// Gets ready to speak to a server. Nothing is sent before there is something to say. Must be called within a tokio
/// runtime.
///
/// # Errors
///
/// What is missing on this machine.
pub fn connect(server: &HttpServer) -> Result<Link, String> {
    connect_in(server, Opened::default())
}

/// The same within a session that may have been opened already.
fn connect_in(server: &HttpServer, opened: Opened) -> Result<Link, String> {
    let opened = Arc::new(Mutex::new(opened));
    let clients = server::Clients::new(&server.url)?;
    let (out, outgoing) = mpsc::channel(QUEUE);
    let (to_reader, inbound) = mpsc::channel(QUEUE);
    let line = Arc::new(Line::new(clients, server.clone(), opened.clone(), to_reader));
    let (speaking, farewell) = watch::channel(());
    tokio::spawn(async move {
        run(line, outgoing).await;
        drop(speaking);
    });
    let named = Some(Named::new(server.clone(), opened));
    Ok(Link { out, inbound, control: None, farewell: Some(farewell), named })
}

/// Carries messages out until the link is dropped; then lets go of every stream and ends the session.
async fn run(line: Arc<Line>, mut outgoing: mpsc::Receiver<Message>) {
    let mut tasks = JoinSet::new();
    let mut running: HashMap<Id, Running> = HashMap::new();
    loop {
        tokio::select! {
            message = outgoing.recv() => match message {
                Some(message) => carry(&line, message, &mut tasks, &mut running).await,
                None => break,
            },
            Some(done) = tasks.join_next() => {
                if let Ok(Some(id)) = done {
                    running.remove(&id);
                }
            }
        }
    }
    tasks.shutdown().await;
    let _ = timeout(ENDING, line.delete()).await;
}

/// A request under way.
struct Running {
    task: AbortHandle,
    /// Whether it is cancelled by letting go of its stream, and not by a message (2026-07-28).
    is_stateless: bool,
}

async fn carry(
    line: &Arc<Line>,
    message: Message,
    tasks: &mut JoinSet<Option<Id>>,
    running: &mut HashMap<Id, Running>,
) {
    match message {
        Message::Request { id, method, params } => {
            let is_stateless = headers::stateless_version(params.as_ref()).is_some();
            let asked = Asked { id: id.clone(), method, params };
            let (line, done) = (line.clone(), id.clone());
            let task = tasks.spawn(async move {
                asked.run(&line).await;
                Some(done)
            });
            running.insert(id, Running { task, is_stateless });
        }
        Message::Notification { ref method, ref params } if method == method::CANCELLED => {
            let cancelled = params.as_ref().and_then(cancelled).and_then(|id| running.remove(&id));
            let Some(Running { task, is_stateless }) = cancelled else { return };
            task.abort();
            if !is_stateless {
                tell_apart(line, message, tasks);
            }
        }
        // Nothing may overtake it: up to then the server expects no request.
        Message::Notification { ref method, .. } if method == method::INITIALIZED => {
            tell(line, message).await;
            let line = line.clone();
            tasks.spawn(async move {
                general::keep_open(&line).await;
                None
            });
        }
        Message::Notification { .. } | Message::Response { .. } | Message::Error { .. } => {
            tell_apart(line, message, tasks);
        }
    }
}

fn tell_apart(line: &Arc<Line>, message: Message, tasks: &mut JoinSet<Option<Id>>) {
    let line = line.clone();
    tasks.spawn(async move {
        tell(&line, message).await;
        None
    });
}

/// Sends what has no answer. Nobody waits for it, so nobody hears that it was not accepted.
async fn tell(line: &Line, message: Message) {
    let mut headers = line.session_headers();
    if headers.is_empty()
        && let Message::Notification { method, params } = &message
    {
        headers::version(&mut headers, Version::V2026_07_28.as_str());
        headers::mirror(&mut headers, method, params.as_ref(), &line.tools.lock());
    }
    let failure = match timeout(ACCEPTING, line.post(message.to_text(), headers, Repeat::Safe)).await {
        Ok(Ok(response)) if response.status().is_success() => return,
        Ok(Ok(response)) => {
            let status = response.status();
            // A refusal whose text never ends says no more than its status.
            let is_lost = timeout(ACCEPTING, answer::tells_lost(line, response)).await.unwrap_or(false);
            if is_lost { line.session_lost() } else { RequestFailure::status(&line.name(), status, "") }
        }
        Ok(Err(failure)) => failure,
        Err(_) => RequestFailure::interrupted(&line.name(), "it was silent for too long"),
    };
    tracing::debug!(%failure, "a message was not accepted");
    line.concluded(&failure).await;
}

/// The request that a notification cancels.
fn cancelled(params: &Payload) -> Option<Id> {
    #[derive(Deserialize)]
    struct Cancelled<'a> {
        #[serde(borrow, rename = "requestId")]
        id: &'a RawValue,
    }
    Id::from_raw(serde_json::from_str::<Cancelled<'_>>(params.as_str()).ok()?.id)
}
