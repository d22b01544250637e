//! Commands, supervisors and gateways as real processes, killed and stopped in every order.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use taskgate_detached::{
    Attempt, Cause, Environment, Exit, Interruption, Launcher, Spec, State, Status, attempts, identify,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_detached-for-tests");
const NAME: &str = "a1";

/// A work directory, and a folder in which commands leave what they have done. All processes of it are told by its path, which
/// every command has in its command line.
struct Scene(tempfile::TempDir);

impl Scene {
    fn new() -> Scene {
        Scene(tempfile::Builder::new().prefix("detached-").tempdir().expect("a folder"))
    }

    fn work(&self) -> PathBuf {
        self.0.path().join("work")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A script that runs in the folder and counts how often it was started.
    fn spec(&self, script: &str) -> Spec {
        let script = format!("echo run >> count; echo $$ >> pids; {script}");
        let folder = self.0.path().to_str().expect("a plain path").to_owned();
        Spec {
            argv: vec!["sh".to_owned(), "-c".to_owned(), script, folder],
            cwd: Some(self.0.path().to_owned()),
            deadline_ms: None,
            grace_ms: 200,
            output_limit: 1 << 20,
        }
    }

    /// A gateway that has made the attempt, and started it if it is to.
    fn gateway(&self, what: &str, spec: &Spec) -> Gateway {
        let spec = serde_json::to_string(spec).expect("JSON");
        let mut command = Command::new(PROGRAM);
        command.arg(what).arg(self.work()).args([NAME, &spec]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a gateway");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("stdout")).read_line(&mut line).expect("a line");
        assert_eq!(line, "started\n");
        Gateway(child)
    }

    /// Starts a command, kills whoever has started it once it runs, and gives back what a later gateway sees.
    fn orphan(&self, spec: &Spec) -> Attempt {
        let gateway = self.gateway("start", spec);
        self.pids(1);
        gateway.kill();
        self.attempt()
    }

    fn attempt(&self) -> Attempt {
        Attempt::open(&self.work(), NAME).expect("it can be read").expect("it is there")
    }

    /// The numbers the script has noted, once there are so many.
    fn pids(&self, count: usize) -> Vec<i32> {
        until("the processes", || {
            let noted = fs::read_to_string(self.path("pids")).unwrap_or_default();
            let pids: Vec<i32> = noted.lines().filter_map(|line| line.parse().ok()).collect();
            (pids.len() >= count).then_some(pids)
        })
    }

    fn count(&self) -> usize {
        fs::read_to_string(self.path("count")).unwrap_or_default().lines().count()
    }

    fn supervisor(&self) -> i32 {
        until("a supervisor", || {
            living(|line| line.contains("supervise") && line.contains(&self.mark())).pop()
        })
    }

    fn mark(&self) -> String {
        self.0.path().display().to_string()
    }
}

impl Drop for Scene {
    /// A test that fails leaves nobody behind.
    fn drop(&mut self) {
        let mark = self.mark();
        living(|line| line.contains(&mark)).into_iter().for_each(|pid| send(pid, Signal::SIGKILL));
    }
}

struct Gateway(Child);

impl Gateway {
    fn kill(mut self) {
        self.0.kill().expect("kill");
        self.0.wait().expect("wait");
    }
}

fn living(which: impl Fn(&str) -> bool) -> Vec<i32> {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let all = entries.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        which(&String::from_utf8_lossy(&line).replace('\0', " ")).then_some(pid)
    });
    all.collect()
}

fn send(pid: i32, signal: Signal) {
    let _ = kill(Pid::from_raw(pid), signal);
}

/// Neither running nor a zombie that will be asked for.
fn is_gone(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
}

#[track_caller]
fn until<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[track_caller]
fn ended(attempt: &Attempt) -> Status {
    until("the end", || match attempt.state().expect("it can be read") {
        State::Ended(status) => Some(status),
        State::Running | State::Waiting => None,
        State::Interrupted(why) => panic!("interrupted: {why:?}"),
    })
}

fn wait_for(file: &str) -> String {
    format!("while [ ! -e {file} ]; do sleep 0.02; done")
}

/// This process plays the next gateway.
fn start(attempt: &Attempt) {
    let launcher = Launcher { program: PROGRAM.into(), args: vec!["supervise".to_owned()] };
    let environment = Environment { set: vec![("SECRET".to_owned(), "sesame".to_owned())], clear: false };
    attempt.start(&launcher, &environment).expect("a supervisor");
}

