//! What a fake upstream does and what it has heard, as the tests see it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use taskgate_client::transport::{CloseCause, CloseReason, Inbound, memory};
use taskgate_gateway::{UpstreamKind, UpstreamSpec};
use taskgate_task::Payload;
use taskgate_wire::Message;
use tokio::sync::{Notify, mpsc};

use super::fake::{self, Era};
use super::hosted::Hosted;
use super::offers::Offers;
use super::soon;

/// A fake upstream seen from the test. Clones are the same upstream.
#[derive(Clone)]
pub struct Board(Arc<Inner>);

struct Inner {
    era: Era,
    offers: Mutex<Offers>,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    heard: Vec<Value>,
    counts: HashMap<String, usize>,
    open: HashSet<String>,
    running: usize,
    links: Vec<mpsc::Sender<Inbound>>,
    refuse: bool,
    /// What clients are subscribed to: `uri`, and the request's `id` in 2026-07-28.
    subscriptions: Vec<Value>,
    listless: bool,
    /// Answers to the next requests of these methods, whatever they ask; the last one of each is given for ever.
    odd: HashMap<String, VecDeque<Result<Value, Value>>>,
    hosted: HashMap<String, Hosted>,
    /// The next one of these handles is held back until the gate `handles` is open.
    holds_handles: bool,
}

impl Board {
    /// An upstream of this era with the usual tools.
    pub fn new(era: Era) -> Board {
        let bare = |name: &str| json!({"name": name, "inputSchema": {"type": "object", "properties": {}}});
        let mut reader = bare("reader");
        reader["annotations"] = json!({"readOnlyHint": true});
        let mut headed = bare("headed");
        headed["inputSchema"]["properties"] = json!({
            "region": {"type": "string", "x-mcp-header": "Region"},
            "size": {"type": "integer", "x-mcp-header": "Size"},
            "flag": {"type": "boolean", "x-mcp-header": "Flag"},
            "deep": {"type": "object", "properties": {"er": {"type": "string", "x-mcp-header": "Deep"}}},
        });
        let mut tools: Vec<Value> = ["do", "always", "never", "at_once", "patient"].map(bare).into();
        tools.extend([reader, headed]);
        Board::with_tools(era, tools)
    }

    /// An upstream with these tools.
    pub fn with_tools(era: Era, tools: Vec<Value>) -> Board {
        Board::with(era, Offers { tools, ..Offers::default() })
    }

    /// An upstream that offers this.
    pub fn with(era: Era, offers: Offers) -> Board {
        Board(Arc::new(Inner {
            era,
            offers: Mutex::new(offers),
            state: Mutex::default(),
            changed: Notify::new(),
        }))
    }

    /// The upstream under a name. Every connection gets a server of its own, all of them write on this board.
    pub fn spec(&self, name: &str) -> UpstreamSpec {
        let board = self.clone();
        let connect = move || {
            let (link, far) = memory::pair(256);
            board.bump("connections");
            if !board.0.state.lock().refuse {
                board.0.state.lock().links.push(far.out.clone());
                tokio::spawn(fake::serve(board.clone(), far));
            }
            link
        };
        UpstreamSpec::new(name, UpstreamKind::InProcess(Arc::new(connect)))
    }

    /// What it speaks.
    pub fn era(&self) -> Era {
        self.0.era
    }

    /// What it offers.
    pub fn offers(&self) -> Offers {
        self.0.offers.lock().clone()
    }

    /// Offers something else from now on.
    pub fn offer(&self, change: impl FnOnce(&mut Offers)) {
        change(&mut self.0.offers.lock());
    }

    /// Notes a subscription of a client, or its end.
    pub fn subscribe(&self, subscription: Value, on: bool) {
        self.change(|state| {
            state.subscriptions.retain(|known| *known != subscription);
            if on {
                state.subscriptions.push(subscription);
            }
        });
    }

    /// Ends the subscription that was opened by this request.
    pub fn unlisten(&self, id: &Value) {
        self.change(|state| state.subscriptions.retain(|known| known["id"] != *id));
    }

    /// The URIs that are subscribed to, in the order they were.
    pub fn subscribed(&self) -> Vec<String> {
        let state = self.0.state.lock();
        let uris = state.subscriptions.iter().filter_map(|known| known["uri"].as_str());
        uris.map(ToOwned::to_owned).collect()
    }

    /// Tells whoever is subscribed that a resource, or a part of it, has changed.
    pub async fn update(&self, subscribed: &str, updated: &str) {
        let known = self.0.state.lock().subscriptions.clone();
        for subscription in known.iter().filter(|known| known["uri"] == subscribed) {
            let mut params = json!({"uri": updated});
            if let Some(id) = subscription.get("id") {
                params["_meta"] = json!({"io.modelcontextprotocol/subscriptionId": id});
            }
            self.say("notifications/resources/updated", Some(params)).await;
        }
    }

    /// Closes all connections; new ones end at once while `refuse` is on.
    pub async fn drop_links(&self, refuse: bool) {
        let links = {
            let mut state = self.0.state.lock();
            state.refuse = refuse;
            state.subscriptions.clear();
            std::mem::take(&mut state.links)
        };
        for link in links {
            let _ = link.send(Inbound::Closed(CloseReason::new(CloseCause::PeerClosed))).await;
        }
    }

