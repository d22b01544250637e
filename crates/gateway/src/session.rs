use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use taskgate_task::{Owner, Payload, TaskId};
use taskgate_wire::{Capabilities, Id, LogLevel, Message, Version};
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::Instant;

use crate::audit::Client;
pub use crate::outlet::Outlet;
use crate::policy::StreamSettings;
use crate::route::concerns;
use crate::stream::Streams;
use crate::to_client::SentBack;
use crate::upstream::{Change, Interest};

/// What a client said in `initialize`.
#[derive(Debug, Clone)]
pub struct Negotiated {
    /// The version both use.
    pub version: Version,
    /// What the client can do, as far as it decides something here.
    pub capabilities: Capabilities,
    /// What the client can do, as it said it.
    pub raw_capabilities: Payload,
    /// How long it waits for a call that cannot be a task; `None` waits for the end.
    pub budget: Option<Duration>,
}

/// A client's session of 2025-11-25 or earlier: over HTTP, or the whole connection over stdio.
///
/// Sessions own no tasks: those belong to the owner and outlive every session.
#[derive(Debug)]
pub struct Session {
    id: String,
    owner: Owner,
    negotiated: Mutex<Option<Negotiated>>,
    /// Where what belongs to no request goes: the GET stream or stdout.
    general: Outlet,
    streams: Arc<Streams>,
    next_request: AtomicU64,
    pending: Mutex<HashMap<u64, oneshot::Sender<SentBack>>>,
    running: Mutex<Requests>,
    max_requests: usize,
    request_ended: Notify,
    results: Mutex<HashMap<TaskId, Vec<(u64, Outlet)>>>,
    told: Mutex<HashMap<TaskId, Instant>>,
    /// Which tasks have one, and whether it has questions out.
    couriers: Mutex<HashMap<TaskId, bool>>,
    couriers_changed: Notify,
    subscribed: Mutex<HashMap<String, Interest>>,
    log_level: Mutex<Option<LogLevel>>,
    streams_changed: Notify,
    /// Whether the client gives its tasks ids of its own (2025-10-20).
    has_given_ids: AtomicBool,
    /// Who the client says that it is, if anybody keeps account of that.
    client: OnceLock<Client>,
    /// Whether the client has shown that it knows what a task is.
    knows_tasks: AtomicBool,
    /// Rings when the client says something of a task that it hosts.
    hosted_changed: Notify,
    ended: watch::Sender<bool>,
    last_used: Mutex<Instant>,
}

/// The requests of the client that run.
#[derive(Debug, Default)]
struct Requests {
    by_id: HashMap<Id, Running>,
    count: usize,
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

impl Session {
    /// A session over HTTP. The tag stands in the ids of its events; so many requests may be open at a time.
    pub fn over_http(
        id: String,
        tag: u32,
        owner: Owner,
        streams: StreamSettings,
        max_requests: usize,
    ) -> Arc<Session> {
        let streams = Streams::new(tag, streams);
        let general = Outlet::to(streams.general());
        Arc::new(Session::new(id, owner, general, streams, max_requests))
    }

    /// The session of the one client at the other end of a pair of pipes.
    pub fn over_pipes(owner: Owner, general: Outlet) -> Arc<Session> {
        let streams = Streams::new(0, StreamSettings::default());
        Arc::new(Session::new("stdio".to_owned(), owner, general, streams, usize::MAX))
    }

