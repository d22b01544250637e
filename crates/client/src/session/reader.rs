use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use taskgate_task::Payload;
use taskgate_wire::jsonrpc::error_object;
use taskgate_wire::{ErrorCode, Id, Malformed, Message, RpcError, meta, method};
use tokio::sync::mpsc;

use super::attribution::Unattributed;
use super::event::{CallEvent, CallFailure, TaskRequest};
use super::mailbox::Mailbox;
use super::options::object;
use super::shared::Shared;
use super::table::Kind;
use crate::transport::{CloseCause, CloseReason, Inbound, Link, number};

/// The one task of a session: takes what arrives to where it belongs, and sends what had to wait for room.
pub(super) async fn run(shared: Arc<Shared>, link: Link) {
    let Link { out, mut inbound, .. } = link;
    while !shared.is_closed() {
        let waiting = shared.outbox.is_waiting();
        tokio::select! {
            arrived = inbound.recv() => match arrived {
                Some(arrived) => take(&shared, arrived, &mut inbound),
                // The transport ended without a word.
                None => shared.close(CloseReason::new(CloseCause::PeerClosed)),
            },
            room = out.reserve(), if waiting => match room {
                Ok(room) => shared.outbox.send_waiting(room),
                // The other end takes no more. What arrives, or the end, will say why.
                Err(_) => shared.outbox.close(),
            },
            () = shared.attention.notified() => {}
        }
    }
}

/// Takes one arrival and those behind it; not all of them, lest a flood keep waiting messages from being sent.
fn take(shared: &Arc<Shared>, arrived: Inbound, inbound: &mut mpsc::Receiver<Inbound>) {
    let behind = std::iter::from_fn(|| inbound.try_recv().ok());
    for arrived in std::iter::once(arrived).chain(behind).take(64) {
        match arrived {
            Inbound::Message { message, origin } => dispatch(shared, message, origin.as_ref()),
            Inbound::Malformed(malformed) => complain(shared, malformed),
            Inbound::Failed { id, failure } => finish(shared, &id, Err(CallFailure::Request(failure))),
            Inbound::Stale(reason) => shared.outdate(reason),
            Inbound::Closed(reason) => return shared.close(reason),
        }
    }
}

fn dispatch(shared: &Arc<Shared>, message: Message, origin: Option<&Id>) {
    match message {
        Message::Response { id, result } => finish(shared, &id, Ok(result)),
        Message::Error { id: Some(id), error } => {
            finish(shared, &id, Err(CallFailure::Rpc(error_object(error))));
        }
        Message::Error { id: None, error } => {
            tracing::debug!(
                error = error.as_str(),
                "the server complained about a message it could not read"
            );
        }
        Message::Request { id, method, params } => answer(shared, id, method, params, origin),
        Message::Notification { method, params } => hear(shared, method, params, origin),
    }
}

/// Ends a call. An answer nobody waits for is late: its call was cancelled.
fn finish(shared: &Arc<Shared>, id: &Id, outcome: Result<Payload, CallFailure>) {
    let entry = number(id.as_str()).and_then(|number| shared.take_out(number));
    match entry {
        Some(entry) => entry.mailbox.finish(outcome),
        None => tracing::trace!(%id, "an answer came too late"),
    }
}

/// Something unreadable: usually a banner or a log line, which are skipped.
fn complain(shared: &Arc<Shared>, malformed: Malformed) {
    let Malformed { id, answers, error } = malformed;
    tracing::debug!(%error, "skipped something that is no message");
    match (answers, id) {
        // The call would otherwise wait for ever.
        (Some(id), _) => finish(shared, &id, Err(CallFailure::Malformed(error.message))),
        // It had a method, so it is a request and its sender waits.
        (None, Some(id)) if error.code == ErrorCode::InvalidParams => {
            shared.outbox.reply(Message::error(Some(id), &error))
        }
        (None, _) => {}
    }
}

/// A request of the server.
fn answer(shared: &Arc<Shared>, id: Id, method: String, params: Option<Payload>, origin: Option<&Id>) {
    match method.as_str() {
        method::PING => shared.outbox.reply(Message::Response { id, result: object(&serde_json::json!({})) }),
        _ if method.starts_with("tasks/") => host(shared, id, method, params),
        // What only clients ask is not asked of them: a question is one of theirs, or a method unknown here.
        _ if method::is_of_clients(&method) => {
            shared.outbox.reply(Message::error(Some(id), &RpcError::method_not_found(&method)));
        }
        _ => ask(shared, id, method, params, origin),
    }
}

/// Takes what is asked about hosted tasks to whoever hosts them; where nobody does, there is no such method.
fn host(shared: &Arc<Shared>, id: Id, method: String, params: Option<Payload>) {
    let request = TaskRequest { method, params, id, shared: Arc::downgrade(shared) };
    let refused = match &*shared.host.lock() {
        Some(host) => host.send(request).err().map(|unsent| unsent.0),
        None => Some(request),
    };
    if let Some(request) = refused {
        let error = RpcError::method_not_found(&request.method).to_payload();
        request.reply(Err(error));
    }
}

/// Takes a question to the call it belongs to, or refuses it.
fn ask(shared: &Arc<Shared>, id: Id, method: String, params: Option<Payload>, origin: Option<&Id>) {
    let task = params.as_ref().and_then(related_task);
    // An origin that is no number is none of our calls.
    let origin = origin.map(|id| number(id.as_str()).unwrap_or(u64::MAX));
    let found = shared.table.lock().ask(id.clone(), method.clone(), params, origin, task.as_deref());
    let why = match found {
        Ok(put) => return shared.put(put),
        Err(Unattributed::NoCall) => "no call it could belong to is in flight",
        Err(Unattributed::Ambiguous) => "calls of several callers are in flight",
        Err(Unattributed::TooMany) => "too many questions are open",
    };
    let error = if method::is_question(&method) {
        RpcError::internal(format!("It cannot be known which caller {method} is meant for: {why}"))
    } else {
        // Without a caller there is nobody who could know the method.
        RpcError::method_not_found(&method)
    };
    shared.outbox.reply(Message::error(Some(id), &error));
}

