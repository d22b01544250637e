//! The supervisor: runs the command of one attempt and sees it to its end, whoever has started it and wherever that is
//! now.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read};
use std::os::fd::RawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::{Pid, close, setsid};
use signal_hook::consts::SIGTERM;

use crate::output::Keep;
use crate::process::{Process, end_session};
use crate::record::{Begun, Cause, Exit, Leader, Spec, Status, boot_id, name};
use crate::{DetachedError, MARK, clock, durable};

/// How often to look whether the command is wanted stopped.
const LOOK: Duration = Duration::from_millis(50);
/// The pause before the lock is tried again: whoever only looks holds it for a moment.
const LOCK_PAUSE: Duration = Duration::from_millis(5);
/// How long to read on after the last process has ended. Pipes end with it, unless somebody has left the session.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// The pause before the status is written again, if it cannot be.
const WRITE_AGAIN: Duration = Duration::from_secs(1);

/// Runs the command of the attempt in this directory, in a session of its own, until it has ended. Does nothing if it
/// was begun before.
///
/// To be called at the start of a program that has been started for this: it closes every descriptor but the standard
/// ones, and takes SIGTERM for itself.
///
/// # Errors
///
/// If the command was not begun, for a reason that is not the command's own. Everything else is in its status.
pub fn supervise(dir: &Path) -> Result<(), DetachedError> {
    close_inherited();
    let session = setsid().map_err(|errno| DetachedError::Session(errno.into()))?.as_raw();
    // Blocking it would not do, as the command would inherit that. What is caught is back to its default there.
    let told = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGTERM, told.clone()).map_err(DetachedError::Session)?;
    let Some(_lock) = claim(dir)? else { return Ok(()) };
    // It was removed while we were on the way here.
    let Some(spec) = durable::read::<Spec>(dir, name::SPEC)? else { return Ok(()) };
    let begun = Begun { boot_id: boot_id()?, session, at_ms: clock::now() };
    if dir.join(name::STOP).exists() {
        return conclude(dir, &begun, Cause::Stopped, None, [0, 0]);
    }
    durable::write(dir, name::BEGUN, &begun)?;
    match spawn(dir, &spec) {
        Err(error) => {
            let words = why_not(&error, &spec);
            conclude(dir, &begun, Cause::NotStarted(words), None, [0, 0])
        }
        Ok(child) => see_through(dir, &spec, &begun, child, &told),
    }
}

/// Whoever has started us may have left descriptors open, which would be held by the command for hours. std closes its
/// own.
fn close_inherited() {
    let entries = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let open: Vec<RawFd> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for descriptor in open.into_iter().filter(|descriptor| *descriptor > 2) {
        // The one of the listing itself is closed already.
        let _ = close(descriptor);
    }
}

/// Takes the lock that says that we live; `None` if the command was begun before or there is nothing to begin.
fn claim(dir: &Path) -> Result<Option<File>, DetachedError> {
    let path = dir.join(name::LOCK);
    let lock = match File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(DetachedError::file("open", &path))?,
    };
    loop {
        let taken = lock.try_lock();
        // Looked at after the attempt to lock: whoever holds it writes these while it does.
        if dir.join(name::BEGUN).exists() || dir.join(name::STATUS).exists() {
            return Ok(None);
        }
        match taken {
            Ok(()) => return Ok(Some(lock)),
            Err(TryLockError::WouldBlock) => thread::sleep(LOCK_PAUSE),
            Err(TryLockError::Error(error)) => return Err(DetachedError::file("lock", &path)(error)),
        }
    }
}

fn spawn(dir: &Path, spec: &Spec) -> io::Result<Child> {
    let (program, args) = spec.argv.split_first().ok_or_else(|| io::Error::other("it has no program"))?;
    let mut command = Command::new(program);
    command.args(args).current_dir(spec.cwd.as_deref().unwrap_or(Path::new("/")));
    command.stdin(File::open(dir.join(name::STDIN))?).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mark: OsString = dir.into();
    command.env(MARK, mark).process_group(0);
    command.spawn()
}

/// The system says "not found" of the program and of its directory in the same words.
fn why_not(error: &io::Error, spec: &Spec) -> String {
    let program = spec.argv.first().map_or("", String::as_str);
    match &spec.cwd {
        Some(cwd) if error.kind() == io::ErrorKind::NotFound && !cwd.is_dir() => {
            format!("cannot start {program:?}: there is no directory {cwd:?} to run it in")
        }
        _ => format!("cannot start {program:?}: {error}"),
    }
}

