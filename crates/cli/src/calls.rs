//! What this machine remembers of calls: a ledger for each server, so that a call is found again after whoever made it has died.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::PathBuf;

use taskgate_client::Ledger;

use crate::exit_code::{ExitCode, Failure};
use crate::store::{fingerprint, state_dir};

/// A ledger, for as long as it is used.
#[derive(Debug)]
pub struct Remembered {
    /// The ledger.
    pub ledger: Ledger,
    /// Whoever uses it holds this lock together with others; who takes calls over must be alone.
    lock: File,
}

/// The ledger of the server with this identity, for calls that are made or followed. `None`, with a line in the log, if there can be
/// none: a call is worth making all the same.
pub fn remember(identity: &str) -> Option<Remembered> {
    let opened = open(identity).and_then(|remembered| {
        let locked = remembered.lock.lock_shared().map_err(|error| error.to_string());
        locked.map(|()| remembered)
    });
    match opened {
        Ok(remembered) => Some(remembered),
        Err(why) => {
            tracing::warn!("this call is not remembered, should taskgate die: {why}");
            None
        }
    }
}

/// The same for taking over what others have left, as long as no other is alive.
pub fn take_over(identity: &str) -> Result<Remembered, Failure> {
    let failed = |why: String| Failure::new(ExitCode::Failure, why);
    let remembered = open(identity).map_err(failed)?;
    match remembered.lock.try_lock() {
        Ok(()) => Ok(remembered),
        Err(TryLockError::WouldBlock) => Err(failed(
            "another taskgate is following calls of this server; what is open can be taken up when it has ended".to_owned(),
        )),
        Err(TryLockError::Error(error)) => Err(failed(format!("the ledger cannot be locked: {error}"))),
    }
}

impl Remembered {
    /// Lets others in again, who make calls of their own.
    pub fn share(&self) {
        // Whatever goes wrong here goes wrong for others that want to be alone.
        let _ = self.lock.unlock().and_then(|()| self.lock.lock_shared());
    }
}

fn open(identity: &str) -> Result<Remembered, String> {
    let directory: PathBuf = state_dir().map_err(|failure| failure.message)?.join("calls");
    let broken = |error: std::io::Error| format!("{}: {error}", directory.display());
    fs::create_dir_all(&directory).map_err(broken)?;
    let name = format!("{:016x}", fingerprint(&[identity]));
    let lock = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(directory.join(format!("{name}.lock")))
        .map_err(broken)?;
    let ledger = Ledger::open(directory.join(format!("{name}.db"))).map_err(|error| error.to_string())?;
    Ok(Remembered { ledger, lock })
}
