use std::collections::BTreeSet;
use std::io::{self, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

/// What the reaper does: its stdin ends with this process, and it then ends the groups that are still listed.
const SCRIPT: &str = include_str!("reaper.sh");
/// The pause before a reaper that died is started again, so that a shell which always ends is not started without end.
const PAUSE: Duration = Duration::from_millis(500);

/// The reaper of this process.
pub(super) static REAPER: Reaper = Reaper::new("/bin/sh");

/// A small process that outlives this one and ends its children's groups, should it die without doing so itself.
///
/// Nothing in this process can clean up after `kill -9`, and what the system offers instead (Linux's parent-death
/// signal) needs unsafe code, follows the spawning thread and reaches no grandchild. The reaper runs exactly while a
/// [`Place`] is taken. It is a help, not a condition: children run without it where it cannot be had.
pub(super) struct Reaper {
    shell: &'static str,
    state: Mutex<State>,
}

struct State {
    places: usize,
    groups: BTreeSet<u32>,
    running: Option<Running>,
    started: u64,
    warned: bool,
}

struct Running {
    number: u64,
    /// Nobody else holds this end: std opens its pipes so that no child inherits them.
    list: ChildStdin,
}

impl Reaper {
    pub(super) const fn new(shell: &'static str) -> Reaper {
        let state = State { places: 0, groups: BTreeSet::new(), running: None, started: 0, warned: false };
        Reaper { shell, state: Mutex::new(state) }
    }

    /// Takes a place for a group that is about to be started. The reaper is there before it.
    pub(super) fn place(&'static self) -> Place {
        let mut state = self.state.lock();
        state.places += 1;
        self.keep_running(&mut state);
        Place { reaper: self, group: None, taken: true }
    }

    /// Starts it if it does not run, and tells it the whole list.
    fn keep_running(&'static self, state: &mut State) {
        if state.running.is_some() {
            return;
        }
        let started = self.start().and_then(|(child, mut list)| {
            let all: String = state.groups.iter().map(|group| format!("+ {group}\n")).collect();
            list.write_all(all.as_bytes())?;
            Ok((child, list))
        });
        match started {
            Ok((child, list)) => {
                state.started += 1;
                let number = state.started;
                state.running = Some(Running { number, list });
                // Without the thread it works all the same; only its own death would go unnoticed.
                let waiting = thread::Builder::new().name("taskgate-reaper".to_owned());
                if let Err(error) = waiting.spawn(move || self.see_to_its_end(child, number)) {
                    tracing::debug!(%error, "nobody waits for the reaper");
                }
            }
            Err(error) => state.warn(&format!("it cannot be started: {}: {error}", self.shell)),
        }
    }

    fn start(&self) -> io::Result<(Child, ChildStdin)> {
        let mut command = Command::new(self.shell);
        // The words after the script are for people who look at the list of processes.
        command.args(["-c", SCRIPT, "taskgate-reaper", &std::process::id().to_string()]);
        // It needs nothing of ours, least of all secrets, and must not keep a directory busy.
        command.env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path))).current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // What a terminal or a supervisor sends to our group is not for it.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn()?;
        let list = child.stdin.take().ok_or_else(|| io::Error::other("it has no stdin"))?;
        Ok((child, list))
    }

    /// Waits for its end, so that it is no zombie, and starts it again if it was still needed.
    fn see_to_its_end(&'static self, mut child: Child, number: u64) {
        let status = child.wait();
        let mut state = self.state.lock();
        if state.running.as_ref().is_none_or(|running| running.number != number) {
            return;
        }
        state.running = None;
        let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
        state.warn(&format!("it ended by itself ({status}) and is started again"));
        drop(state);
        thread::sleep(PAUSE);
        let mut state = self.state.lock();
        if state.places > 0 {
            self.keep_running(&mut state);
        }
    }
}

impl State {
    /// Writes a line of the list. A reaper that cannot be written to has died, and gets the whole list when it is
    /// started again.
    fn tell(&mut self, sign: char, group: u32) {
        if let Some(running) = &mut self.running
            && let Err(error) = running.list.write_all(format!("{sign} {group}\n").as_bytes())
        {
            tracing::debug!(%error, "the reaper does not read");
        }
    }

    /// Says once what is wrong; it does not hurt any call.
    fn warn(&mut self, what: &str) {
        if !std::mem::replace(&mut self.warned, true) {
            tracing::warn!("the reaper, which ends child processes should this process be killed: {what}");
        }
    }
}

/// A place on the reaper's list, for one group.
pub(super) struct Place {
    reaper: &'static Reaper,
    group: Option<u32>,
    taken: bool,
}

impl Place {
    /// The group has been started.
    pub(super) fn fill(&mut self, group: u32) {
        self.group = Some(group);
        let mut state = self.reaper.state.lock();
        state.groups.insert(group);
        state.tell('+', group);
    }

    /// The group has ended. To be called before its number can be given to another one.
    pub(super) fn leave(&mut self) {
        if !std::mem::take(&mut self.taken) {
            return;
        }
        let mut state = self.reaper.state.lock();
        if let Some(group) = self.group {
            state.groups.remove(&group);
            state.tell('-', group);
        }
        state.places -= 1;
        if state.places == 0 {
            // The end of its list is the end of the reaper; the thread that waits for it sees to the rest.
            state.running = None;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests;
