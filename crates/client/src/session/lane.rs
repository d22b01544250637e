use taskgate_task::Payload;
use taskgate_wire::{RawObject, Version};

/// A way to speak to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Every request carries its own metadata (2026-07-28 and later).
    Modern(Version),
    /// Within the session opened by `initialize` (2025-11-25 and earlier).
    Legacy(Version),
}

impl Lane {
    /// The version spoken.
    pub fn version(self) -> Version {
        match self {
            Lane::Modern(version) | Lane::Legacy(version) => version,
        }
    }
}

/// The lanes that can be used with a server; at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lanes {
    /// The lane for requests with their own metadata.
    pub modern: Option<Lane>,
    /// The lane within the session opened by `initialize`.
    pub legacy: Option<Lane>,
}

impl Lanes {
    /// The lanes, newest first.
    pub fn iter(&self) -> impl Iterator<Item = Lane> {
        self.modern.into_iter().chain(self.legacy)
    }
}

/// What a server said of itself, separately for each lane.
#[derive(Debug, Clone, Default)]
pub struct ServerDescription {
    /// In its answer to `server/discover`.
    pub modern: Option<LaneDescription>,
    /// In its answer to `initialize`.
    pub legacy: Option<LaneDescription>,
}

/// What a server said of itself in one answer.
#[derive(Debug, Clone)]
pub struct LaneDescription {
    /// Its capabilities; an empty object, if it named none.
    pub capabilities: Payload,
    /// Its name and version.
    pub server_info: Option<Payload>,
    /// Instructions for models, as a JSON string.
    pub instructions: Option<Payload>,
    /// The whole answer; `None` if a lane is known to exist without one.
    pub answer: Option<Payload>,
}

impl LaneDescription {
    /// Whether the capability `feature` says `true` for `what`, as in `resources.subscribe`.
    pub fn offers(&self, feature: &str, what: &str) -> bool {
        let said = || {
            let all = RawObject::parse(self.capabilities.as_str()).ok()?;
            let of = RawObject::parse(all.get(feature)?.get()).ok()?;
            of.get(what).map(|on| on.get() == "true")
        };
        said().unwrap_or(false)
    }
}

impl ServerDescription {
    /// What was said for a lane.
    pub fn of(&self, lane: Lane) -> Option<&LaneDescription> {
        match lane {
            Lane::Modern(_) => self.modern.as_ref(),
            Lane::Legacy(_) => self.legacy.as_ref(),
        }
    }

    /// Whether it has the feature on this lane, as far as that is known: a server that has not described itself may.
    pub fn has(&self, lane: Lane, feature: &str) -> bool {
        self.of(lane).is_none_or(|said| {
            said.answer.is_none()
                || RawObject::parse(said.capabilities.as_str()).is_ok_and(|all| all.get(feature).is_some())
        })
    }

    /// The capabilities, from the newest lane.
    pub fn capabilities(&self) -> Option<&Payload> {
        self.newest().map(|description| &description.capabilities)
    }

    /// The name and version, from the newest lane that has them.
    pub fn server_info(&self) -> Option<&Payload> {
        self.each().find_map(|description| description.server_info.as_ref())
    }

    /// The instructions, from the newest lane that has them.
    pub fn instructions(&self) -> Option<&Payload> {
        self.each().find_map(|description| description.instructions.as_ref())
    }

    fn newest(&self) -> Option<&LaneDescription> {
        self.each().next()
    }

    fn each(&self) -> impl Iterator<Item = &LaneDescription> {
        self.modern.iter().chain(&self.legacy)
    }
}
