#[cfg(unix)]
use super::reaper::{Place, REAPER};

/// A process group that does not outlive this value, nor this process.
pub(super) struct Group {
    leader: Option<u32>,
    #[cfg(unix)]
    place: Place,
}

impl Group {
    /// A group that is about to be started. Until it is [led](Group::led_by) there is nothing to end.
    pub(super) fn reserve() -> Self {
        Group {
            leader: None,
            #[cfg(unix)]
            place: REAPER.place(),
        }
    }

    /// The group has been started, with this process as its leader.
    pub(super) fn led_by(&mut self, leader: u32) {
        self.leader = Some(leader);
        #[cfg(unix)]
        self.place.fill(leader);
    }

    /// Asks every process of the group to end.
    pub(super) fn terminate(&self) {
        self.signal(Strength::Ask);
    }

    /// Kills every process of the group.
    pub(super) fn kill(&self) {
        self.signal(Strength::Kill);
    }

    /// Kills what is left after the leader has exited, and lets go.
    ///
    /// The group's number belongs to it for as long as one of its processes lives. If none does, the number was
    /// given back a moment ago, and numbers are handed out in turn, so nobody else carries it yet. From here on nobody
    /// signals it any more.
    pub(super) fn clear(&mut self) {
        self.kill();
        self.leader = None;
        #[cfg(unix)]
        self.place.leave();
    }

    fn signal(&self, strength: Strength) {
        if let Some(leader) = self.leader {
            signal(leader, strength);
        }
    }
}

impl Drop for Group {
    /// Reached with a living group only when the runtime is torn down or a task panics.
    fn drop(&mut self) {
        self.kill();
    }
}

enum Strength {
    Ask,
    Kill,
}

#[cfg(unix)]
fn signal(leader: u32, strength: Strength) {
    use nix::sys::signal::{Signal, killpg};
    let signal = match strength {
        Strength::Ask => Signal::SIGTERM,
        Strength::Kill => Signal::SIGKILL,
    };
    let Ok(group) = i32::try_from(leader) else { return };
    // A group of 0 or 1 would mean our own group or everyone.
    if group > 1 {
        // The only error that can happen is that nobody is left.
        let _ = killpg(nix::unistd::Pid::from_raw(group), signal);
    }
}

#[cfg(not(unix))]
fn signal(_: u32, strength: Strength) {
    // Without groups only the child itself is stopped, by its handle.
    match strength {
        Strength::Ask | Strength::Kill => {}
    }
}
