//! How many of something there are at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many places are taken.
#[derive(Debug, Default)]
pub struct Room(AtomicUsize);

/// A place; dropping it frees it.
#[derive(Debug)]
pub struct Place(Arc<Room>);

impl Room {
    /// Takes a place, if fewer than `most` are taken.
    pub fn enter(self: &Arc<Self>, most: usize) -> Option<Place> {
        let more = |count| (count < most).then_some(count + 1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Place(self.clone()))
    }

    /// How many places are taken.
    pub fn taken(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}