#[test]
fn a_command_outlives_its_starter() {
    let scene = Scene::new();
    let script = format!("echo one; {}; echo two; cat >&2; exit 3", wait_for("open"));
    let attempt = scene.orphan(&scene.spec(&script));
    assert_eq!(attempt.state().expect("read"), State::Running);
    until("the first line", || (attempt.seen().line.as_deref() == Some("one")).then_some(()));
    fs::write(scene.path("open"), "").expect("write");
    let status = ended(&attempt);
    assert_eq!((status.cause, status.exit), (Cause::Itself, Some(Exit::Code(3))));
    assert_eq!(attempt.stdout().expect("read").text(), "one\ntwo\n");
    assert_eq!(attempt.stderr().expect("read").text(), "{}");
    assert_eq!(scene.count(), 1);
    assert!(status.ended_ms >= status.begun_ms);
}

/// Nothing ties it to whoever started it: not the session, not a pipe, not a descriptor that was left open.
#[test]
fn a_supervisor_has_nothing_of_its_starter() {
    let scene = Scene::new();
    let spec = serde_json::to_string(&scene.spec("exec sleep 60")).expect("JSON");
    let mut shell = Command::new("sh");
    let script = "exec 9</dev/zero; exec \"$@\"";
    shell.args(["-c", script, "sh", PROGRAM, "start"]).arg(scene.work()).args([NAME, &spec]);
    let mut gateway =
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("sh");
    let command = scene.pids(1)[0];
    let supervisor = scene.supervisor();
    let open = |pid: i32| -> Vec<String> {
        let entries = fs::read_dir(format!("/proc/{pid}/fd")).expect("a process").flatten();
        entries.filter_map(|entry| Some(fs::read_link(entry.path()).ok()?.display().to_string())).collect()
    };
    assert!(open(i32::try_from(gateway.id()).expect("a pid")).contains(&"/dev/zero".to_owned()));
    for pid in [supervisor, command] {
        assert!(!open(pid).contains(&"/dev/zero".to_owned()), "{:?}", open(pid));
    }
    for descriptor in [0, 1] {
        let path = fs::read_link(format!("/proc/{supervisor}/fd/{descriptor}")).expect("a descriptor");
        assert_eq!(path, Path::new("/dev/null"));
    }
    let stat = |pid: i32| -> Vec<String> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("a process");
        stat.rsplit_once(')').expect("a name").1.split_whitespace().map(str::to_owned).collect()
    };
    // Group and session.
    assert_eq!(stat(supervisor)[2..4], [supervisor.to_string(), supervisor.to_string()]);
    assert_eq!(stat(command)[2..4], [command.to_string(), supervisor.to_string()]);
    assert_eq!(fs::read_link(format!("/proc/{supervisor}/cwd")).expect("a directory"), Path::new("/"));
    gateway.kill().expect("kill");
    gateway.wait().expect("wait");
    let attempt = scene.attempt();
    assert_eq!(attempt.state().expect("read"), State::Running);
    attempt.stop().expect("stop");
    assert_eq!(ended(&attempt).exit, Some(Exit::Signal(15)));
}

/// CASE 16: a later gateway stops it, and nobody of it stays: not who ignores SIGTERM, not who is stopped, not who has a
/// group of his own.
/// Whoever could write to the place could say what is run.
#[test]
fn a_place_that_is_not_ours_alone_is_not_used() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("work");
    fs::create_dir(&place).expect("made");
    for (mode, is_used) in [(0o777, false), (0o1777, false), (0o755, true)] {
        fs::set_permissions(&place, fs::Permissions::from_mode(mode)).expect("changed");
        assert_eq!(identify(&place).is_ok(), is_used, "{mode:o}");
    }
    let named = folder.path().join("named");
    std::os::unix::fs::symlink(&place, &named).expect("made");
    assert!(identify(&named).is_ok());
    fs::set_permissions(&place, fs::Permissions::from_mode(0o777)).expect("changed");
    let refused = identify(&named).expect_err("where the name leads, everybody can write").to_string();
    assert!(refused.contains("everybody can write there"), "{refused}");
}

