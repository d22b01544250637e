//! The upstreams as each owner sees them.
//!
//! The first owner who comes has the connections that are there from the start, and for most gateways that is all there ever is. Every
//! other owner, a *guest*, has connections of its own to those servers that keep something of their users in a session; they are
//! made when the guest first asks for anything, and closed when nothing of the guest's has used them for a while. Servers
//! without sessions are the same for all.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::{Mutex, RwLock};
use taskgate_engine::Runner;
use taskgate_task::Owner;
use tokio::sync::broadcast;
use tokio::time::Instant;

use crate::bounds::Limits;
use crate::policy::{Settings, UpstreamSpec};
use crate::reload::{Common, Reloaded};
use crate::route::Levels;
use crate::upstream::{Beginning, Change, Holder, Upstream};
use crate::upstreams::Upstreams;

mod changes;
mod runner;

pub(crate) use changes::Changes;

/// How long a guest waits to see whether a server that is being connected for the first time has sessions at all.
const USUAL_START: Duration = Duration::from_secs(1);
/// How many changes a slow listener may be behind its owner's own connections.
const CHANGES: usize = 128;

/// All connections to upstreams.
pub(crate) struct Pool {
    /// What holds for all of them.
    pub(crate) common: Common,
    /// The upstreams as they are configured now, with the connections that are there from the start. Replaced as a whole.
    pub(crate) all: RwLock<Upstreams>,
    /// From which level on sessions want log messages.
    pub(crate) levels: Levels,
    /// Whose those connections are.
    first: Arc<OnceLock<Owner>>,
    guests: Mutex<HashMap<Owner, Guest>>,
    idle: Duration,
    most: usize,
    /// What calls are held against.
    limits: Arc<Limits>,
}

/// An owner with connections of its own.
struct Guest {
    /// Its connections. One to a server that needs none is here until nothing goes on there.
    members: Vec<Arc<Upstream>>,
    view: Option<View>,
    /// Where they say what belongs to no call. Whoever listens there may do so for longer than they are open.
    changes: broadcast::Sender<Change>,
    used: Instant,
    /// Whether there were some before, so that those who listen may have missed something.
    was_open: bool,
}

/// All upstreams at one moment, and what a guest sees of them.
struct View {
    of: Upstreams,
    seen: Upstreams,
}

impl View {
    /// Whether it is still what it should be.
    fn fits(&self, all: &Upstreams) -> bool {
        let is_fit = |(shared, seen): (&Arc<Upstream>, &Arc<Upstream>)| {
            shared.is_for_one() != Arc::ptr_eq(shared, seen)
        };
        self.of.is(all) && all.iter().zip(self.seen.iter()).all(is_fit)
    }
}

impl Pool {
    /// One without any upstream.
    pub(crate) fn new(common: Common, settings: &Settings, limits: Arc<Limits>) -> Arc<Pool> {
        Arc::new(Pool {
            common,
            all: RwLock::new(Upstreams::new(Vec::new())),
            levels: Levels::default(),
            first: Arc::default(),
            guests: Mutex::default(),
            idle: settings.owner_session_idle,
            most: settings.max_owner_sessions,
            limits,
        })
    }

    /// Starts an upstream whose tool `own` runs, if it is no server. Whether it `is_news` to those who have asked for lists already.
    pub(crate) fn start(
        &self,
        spec: UpstreamSpec,
        own: Option<Arc<dyn Runner>>,
        is_news: bool,
    ) -> Arc<Upstream> {
        let (changes, holder) = (self.common.changes.clone(), Holder::whoever_has(&self.first));
        Upstream::start(spec, own, Beginning { changes, holder, log_level: None, is_news })
    }

    /// The upstreams as they are configured now, with the connections that are there from the start.
    pub(crate) fn all(&self) -> Upstreams {
        self.all.read().clone()
    }

    /// Whether this owner has those connections. Nobody's become the owner's by that.
    fn is_first(&self, owner: &Owner) -> bool {
        self.first.get_or_init(|| owner.clone()) == owner
    }

    /// The upstreams as this owner sees them. A guest's connections are made now, if they are not there.
    pub(crate) async fn of(&self, owner: &Owner) -> Upstreams {
        self.look(owner, true).await
    }

    /// An upstream as this owner sees it, for a task that goes on: it had its connection before, and is not turned away.
    pub(crate) async fn find(&self, name: &str, owner: &Owner) -> Option<Arc<Upstream>> {
        self.look(owner, false).await.named(name).cloned()
    }

    async fn look(&self, owner: &Owner, is_bounded: bool) -> Upstreams {
        let all = self.all();
        if self.is_first(owner) {
            return all;
        }
        if all.iter().any(|upstream| upstream.is_unknown()) {
            let known = join_all(all.iter().map(|upstream| upstream.known()));
            // One that is not known by then is taken for one that has sessions.
            let _ = Box::pin(tokio::time::timeout(USUAL_START, known)).await;
        }
        if !all.iter().any(|upstream| upstream.is_for_one()) {
            return all;
        }
        let mut guests = self.guests.lock();
        let is_open = |guest: &Guest| !guest.members.is_empty();
        if is_bounded && !guests.get(owner).is_some_and(is_open) {
            let open = guests.values().filter(|guest| is_open(guest)).count();
            if open + 1 >= self.most {
                return self.refused(owner, &all);
            }
        }
        let guest = guests.entry(owner.clone()).or_default();
        guest.used = Instant::now();
        self.arrange(owner, guest, &all)
    }

