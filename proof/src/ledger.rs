//! What clients were told, and when: the log that the checker holds against the store.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// One thing a client has learnt from one request, or that it learnt nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    /// A call became this task.
    Handle {
        /// Its id.
        task: String,
        /// The label of the call.
        label: String,
    },
    /// The task stands like this.
    Told {
        /// Its id.
        task: String,
        /// The status word, or `ended` where the answer only says that much.
        status: String,
        /// Which request in which words was answered. The answers to the same one about a task that has ended are equal.
        how: &'static str,
        /// The keys of its open questions.
        open: Vec<String>,
        /// The answer as it came.
        raw: String,
        /// The text of the result, if there is one.
        text: Option<String>,
    },
    /// There is no such task.
    Unknown {
        /// Its id.
        task: String,
    },
    /// An answer to a question was acknowledged or, if not, may or may not have arrived.
    Answered {
        /// Its id.
        task: String,
        /// The question's key.
        key: String,
        /// The answer; no other one is equal.
        value: String,
        /// Whether the server has acknowledged it.
        acknowledged: bool,
    },
    /// The cancelling of this task was acknowledged.
    Cancelled {
        /// Its id.
        task: String,
    },
    /// Some other error.
    Refused {
        /// The request.
        what: String,
        /// The error as it came.
        error: String,
    },
    /// No answer came: the server may or may not have acted.
    Silence {
        /// The request.
        what: String,
    },
}

/// A fact with its time: the request left at or after `since`, and the answer was here at `until`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// When the request was about to leave, counted from the ledger's beginning.
    pub since: Duration,
    /// When the answer was here.
    pub until: Duration,
    /// Which client.
    pub client: String,
    /// Through which node or address.
    pub node: String,
    /// What it learnt.
    pub fact: Fact,
}

impl Entry {
    /// Whether the answer brings the result along, if there is one.
    pub fn is_whole(&self) -> bool {
        matches!(&self.fact, Fact::Told { how, .. } if *how == MODERN_GET || *how == SESSION_RESULT)
    }
}

/// [`Fact::Told`] by `tasks/get` in the words of 2026-07-28.
pub const MODERN_GET: &str = "2026-07-28 tasks/get";
/// [`Fact::Told`] by `tasks/get` in the words of 2025-11-25.
pub const SESSION_GET: &str = "2025-11-25 tasks/get";
/// [`Fact::Told`] by `tasks/result` in the words of 2025-11-25.
pub const SESSION_RESULT: &str = "2025-11-25 tasks/result";

/// The log of all clients of a test, on one clock.
pub struct Ledger {
    start: Instant,
    entries: Mutex<Vec<Entry>>,
    grown: Condvar,
}

impl Default for Ledger {
    fn default() -> Self {
        Ledger { start: Instant::now(), entries: Mutex::default(), grown: Condvar::new() }
    }
}

impl Ledger {
    /// The time on its clock.
    pub fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Adds what a client has learnt just now.
    pub fn add(&self, since: Duration, client: &str, node: &str, fact: Fact) {
        let (client, node) = (client.to_owned(), node.to_owned());
        let mut entries = self.lock();
        // Taken under the lock, so that entries are in the order of their ends.
        entries.push(Entry { since, until: self.now(), client, node, fact });
        self.grown.notify_all();
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Everything so far.
    pub fn entries(&self) -> Vec<Entry> {
        self.lock().clone()
    }

    /// The labels of all tasks whose handle somebody has, by id.
    pub fn handles(&self) -> BTreeMap<String, String> {
        let entries = self.lock();
        let handles = entries.iter().filter_map(|entry| match &entry.fact {
            Fact::Handle { task, label } => Some((task.clone(), label.clone())),
            _ => None,
        });
        handles.collect()
    }

    /// Waits until there are this many entries, or until nobody writes any more.
    pub fn wait_for(&self, count: usize, patience: Duration) {
        let entries = self.lock();
        let _ = self.grown.wait_timeout_while(entries, patience, |entries| entries.len() < count);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().expect("nobody panics with it")
    }
}