#[test]
fn a_stop_reaches_everybody_of_the_command() {
    let forever = "echo $$ >> pids; while :; do sleep 0.05; done";
    for (script, count) in [
        ("exec sleep 300".to_owned(), 1),
        (format!("sh -c '{forever}' & sh -c 'trap \"\" TERM; {forever}' & wait"), 3),
        (format!("trap '' TERM; set -m; sh -c '{forever}' & {forever}"), 3),
        ("sleep 300 & echo $! >> pids; kill -STOP $!; kill -STOP $$; exec sleep 300".to_owned(), 2),
    ] {
        let scene = Scene::new();
        let attempt = scene.orphan(&scene.spec(&script));
        let pids = scene.pids(count);
        attempt.stop().expect("stop");
        let before = Instant::now();
        let status = ended(&attempt);
        assert_eq!(status.cause, Cause::Stopped);
        assert!(matches!(status.exit, Some(Exit::Signal(9 | 15))), "{status:?}");
        assert!(before.elapsed() < Duration::from_secs(5));
        assert!(pids.iter().all(|pid| is_gone(*pid)), "{script}");
        until("the end of the supervisor", || {
            living(|line| line.contains(&scene.mark())).is_empty().then_some(())
        });
    }
}

/// A command has the grace for its last words, and those it started have it after it, too.
#[test]
fn the_grace_is_for_everybody() {
    let scene = Scene::new();
    let child = "trap \"sleep 0.1; echo child; exit\" TERM; echo $$ >> pids; while :; do sleep 0.02; done";
    let spec = Spec { grace_ms: 20_000, ..scene.spec(&format!("sh -c '{child}' & wait")) };
    let attempt = scene.orphan(&spec);
    scene.pids(2);
    attempt.stop().expect("stop");
    assert_eq!(ended(&attempt).exit, Some(Exit::Signal(15)));
    assert_eq!(attempt.stdout().expect("read").text(), "child\n");
}

/// CASE 16: the first process has exited, and another one of it holds the pipes.
#[test]
fn an_exit_ends_what_is_left() {
    let scene = Scene::new();
    let attempt = scene.orphan(&scene.spec("sleep 300 & echo $! >> pids; echo done; exit 0"));
    let status = ended(&attempt);
    assert_eq!((status.cause, status.exit), (Cause::Itself, Some(Exit::Code(0))));
    assert!(scene.pids(2).iter().all(|pid| is_gone(*pid)));
    assert_eq!(attempt.stdout().expect("read").text(), "done\n");
}

/// CASE 16: processes that only live to make the next one are seen by nobody who counts processes, and end all the same: when
/// the first one has exited, and when they are stopped and ignore SIGTERM.
#[test]
fn a_chain_of_processes_ends() {
    let chain = "python3 -c 'import os\nticks = os.open(\"ticks\", os.O_WRONLY | os.O_CREAT | os.O_APPEND)\n\
                 while not os.fork() or os._exit(0): os.write(ticks, b\".\")'";
    for (script, is_stopped) in [
        (format!("{chain} $0; while [ ! -s ticks ]; do sleep 0.02; done"), false),
        (format!("trap '' TERM; {chain} $0; while [ ! -s ticks ]; do sleep 0.02; done"), false),
        (format!("trap '' TERM; {chain} $0; while :; do sleep 0.05; done"), true),
    ] {
        let scene = Scene::new();
        let ticks = || fs::metadata(scene.path("ticks")).map_or(0, |ticks| ticks.len());
        let attempt = scene.orphan(&scene.spec(&script));
        if is_stopped {
            until("the chain", || (ticks() > 10).then_some(()));
            attempt.stop().expect("stop");
        }
        ended(&attempt);
        let before = ticks();
        let is_of_it = |line: &str| line.contains(&scene.mark()) && !line.contains("supervise");
        let found = (0..20).map(|_| living(is_of_it).len()).max();
        let after = ticks();
        let _ = killpg(Pid::from_raw(scene.pids(1)[0]), Signal::SIGKILL);
        assert_eq!((after, found), (before, Some(0)), "{script}");
    }
}

/// Nobody but the supervisor is there to enforce it.
#[test]
fn the_deadline_holds_without_a_gateway() {
    let scene = Scene::new();
    let mut spec = scene.spec("trap '' TERM; while :; do sleep 0.05; done");
    spec.deadline_ms = Some(i64::try_from(wall_clock()).expect("a time") + 500);
    let attempt = scene.orphan(&spec);
    let status = ended(&attempt);
    assert_eq!((status.cause, status.exit), (Cause::Deadline, Some(Exit::Signal(9))));
    assert!(scene.pids(1).iter().all(|pid| is_gone(*pid)));
}

#[expect(clippy::disallowed_methods, reason = "deadlines are by the machine's clock")]
fn wall_clock() -> u128 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_millis()
}

