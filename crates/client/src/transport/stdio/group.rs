/// A process group that does not outlive this value.
#[derive(Debug)]
pub(super) struct Group {
    leader: u32,
    alive: bool,
}

impl Group {
    /// The group led by this process.
    pub(super) fn new(leader: u32) -> Self {
        Group { leader, alive: true }
    }

    /// Asks every process of the group to end.
    pub(super) fn terminate(&self) {
        signal(self.leader, Strength::Ask);
    }

    /// Kills every process of the group.
    pub(super) fn kill(&self) {
        signal(self.leader, Strength::Kill);
    }

    /// Kills what is left after the leader has exited, and lets go.
    ///
    /// The group's number belongs to it for as long as one of its processes lives. If none does, the number was
    /// given back a moment ago, and numbers are handed out in turn, so nobody else carries it yet.
    pub(super) fn clear(&mut self) {
        self.kill();
        self.alive = false;
    }
}

impl Drop for Group {
    /// Reached with a living group only when the runtime is torn down or a task panics.
    fn drop(&mut self) {
        if self.alive {
            self.kill();
        }
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
