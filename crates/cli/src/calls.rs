//! What this machine remembers of calls: a ledger for each server, so that a call is found again after whoever made it has died, and
//! a mark for each of our processes that may have left something open there, so that nobody has to know which servers these are.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use taskgate_client::{Ledger, OpenCall};

use crate::endpoint::Named;
use crate::exit_code::{ExitCode, Failure};
use crate::store::{fingerprint, state_dir};

/// How the names of marks end.
const MARK: &str = "open";

/// A ledger, for as long as it is used.
#[derive(Debug)]
pub struct Remembered {
    /// The ledger.
    pub ledger: Ledger,
    /// Whoever uses it holds this lock together with others; who takes calls over must be alone.
    lock: File,
    /// The marks that go when nothing is left open.
    marks: Vec<PathBuf>,
}

/// The ledger of the server with this identity, for calls that are made or followed. `None`, with a line in the log, if there can be
/// none: a call is worth making all the same.
pub fn remember(identity: &str, named: &Named) -> Option<Remembered> {
    let opened = open(identity).and_then(|mut remembered| {
        remembered.lock.lock_shared().map_err(|error| error.to_string())?;
        remembered.marks.push(mark(identity, named).map_err(|error| error.to_string())?);
        Ok(remembered)
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
    let mut remembered = open(identity).map_err(failed)?;
    match remembered.lock.try_lock() {
        Ok(()) => {
            // Whoever has made these is gone.
            remembered.marks = marks()?.into_iter().filter(|path| is_of(path, identity)).collect();
            Ok(remembered)
        }
        Err(TryLockError::WouldBlock) => Err(failed(
            "another taskgate is following calls of this server; what is open can be taken up when it has ended".to_owned(),
        )),
        Err(TryLockError::Error(error)) => Err(failed(format!("the ledger cannot be locked: {error}"))),
    }
}

/// The servers at which something may be open: their identities, and how they were named.
pub fn open_servers() -> Result<Vec<(String, Named)>, Failure> {
    let mut servers: Vec<(String, Named)> = Vec::new();
    for path in marks()? {
        // One that cannot be read was about to be written when its maker died, and nothing was called.
        let Some((identity, name)) = read(&path) else { continue };
        if servers.iter().all(|(known, _)| *known != identity) {
            let named = Named::again(&identity, name);
            servers.push((identity, named));
        }
    }
    Ok(servers)
}

/// The calls that are open at any server, and how their servers can be found again. Nobody is kept out by looking.
pub async fn open_calls() -> Result<Vec<(OpenCall, Named)>, Failure> {
    let failed = |why: String| Failure::new(ExitCode::Failure, why);
    let mut calls = Vec::new();
    for (identity, named) in open_servers()? {
        let ledger = open(&identity).map_err(failed)?.ledger;
        let open = ledger.open_calls().await.map_err(|error| failed(error.to_string()))?;
        calls.extend(open.into_iter().map(|call| (call, named.clone())));
    }
    Ok(calls)
}

impl Remembered {
    /// Lets others in again, who make calls of their own.
    pub fn share(&self) {
        // Whatever goes wrong here goes wrong for others that want to be alone.
        let _ = self.lock.unlock().and_then(|()| self.lock.lock_shared());
    }

    /// Takes the marks away: everything that was made or taken over has come to its end.
    pub fn forget(self) {
        for mark in &self.marks {
            // One that stays costs a look at a server where nothing is open.
            let _ = fs::remove_file(mark);
        }
    }
}

fn open(identity: &str) -> Result<Remembered, String> {
    let directory = directory().map_err(|failure| failure.message)?;
    let broken = |error: io::Error| format!("{}: {error}", directory.display());
    fs::create_dir_all(&directory).map_err(broken)?;
    let name = format!("{:016x}", fingerprint(&[identity]));
    let lock = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(directory.join(format!("{name}.lock")))
        .map_err(broken)?;
    let ledger = Ledger::open(directory.join(format!("{name}.db"))).map_err(|error| error.to_string())?;
    Ok(Remembered { ledger, lock, marks: Vec::new() })
}

/// Says that something may be open there.
fn mark(identity: &str, named: &Named) -> io::Result<PathBuf> {
    let directory = directory().map_err(|failure| io::Error::other(failure.message))?;
    let text = serde_json::to_vec(&(identity, named.name()))?;
    let (server, process) = (fingerprint(&[identity]), std::process::id());
    // Numbers of processes come again, and a mark of another life must stay.
    for number in 0_u32.. {
        let path = directory.join(format!("{server:016x}-{process}-{number}.{MARK}"));
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(mut file) => return file.write_all(&text).map(|()| path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn marks() -> Result<Vec<PathBuf>, Failure> {
    let entries = match fs::read_dir(directory()?) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => {
            return Err(Failure::new(ExitCode::Failure, format!("what is open cannot be read: {error}")));
        }
    };
    let paths = entries.flatten().map(|entry| entry.path());
    let mut marks: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|end| end == MARK)).collect();
    marks.sort();
    Ok(marks)
}

fn is_of(mark: &Path, identity: &str) -> bool {
    read(mark).is_some_and(|(marked, _)| marked == identity)
}

fn read(mark: &Path) -> Option<(String, Option<String>)> {
    serde_json::from_slice(&fs::read(mark).ok()?).ok()
}

fn directory() -> Result<PathBuf, Failure> {
    Ok(state_dir()?.join("calls"))
}
