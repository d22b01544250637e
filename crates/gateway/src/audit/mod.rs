//! The audit log: one line of JSON for everything that happens to a task, for whoever reads one, and for whoever is refused.
//!
//! It is not the debug log, and it is not the store's events, which have every change with its commit: it says who has asked
//! for what, from where, and it is kept elsewhere. Nothing of what is sent with a call, of its result, or of what a tool says of
//! its progress stands in it.

mod asked;
mod line;
mod store;
#[cfg(test)]
mod tests;
mod writer;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use taskgate_task::NodeId;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

pub use asked::{Asked, Client, carried, found, refused, told};
pub use line::{Line, Reason};
pub use store::Audited;

use crate::gateway::Gateway;
use writer::{Order, Writer};

/// How many lines may wait to be written. Whoever has another one waits.
const MOST_WAITING: usize = 4096;
/// How many lines about those who were turned away may wait for a place in that queue. Others are lost, and counted.
const MOST_SOON: usize = 1024;
/// How long a line about what was only read or refused waits for a place.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long the end of the program waits for what is not written yet.
const LAST_LINES: Duration = Duration::from_secs(5);

/// What is kept of who has done what, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditSettings {
    /// Where lines go.
    pub to: AuditPlace,
    /// What happens while they cannot be written.
    pub on_failure: OnAuditFailure,
}

/// Where lines of the audit log go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuditPlace {
    /// The end of a file, which is made for its owner alone to read if it is not there.
    File(PathBuf),
    /// Standard output. Not for a server on stdio, whose client would read them.
    Stdout,
    /// Standard error, where the debug log goes, too.
    Stderr,
}

/// What happens while the audit log cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnAuditFailure {
    /// The lines are lost and counted; the work goes on.
    #[default]
    Log,
    /// Calls of tools are refused, and the lines are kept until they can be written.
    Refuse,
}

/// The audit log of this process. Cheap to clone.
#[derive(Clone)]
pub struct Audit(Arc<Inner>);

struct Inner {
    orders: mpsc::Sender<Order>,
    state: Arc<State>,
    node: Mutex<Option<NodeId>>,
    /// Room for lines of those who do not wait for them.
    soon: Arc<Semaphore>,
}

/// How the writing goes.
#[derive(Debug, Default)]
pub struct State {
    /// Lines that were written.
    pub written: Counter,
    /// Lines that could not be written, and are lost.
    pub lost: Counter,
    /// The last attempt failed.
    pub is_failing: AtomicBool,
    keeps: bool,
}

impl Audit {
    /// Opens it. Must be called within a tokio runtime.
    ///
    /// # Errors
    ///
    /// Why the file cannot be opened.
    pub fn open(settings: &AuditSettings) -> Result<Audit, String> {
        let keeps = settings.on_failure == OnAuditFailure::Refuse;
        let state = Arc::new(State { keeps, ..State::default() });
        let (orders, received) = mpsc::channel(MOST_WAITING);
        let writer = Writer::open(&settings.to, received, state.clone())?;
        tokio::spawn(writer.run());
        let soon = Arc::new(Semaphore::new(MOST_SOON));
        Ok(Audit(Arc::new(Inner { orders, state, node: Mutex::default(), soon })))
    }

    /// How the writing goes.
    pub fn state(&self) -> &State {
        &self.0.state
    }

    /// Whether work may not begin because nothing of it could be written.
    pub fn refuses_work(&self) -> bool {
        self.0.state.keeps && self.0.state.is_failing.load(Ordering::Relaxed)
    }

    /// This process is this node from now on.
    fn is_node(&self, node: NodeId) {
        *self.0.node.lock() = Some(node);
    }

    /// Puts a line in the queue. Waits while too many wait there.
    pub async fn put(&self, line: Line<'_>) {
        // The writer ends when nobody can send any more, so there is one.
        let _ = self.0.orders.send(Order::Line(self.text(line), None)).await;
    }

    /// The same, and waits until it was handed to the operating system, or could not be.
    async fn put_and_see(&self, line: Line<'_>) {
        let (done, seen) = oneshot::channel();
        if self.0.orders.send(Order::Line(self.text(line), Some(done))).await.is_ok() {
            let _ = seen.await;
        }
    }

    fn text(&self, line: Line<'_>) -> String {
        let node = *self.0.node.lock();
        line.text(node)
    }

    /// The same for a line about what was only read or refused: if the queue has no room for it in time, it is lost, and counted.
    pub async fn put_in_time(&self, line: Line<'_>) {
        self.put_all_in_time([line]).await;
    }

    /// The same for several: they wait no longer together than one does.
    pub async fn put_all_in_time<'a>(&self, lines: impl IntoIterator<Item = Line<'a>>) {
        let deadline = Instant::now() + PATIENCE;
        for line in lines {
            let sending = self.0.orders.send(Order::Line(self.text(line), None));
            if !matches!(timeout_at(deadline, sending).await, Ok(Ok(()))) {
                self.0.state.lost.inc();
            }
        }
    }

    /// Puts a line in the queue for whoever cannot wait. There is a most of these: those who cause them need have shown nothing.
    fn put_soon(&self, line: Line<'_>) {
        let Ok(room) = self.0.soon.clone().try_acquire_owned() else {
            self.0.state.lost.inc();
            return;
        };
        let (audit, text) = (self.clone(), self.text(line));
        tokio::spawn(async move {
            let _room = room;
            let _ = audit.0.orders.send(Order::Line(text, None)).await;
        });
    }

    /// Opens the file again, as it must be after it was moved away.
    pub fn reopen(&self) {
        let audit = self.clone();
        tokio::spawn(async move {
            let _ = audit.0.orders.send(Order::Reopen).await;
        });
    }

    /// Resolves when everything so far was written, or it takes too long.
    pub async fn flush(&self) {
        let (done, flushed) = oneshot::channel();
        let flushing = async {
            if self.0.orders.send(Order::Flush(done)).await.is_ok() {
                let _ = flushed.await;
            }
        };
        if tokio::time::timeout(LAST_LINES, flushing).await.is_err() {
            tracing::error!("the last lines of the audit log could not be written");
        }
    }
}

impl Gateway {
    /// Says that a request is refused before anybody has looked at what it asks: it is answered at once whatever becomes of the
    /// line, as nothing was done. `line` is only asked for where there is an audit log.
    pub(crate) fn turned_away<'a>(&self, reason: Reason, line: impl FnOnce(Line<'a>) -> Line<'a>) {
        if let Some(audit) = &self.0.audit {
            audit.put_soon(line(Line { reason: Some(reason), ..Line::now("refusal") }));
        }
    }
}

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Audit").field("state", &self.0.state).finish_non_exhaustive()
    }
}
