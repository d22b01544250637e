//! One conversation with one server: opening it, calling, and hearing what the server says.

mod attribution;
mod call;
mod event;
mod lane;
mod mailbox;
mod notifications;
mod open;
mod options;
mod outbox;
mod params;
mod question;
mod reader;
mod shared;
mod table;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Weak};

use serde::Deserialize;
use serde_json::value::RawValue;
use taskgate_task::Payload;
use taskgate_wire::dialect::d2025_10_20;
use taskgate_wire::{Message, method};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::transport::http::Named;
use crate::transport::{CloseCause, CloseReason, Link};
use call::PendingCall as Call;
use params::Stamp;
use shared::{Lifeline, Shared};
use table::{Entry, Kind};

pub use call::PendingCall;
pub use event::{CallEvent, CallFailure, Question, TaskRequest};
pub use lane::{Lane, LaneDescription, Lanes, ServerDescription};
pub use notifications::{Heard, Notifications};
pub use open::OpenError;
pub use options::{CallOptions, OpenOptions};
pub use question::QuestionReply;

/// An open conversation with a server. Clones share it; it is closed when the last clone and the last call are gone.
#[derive(Debug, Clone)]
pub struct Session {
    line: Arc<Lifeline>,
    about: Arc<About>,
}

#[derive(Debug)]
struct About {
    lanes: Lanes,
    server: ServerDescription,
    client_info: Payload,
    capabilities: Payload,
}

impl Session {
    /// Opens a session: finds out what the server speaks, with `server/discover` and `initialize` as needed.
    pub async fn open(link: Link, options: OpenOptions) -> Result<Session, OpenError> {
        let shared = Arc::new(Shared::new(&link));
        // Before anything can arrive.
        shared.host.lock().clone_from(&options.host);
        let line = Arc::new(Lifeline(shared.clone()));
        tokio::spawn(reader::run(shared, link));
        let (lanes, server) = open::open(&line, &options).await?;
        let OpenOptions { client_info, capabilities, .. } = options;
        Ok(Session { line, about: Arc::new(About { lanes, server, client_info, capabilities }) })
    }

    /// Which lanes can be used. There is at least one.
    pub fn lanes(&self) -> Lanes {
        self.about.lanes
    }

    /// What the server said of itself.
    pub fn server(&self) -> &ServerDescription {
        &self.about.server
    }

    /// What we declare where a call brings no capabilities of its own.
    pub fn capabilities(&self) -> &Payload {
        &self.about.capabilities
    }

    /// The session as its server calls it, over HTTP and up to 2025-11-25.
    pub fn named(&self) -> Option<&Named> {
        self.line.0.named.as_ref()
    }

    /// The session of this name at the same server, which was opened before; `None` where sessions have no names. Whether the
    /// server still has it is found out by asking. Whoever asks for the same one shares it.
    pub fn resumed(&self, name: &str) -> Option<Session> {
        let mut all = self.line.0.resumed.lock();
        let works = |line: &Arc<Lifeline>| line.0.stale.borrow().is_none();
        let line = match all.get(name).and_then(Weak::upgrade).filter(works) {
            Some(line) => line,
            None => {
                let link = self.named()?.link_to(name).ok()?;
                let shared = Arc::new(Shared::new(&link));
                let line = Arc::new(Lifeline(shared.clone()));
                tokio::spawn(reader::run(shared, link));
                all.retain(|_, line| line.strong_count() > 0);
                all.insert(name.to_owned(), Arc::downgrade(&line));
                line
            }
        };
        Some(Session { line, about: self.about.clone() })
    }

    /// The process at the other end, if there is one.
    pub fn process(&self) -> Option<&crate::transport::stdio::ProcessControl> {
        self.line.0.control.as_ref()
    }