fn see_through(
    dir: &Path,
    spec: &Spec,
    begun: &Begun,
    mut child: Child,
    told: &AtomicBool,
) -> Result<(), DetachedError> {
    let pumps = Pumps::start(dir, spec, &mut child);
    let first = i32::try_from(child.id()).unwrap_or(i32::MAX);
    let ended = ended(first);
    if let Some(process) = Process::find(first) {
        let leader = Leader { pid: process.pid, start: process.start };
        // Without it the mark alone has to do.
        durable::write(dir, name::LEADER, &leader).unwrap_or_else(|error| eprintln!("{error}"));
    }
    let cause = wait(dir, spec, &ended, told);
    if !end_session(begun.session, first, Duration::from_millis(spec.grace_ms)) {
        eprintln!("a process of the command cannot be killed");
    }
    // Until now the first process, dead or not, has kept its number from being given away.
    let exit = child.wait().ok().and_then(exit);
    let lost = pumps.last_words();
    conclude(dir, begun, cause, exit, lost)
}

/// Hears of the end of the command's first process. Its status is left where it is: see above.
fn ended(leader: i32) -> Receiver<()> {
    let (sender, ended) = mpsc::channel();
    let leader = Pid::from_raw(leader);
    thread::spawn(move || {
        while waitid(Id::Pid(leader), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) == Err(Errno::EINTR) {}
        let _ = sender.send(());
    });
    ended
}

/// Waits until the command has ended or is to end.
fn wait(dir: &Path, spec: &Spec, ended: &Receiver<()>, told: &AtomicBool) -> Cause {
    while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
        if told.load(Ordering::Relaxed) {
            return Cause::Shutdown;
        }
        if dir.join(name::STOP).exists() {
            return Cause::Stopped;
        }
        // Nobody else enforces it while there is no gateway.
        if spec.deadline_ms.is_some_and(|deadline| clock::now() >= deadline) {
            return Cause::Deadline;
        }
    }
    Cause::Itself
}

/// Those who read what the command writes.
struct Pumps(Receiver<(usize, u64)>);

impl Pumps {
    fn start(dir: &Path, spec: &Spec, child: &mut Child) -> Pumps {
        let (done, ends) = mpsc::channel();
        let pump = |index: usize, name, stream: Option<Box<dyn Read + Send>>| {
            let keep = Keep::new(dir, name, spec.output_limit);
            let done = done.clone();
            if let Some(stream) = stream {
                thread::spawn(move || done.send((index, keep.all(stream))));
            }
        };
        pump(0, name::STDOUT, child.stdout.take().map(|stream| Box::new(stream) as _));
        pump(1, name::STDERR, child.stderr.take().map(|stream| Box::new(stream) as _));
        Pumps(ends)
    }

    /// Waits for the ends of both streams and returns what was lost of them.
    fn last_words(self) -> [u64; 2] {
        let until = Instant::now() + LAST_WORDS;
        let mut lost = [0; 2];
        for _ in 0..2 {
            match self.0.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok((index, count)) => lost[index] = count,
                Err(_) => break,
            }
        }
        lost
    }
}

fn exit(status: ExitStatus) -> Option<Exit> {
    status.code().map(Exit::Code).or(status.signal().map(Exit::Signal))
}

/// Writes how it ended, for as long as it takes: it is known nowhere else.
fn conclude(
    dir: &Path,
    begun: &Begun,
    cause: Cause,
    exit: Option<Exit>,
    [stdout_lost, stderr_lost]: [u64; 2],
) -> Result<(), DetachedError> {
    let (begun_ms, boot_id) = (begun.at_ms, begun.boot_id.clone());
    let status = Status { cause, exit, begun_ms, ended_ms: clock::now(), boot_id, stdout_lost, stderr_lost };
    loop {
        match durable::write(dir, name::STATUS, &status) {
            Err(error) if dir.is_dir() => {
                eprintln!("{error}");
                thread::sleep(WRITE_AGAIN);
            }
            // Nobody can ask any more if the directory is gone.
            _ => return Ok(()),
        }
    }
}