    fn new(id: String, owner: Owner, general: Outlet, streams: Arc<Streams>, max_requests: usize) -> Session {
        Session {
            id,
            owner,
            negotiated: Mutex::default(),
            general,
            streams,
            next_request: AtomicU64::new(1),
            pending: Mutex::default(),
            running: Mutex::default(),
            max_requests,
            request_ended: Notify::new(),
            results: Mutex::default(),
            told: Mutex::default(),
            couriers: Mutex::default(),
            couriers_changed: Notify::new(),
            subscribed: Mutex::default(),
            log_level: Mutex::default(),
            streams_changed: Notify::new(),
            has_given_ids: AtomicBool::new(false),
            client: OnceLock::new(),
            knows_tasks: AtomicBool::new(false),
            hosted_changed: Notify::new(),
            ended: watch::Sender::new(false),
            last_used: Mutex::new(Instant::now()),
        }
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

    /// Keeps who the client says that it is.
    pub fn introduce(&self, client: Client) {
        // It does so once, as it settles everything else.
        let _ = self.client.set(client);
    }

    /// Who the client says that it is.
    pub fn client(&self) -> Option<Client> {
        self.client.get().cloned()
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

    /// Whether nothing has used it for this long, and nothing is using it: nor does any task that was made in it and has not
    /// ended, as a courier follows each of these.
    pub fn is_idle(&self, limit: Duration) -> bool {
        self.couriers.lock().is_empty() && self.unused_for().is_some_and(|unused| unused >= limit)
    }

    /// How long its client has not been heard of; `None` while it is connected or waits for an answer.
    pub fn unused_for(&self) -> Option<Duration> {
        let in_use = self.streams.any_connected() || !self.running.lock().by_id.is_empty();
        (!in_use).then(|| self.last_used.lock().elapsed())
    }

    /// Its streams over HTTP.
    pub fn streams(&self) -> &Arc<Streams> {
        &self.streams
    }

    /// A client has connected to one of the streams.
    pub fn stream_opened(&self) {
        self.streams_changed.notify_waiters();
    }

    /// The general stream, if the client is there.
    pub fn general(&self) -> Option<Outlet> {
        Some(&self.general).filter(|general| !general.is_closed()).cloned()
    }

    /// Sends a notification on the general stream. It is kept for the client that comes for it, within bounds.
    pub fn notify(&self, method: &str, params: Option<Payload>) {
        self.general.send(Message::Notification { method: method.to_owned(), params });
    }

    /// Sends a request to the client on a stream. Returns its number, and where what comes back for it will arrive.
    pub fn request(
        &self,
        outlet: &Outlet,
        method: &str,
        params: Option<Payload>,
    ) -> (u64, oneshot::Receiver<SentBack>) {
        let number = self.next_request.fetch_add(1, Ordering::Relaxed);
        let (reply, answer) = oneshot::channel();
        let mut pending = self.pending.lock();
        // Whoever stopped waiting left its entry behind.
        pending.retain(|_, reply| !reply.is_closed());
        pending.insert(number, reply);
        drop(pending);
        if !outlet.send(Message::Request { id: Id::number(number), method: method.to_owned(), params }) {
            // Nobody will ever read it, so nothing will come back.
            self.pending.lock().remove(&number);
        }
        (number, answer)
    }

    /// Takes what comes back for a request of ours; what nobody asked for is dropped, and `false`.
    pub fn answered(&self, id: &Id, answer: SentBack) -> bool {
        let reply = id.as_number().and_then(|number| self.pending.lock().remove(&number));
        match reply {
            Some(reply) => reply.send(answer).is_ok(),
            None => {
                tracing::debug!(session = %self.id, %id, "an answer nobody asked for");
                false
            }
        }
    }

    /// Notes that a request of the client runs. `notifications/cancelled` notifies the returned handle; there is none if
    /// too many run already.
    pub fn began(&self, id: &Id) -> Option<Arc<Notify>> {
        let mut running = self.running.lock();
        if running.count >= self.max_requests {
            return None;
        }
        running.count += 1;
        let under = running.by_id.entry(id.clone()).or_default();
        under.count += 1;
        Some(under.stop.clone())
    }

    /// Notes that a request of the client has been answered.
    pub fn finished(&self, id: &Id) {
        let mut running = self.running.lock();
        if let Some(under) = running.by_id.get_mut(id) {
            under.count -= 1;
            if under.count == 0 {
                running.by_id.remove(id);
            }
            running.count -= 1;
        }
        drop(running);
        self.request_ended.notify_waiters();
    }

    /// Resolves when every request of the client has been answered.
    pub async fn quiet(&self) {
        loop {
            let ended = self.request_ended.notified();
            if self.running.lock().by_id.is_empty() {
                return;
            }
            ended.await;
        }
    }

    /// The client cancels a request of its own. Unknown ones are ignored, as the cancellation page says.
    pub fn cancel(&self, id: &Id) {
        if let Some(running) = self.running.lock().by_id.get(id) {
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
        match self.couriers.lock().entry(task) {
            Entry::Occupied(_) => false,
            Entry::Vacant(place) => {
                place.insert(false);
                true
            }
        }
    }

    /// The courier is done.
    pub fn release_courier(&self, task: &TaskId) {
        self.couriers.lock().remove(task);
        self.couriers_changed.notify_waiters();
        self.untell(task);
        self.touch();
    }

    /// Whether the courier has questions out.
    pub fn courier_asks(&self, task: &TaskId, asks: bool) {
        let was = self.couriers.lock().get_mut(task).map(|asking| std::mem::replace(asking, asks));
        if was == Some(true) && !asks {
            self.couriers_changed.notify_waiters();
        }
    }

    /// Resolves when no question of the task is out any more that its courier has brought.
    pub async fn nothing_is_asked(&self, task: &TaskId) {
        loop {
            let changed = self.couriers_changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.couriers.lock().get(task) != Some(&true) {
                return;
            }
            changed.await;
        }
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

    /// The client gives its tasks ids of its own: whatever it asks about tasks is in the words of 2025-10-20.
    pub fn gives_ids(&self) {
        self.has_given_ids.store(true, Ordering::Relaxed);
        self.shows_tasks();
    }

    /// The client has asked for a task, or about one: it is no host without tasks, whatever it has declared.
    pub fn shows_tasks(&self) {
        self.knows_tasks.store(true, Ordering::Relaxed);
    }

    /// Whether it has done so.
    pub fn knows_tasks(&self) -> bool {
        self.knows_tasks.load(Ordering::Relaxed)
    }

    /// Whether it has done so.
    pub fn has_given_ids(&self) -> bool {
        self.has_given_ids.load(Ordering::Relaxed)
    }

    /// The client says that a task it hosts has changed. Which one is not looked at: whoever follows one asks.
    pub fn hosted_changed(&self) {
        self.hosted_changed.notify_waiters();
    }

    /// Resolves when it does. Enable it before looking.
    pub fn hosted_change(&self) -> tokio::sync::futures::Notified<'_> {
        self.hosted_changed.notified()
    }

    /// Ends the session: its streams close, its requests of ours get no answer, its couriers stop.
    pub fn end(&self) {
        self.general.finish();
        self.pending.lock().clear();
        self.subscribed.lock().clear();
        *self.log_level.lock() = None;
        // First of all: what stops now stops for no other reason.
        self.ended.send_replace(true);
        self.running.lock().by_id.values().for_each(Running::stop);
    }

    /// Whether it has ended.
    pub fn is_ended(&self) -> bool {
        *self.ended.borrow()
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
