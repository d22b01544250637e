//! How much may be asked of this gateway: counted for each owner and in all, refused with a name, a value and a time.

mod count;
mod owners;
mod rate;
mod refusal;
mod runner;
mod settings;
mod tally;
mod tasks;
mod turns;
mod unknown;

use std::sync::Arc;

use taskgate_engine::Engine;
use taskgate_task::Owner;

use crate::route::Caller;

pub use count::{Place, Room};
pub use owners::OwnerUse;
pub use refusal::{Limit, Refusal, message_too_long};
pub use runner::{QUEUED, Turn};
pub use settings::LimitSettings;
pub use tally::{Numbers, Open};
pub use turns::{Ticket, Turns};
pub use unknown::is_unknown;

use owners::Owners;
use tasks::{Most, Tasks};

/// What is counted, and held against the settings.
pub struct Limits {
    settings: LimitSettings,
    owners: Owners,
    /// Callers that are not known and have no session.
    strangers: Arc<OwnerUse>,
    tasks: Tasks,
    turns: Arc<Turns>,
    streams: Arc<Room>,
    parked: Arc<Room>,
    delays: unknown::Delays,
    /// What has happened, for whoever watches.
    pub numbers: Numbers,
}

/// A call that may become a task.
pub struct TaskPlace {
    limits: Arc<Limits>,
    owner: Arc<OwnerUse>,
    made: Option<u64>,
}

/// A stream or a parked call, counted in all and for its owner.
pub struct Places {
    _in_all: Place,
    _of_owner: Place,
}

impl Limits {
    pub fn new(settings: LimitSettings) -> Arc<Limits> {
        Arc::new(Limits {
            owners: Owners::new(),
            strangers: Arc::new(OwnerUse::new(&settings, false)),
            tasks: Tasks::new(),
            turns: Turns::new(&settings),
            streams: Arc::default(),
            parked: Arc::default(),
            delays: unknown::Delays::new(),
            numbers: Numbers::default(),
            settings,
        })
    }

    /// What the caller uses.
    pub fn of(&self, caller: &Caller) -> Arc<OwnerUse> {
        match caller {
            Caller::Session(session) if session.owner().is_anonymous() => {
                self.owners.of(&format!("session {}", session.id()), &self.settings)
            }
            _ => self.of_owner(caller.owner()),
        }
    }

    /// What the owner uses.
    pub fn of_owner(&self, owner: &Owner) -> Arc<OwnerUse> {
        if owner.is_anonymous() {
            return self.strangers.clone();
        }
        self.owners.of(owner.as_str(), &self.settings)
    }

    /// How many bytes may wait for a client that does not read.
    pub fn backlog(&self) -> usize {
        self.settings.backlog
    }

    /// Who may run a call next.
    pub fn turns(&self) -> &Arc<Turns> {
        &self.turns
    }

    /// Forgets owners that use nothing.
    pub fn tidy(&self) {
        self.owners.tidy();
    }

    /// How many streams are open, and how many calls are parked.
    pub fn open(&self) -> (usize, usize) {
        (self.streams.taken(), self.parked.taken())
    }

    /// A place for a call that may become a task, which is kept until it has ended or has become one.
    pub async fn create(self: &Arc<Self>, caller: &Caller, engine: &Engine) -> Result<TaskPlace, Refusal> {
        let owner = self.of(caller);
        if let Some(Err(wait)) = owner.creates.as_ref().map(rate::Rate::take) {
            let value = self.settings.owner_creates.unwrap_or_default();
            return self.refused(Refusal { retry_after: wait, ..Refusal::new(Limit::OwnerCreates, value) });
        }
        let (store, is_shared) = (engine.store().as_ref(), engine.is_shared());
        // Tasks of callers that are not known have one owner, whoever made them: only what is in all can be counted of them.
        let known = Some(caller.owner()).filter(|owner| !owner.is_anonymous());
        let entered = match known {
            Some(known) => {
                let most = Most::of_owner(&self.settings);
                owner.tasks.enter(store, Some(known), &most, is_shared).await
            }
            None => owner.tasks.enter(store, None, &Most::ANY, is_shared).await,
        };
        entered.or_else(|refusal| self.refused(refusal))?;
        let most = Most::in_all(&self.settings);
        if let Err(refusal) = self.tasks.enter(store, None, &most, is_shared).await {
            owner.tasks.leave(None);
            return self.refused(refusal);
        }
        Ok(TaskPlace { limits: self.clone(), owner, made: None })
    }

    /// Whether the caller may ask for tasks now.
    pub fn poll(&self, caller: &Caller) -> Result<(), Refusal> {
        self.numbers.polls.inc();
        if self.settings.owner_polls.is_none() {
            return Ok(());
        }
        match self.of(caller).polls.as_ref().map(rate::Rate::take) {
            Some(Err(wait)) => {
                let value = self.settings.owner_polls.unwrap_or_default();
                self.refused(Refusal { retry_after: wait, ..Refusal::new(Limit::OwnerPolls, value) })
            }
            Some(Ok(())) | None => Ok(()),
        }
    }

    /// A place for a stream.
    pub fn stream(&self, caller: &Caller) -> Result<Places, Refusal> {
        let of_owner = (self.settings.owner_streams, Limit::OwnerStreams);
        let owner = self.of(caller);
        self.places(&self.streams, (self.settings.streams, Limit::Streams), &owner, &owner.streams, of_owner)
    }

    /// A place for a call that waits for answers.
    pub fn park(&self, caller: &Caller) -> Result<Places, Refusal> {
        let of_owner = (self.settings.owner_parked_calls, Limit::OwnerParkedCalls);
        let owner = self.of(caller);
        let in_all = (self.settings.parked_calls, Limit::ParkedCalls);
        self.places(&self.parked, in_all, &owner, &owner.parked, of_owner)
    }

    fn places(
        &self,
        all: &Arc<Room>,
        in_all: (Option<usize>, Limit),
        owner: &OwnerUse,
        own: &Arc<Room>,
        of_owner: (Option<usize>, Limit),
    ) -> Result<Places, Refusal> {
        let enter = |room: &Arc<Room>, (most, limit): (Option<usize>, Limit)| {
            room.enter(most.unwrap_or(usize::MAX))
                .ok_or_else(|| Refusal::new(limit, most.unwrap_or_default()))
        };
        let of_owner = if owner.is_bounded { of_owner } else { (None, of_owner.1) };
        let places = enter(own, of_owner)
            .and_then(|_of_owner| enter(all, in_all).map(|_in_all| Places { _in_all, _of_owner }));
        places.or_else(|refusal| self.refused(refusal))
    }

    /// Notes a refusal.
    pub fn refused<T>(&self, refusal: Refusal) -> Result<T, Refusal> {
        self.numbers.refusal(refusal.limit);
        Err(refusal)
    }
}

impl TaskPlace {
    /// The call has become a task, for which so many bytes were sent.
    pub fn is_task(&mut self, bytes: usize) {
        self.limits.numbers.creates.inc();
        self.made = Some(bytes as u64);
    }
}

impl Drop for TaskPlace {
    fn drop(&mut self) {
        self.owner.tasks.leave(self.made);
        self.limits.tasks.leave(self.made);
    }
}
