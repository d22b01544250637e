//! Who may run a call next: so many at a time, and each owner in turn.
//!
//! As long as there is room, a call takes two counters up and is not held up by any lock. Where there is none, calls wait in a line for
//! each owner, and the owners that have one take turns: whoever has a thousand calls waiting delays the next owner's only call by one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::owners::OwnerUse;
use super::{Limit, LimitSettings, Refusal};

/// The calls that run and those that wait.
pub struct Turns {
    calls: usize,
    owner_calls: usize,
    queue: usize,
    owner_queue: usize,
    running: AtomicUsize,
    waiting: AtomicUsize,
    /// The owners that have calls waiting, each once, in the order of their turns.
    ring: Mutex<VecDeque<Arc<OwnerUse>>>,
}

/// The calls of one owner.
#[derive(Default)]
pub struct Line {
    running: AtomicUsize,
    /// Only looked at by whoever holds the ring.
    waiting: Mutex<VecDeque<oneshot::Sender<Permit>>>,
}

/// A call may run for as long as this is kept.
pub struct Permit(Option<(Arc<Turns>, Arc<OwnerUse>)>);

/// A call that may run or has a place in its line.
pub struct Ticket(State);

enum State {
    Now(Permit),
    Queued { turns: Arc<Turns>, owner: Arc<OwnerUse>, turn: Option<oneshot::Receiver<Permit>> },
}

impl Turns {
    pub fn new(settings: &LimitSettings) -> Arc<Turns> {
        Arc::new(Turns {
            calls: settings.calls.unwrap_or(usize::MAX),
            owner_calls: settings.owner_calls.unwrap_or(usize::MAX),
            queue: settings.queue,
            owner_queue: settings.owner_queue,
            running: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            ring: Mutex::default(),
        })
    }

    /// How many run.
    pub fn running(&self) -> usize {
        self.running.load(Ordering::Relaxed)
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// A place for a call of this owner.
    pub fn admit(self: &Arc<Self>, owner: &Arc<OwnerUse>) -> Result<Ticket, Refusal> {
        self.enter(owner, true)
    }

    /// The same for a call that was admitted before, which nobody is there to hear refused.
    pub fn admit_again(self: &Arc<Self>, owner: &Arc<OwnerUse>) -> Ticket {
        self.enter(owner, false).unwrap_or_else(|_| self.admit_running(owner))
    }

    /// For work that goes on elsewhere already, whatever is counted here.
    pub fn admit_running(self: &Arc<Self>, owner: &Arc<OwnerUse>) -> Ticket {
        self.running.fetch_add(1, Ordering::SeqCst);
        owner.line.running.fetch_add(1, Ordering::SeqCst);
        Ticket(State::Now(Permit(Some((self.clone(), owner.clone())))))
    }

    fn enter(self: &Arc<Self>, owner: &Arc<OwnerUse>, may_refuse: bool) -> Result<Ticket, Refusal> {
        // Nobody overtakes those who wait.
        if self.waiting.load(Ordering::SeqCst) == 0
            && let Some(permit) = self.take(owner)
        {
            return Ok(Ticket(State::Now(permit)));
        }
        let (sender, turn) = oneshot::channel();
        let mut ring = self.ring.lock();
        let mut line = owner.line.waiting.lock();
        if may_refuse && self.waiting.load(Ordering::SeqCst) >= self.queue {
            // Whoever has room of its own need not wait, and is served below if it is let in for that.
            drop(line);
            return match self.take(owner).filter(|_| !ring.iter().any(|other| Arc::ptr_eq(other, owner))) {
                Some(permit) => Ok(Ticket(State::Now(permit))),
                None => Err(Refusal::new(Limit::Queue, self.queue)),
            };
        }
        if may_refuse && owner.is_bounded && line.len() >= self.owner_queue {
            return Err(Refusal::new(Limit::OwnerQueue, self.owner_queue));
        }
        if line.is_empty() {
            ring.push_back(owner.clone());
        }
        line.push_back(sender);
        drop(line);
        self.waiting.fetch_add(1, Ordering::SeqCst);
        // A call may have ended since there was no room.
        self.grant(&mut ring);
        Ok(Ticket(State::Queued { turns: self.clone(), owner: owner.clone(), turn: Some(turn) }))
    }

    /// Takes room for a call, if there is any.
    fn take(self: &Arc<Self>, owner: &Arc<OwnerUse>) -> Option<Permit> {
        let one_more = |count: &AtomicUsize, most: usize| {
            let more = |count| (count < most).then_some(count + 1);
            count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).is_ok()
        };
        let most = if owner.is_bounded { self.owner_calls } else { usize::MAX };
        // The owner's first: giving back what is the owner's own cannot keep anybody else from a turn.
        if !one_more(&owner.line.running, most) {
            return None;
        }
        if !one_more(&self.running, self.calls) {
            owner.line.running.fetch_sub(1, Ordering::SeqCst);
            return None;
        }
        Some(Permit(Some((self.clone(), owner.clone()))))
    }

