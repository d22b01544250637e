use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use taskgate_task::{Owner, Payload, TaskId};
use taskgate_wire::{Capabilities, Id, LogLevel, Message, Version};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::route::concerns;
use crate::to_client::ToClient;
use crate::upstream::{Change, Interest};

/// Where messages to the other side are put: one request's stream, a session's general stream, or stdout.
#[derive(Debug, Clone)]
pub struct Outlet(Option<mpsc::UnboundedSender<Message>>);

impl Outlet {
    /// An outlet and its far end.
    pub fn new() -> (Outlet, mpsc::UnboundedReceiver<Message>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Outlet(Some(sender)), receiver)
    }

    /// An outlet that leads nowhere, for what is answered at once.
    pub const fn nowhere() -> Outlet {
        Outlet(None)
    }

    /// Puts a message on its way; `false` if the stream is gone.
    pub fn send(&self, message: Message) -> bool {
        self.0.as_ref().is_some_and(|sender| sender.send(message).is_ok())
    }

    /// Whether the stream is gone.
    pub fn is_closed(&self) -> bool {
        self.0.as_ref().is_none_or(mpsc::UnboundedSender::is_closed)
    }

    /// Resolves when the stream is gone.
    pub async fn closed(&self) {
        if let Some(sender) = &self.0 {
            sender.closed().await;
        }
    }
}

/// What a client said in `initialize`.
#[derive(Debug, Clone)]
pub struct Negotiated {
    /// The version both use.
    pub version: Version,
    /// What the client can do, as far as it decides something here.
    pub capabilities: Capabilities,
    /// What the client can do, as it said it.
    pub raw_capabilities: Payload,
}

/// A client's session of 2025-11-25 or earlier: over HTTP, or the whole connection over stdio.
///
/// Sessions own no tasks: those belong to the owner and outlive every session.
#[derive(Debug)]
pub struct Session {
    id: String,
    owner: Owner,
    negotiated: Mutex<Option<Negotiated>>,
    general: Mutex<General>,
    next_request: AtomicU64,
    pending: Mutex<HashMap<u64, oneshot::Sender<Result<Payload, Payload>>>>,
    running: Mutex<HashMap<Id, Running>>,
    request_ended: Notify,
    results: Mutex<HashMap<TaskId, Vec<(u64, Outlet)>>>,
    told: Mutex<HashMap<TaskId, Instant>>,
    couriers: Mutex<HashSet<TaskId>>,
    subscribed: Mutex<HashMap<String, Interest>>,
    log_level: Mutex<Option<LogLevel>>,
    streams_changed: Notify,
    ended: watch::Sender<bool>,
    last_used: Mutex<Instant>,
}

/// The requests of the client that run under one id: one, unless the client uses an id twice at a time.
#[derive(Debug, Default)]
struct Running {
    stop: Arc<Notify>,
    count: usize,
}

impl Running {
    fn stop(&self) {
        (0..self.count).for_each(|_| self.stop.notify_one());
    }
}

/// The stream for what belongs to no request: the GET stream or stdout.
#[derive(Debug, Default)]
struct General {
    outlet: Option<(u64, Outlet)>,
    serial: u64,
    backlog: VecDeque<Message>,
}

/// Notifications kept for a general stream that is not open; the oldest ones go first.
const BACKLOG: usize = 64;