/// The gateway was killed between making the attempt and starting it: it did not run, and may still. However many
/// supervisors are started for it, it runs once.
#[test]
fn what_was_not_begun_is_begun_once() {
    let scene = Scene::new();
    scene.gateway("prepare", &scene.spec(&format!("echo $SECRET; {}", wait_for("open")))).kill();
    let attempt = scene.attempt();
    assert_eq!(attempt.state().expect("read"), State::Waiting);
    (0..6).for_each(|_| start(&attempt));
    scene.pids(1);
    until("the end of the other supervisors", || {
        (living(|line| line.contains("supervise") && line.contains(&scene.mark())).len() == 1).then_some(())
    });
    fs::write(scene.path("open"), "").expect("write");
    assert_eq!(ended(&attempt).exit, Some(Exit::Code(0)));
    start(&attempt);
    until("the end of the last one", || living(|line| line.contains(&scene.mark())).is_empty().then_some(()));
    assert_eq!(scene.count(), 1);
    assert_eq!(attempt.stdout().expect("read").text(), "sesame\n");
    let records = ["spec.json", "begun.json", "leader.json", "status.json", "supervisor.log"];
    for record in records {
        let text = fs::read_to_string(attempt.dir().join(record)).expect("a record");
        assert!(!text.contains("sesame"), "{record}: {text}");
    }
}

#[test]
fn what_is_stopped_before_it_was_begun_never_runs() {
    let scene = Scene::new();
    scene.gateway("prepare", &scene.spec("true")).kill();
    let attempt = scene.attempt();
    attempt.stop().expect("stop");
    start(&attempt);
    let status = ended(&attempt);
    assert_eq!((status.cause, status.exit, scene.count()), (Cause::Stopped, None, 0));
}

/// The supervisor was killed. It is known that the command may have run, what is left of it is killed, and it is not begun again.
#[test]
fn a_killed_supervisor_is_noticed() {
    for script in [
        "sleep 300 & echo $! >> pids; trap '' TERM; while :; do sleep 0.05; done",
        // Known by its start alone.
        "exec env -i sh -c 'sleep 300 & echo $! >> pids; exec sleep 300'",
        // Known by the mark alone: the first process is gone by the time anybody looks.
        "sleep 300 & echo $! >> pids; while [ ! -e open ]; do sleep 0.02; done",
    ] {
        let scene = Scene::new();
        let attempt = scene.orphan(&scene.spec(script));
        let pids = scene.pids(2);
        until("the first process's record", || attempt.dir().join("leader.json").exists().then_some(()));
        send(scene.supervisor(), Signal::SIGKILL);
        until("the interruption", || {
            let state = attempt.state().expect("read");
            (state == State::Interrupted(Interruption::Killed)).then_some(())
        });
        assert!(!pids.iter().any(|pid| is_gone(*pid)), "{script}");
        if script.contains("open") {
            fs::write(scene.path("open"), "").expect("write");
            until("the end of the first process", || is_gone(pids[0]).then_some(()));
        }
        start(&attempt);
        assert!(attempt.end_leftovers().expect("read"));
        assert!(pids.iter().all(|pid| is_gone(*pid)), "{script}");
        until("the end of the second supervisor", || {
            living(|line| line.contains("supervise") && line.contains(&scene.mark())).is_empty().then_some(())
        });
        assert_eq!(attempt.state().expect("read"), State::Interrupted(Interruption::Killed));
        assert_eq!(scene.count(), 1);
    }
}

/// After a reboot the numbers in the records mean nothing: nobody is killed by them.
#[test]
fn a_reboot_is_told_from_a_killed_supervisor() {
    let scene = Scene::new();
    let attempt = scene.orphan(&scene.spec("exec sleep 300"));
    let pids = scene.pids(1);
    until("the first process's record", || attempt.dir().join("leader.json").exists().then_some(()));
    send(scene.supervisor(), Signal::SIGKILL);
    let begun = attempt.dir().join("begun.json");
    let text = fs::read_to_string(&begun).expect("a record");
    let mut record: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    record["boot_id"] = "another".into();
    fs::write(&begun, record.to_string()).expect("write");
    until("the interruption", || {
        let state = attempt.state().expect("read");
        (state == State::Interrupted(Interruption::Reboot)).then_some(())
    });
    assert!(attempt.end_leftovers().expect("read"));
    assert!(!is_gone(pids[0]));
    fs::write(&begun, text).expect("write");
    assert!(attempt.end_leftovers().expect("read"));
    assert!(is_gone(pids[0]));
}

