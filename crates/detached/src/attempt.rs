//! An attempt as whoever started it sees it, and whoever comes later.

use std::fs::{self, DirBuilder, File, Metadata, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::DetachedError;
use crate::durable;
use crate::output::{Output, Seen};
use crate::process::kill_leftovers;
use crate::record::{Begun, Leader, Spec, Status, boot_id, name};

/// One run of a command: a directory, and a supervisor that may or may not live.
#[derive(Debug, Clone)]
pub struct Attempt {
    dir: PathBuf,
    spec: Spec,
}

/// Where an attempt stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// The command has not been started, and nobody is about to unless a supervisor has just been started.
    Waiting,
    /// Its supervisor lives.
    Running,
    /// It has ended, and this is how.
    Ended(Status),
    /// It may have run, and how it ended is not known.
    Interrupted(Interruption),
}

/// Why it is not known how a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interruption {
    /// The machine was restarted.
    Reboot,
    /// Its supervisor was killed. What that has left is still to be [ended](Attempt::end_leftovers).
    Killed,
}

/// The id of a work directory, which it gets when it is first asked for and then keeps. The directory is made if it is missing.
///
/// # Errors
///
/// If the system refuses.
pub fn identify(work: &Path) -> Result<String, DetachedError> {
    const ID: &str = ".id";
    make_private(true, work)?;
    if let Some(id) = durable::read(work, ID)? {
        return Ok(id);
    }
    let random = Path::new("/proc/sys/kernel/random/uuid");
    let id = fs::read_to_string(random).map_err(DetachedError::file("read", random))?.trim().to_owned();
    durable::write(work, ID, &id)?;
    Ok(id)
}

/// The names of the attempts in a work directory. There are none if the directory is not there.
///
/// # Errors
///
/// If the directory cannot be read.
pub fn attempts(work: &Path) -> Result<Vec<String>, DetachedError> {
    let entries = match fs::read_dir(work) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(DetachedError::file("read", work)(error)),
    };
    Ok(entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| is_name(name))
        .collect())
}

/// Its records say what is run and what comes of it, which is nobody else's business.
fn make_private(is_there_perhaps: bool, dir: &Path) -> Result<(), DetachedError> {
    let made = DirBuilder::new().recursive(is_there_perhaps).mode(0o700).create(dir);
    made.map_err(DetachedError::file("make", dir))?;
    if is_there_perhaps { check_private(dir) } else { Ok(()) }
}