impl Session {
    /// A session of this owner.
    pub fn new(id: String, owner: Owner) -> Arc<Session> {
        Arc::new(Session {
            id,
            owner,
            negotiated: Mutex::default(),
            general: Mutex::default(),
            next_request: AtomicU64::new(1),
            pending: Mutex::default(),
            running: Mutex::default(),
            request_ended: Notify::new(),
            results: Mutex::default(),
            told: Mutex::default(),
            couriers: Mutex::default(),
            subscribed: Mutex::default(),
            log_level: Mutex::default(),
            streams_changed: Notify::new(),
            ended: watch::Sender::new(false),
            last_used: Mutex::new(Instant::now()),
        })
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whose tasks it sees.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// What was settled by `initialize`.
    pub fn negotiated(&self) -> Option<Negotiated> {
        self.negotiated.lock().clone()
    }

    /// Whether the client may send several messages in one array.
    pub fn takes_batches(&self) -> bool {
        self.negotiated.lock().as_ref().is_some_and(|negotiated| negotiated.version.has_batches())
    }

    /// Keeps what `initialize` settled; `false` if it was settled before.
    pub fn settle(&self, negotiated: Negotiated) -> bool {
        let mut slot = self.negotiated.lock();
        if slot.is_some() {
            return false;
        }
        *slot = Some(negotiated);
        true
    }

    /// The session is in use now.
    pub fn touch(&self) {
        *self.last_used.lock() = Instant::now();
    }

    /// Whether nothing has used it for this long, and nothing is using it.
    pub fn is_idle(&self, limit: Duration) -> bool {
        self.general.lock().outlet.is_none()
            && self.running.lock().is_empty()
            && self.couriers.lock().is_empty()
            && self.last_used.lock().elapsed() >= limit
    }

    /// Opens the general stream; an older one is replaced. What was kept for it is put on it.
    pub fn open_general(&self, outlet: Outlet) -> u64 {
        let mut general = self.general.lock();
        general.serial += 1;
        let serial = general.serial;
        for message in general.backlog.drain(..) {
            outlet.send(message);
        }
        general.outlet = Some((serial, outlet));
        drop(general);
        self.streams_changed.notify_waiters();
        serial
    }

    /// The general stream is gone.
    pub fn close_general(&self, serial: u64) {
        let mut general = self.general.lock();
        if general.outlet.as_ref().is_some_and(|(current, _)| *current == serial) {
            general.outlet = None;
        }
        drop(general);
        self.touch();
    }

    /// The general stream, if it is open.
    pub fn general(&self) -> Option<Outlet> {
        self.general
            .lock()
            .outlet
            .as_ref()
            .map(|(_, outlet)| outlet.clone())
            .filter(|outlet| !outlet.is_closed())
    }

    /// Sends a notification on the general stream, or keeps it for the next one, within bounds.
    pub fn notify(&self, method: &str, params: Option<Payload>) {
        let message = Message::Notification { method: method.to_owned(), params };
        let mut general = self.general.lock();
        if let Some((_, outlet)) = &general.outlet
            && outlet.send(message.clone())
        {
            return;
        }
        if general.backlog.len() == BACKLOG {
            general.backlog.pop_front();
        }
        general.backlog.push_back(message);
    }

    /// Sends a request to the client on a stream.
    pub fn request(&self, outlet: &Outlet, method: &str, params: Option<Payload>) -> ToClient {
        let number = self.next_request.fetch_add(1, Ordering::Relaxed);
        let (reply, answer) = oneshot::channel();
        let mut pending = self.pending.lock();
        // Whoever stopped waiting left its entry behind.
        pending.retain(|_, reply| !reply.is_closed());
        pending.insert(number, reply);
        drop(pending);
        outlet.send(Message::Request { id: Id::number(number), method: method.to_owned(), params });
        ToClient { number, outlet: outlet.clone(), answer }
    }

    /// Takes the client's answer to a request of ours; answers nobody asked for are dropped.
    pub fn answered(&self, id: &Id, answer: Result<Payload, Payload>) {
        let reply = id.as_number().and_then(|number| self.pending.lock().remove(&number));
        match reply {
            Some(reply) => {
                let _ = reply.send(answer);
            }
            None => tracing::debug!(session = %self.id, %id, "an answer nobody asked for"),
        }
    }

    /// Notes that a request of the client runs. `notifications/cancelled` notifies the returned handle.
    pub fn began(&self, id: &Id) -> Arc<Notify> {
        let mut running = self.running.lock();
        let under = running.entry(id.clone()).or_default();
        under.count += 1;
        under.stop.clone()
    }

    /// Notes that a request of the client has been answered.
    pub fn finished(&self, id: &Id) {
        let mut running = self.running.lock();
        if let Some(under) = running.get_mut(id) {
            under.count -= 1;
            if under.count == 0 {
                running.remove(id);
            }
        }
        drop(running);
        self.request_ended.notify_waiters();
    }

    /// Resolves when every request of the client has been answered.
    pub async fn quiet(&self) {
        loop {
            let ended = self.request_ended.notified();
            if self.running.lock().is_empty() {
                return;
            }
            ended.await;
        }
    }

    /// The client cancels a request of its own. Unknown ones are ignored, as the cancellation page says.
    pub fn cancel(&self, id: &Id) {
        if let Some(running) = self.running.lock().get(id) {
            running.stop();
        }
    }

    /// A `tasks/result` of this session waits on this stream: the task's questions go there.
    pub fn result_opened(self: &Arc<Self>, task: TaskId, outlet: Outlet) -> OpenResult {
        let serial = self.next_request.fetch_add(1, Ordering::Relaxed);
        self.results.lock().entry(task).or_default().push((serial, outlet));
        self.streams_changed.notify_waiters();
        OpenResult { session: self.clone(), task, serial }
    }

    /// The stream of a waiting `tasks/result`, if there is one. The request itself may wait on although its client has
    /// gone; then its stream takes nothing.
    pub fn result_stream(&self, task: &TaskId) -> Option<Outlet> {
        let results = self.results.lock();
        let mut open = results.get(task)?.iter().rev().map(|(_, outlet)| outlet);
        open.find(|outlet| !outlet.is_closed()).cloned()
    }

    /// The client has seen that the task wants input.
    pub fn tell(&self, task: TaskId) {
        self.told.lock().entry(task).or_insert_with(Instant::now);
        self.streams_changed.notify_waiters();
    }

    /// When the client first saw that the task wants input.
    pub fn told_at(&self, task: &TaskId) -> Option<Instant> {
        self.told.lock().get(task).copied()
    }

    /// The task's questions are answered; a later round is a new one.
    pub fn untell(&self, task: &TaskId) {
        self.told.lock().remove(task);
    }

    /// Claims the task's questions for one courier of this session; `false` if there is one.
    pub fn claim_courier(&self, task: TaskId) -> bool {
        self.couriers.lock().insert(task)
    }

    /// The courier is done.
    pub fn release_courier(&self, task: &TaskId) {
        self.couriers.lock().remove(task);
        self.untell(task);
        self.touch();
    }

    /// The client subscribes to a resource.
    pub fn subscribe(&self, uri: &str, interest: Interest) {
        let before = self.subscribed.lock().insert(uri.to_owned(), interest);
        drop(before);
        if *self.ended.borrow() {
            // It ended meanwhile; nobody would end the subscription any more.
            self.subscribed.lock().clear();
        }
    }

    /// It no longer does.
    pub fn unsubscribe(&self, uri: &str) -> Option<Interest> {
        self.subscribed.lock().remove(uri)
    }

    /// How many resources the client subscribes to.
    pub fn subscriptions(&self) -> usize {
        self.subscribed.lock().len()
    }

    /// Whether the client subscribed to the resource a notification is about.
    pub fn is_subscribed(&self, change: &Change) -> bool {
        concerns(change, self.subscribed.lock().keys().map(String::as_str))
    }

    /// The client wants log messages from this level on.
    pub fn set_log_level(&self, level: LogLevel) {
        *self.log_level.lock() = Some(level);
    }

    /// From which level on the client wants log messages, if it said so.
    pub fn log_level(&self) -> Option<LogLevel> {
        *self.log_level.lock()
    }

    /// Resolves when a stream opens or a client learns something. Enable it before looking.
    pub fn streams_changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.streams_changed.notified()
    }

    /// Ends the session: its streams close, its requests of ours get no answer, its couriers stop.
    pub fn end(&self) {
        self.general.lock().outlet = None;
        self.pending.lock().clear();
        self.subscribed.lock().clear();
        *self.log_level.lock() = None;
        self.running.lock().values().for_each(Running::stop);
        self.ended.send_replace(true);
    }

    /// Resolves when the session has ended.
    pub async fn ended(&self) {
        // The sender lives in this very session, so waiting cannot fail.
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }
}

/// A waiting `tasks/result`; dropping it says that it waits no longer.
#[derive(Debug)]
pub struct OpenResult {
    session: Arc<Session>,
    task: TaskId,
    serial: u64,
}

impl Drop for OpenResult {
    fn drop(&mut self) {
        let mut results = self.session.results.lock();
        if let Some(open) = results.get_mut(&self.task) {
            open.retain(|(serial, _)| *serial != self.serial);
            if open.is_empty() {
                results.remove(&self.task);
            }
        }
    }
}