    /// What there is for this owner already.
    pub(crate) fn open_for(&self, owner: &Owner) -> Upstreams {
        let all = self.all();
        if self.is_first(owner) {
            return all;
        }
        let guests = self.guests.lock();
        match guests.get(owner).and_then(|guest| guest.view.as_ref()) {
            Some(view) if view.fits(&all) => view.seen.clone(),
            _ => Upstreams::new(all.iter().filter(|upstream| !upstream.is_for_one()).cloned().collect()),
        }
    }

    /// What a guest sees: its own connections where servers have sessions, made where there are none yet.
    fn arrange(&self, owner: &Owner, guest: &mut Guest, all: &Upstreams) -> Upstreams {
        if let Some(view) = guest.view.as_ref().filter(|view| view.fits(all)) {
            return view.seen.clone();
        }
        guest.members.retain(|member| all.named(member.name()).is_some());
        for member in &guest.members {
            let shared = all.named(member.name()).filter(|shared| shared.is_for_one());
            let spec = shared.map(|shared| shared.spec());
            if let Some(spec) = spec.filter(|spec| !spec.is_same(&member.spec())) {
                member.become_what((*spec).clone(), None);
            }
        }
        let seen = all.iter().map(|shared| {
            if !shared.is_for_one() {
                return shared.clone();
            }
            let known = guest.members.iter().find(|member| member.name() == shared.name());
            known.cloned().unwrap_or_else(|| {
                let beginning = Beginning {
                    changes: guest.changes.clone(),
                    holder: Holder::of(owner.clone()),
                    log_level: self.levels.most_talkative(Some(owner)),
                    is_news: guest.was_open,
                };
                let member = Upstream::start((*shared.spec()).clone(), None, beginning);
                guest.members.push(member.clone());
                member
            })
        });
        let seen = Upstreams::new(seen.collect());
        guest.view = Some(View { of: all.clone(), seen: seen.clone() });
        seen
    }

    /// What an owner sees for whom there is no room.
    fn refused(&self, owner: &Owner, all: &Upstreams) -> Upstreams {
        let why = format!(
            "as many callers as there may be (max_owner_sessions, {}) have a session of their own there; try again when one of them has ended",
            self.most
        );
        let seen = all.iter().map(|shared| {
            if !shared.is_for_one() {
                return shared.clone();
            }
            let (changes, holder) = (broadcast::Sender::new(1), Holder::of(owner.clone()));
            let beginning = Beginning { changes, holder, log_level: None, is_news: false };
            Upstream::refused((*shared.spec()).clone(), beginning, &why)
        });
        Upstreams::new(seen.collect())
    }

    /// Guests' connections follow a changed configuration, and those who listen are told.
    pub(crate) fn rearrange(&self, reloaded: &Reloaded) {
        let all = self.all();
        for (owner, guest) in self.guests.lock().iter_mut() {
            let is_told = guest.changes.receiver_count() > 0 && !reloaded.added.is_empty();
            if guest.members.is_empty() && !is_told {
                continue;
            }
            let before = guest.members.clone();
            // What is added is news to whoever has asked for lists already.
            guest.was_open = true;
            self.arrange(owner, guest, &all);
            let is_changed = |member: &&Arc<Upstream>| {
                reloaded.rules
                    || [&reloaded.changed, &reloaded.removed]
                        .into_iter()
                        .flatten()
                        .any(|name| name == member.name())
            };
            before.iter().filter(is_changed).for_each(|member| member.tell_of_lists());
        }
    }

    /// Closes connections that nothing has used for a while.
    fn tidy(&self) {
        let mut closed = Vec::new();
        self.guests.lock().retain(|_, guest| {
            closed.extend(guest.take_unneeded());
            if guest.members.iter().any(|member| member.is_in_use()) {
                guest.used = Instant::now();
            } else if !guest.members.is_empty() && guest.used.elapsed() >= self.idle {
                closed.append(&mut guest.members);
                (guest.view, guest.was_open) = (None, true);
            }
            !guest.members.is_empty() || guest.changes.receiver_count() > 0
        });
        for member in closed {
            tokio::spawn(async move { member.say_goodbye().await });
        }
    }

    /// Does that again and again, as long as there is a gateway.
    pub(crate) fn keep_tidy(self: &Arc<Self>) {
        let pool = Arc::downgrade(self);
        let every = (self.idle / 4).clamp(Duration::from_millis(20), Duration::from_secs(5));
        tokio::spawn(async move {
            let mut ticks = tokio::time::interval(every);
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                let Some(pool) = pool.upgrade() else { return };
                pool.tidy();
            }
        });
    }

    /// Ends all connections in good order.
    pub(crate) async fn say_goodbye(&self) {
        let mut all = self.all().to_vec();
        all.extend(self.guests.lock().values().flat_map(|guest| guest.members.clone()));
        join_all(all.iter().map(|upstream| upstream.say_goodbye())).await;
    }
}

impl Guest {
    /// Connections to servers that turned out to need none, once nothing of theirs goes on.
    fn take_unneeded(&mut self) -> Vec<Arc<Upstream>> {
        let Some(view) = &self.view else { return Vec::new() };
        let is_seen = |member: &Arc<Upstream>| view.seen.iter().any(|seen| Arc::ptr_eq(seen, member));
        let is_unneeded = |member: &mut Arc<Upstream>| {
            !is_seen(member) && !member.is_in_use() && Arc::strong_count(member) == 1
        };
        self.members.extract_if(.., is_unneeded).collect()
    }
}

impl Default for Guest {
    fn default() -> Self {
        Guest {
            members: Vec::new(),
            view: None,
            changes: broadcast::Sender::new(CHANGES),
            used: Instant::now(),
            was_open: false,
        }
    }
}
