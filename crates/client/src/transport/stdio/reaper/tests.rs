//! A reaper that believes that its parent has died.

use std::fs;
use std::time::Instant;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use super::super::tests::{gone, runs};
use super::*;

/// A group whose leader and another process ignore the end of stdin and whatever else a script says.
struct Stubborn(Child);

impl Stubborn {
    fn start(script: &str) -> Stubborn {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{script}; sleep 300 & while :; do sleep 1; done")]);
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        Stubborn(command.stdin(Stdio::null()).spawn().expect("a shell"))
    }

    fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Stubborn {
    fn drop(&mut self) {
        let _ = killpg(pid(self.id()), Signal::SIGKILL);
        let _ = self.0.wait();
    }
}

fn pid(number: u32) -> Pid {
    Pid::from_raw(i32::try_from(number).expect("a process id"))
}

/// The ids of the processes of a reaper, told from others by how the path of its shell is spelled.
fn processes(reaper: &Reaper) -> Vec<u32> {
    let all = fs::read_dir("/proc").expect("/proc").flatten();
    let ids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let of = |id: &u32| {
        let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).next() == Some(reaper.shell.as_bytes())
    };
    ids.filter(of).collect()
}

/// How many processes of a group run.
fn members(group: u32) -> usize {
    let all = fs::read_dir("/proc").expect("/proc").flatten();
    let stats = all.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
    let of = |stat: &String| {
        let rest: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        rest.get(2) == Some(&group.to_string().as_str()) && rest[0] != "Z"
    };
    stats.filter(of).count()
}

async fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let limit = Instant::now() + Duration::from_secs(10);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < limit, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits for a process of the reaper that is ready for whatever is sent to it.
async fn ready(reaper: &Reaper, other_than: u32) -> u32 {
    until("no reaper ignores SIGTERM", || {
        let id = processes(reaper).into_iter().find(|id| *id != other_than)?;
        let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
        let ignored = u64::from_str_radix(ignored.trim(), 16).expect("a mask");
        (ignored & (1 << (Signal::SIGTERM as u32 - 1)) != 0).then_some(id)
    })
    .await
}

/// What happens to the list when this process is killed.
fn die(reaper: &Reaper) {
    reaper.state.lock().running = None;
}

/// Case 16, for kill -9: whoever is still listed ends, even if it ignores the end of stdin and SIGTERM, and its children
/// with it; who has left the list is left alone. What is sent to all processes around does not end the reaper before.
#[tokio::test]
async fn who_is_still_listed_ends_with_the_list() {
    static OWN: Reaper = Reaper::new("/bin/../bin/sh");
    let groups = ["true", "trap '' TERM", "true"].map(Stubborn::start);
    let mut places = groups.each_ref().map(|group| {
        let mut place = OWN.place();
        place.fill(group.id());
        place
    });
    let reaper = ready(&OWN, 0).await;
    for signal in [Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGTERM] {
        kill(pid(reaper), signal).expect("sent");
    }
    places[2].leave();
    die(&OWN);
    for group in &groups[..2] {
        gone(group.id()).await;
        until("a process of the group is still there", || (members(group.id()) == 0).then_some(())).await;
    }
    until("the reaper has not ended", || processes(&OWN).is_empty().then_some(())).await;
    assert!(runs(groups[2].id()), "a group that was no longer listed was ended");
}

/// A reaper that is killed is replaced, and the new one knows the list.
#[tokio::test]
async fn a_reaper_that_dies_is_started_again_with_the_list() {
    static OWN: Reaper = Reaper::new("/bin/./sh");
    let group = Stubborn::start("true");
    let mut place = OWN.place();
    place.fill(group.id());
    let first = ready(&OWN, 0).await;
    kill(pid(first), Signal::SIGKILL).expect("sent");
    ready(&OWN, first).await;
    assert!(OWN.state.lock().warned && runs(group.id()));
    die(&OWN);
    gone(group.id()).await;
}

/// There is a reaper exactly while there is something to reap, and no zombie of it afterwards.
#[tokio::test]
async fn a_reaper_ends_with_the_last_place() {
    static OWN: Reaper = Reaper::new("/bin/././sh");
    let (mut first, second) = (OWN.place(), OWN.place());
    let id = ready(&OWN, 0).await;
    first.leave();
    first.leave();
    assert_eq!(OWN.state.lock().places, 1);
    assert_eq!(processes(&OWN), [id]);
    drop((first, second));
    until("it is still there", || (!fs::exists(format!("/proc/{id}")).expect("/proc")).then_some(())).await;
    let _third = OWN.place();
    assert_ne!(ready(&OWN, 0).await, id);
    assert!(!OWN.state.lock().warned);
}

/// Where there is no shell there is no reaper, and nothing else is different.
#[tokio::test]
async fn a_missing_shell_is_no_error() {
    static OWN: Reaper = Reaper::new("/no/such/shell");
    for _ in 0..2 {
        let mut place = OWN.place();
        place.fill(1 << 30);
        let state = OWN.state.lock();
        assert!(state.warned && state.running.is_none());
    }
    let state = OWN.state.lock();
    assert_eq!((state.places, state.groups.len()), (0, 0));
}
