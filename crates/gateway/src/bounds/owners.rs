//! What each owner uses at the moment.
//!
//! Only owners that use something, or did a moment ago, are kept: a flood of new ones is forgotten as fast as it comes.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::RwLock;
use tokio::time::Instant;

use super::LimitSettings;
use super::count::Room;
use super::rate::Rate;
use super::tasks::Tasks;
use super::turns::Line;

/// So many parts, so that owners seldom meet at a lock.
const PARTS: usize = 16;
/// How long an owner is kept that uses nothing, in seconds: longer than any rate looks back.
const KEPT_FOR: u64 = 120;
/// From how many owners in a part on it is looked for what can be forgotten.
const MANY: usize = 1024;

/// What one owner uses.
pub struct OwnerUse {
    /// Whether its limits hold. Callers without a session that are not known are one owner to their tasks, but not one caller.
    pub is_bounded: bool,
    /// Its tasks.
    pub tasks: Tasks,
    /// Its calls that run or wait for their turn.
    pub line: Line,
    /// Its streams.
    pub streams: Arc<Room>,
    /// Its calls that wait for answers.
    pub parked: Arc<Room>,
    /// How often it may make a task.
    pub creates: Option<Rate>,
    /// How often it may ask for one.
    pub polls: Option<Rate>,
    /// How often it may ask for what there is not, before that takes longer.
    pub unknown: Option<Rate>,
    /// How many of such answers wait.
    pub delayed: AtomicUsize,
    used_at: AtomicU64,
}

impl OwnerUse {
    pub fn new(settings: &LimitSettings, is_bounded: bool) -> Self {
        let rate = |number: Option<usize>, burst| number.map(|number| Rate::per_second(number, burst));
        OwnerUse {
            is_bounded,
            tasks: Tasks::new(),
            line: Line::default(),
            streams: Arc::default(),
            parked: Arc::default(),
            creates: rate(settings.owner_creates, settings.owner_creates_burst).filter(|_| is_bounded),
            polls: rate(settings.owner_polls, settings.owner_polls_burst).filter(|_| is_bounded),
            unknown: settings.unknown_ids.map(Rate::per_minute),
            delayed: AtomicUsize::new(0),
            used_at: AtomicU64::new(0),
        }
    }

    fn is_idle(&self, now: u64) -> bool {
        now.saturating_sub(self.used_at.load(Ordering::Relaxed)) >= KEPT_FOR
            && self.line.is_idle()
            && self.streams.taken() == 0
            && self.parked.taken() == 0
    }
}

/// The owners that use something.
pub struct Owners {
    parts: [RwLock<Part>; PARTS],
    hasher: RandomState,
    began: Instant,
}

#[derive(Default)]
struct Part {
    by_name: HashMap<Box<str>, Arc<OwnerUse>>,
    /// How many there were after what could be forgotten was last looked for.
    were: usize,
}

impl Owners {
    pub fn new() -> Self {
        Owners { parts: Default::default(), hasher: RandomState::new(), began: Instant::now() }
    }

    /// What this owner uses. It is kept for as long as somebody has it.
    pub fn of(&self, name: &str, settings: &LimitSettings) -> Arc<OwnerUse> {
        let now = self.now();
        let part = &self.parts[self.hasher.hash_one(name) as usize % PARTS];
        if let Some(found) = part.read().by_name.get(name) {
            found.used_at.store(now, Ordering::Relaxed);
            return found.clone();
        }
        let mut part = part.write();
        if part.by_name.len() >= MANY.max(2 * part.were) {
            part.forget(now);
        }
        let made = part.by_name.entry(name.into()).or_insert_with(|| Arc::new(OwnerUse::new(settings, true)));
        made.used_at.store(now, Ordering::Relaxed);
        made.clone()
    }

    /// Forgets who uses nothing.
    pub fn tidy(&self) {
        let now = self.now();
        self.parts.iter().for_each(|part| part.write().forget(now));
    }

    /// How many are kept.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.parts.iter().map(|part| part.read().by_name.len()).sum()
    }

    fn now(&self) -> u64 {
        self.began.elapsed().as_secs()
    }
}

impl Part {
    fn forget(&mut self, now: u64) {
        self.by_name.retain(|_, owner| Arc::strong_count(owner) > 1 || !owner.is_idle(now));
        self.by_name.shrink_to(2 * self.by_name.len());
        self.were = self.by_name.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_owners_is_forgotten_and_whoever_uses_something_is_not() {
        let (owners, settings) = (Owners::new(), LimitSettings::default());
        let kept = owners.of("kept", &settings);
        let streams = kept.streams.clone();
        drop(kept);
        let stream = streams.enter(1).expect("room");
        for round in 0..4 {
            for number in 0..10_000 {
                owners.of(&format!("{round} {number}"), &settings);
            }
            tokio::time::advance(std::time::Duration::from_secs(KEPT_FOR)).await;
        }
        // Even before anybody tidies up.
        assert!(owners.len() < 25_000, "{}", owners.len());
        owners.tidy();
        assert_eq!(owners.len(), 1);
        assert!(owners.of("kept", &settings).streams.enter(1).is_none(), "it is the same owner");
        drop(stream);
        assert!(owners.of("kept", &settings).streams.enter(1).is_some());
    }
}