/// As everybody is asked to when the machine is shut down.
#[test]
fn a_supervisor_that_is_asked_to_end_says_so() {
    let scene = Scene::new();
    let attempt = scene.orphan(&scene.spec("exec sleep 300"));
    until("the lock", || (attempt.state().expect("read") == State::Running).then_some(()));
    send(scene.supervisor(), Signal::SIGTERM);
    let status = ended(&attempt);
    assert_eq!((status.cause, status.exit), (Cause::Shutdown, Some(Exit::Signal(15))));
}

#[test]
fn what_cannot_be_started_says_why() {
    let scene = Scene::new();
    let missing = Spec { argv: vec!["/no/such/program".to_owned()], ..scene.spec("") };
    let nowhere = Spec { cwd: Some("/no/such/place".into()), ..scene.spec("true") };
    let none = Spec { argv: Vec::new(), ..scene.spec("") };
    let cases = [
        (missing, "/no/such/program"),
        (nowhere, "there is no directory \"/no/such/place\""),
        (none, "no program"),
    ];
    for (number, (spec, word)) in cases.into_iter().enumerate() {
        let attempt = Attempt::create(&scene.work(), &format!("n{number}"), spec, b"").expect("an attempt");
        start(&attempt);
        let status = ended(&attempt);
        let Cause::NotStarted(why) = &status.cause else { panic!("{status:?}") };
        assert!(why.contains(word) && status.exit.is_none(), "{why}");
    }
}

#[test]
fn an_attempt_is_private_and_can_be_removed() {
    let scene = Scene::new();
    let attempt = scene.orphan(&scene.spec("exec sleep 300"));
    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!((mode(&scene.work()), mode(attempt.dir())), (0o700, 0o700));
    for file in fs::read_dir(attempt.dir()).expect("a directory").flatten() {
        assert_eq!(mode(&file.path()) & 0o077, 0, "{:?}", file.path());
    }
    let id = identify(&scene.work()).expect("an id");
    assert!(id.len() > 30 && identify(&scene.work()).expect("an id") == id, "{id}");
    assert_eq!(attempts(&scene.work()).expect("read"), [NAME]);
    let refused = attempt.remove().expect_err("it runs").to_string();
    assert!(refused.contains("stop the command first"), "{refused}");
    attempt.stop().expect("stop");
    ended(&attempt);
    until("its removal", || attempt.remove().ok());
    assert!(Attempt::open(&scene.work(), NAME).expect("read").is_none());
    assert_eq!(attempts(&scene.work()).expect("read"), Vec::<String>::new());
    // A supervisor that comes too late finds nothing, and makes nothing.
    let late = Command::new(PROGRAM).arg("supervise").arg(attempt.dir()).status().expect("a supervisor");
    assert!(late.success() && !attempt.dir().exists());
    for name in ["", "..", "a/b", ".a1"] {
        assert!(Attempt::open(&scene.work(), name).is_err(), "{name:?}");
        assert!(Attempt::create(&scene.work(), name, scene.spec(""), b"").is_err(), "{name:?}");
    }
}

/// CASE 31: a command that writes without end neither fills the disk nor is held up.
#[test]
fn output_is_bounded() {
    let scene = Scene::new();
    let spec = Spec {
        output_limit: 4000,
        ..scene.spec("seq 1 200000; seq 1 100 >&2; head -c 300000 /dev/zero >&2")
    };
    let attempt = scene.orphan(&spec);
    assert_eq!(ended(&attempt).exit, Some(Exit::Code(0)));
    let (stdout, stderr) = (attempt.stdout().expect("read"), attempt.stderr().expect("read"));
    let text = stdout.text();
    assert!(text.starts_with("1\n2\n") && text.ends_with("\n199999\n200000\n"), "{text}");
    let whole: u64 = (1..=200_000_u32).map(|number| number.to_string().len() as u64 + 1).sum();
    assert_eq!((stdout.head.len() + stdout.tail.len()) as u64 + stdout.left_out, whole);
    assert!(stderr.is_cut() && attempt.seen().bytes == whole + 292 + 300_000, "{:?}", attempt.seen());
    let kept: u64 = fs::read_dir(attempt.dir())
        .expect("a directory")
        .flatten()
        .map(|file| file.metadata().expect("a file").len())
        .sum();
    assert!(kept < 2 * 4000 + 4000, "{kept}");
}