    /// Gives turns to owners until there is no room, or nobody who could use it.
    fn grant(self: &Arc<Self>, ring: &mut VecDeque<Arc<OwnerUse>>) {
        let mut in_vain = 0;
        while in_vain < ring.len() && self.running.load(Ordering::SeqCst) < self.calls {
            let Some(owner) = ring.pop_front() else { return };
            let mut line = owner.line.waiting.lock();
            self.without_gone(&mut line);
            if !line.is_empty() {
                match self.take(&owner) {
                    Some(permit) => {
                        in_vain = 0;
                        if let Some(next) = line.pop_front() {
                            self.waiting.fetch_sub(1, Ordering::SeqCst);
                            // Whoever has gone meanwhile leaves the room to the next one.
                            if let Err(permit) = next.send(permit) {
                                permit.give_back();
                            }
                        }
                    }
                    None => in_vain += 1,
                }
            }
            let is_served = line.is_empty();
            drop(line);
            if !is_served {
                ring.push_back(owner);
            }
        }
    }

    /// Forgets calls that were given up.
    fn without_gone(&self, line: &mut VecDeque<oneshot::Sender<Permit>>) {
        let before = line.len();
        line.retain(|waiting| !waiting.is_closed());
        self.waiting.fetch_sub(before - line.len(), Ordering::SeqCst);
    }

    /// There is room, or somebody no longer wants it.
    fn moved(self: &Arc<Self>) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.grant(&mut self.ring.lock());
        }
    }
}

impl Line {
    /// Whether no call of the owner runs or waits.
    pub fn is_idle(&self) -> bool {
        self.running.load(Ordering::SeqCst) == 0 && self.waiting.lock().is_empty()
    }
}

impl Permit {
    /// Gives the room back without giving it to anybody.
    fn give_back(mut self) -> Option<Arc<Turns>> {
        self.free()
    }

    fn free(&mut self) -> Option<Arc<Turns>> {
        let (turns, owner) = self.0.take()?;
        owner.line.running.fetch_sub(1, Ordering::SeqCst);
        turns.running.fetch_sub(1, Ordering::SeqCst);
        Some(turns)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(turns) = self.free() {
            turns.moved();
        }
    }
}

impl Ticket {
    /// Whether the call must wait.
    pub fn waits(&self) -> bool {
        match &self.0 {
            State::Now(_) => false,
            State::Queued { turn, .. } => turn.as_ref().is_none_or(oneshot::Receiver::is_empty),
        }
    }

