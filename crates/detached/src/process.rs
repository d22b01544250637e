//! The processes of a session, as `/proc` shows them, and signals to them.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use crate::MARK;
use crate::record::{Begun, Leader};

/// How often to look whether they have ended.
const LOOK: Duration = Duration::from_millis(10);
/// How long to go on killing. Longer only lasts what hangs in the kernel, and it ends as soon as it leaves it.
const KILLING: Duration = Duration::from_secs(5);

/// A living process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    group: i32,
    session: i32,
    /// When it was started, in ticks since the boot.
    pub(crate) start: u64,
}

impl Process {
    /// The living process with this number. A zombie is none.
    pub(crate) fn find(pid: i32) -> Option<Process> {
        read(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }
}

/// Reads a line of `/proc/PID/stat`. The name in it may hold anything, blanks and parentheses included.
fn read(stat: &str) -> Option<Process> {
    let (pid, _) = stat.split_once(' ')?;
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    if matches!(*fields.first()?, "Z" | "X" | "x") {
        return None;
    }
    Some(Process {
        pid: pid.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        start: fields.get(19)?.parse().ok()?,
    })
}

/// The living processes of a session, but for its leader.
fn members(session: i32) -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let all = pids.filter_map(Process::find);
    all.filter(|process| process.session == session && process.pid != session).collect()
}

/// Ends every other process of the session that the caller leads: SIGTERM, and SIGKILL after the grace. Returns
/// whether nobody is left. `first` is the first process of the command, which leads its process group and may have ended,
/// but nobody has asked for its status yet.
///
/// The whole session, and not only the command's process group: a shell with job control makes more groups. And the groups,
/// not only the processes: one that only lives to make the next is gone before it is counted, and a signal to a group leaves
/// none of it out.
pub(crate) fn end_session(session: i32, first: i32, grace: Duration) -> bool {
    let living = || members(session);
    let asked = living();
    for signal in [Signal::SIGTERM, Signal::SIGCONT] {
        send_group(first, signal);
        // What is stopped hears SIGTERM only when it goes on.
        send(&asked, first, signal);
    }
    let has_ended = until_none(grace, || {}, living);
    // Of those who ignore SIGTERM, too, nobody may have been seen.
    send_group(first, Signal::SIGKILL);
    has_ended || kill_all(session)
}

/// Kills what a supervisor that was killed has left of its session. Returns whether nobody is left.
///
/// The number of the session may belong to somebody else by now. It does not as long as one of its processes is known
/// to be ours, since a number in use is not given away: by the mark in its environment or as the first process of the command.
pub(crate) fn kill_leftovers(begun: &Begun, leader: Option<Leader>, dir: &Path) -> bool {
    let is_ours = |process: &Process| {
        leader.is_some_and(|leader| leader.pid == process.pid && leader.start == process.start)
            || has_mark(process.pid, dir)
    };
    if !members(begun.session).iter().any(is_ours) {
        return true;
    }
    kill_all(begun.session)
}

fn has_mark(pid: i32, dir: &Path) -> bool {
    let mark = [MARK.as_bytes(), b"=", dir.as_os_str().as_encoded_bytes()].concat();
    // Another user's process cannot be read; ours can.
    fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|all| all.split(|byte| *byte == 0).any(|variable| variable == mark))
}

fn kill_all(session: i32) -> bool {
    let kill = || {
        let living = members(session);
        let mut groups: Vec<i32> = living.iter().map(|process| process.group).collect();
        groups.sort_unstable();
        groups.dedup();
        // The session's own is the supervisor's.
        groups.retain(|group| *group > 0 && *group != session);
        groups.into_iter().for_each(|group| send_group(group, Signal::SIGKILL));
        send(&living, 0, Signal::SIGKILL);
    };
    // They may fork while they are counted, so they are killed as long as there are any.
    until_none(KILLING, kill, || members(session))
}

fn until_none(limit: Duration, before: impl Fn(), living: impl Fn() -> Vec<Process>) -> bool {
    let end = Instant::now() + limit;
    loop {
        before();
        if living().is_empty() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        thread::sleep(LOOK);
    }
}

/// To each of these that is not in this group.
fn send(processes: &[Process], but_of: i32, signal: Signal) {
    for process in processes.iter().filter(|process| process.group != but_of) {
        // The only error that can happen is that it has just ended.
        let _ = kill(Pid::from_raw(process.pid), signal);
    }
}

/// To all of a process group at once, what is just being made included.
fn send_group(group: i32, signal: Signal) {
    // The only error that can happen is that nobody is left.
    let _ = killpg(Pid::from_raw(group), signal);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_can_hold_anything() {
        let tail = "S 1 7 9 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 4242 0 0";
        for name in ["sleep", "a b", "a) S 3", ")"] {
            let process = read(&format!("12 ({name}) {tail}")).expect("a process");
            assert_eq!(
                (process.pid, process.group, process.session, process.start),
                (12, 7, 9, 4242),
                "{name}"
            );
        }
        assert_eq!(read(&format!("12 (sleep) {}", tail.replace('S', "Z"))), None);
        assert_eq!(read("12"), None);
    }

    #[test]
    fn this_process_lives() {
        let pid = i32::try_from(std::process::id()).expect("a pid");
        assert_eq!(Process::find(pid).map(|process| process.pid), Some(pid));
    }

    /// Another session that happens to have the number is left alone. `setsid` gives it one without this test in it.
    #[test]
    fn what_is_not_known_is_not_killed() {
        let mut child = std::process::Command::new("setsid")
            .args(["sh", "-c", "sleep 60 & sleep 60"])
            .spawn()
            .expect("setsid");
        let session = i32::try_from(child.id()).expect("a pid");
        let end = Instant::now() + Duration::from_secs(10);
        while members(session).len() < 2 {
            assert!(Instant::now() < end, "no session");
            thread::sleep(LOOK);
        }
        let begun = Begun { boot_id: String::new(), session, at_ms: 0 };
        let before = members(session);
        let other = Leader { pid: before[0].pid, start: before[0].start + 1 };
        assert!(kill_leftovers(&begun, Some(other), Path::new("/nowhere")));
        assert_eq!(members(session), before);
        let first = Leader { pid: before[0].pid, start: before[0].start };
        assert!(kill_leftovers(&begun, Some(first), Path::new("/nowhere")));
        assert_eq!(members(session), []);
        let _ = child.kill();
        let _ = child.wait();
    }
}