    /// Lets new connections work again.
    pub fn accept_links(&self) {
        self.0.state.lock().refuse = false;
    }

    /// From now on `tools/list` is not answered, or is again.
    pub fn hush_lists(&self, hush: bool) {
        self.0.state.lock().listless = hush;
    }

    /// Whether `tools/list` is left without an answer.
    pub fn is_listless(&self) -> bool {
        self.0.state.lock().listless
    }

    /// Says something that belongs to no call, on every connection.
    pub async fn say(&self, method: &str, params: Option<Value>) {
        let params = params.map(|params| Payload::from_value(&params).expect("JSON"));
        let links = self.0.state.lock().links.clone();
        for link in links {
            let message = Message::Notification { method: method.to_owned(), params: params.clone() };
            let _ = link.send(message.into()).await;
        }
    }

    /// Notes a message that was heard.
    pub fn hear(&self, message: Value) {
        self.change(|state| state.heard.push(message));
    }

    /// All messages heard with this method.
    pub fn heard(&self, method: &str) -> Vec<Value> {
        self.0.state.lock().heard.iter().filter(|message| message["method"] == method).cloned().collect()
    }

    /// Counts something.
    pub fn bump(&self, name: &str) {
        self.change(|state| *state.counts.entry(name.to_owned()).or_default() += 1);
    }

    /// How often something was counted; `calls` are the tool calls that were begun.
    pub fn count(&self, name: &str) -> usize {
        self.0.state.lock().counts.get(name).copied().unwrap_or_default()
    }

    /// How many tool calls are running.
    pub fn running(&self) -> usize {
        self.0.state.lock().running
    }

    /// A tool call begins or ends.
    pub fn run(&self, begins: bool) {
        self.change(|state| state.running = if begins { state.running + 1 } else { state.running - 1 });
    }

    /// Answers requests of this method with these from now on, whatever they ask.
    pub fn answer_oddly(&self, method: &str, answers: impl IntoIterator<Item = Result<Value, Value>>) {
        self.change(|state| {
            state.odd.insert(method.to_owned(), answers.into_iter().collect());
        });
    }

    /// The odd answer to a request of this method, if it gets one.
    pub fn odd_answer(&self, method: &str) -> Option<Result<Value, Value>> {
        let mut state = self.0.state.lock();
        let odd = state.odd.get_mut(method)?;
        if odd.len() > 1 { odd.pop_front() } else { odd.front().cloned() }
    }

    /// Whether it hosts tasks, in whichever era.
    pub fn hosts(&self) -> bool {
        let capabilities = self.offers().capabilities;
        !capabilities["tasks"].is_null() || !capabilities["extensions"].is_null()
    }

    /// Hosts a task and returns its id.
    pub fn host(&self, task: Hosted) -> String {
        // Never one that was forgotten.
        self.bump("hosted");
        let id = format!("hosted-{}", self.count("hosted"));
        self.change(|state| {
            state.hosted.insert(id.clone(), task);
        });
        id
    }

    /// A hosted task as it is.
    pub fn hosted(&self, id: &str) -> Option<Hosted> {
        self.0.state.lock().hosted.get(id).cloned()
    }

    /// Moves a hosted task, unless it has ended.
    pub fn change_hosted(&self, id: &str, change: impl FnOnce(&mut Hosted)) {
        self.change(|state| {
            if let Some(task) = state.hosted.get_mut(id)
                && !matches!(task.status.as_str(), "completed" | "failed" | "cancelled")
            {
                change(task);
                task.changes += 1;
            }
        });
    }

    /// Takes the answer to a question of a hosted task, once.
    pub fn answer_hosted(&self, id: &str, key: &str, answer: Value) {
        self.change_hosted(id, |task| {
            if let Some((_, given @ None)) = task.questions.get_mut(key) {
                *given = Some(answer);
            }
        });
    }

    /// Waits until this is true of a hosted task.
    pub async fn wait_hosted(&self, id: &str, is: impl Fn(&Hosted) -> bool) {
        self.wait(|board| board.hosted(id).is_none_or(|task| is(&task))).await;
    }

    /// Forgets all hosted tasks, as a server does that keeps them in memory.
    pub fn forget_hosted(&self) {
        self.change(|state| state.hosted.clear());
    }

    /// Holds handles back until the gate `handles` is open.
    pub fn hold_handles(&self) {
        self.0.state.lock().holds_handles = true;
    }

    /// Whether handles are held back.
    pub fn holds_handles(&self) -> bool {
        self.0.state.lock().holds_handles
    }

    /// Opens a gate: whoever waits for it goes on, now and later.
    pub fn open(&self, gate: &str) {
        self.change(|state| {
            state.open.insert(gate.to_owned());
        });
    }

    /// Waits for a gate.
    pub async fn pass(&self, gate: &str) {
        self.wait(|board| board.0.state.lock().open.contains(gate)).await;
    }

    /// Waits until something is the case.
    pub async fn until(&self, what: &str, is: impl Fn(&Board) -> bool) {
        soon(what, self.wait(is)).await;
    }

    async fn wait(&self, is: impl Fn(&Board) -> bool) {
        loop {
            let changed = self.0.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if is(self) {
                return;
            }
            changed.await;
        }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.0.state.lock());
        self.0.changed.notify_waiters();
    }
}