    /// Waits for the call's turn.
    pub async fn turn(mut self) -> Permit {
        let turn = match &mut self.0 {
            State::Now(permit) => return Permit(permit.0.take()),
            State::Queued { turn, .. } => turn,
        };
        match turn {
            // The sender lies in the line until it is used.
            Some(waiting) => waiting.await.unwrap_or(Permit(None)),
            None => Permit(None),
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let State::Queued { turns, owner, turn } = &mut self.0 {
            // First of all: what was granted and not taken is free again when this is gone.
            drop(turn.take());
            let _ring = turns.ring.lock();
            turns.without_gone(&mut owner.line.waiting.lock());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(calls: usize, owner_calls: usize, queue: usize, owner_queue: usize) -> Arc<Turns> {
        let (calls, owner_calls) = (Some(calls), Some(owner_calls));
        Turns::new(&LimitSettings { calls, owner_calls, queue, owner_queue, ..LimitSettings::default() })
    }

    fn owner() -> Arc<OwnerUse> {
        Arc::new(OwnerUse::new(&LimitSettings::default(), true))
    }

    fn granted(ticket: Ticket) -> Permit {
        assert!(!ticket.waits(), "it has its turn");
        futures_util::FutureExt::now_or_never(ticket.turn()).expect("its turn")
    }

    #[test]
    fn owners_take_turns_however_many_calls_one_of_them_has() {
        let turns = turns(1, 1, 100, 100);
        let (greedy, modest) = (owner(), owner());
        let mut running = granted(turns.admit(&greedy).expect("room"));
        let mut queued: Vec<_> = (0..50).map(|_| turns.admit(&greedy).expect("queued")).collect();
        let one = turns.admit(&modest).expect("queued");
        assert!(one.waits() && turns.waiting() == 51);
        // One of the greedy owner's calls was first in line; then it is the other's turn.
        drop(running);
        running = granted(queued.remove(0));
        assert!(one.waits());
        drop(running);
        let running = granted(one);
        assert!(queued.iter().all(Ticket::waits));
        drop(running);
        drop(granted(queued.remove(0)));
        drop(queued);
        assert_eq!((turns.running(), turns.waiting()), (0, 0));
        assert!(greedy.line.is_idle() && modest.line.is_idle());
    }

    #[test]
    fn queues_have_an_end_for_each_owner_and_for_all() {
        let turns = turns(2, 1, 3, 2);
        let (one, other, third) = (owner(), owner(), owner());
        let running = granted(turns.admit(&one).expect("room"));
        let queued: Vec<_> = (0..2).map(|_| turns.admit(&one).expect("queued")).collect();
        let refused = turns.admit(&one).err().expect("the owner's line is full");
        assert_eq!(refused, Refusal::new(Limit::OwnerQueue, 2));
        // Whoever waits for room of its own is in nobody's way.
        let of_other = granted(turns.admit(&other).expect("room"));
        let _more = turns.admit(&other).expect("queued");
        let refused = turns.admit(&third).err().expect("all is full");
        assert_eq!(refused, Refusal::new(Limit::Queue, 3));
        drop(of_other);
        drop(queued);
        drop(running);
        assert!(turns.admit(&third).is_ok());
    }

    #[test]
    fn what_is_given_up_leaves_its_place_and_a_granted_turn_goes_on() {
        let turns = turns(1, 1, 10, 10);
        let (one, other) = (owner(), owner());
        let running = granted(turns.admit(&one).expect("room"));
        let (given_up, waits) = (turns.admit(&one).expect("queued"), turns.admit(&other).ok());
        drop(running);
        // It has been granted and is never looked at.
        drop(given_up);
        drop(granted(waits.expect("queued")));
        assert_eq!((turns.running(), turns.waiting()), (0, 0));
    }

    /// However calls come and go on several threads, no more run than may, and all get their turn.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn under_a_flood_the_limit_holds_and_nobody_starves() {
        let turns = turns(4, 2, 100_000, 100_000);
        let (most, now) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut calls = tokio::task::JoinSet::new();
        for number in 0..8 {
            let owner = owner();
            for _ in 0..if number == 0 { 4000 } else { 50 } {
                let (turns, owner, most, now) = (turns.clone(), owner.clone(), most.clone(), now.clone());
                calls.spawn(async move {
                    let permit = turns.admit(&owner).expect("queued").turn().await;
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    now.fetch_sub(1, Ordering::SeqCst);
                    drop(permit);
                });
            }
        }
        let all = async { while calls.join_next().await.transpose().expect("no panic").is_some() {} };
        tokio::time::timeout(std::time::Duration::from_secs(60), all).await.expect("nobody starves");
        assert!((1..=4).contains(&most.load(Ordering::SeqCst)), "{most:?}");
        assert_eq!((turns.running(), turns.waiting()), (0, 0));
    }
}