/// What was there before may be somebody's who wants to read it, or to say what is run: in a directory like `/tmp` anybody can be
/// first. It must belong to us or to the system, under its name and where that leads, and not be everybody's to write.
fn check_private(dir: &Path) -> Result<(), DetachedError> {
    let facts =
        |path: &Path, found: std::io::Result<Metadata>| found.map_err(DetachedError::file("look at", path));
    let this = Path::new("/proc/self");
    let us = facts(this, fs::metadata(this))?.uid();
    let (named, meant) = (facts(dir, fs::symlink_metadata(dir))?, facts(dir, fs::metadata(dir))?);
    let is_safe = |uid: u32| uid == us || uid == 0;
    let wrong = match (is_safe(named.uid()) && is_safe(meant.uid()), meant.mode() & 0o002 != 0) {
        (false, _) => "it belongs to another user",
        (true, true) => "everybody can write there",
        (true, false) => return Ok(()),
    };
    Err(DetachedError::file("use", dir)(std::io::Error::new(ErrorKind::PermissionDenied, wrong)))
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

impl Attempt {
    /// Makes the directory of an attempt in the work directory, which is made if it is missing. Nothing is started. When it
    /// returns, all of it is on disk.
    ///
    /// The name must be one that was never used before. `stdin` is what the command will read.
    ///
    /// # Errors
    ///
    /// If the name is not one, or is in use, or the system refuses.
    pub fn create(work: &Path, name: &str, spec: Spec, stdin: &[u8]) -> Result<Attempt, DetachedError> {
        if !is_name(name) {
            return Err(DetachedError::Name(name.to_owned()));
        }
        make_private(true, work)?;
        // The supervisor has another working directory, and its processes are known by the directory's one true name.
        let work = fs::canonicalize(work).map_err(DetachedError::file("find", work))?;
        let dir = work.join(name);
        make_private(false, &dir)?;
        durable::write_bytes(&dir.join(name::STDIN), stdin)?;
        durable::write_bytes(&dir.join(name::LOCK), b"")?;
        durable::write(&dir, name::SPEC, &spec)?;
        durable::sync(&work)?;
        Ok(Attempt { dir, spec })
    }

    /// Opens an attempt that was made before; `None` if there is none of that name, or only the beginning of one.
    ///
    /// # Errors
    ///
    /// If the name is not one, or its description cannot be read.
    pub fn open(work: &Path, name: &str) -> Result<Option<Attempt>, DetachedError> {
        if !is_name(name) {
            return Err(DetachedError::Name(name.to_owned()));
        }
        let Ok(work) = fs::canonicalize(work) else { return Ok(None) };
        let dir = work.join(name);
        let spec = durable::read(&dir, name::SPEC)?;
        Ok(spec.map(|spec| Attempt { dir, spec }))
    }

    /// Its directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What is run.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Where it stands now.
    ///
    /// # Errors
    ///
    /// If the directory is gone or cannot be read.
    pub fn state(&self) -> Result<State, DetachedError> {
        if let Some(status) = durable::read(&self.dir, name::STATUS)? {
            return Ok(State::Ended(status));
        }
        if self.is_supervised()? {
            return Ok(State::Running);
        }
        // It may have written its last word and ended since we looked.
        if let Some(status) = durable::read(&self.dir, name::STATUS)? {
            return Ok(State::Ended(status));
        }
        Ok(match durable::read::<Begun>(&self.dir, name::BEGUN)? {
            None => State::Waiting,
            Some(begun) if begun.boot_id != boot_id()? => State::Interrupted(Interruption::Reboot),
            Some(_) => State::Interrupted(Interruption::Killed),
        })
    }

    /// Whether somebody holds the supervisor's lock. Looking takes a shared one for a moment, and supervisors that are just
    /// starting try more than once.
    fn is_supervised(&self) -> Result<bool, DetachedError> {
        let path = self.dir.join(name::LOCK);
        let lock = File::open(&path).map_err(DetachedError::file("open", &path))?;
        match lock.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(DetachedError::file("lock", &path)(error)),
        }
    }

    /// Wants it stopped: all its processes get SIGTERM and, after the grace, SIGKILL. A command that was not started
    /// never will be.
    ///
    /// The word is a file in the directory that the supervisor looks for, twenty times a second: unlike a signal it needs no process
    /// number that may be somebody else's by now, is not lost before the supervisor is there to hear it, and anybody who
    /// knows the attempt can say it, the next gateway too.
    ///
    /// # Errors
    ///
    /// If the file cannot be written. If the whole directory is gone there is nothing to stop.
    pub fn stop(&self) -> Result<(), DetachedError> {
        let path = self.dir.join(name::STOP);
        // Not synced: a machine that goes down takes the command along.
        match durable::create(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            created => created.map(drop).map_err(DetachedError::file("write", &path)),
        }
    }

    /// Kills what an [interrupted](Interruption::Killed) command has left, and waits for its end, at most some seconds.
    /// Returns whether nobody is left. What has left the command's session is out of reach.
    ///
    /// # Errors
    ///
    /// If the records cannot be read.
    pub fn end_leftovers(&self) -> Result<bool, DetachedError> {
        let Some(begun) = durable::read::<Begun>(&self.dir, name::BEGUN)? else { return Ok(true) };
        if begun.boot_id != boot_id()? {
            return Ok(true);
        }
        let leader = durable::read::<Leader>(&self.dir, name::LEADER)?;
        Ok(kill_leftovers(&begun, leader, &self.dir))
    }

    /// What it has written on stdout so far.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub fn stdout(&self) -> Result<Output, DetachedError> {
        self.output(name::STDOUT, |status| status.stdout_lost)
    }

    /// What it has written on stderr so far.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub fn stderr(&self) -> Result<Output, DetachedError> {
        self.output(name::STDERR, |status| status.stderr_lost)
    }

    fn output(&self, name: &'static str, lost: fn(&Status) -> u64) -> Result<Output, DetachedError> {
        let output = Output::read(&self.dir, name, self.spec.output_limit);
        let mut output = output.map_err(DetachedError::file("read", &self.dir.join(name)))?;
        output.left_out += durable::read::<Status>(&self.dir, name::STATUS)?.as_ref().map_or(0, lost);
        Ok(output)
    }

    /// How far its output has got.
    pub fn seen(&self) -> Seen {
        Seen::look(&self.dir, [name::STDOUT, name::STDERR], self.spec.output_limit)
    }

    /// What its supervisor complained of, for whoever looks after the machine.
    pub fn complaints(&self) -> String {
        let log = fs::read(self.dir.join(name::LOG)).unwrap_or_default();
        String::from_utf8_lossy(&log).trim().to_owned()
    }

    /// Removes all of it. A supervisor that is only about to start finds nothing to do.
    ///
    /// # Errors
    ///
    /// [`DetachedError::InUse`] while its supervisor lives; whatever the system refuses.
    pub fn remove(&self) -> Result<(), DetachedError> {
        remove(&self.dir)
    }

    /// [`Attempt::remove`] for one that may be damaged.
    ///
    /// # Errors
    ///
    /// The same.
    pub fn remove_named(work: &Path, name: &str) -> Result<(), DetachedError> {
        if !is_name(name) {
            return Err(DetachedError::Name(name.to_owned()));
        }
        remove(&work.join(name))
    }
}

fn remove(dir: &Path) -> Result<(), DetachedError> {
    let path = dir.join(name::LOCK);
    // Held until all is gone, so that nobody begins meanwhile.
    let _lock = match File::open(&path) {
        Ok(lock) => match lock.try_lock() {
            Ok(()) => Some(lock),
            Err(TryLockError::WouldBlock) => return Err(DetachedError::InUse(dir.to_owned())),
            Err(TryLockError::Error(error)) => return Err(DetachedError::file("lock", &path)(error)),
        },
        // Without it nobody could have begun.
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(DetachedError::file("open", &path)(error)),
    };
    // The description goes first: if this is cut short, what is left is no attempt any more.
    let _ = fs::remove_file(dir.join(name::SPEC));
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(DetachedError::file("remove", dir)(error)),
        _ => Ok(()),
    }
}