    /// Makes a call. It is sent at once; the id and the progress token are ours, the lane's metadata is put into
    /// `_meta`, and the rest of the params stays byte for byte.
    ///
    /// A call at 2025-11-25 that asks for a task must not be cancelled by dropping it: wait for the task and cancel
    /// that.
    pub fn call(
        &self,
        lane: Lane,
        method: &str,
        params: Option<&RawValue>,
        options: CallOptions,
    ) -> PendingCall {
        let CallOptions { owner, capabilities, client_info } = options;
        let stamp = match lane {
            Lane::Modern(version) => Stamp::Modern {
                version,
                info: client_info.as_ref().unwrap_or(&self.about.client_info).as_raw(),
                capabilities: capabilities.as_ref().unwrap_or(&self.about.capabilities).as_raw(),
            },
            Lane::Legacy(_) => Stamp::Legacy,
        };
        let mut entry = Entry { owner, capabilities: capabilities.clone(), ..Entry::new(kind(method)) };
        entry.task = match entry.kind {
            Kind::Waiting => params.and_then(task_id),
            // Questions of a call that is a task by its metadata name that.
            Kind::Plain => params.and_then(d2025_10_20::requestor::made_by),
            Kind::Quiet | Kind::Opening | Kind::Listen => None,
        };
        Call::start(&self.line, method, entry, |number| {
            params::stamp(params, number, &stamp)
                .map(Some)
                .map_err(|error| CallFailure::Params(error.to_string()))
        })
    }

    /// Sends a notification.
    pub fn notify(&self, method: &str, params: Option<Payload>) {
        self.line.0.outbox.send(Message::Notification { method: method.to_owned(), params });
    }

    /// When a question of the server was last refused because calls of several callers were in flight. Each of the calls that
    /// were in flight then, except for bookkeeping, had its part in that.
    pub fn ambiguous_at(&self) -> Option<Instant> {
        self.line.0.table.lock().ambiguous_at
    }

    /// What the server says apart from calls. The first stream starts with what was said since the session was
    /// opened, later ones with what comes next.
    pub fn notifications(&self) -> Notifications {
        self.line.0.listen()
    }

    /// Waits until the connection has ended.
    pub async fn closed(&self) -> CloseReason {
        reason_of(self.line.0.closed.subscribe()).await
    }

    /// Waits until new calls should be made on another connection: this one has ended, or its server cannot be reached or has
    /// lost the session. Calls in flight go on as long as they can.
    pub async fn stale(&self) -> CloseReason {
        reason_of(self.line.0.stale.subscribe()).await
    }

    /// Whether that is so already.
    pub fn is_stale(&self) -> bool {
        self.line.0.stale.borrow().is_some()
    }

    /// Makes it stale, where another connection is to take over: calls in flight go on, new ones should be made there.
    pub fn retire(&self) {
        self.line.0.outdate(CloseReason::new(CloseCause::Requested));
    }

    /// Ends the connection: calls in flight fail, and a process at the other end is stopped, or a server told that its session
    /// is over, before this returns.
    pub async fn close(&self) {
        self.line.0.close(CloseReason::new(CloseCause::Requested));
        if let Some(control) = &self.line.0.control {
            control.stop();
            control.ended().await;
        }
        if let Some(mut farewell) = self.line.0.farewell.clone() {
            // Nothing is ever sent there: it ends.
            let _ = farewell.changed().await;
        }
    }
}

/// The reason, as soon as there is one.
async fn reason_of(mut reason: watch::Receiver<Option<CloseReason>>) -> CloseReason {
    match reason.wait_for(Option::is_some).await {
        Ok(reason) => reason.clone(),
        Err(_) => None,
    }
    .unwrap_or_else(|| CloseReason::new(CloseCause::PeerClosed))
}

/// What a method means for the questions that may come during it.
fn kind(method: &str) -> Kind {
    match method {
        method::LISTEN => Kind::Listen,
        method::TASKS_RESULT => Kind::Waiting,
        method::PING
        | method::SET_LEVEL
        | method::TOOLS_LIST
        | method::TASKS_GET
        | method::TASKS_LIST
        | method::TASKS_CANCEL
        | method::TASKS_DELETE
        | method::TASKS_UPDATE => Kind::Quiet,
        _ => Kind::Plain,
    }
}

/// The task a request is about.
fn task_id(params: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct About {
        #[serde(rename = "taskId")]
        task_id: String,
    }
    serde_json::from_str(params.get()).map(|About { task_id }| task_id).ok()
}
