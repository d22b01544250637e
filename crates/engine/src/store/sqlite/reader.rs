use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};
use rusqlite::Connection;

use super::open::Connections;
use crate::StoreError;

/// A few connections that read, shared by all threads.
#[derive(Debug)]
pub(super) struct Readers {
    connections: Connections,
    slots: Box<[Mutex<Option<Connection>>]>,
    turn: AtomicUsize,
}

impl Readers {
    /// Room for `count` readers; none is opened before it is needed.
    pub(super) fn new(connections: Connections, count: usize) -> Self {
        let slots = (0..count.max(1)).map(|_| Mutex::new(None)).collect();
        Readers { connections, slots, turn: AtomicUsize::new(0) }
    }

    /// Runs `read` on a connection nobody else is using.
    pub(super) fn with<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut slot = self.free_slot();
        match &mut *slot {
            Some(db) => read(db),
            empty => read(empty.insert(self.connections.reader()?)),
        }
    }

    /// The first free slot, so that light load keeps to one connection with a warm cache; when none is free,
    /// the callers wait spread over all of them.
    fn free_slot(&self) -> MutexGuard<'_, Option<Connection>> {
        self.slots.iter().find_map(Mutex::try_lock).unwrap_or_else(|| {
            let turn = self.turn.fetch_add(1, Ordering::Relaxed);
            self.slots[turn % self.slots.len()].lock()
        })
    }
}
