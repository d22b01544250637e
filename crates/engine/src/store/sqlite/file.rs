use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::StoreError;

/// How long the lock of a dead process is waited for. It was killed while it was starting a child, which has the lock as
/// well until it has become another program.
const HANDOVER: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The store's file, held by this process alone for as long as this value lives.
///
/// What is held is a lock of the operating system on a file next to it, so that it goes with the process however
/// the process ends. SQLite's own locks cannot serve: they let several processes take turns.
#[derive(Debug)]
pub(super) struct StoreFile {
    path: PathBuf,
    _lock: File,
}

impl StoreFile {
    /// Makes the file and its directory if they are missing, and takes the lock.
    pub(super) fn claim(path: &Path) -> Result<StoreFile, StoreError> {
        let broken = |error: io::Error| StoreError::Failed(format!("{}: {error}", path.display()));
        make(path).map_err(broken)?;
        // Two ways to spell the path must lead to the same lock.
        let path = fs::canonicalize(path).map_err(broken)?;
        let mut lock_path = path.clone().into_os_string();
        lock_path.push(".lock");
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&lock_path)
            .map_err(broken)?;
        let mut waited = Duration::ZERO;
        loop {
            match lock.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) => {
                    // Who it is helps, but is not needed to refuse.
                    let holder = fs::read_to_string(&lock_path).unwrap_or_default();
                    if is_alive(holder.trim()) || waited >= HANDOVER {
                        let holder = if holder.is_empty() { "unknown" } else { holder.trim() };
                        let path = path.display();
                        return Err(StoreError::Failed(format!(
                            "{path} is open in another taskgate (process {holder})"
                        )));
                    }
                    std::thread::sleep(LOOK_AGAIN);
                    waited += LOOK_AGAIN;
                }
                Err(TryLockError::Error(error)) => return Err(broken(error)),
            }
        }
        lock.set_len(0).and_then(|()| write!(lock, "{}", std::process::id())).map_err(broken)?;
        Ok(StoreFile { path, _lock: lock })
    }

    /// The file's one true name.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// Whether there is a process of this number, and no mere remains of one, which have no command line any more.
fn is_alive(number: &str) -> bool {
    !number.is_empty() && fs::read(format!("/proc/{number}/cmdline")).is_ok_and(|line| !line.is_empty())
}

/// SQLite would make the file readable by everyone; the log files beside it get the mode of the file itself.
fn make(path: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    }
    // An existing file is not opened here: closing it again would take away SQLite's locks in this process.
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}