/// A notification of the server. Where it came by the stream of a call, it is that call's, if it is about one at all.
fn hear(shared: &Arc<Shared>, method: String, params: Option<Payload>, origin: Option<&Id>) {
    let origin = || origin_of(shared, origin);
    match (method.as_str(), params) {
        (method::CANCELLED, params) => take_back(shared, params),
        (method::PROGRESS, Some(params)) => {
            let token = read::<Progress>(&params).and_then(|progress| number(progress.token.get()));
            let named = token.and_then(|token| shared.mailbox(token));
            match named.or_else(|| origin().and_then(Origin::speaks)) {
                Some(mailbox) => mailbox.push(CallEvent::Progress(params)),
                None => shared.hear(method, Some(params)),
            }
        }
        (_, Some(params)) => {
            if let Some(mailbox) = subscriber(shared, &params) {
                return mailbox.push(CallEvent::Notification { method, params: Some(params) });
            }
            if let Some(Origin { mailbox, kind: Kind::Listen }) = origin() {
                return mailbox.push(CallEvent::Notification { method, params: Some(params) });
            }
            if method != method::LOG_MESSAGE {
                return shared.hear(method, Some(params));
            }
            let logging = match origin() {
                Some(origin) => origin.speaks(),
                None => shared.table.lock().logging().map(|entry| entry.mailbox.clone()),
            };
            match logging {
                Some(mailbox) => mailbox.push(CallEvent::Log(params)),
                None => shared.hear(method, Some(params)),
            }
        }
        (_, None) => shared.hear(method, None),
    }
}

/// The call whose stream something came by.
struct Origin {
    mailbox: Arc<Mailbox>,
    kind: Kind,
}

impl Origin {
    /// Its mailbox, if what is said during it is said to somebody.
    fn speaks(self) -> Option<Arc<Mailbox>> {
        matches!(self.kind, Kind::Plain | Kind::Waiting).then_some(self.mailbox)
    }
}

fn origin_of(shared: &Shared, origin: Option<&Id>) -> Option<Origin> {
    let number = number(origin?.as_str())?;
    let table = shared.table.lock();
    table.get(number).map(|entry| Origin { mailbox: entry.mailbox.clone(), kind: entry.kind })
}

/// The server cancels one of its questions, or a subscription of ours.
fn take_back(shared: &Arc<Shared>, params: Option<Payload>) {
    let Some(cancelled) = params.as_ref().and_then(read::<Cancelled>) else { return };
    let Some(id) = Id::from_raw(cancelled.request_id) else { return };
    let reason = cancelled.reason.map(Cow::into_owned);
    let mut table = shared.table.lock();
    if let Some(call) = table.withdraw_question(&id) {
        let mailbox = table.get(call).map(|entry| entry.mailbox.clone());
        drop(table);
        if let Some(mailbox) = mailbox {
            mailbox.push(CallEvent::QuestionWithdrawn { id, reason });
        }
        return;
    }
    // Servers must not cancel anything else of ours (2026-07-28, cancellation).
    let ended = number(id.as_str())
        .filter(|number| table.get(*number).is_some_and(|entry| entry.kind == Kind::Listen));
    drop(table);
    if let Some(entry) = ended.and_then(|number| shared.take_out(number)) {
        entry.mailbox.finish(Err(CallFailure::Ended(reason)));
    }
}

/// The call whose subscription a notification names.
fn subscriber(shared: &Shared, params: &Payload) -> Option<Arc<Mailbox>> {
    // Most notifications name none, and looking at the text is cheaper than reading it.
    if !params.as_str().contains(meta::SUBSCRIPTION_ID) {
        return None;
    }
    let id = read::<WithMeta>(params)?.meta?.subscription?;
    shared.mailbox(number(id.get())?)
}

/// The task a question names: in the words of 2025-11-25, or of 2025-10-20.
fn related_task(params: &Payload) -> Option<String> {
    let Names { related, first_related, .. } = read::<WithMeta>(params)?.meta?;
    Some(related.or(first_related)?.task_id.into_owned())
}

fn read<'a, T: Deserialize<'a>>(params: &'a Payload) -> Option<T> {
    serde_json::from_str(params.as_str()).ok()
}

#[derive(Deserialize)]
struct Progress<'a> {
    #[serde(borrow, rename = "progressToken")]
    token: &'a RawValue,
}

#[derive(Deserialize)]
struct Cancelled<'a> {
    #[serde(borrow, rename = "requestId")]
    request_id: &'a RawValue,
    #[serde(borrow, default)]
    reason: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct WithMeta<'a> {
    #[serde(borrow, default, rename = "_meta")]
    meta: Option<Names<'a>>,
}

#[derive(Deserialize)]
struct Names<'a> {
    #[serde(borrow, default, rename = "io.modelcontextprotocol/subscriptionId")]
    subscription: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "io.modelcontextprotocol/related-task")]
    related: Option<Related<'a>>,
    #[serde(borrow, default, rename = "modelcontextprotocol.io/related-task")]
    first_related: Option<Related<'a>>,
}

#[derive(Deserialize)]
struct Related<'a> {
    #[serde(borrow, rename = "taskId")]
    task_id: Cow<'a, str>,
}
