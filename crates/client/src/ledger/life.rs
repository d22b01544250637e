//! Whether whoever noted a call is alive: each life of a program holds a lock on a file of its own, which the system takes back
//! however that life ends. So several programs can share a ledger, and none goes on with what another one is at.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// How the names of the files end.
const END: &str = "life";

/// A life, for as long as this is held.
#[derive(Debug)]
pub(super) struct Life {
    path: PathBuf,
    /// Closing it gives the lock back.
    _lock: File,
}

impl Life {
    /// Begins the life of this name at this ledger. Nobody sees the file before it is locked.
    pub(super) fn begin(ledger: &Path, run: &str) -> io::Result<Life> {
        let path = file_of(ledger, run);
        let unseen = path.with_extension("new");
        let mut options = OpenOptions::new();
        options.create(true).truncate(true).write(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let lock = options.open(&unseen)?;
        lock.lock()?;
        fs::rename(&unseen, &path)?;
        Ok(Life { path, _lock: lock })
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        // One that stays is taken for what it is: of nobody who lives.
        let _ = fs::remove_file(&self.path);
    }
}

/// Whether the life of this name has ended. Its file goes then.
///
/// # Errors
///
/// If that cannot be found out.
pub(super) fn has_ended(ledger: &Path, run: &str) -> io::Result<bool> {
    let path = file_of(ledger, run);
    let file = match OpenOptions::new().write(true).open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(error),
    };
    match file.try_lock() {
        Ok(()) => {
            let _ = fs::remove_file(&path);
            Ok(true)
        }
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn file_of(ledger: &Path, run: &str) -> PathBuf {
    let mut path = ledger.as_os_str().to_owned();
    path.push(format!(".{run}.{END}"));
    path.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_ends_when_it_is_let_go() {
        let directory = tempfile::tempdir().expect("a directory");
        let ledger = directory.path().join("calls.db");
        assert!(has_ended(&ledger, "x").expect("known"));
        let life = Life::begin(&ledger, "x").expect("begun");
        assert!(!has_ended(&ledger, "x").expect("known"));
        // As a crash leaves it: the file stays and the lock goes.
        let path = life.path.clone();
        drop(life);
        assert!(!path.exists() && has_ended(&ledger, "x").expect("known"));
        fs::write(&path, "").expect("written");
        assert!(has_ended(&ledger, "x").expect("known") && !path.exists());
        assert_eq!(fs::read_dir(directory.path()).expect("read").count(), 0);
    }
}
