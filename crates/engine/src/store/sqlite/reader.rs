use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};
use rusqlite::Connection;

use super::failed;
use super::open::Connections;
use crate::StoreError;

/// A few connections that read, shared by all threads.
#[derive(Debug)]
pub(super) struct Readers {
    connections: Connections,
    commits: Arc<Commits>,
    slots: Box<[Mutex<Option<Reader>>]>,
    turn: AtomicUsize,
}

/// Counts the commits of the only writer: odd while one is under way.
///
/// A reader takes and gives back a lock of the file for every question, which is about a third of what a lookup
/// costs. While this number stands still nothing has changed, and one lock serves many questions.
#[derive(Debug, Default)]
pub(super) struct Commits(AtomicU64);

impl Commits {
    /// A commit begins. From here on no reader answers from an older moment, so that nobody who has seen the commit
    /// can afterwards be told what was before.
    pub(super) fn begin(&self) {
        self.0.fetch_or(1, Ordering::SeqCst);
    }

    /// It has ended, one way or the other. Only now is anybody told of it.
    pub(super) fn end(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// The number, if no commit is under way.
    fn settled(&self) -> Option<u64> {
        let number = self.0.load(Ordering::SeqCst);
        (number & 1 == 0).then_some(number)
    }
}

/// A connection, and the moment it stands at.
#[derive(Debug)]
struct Reader {
    db: Connection,
    /// The commits that had been made at the last question.
    seen: Option<u64>,
    /// Whether a transaction is open that began with no other commits than those.
    standing: bool,
}

impl Readers {
    /// Room for `count` readers; none is opened before it is needed.
    pub(super) fn new(connections: Connections, commits: Arc<Commits>, count: usize) -> Self {
        let slots = (0..count.max(1)).map(|_| Mutex::new(None)).collect();
        Readers { connections, commits, slots, turn: AtomicUsize::new(0) }
    }

    /// What they go by.
    #[cfg(test)]
    pub(super) fn commits(&self) -> &Arc<Commits> {
        &self.commits
    }

    /// Runs `read` on a connection nobody else is using. It sees every commit that anybody was told of.
    pub(super) fn with<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut slot = self.free_slot();
        let reader = match &mut *slot {
            Some(reader) => reader,
            empty => empty.insert(Reader { db: self.connections.reader()?, seen: None, standing: false }),
        };
        let done = reader.stand(self.commits.settled()).and_then(|()| read(&reader.db));
        if done.is_err() {
            // Whatever state it is in, the next question gets a fresh one.
            *slot = None;
        }
        done
    }

    /// Lets go of the moments readers stand at: a checkpoint cannot start the log over while one does.
    pub(super) fn let_go(&self) {
        for slot in &self.slots {
            let mut slot = slot.lock();
            if slot.as_mut().is_some_and(|reader| reader.leave().is_err()) {
                *slot = None;
            }
        }
    }

    /// The first free slot, so that light load keeps to one connection with a warm cache; when none is free,
    /// the callers wait spread over all of them.
    fn free_slot(&self) -> MutexGuard<'_, Option<Reader>> {
        self.slots.iter().find_map(Mutex::try_lock).unwrap_or_else(|| {
            let turn = self.turn.fetch_add(1, Ordering::Relaxed);
            self.slots[turn % self.slots.len()].lock()
        })
    }
}

impl Reader {
    /// Stays at its moment if nothing was committed since, and leaves it otherwise. A second question without a commit
    /// in between opens the transaction for those that follow; under steady writes it would not pay.
    fn stand(&mut self, settled: Option<u64>) -> Result<(), StoreError> {
        let unchanged = settled.is_some() && settled == self.seen;
        self.seen = settled;
        if !unchanged {
            self.leave()
        } else if !self.standing {
            self.standing = true;
            self.run("BEGIN")
        } else {
            Ok(())
        }
    }

    fn leave(&mut self) -> Result<(), StoreError> {
        if std::mem::take(&mut self.standing) { self.run("COMMIT") } else { Ok(()) }
    }

    fn run(&self, sql: &str) -> Result<(), StoreError> {
        self.db.prepare_cached(sql).and_then(|mut statement| statement.execute([])).map_err(failed)?;
        Ok(())
    }
}
