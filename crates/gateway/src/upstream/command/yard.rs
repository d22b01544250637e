//! Where the commands of this gateway are, and who sees to each.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use taskgate_detached::{Attempt, DetachedError, Interruption, Launcher, State, attempts};
use taskgate_engine::Report;

use super::handover;

/// What is needed to run commands that outlive this process.
#[derive(Debug, Clone)]
pub struct Commands {
    /// A directory for them, of this gateway's alone, that lies beside the store: what is found in it and belongs to no task of the
    /// store is stopped and removed. It is made if it is missing.
    pub work: PathBuf,
    /// How their supervisors are started.
    pub launcher: Launcher,
}

/// The attempts in the work directory. Every one that is there has an entry.
pub struct Yard {
    commands: Commands,
    entries: Mutex<HashMap<String, Entry>>,
}

/// Who sees to an attempt.
enum Entry {
    /// An earlier process has left it; its task will be taken up if there is one.
    Left,
    /// A run of this process.
    Carried,
    /// A later process: this one goes.
    HandedOver,
    /// It is over. Its directory is kept until what became of it is settled.
    Over(Report),
    /// Nobody wants it any more: it is stopped if it runs, and removed.
    Unwanted,
}

impl Yard {
    /// Finds what an earlier process has left.
    pub fn open(commands: Commands) -> Result<Arc<Yard>, DetachedError> {
        let left = attempts(&commands.work)?.into_iter().map(|name| (name, Entry::Left)).collect();
        Ok(Arc::new(Yard { commands, entries: Mutex::new(left) }))
    }

    pub fn work(&self) -> &Path {
        &self.commands.work
    }

    pub fn launcher(&self) -> &Launcher {
        &self.commands.launcher
    }

    /// A run sees to this attempt from now on, until the hold is dropped.
    pub fn hold(self: &Arc<Self>, name: String, report: Report) -> Hold {
        self.entries.lock().insert(name.clone(), Entry::Carried);
        Hold { yard: self.clone(), name, report, over: false }
    }

    /// Clears away what is to be. To be called again and again, but not by a process that is about to end: whoever comes
    /// next will want what lies here.
    pub async fn tidy(&self) {
        self.forget_settled().await;
        self.clear().await;
    }

    /// What an earlier process has left and no task has claimed is nobody's: it was the work of calls that were no tasks yet.
    /// To be called when every task has been taken up.
    pub fn disown_the_rest(&self) {
        for (name, entry) in self.entries.lock().iter_mut() {
            if matches!(entry, Entry::Left) {
                tracing::info!(attempt = name, "stopping a command that belongs to no task");
                *entry = Entry::Unwanted;
            }
        }
    }

    async fn forget_settled(&self) {
        let over: Vec<(String, Report)> = {
            let entries = self.entries.lock();
            let over = entries.iter().filter_map(|(name, entry)| match entry {
                Entry::Over(report) => Some((name.clone(), report.clone())),
                _ => None,
            });
            over.collect()
        };
        for (name, report) in over {
            if handover::is_settled(&report).await {
                self.entries.lock().insert(name, Entry::Unwanted);
            }
        }
    }

    async fn clear(&self) {
        let unwanted: Vec<String> = {
            let entries = self.entries.lock();
            let unwanted = entries.iter().filter(|(_, entry)| matches!(entry, Entry::Unwanted));
            unwanted.map(|(name, _)| name.clone()).collect()
        };
        for name in unwanted {
            let (work, cleared) = (self.commands.work.clone(), name.clone());
            let cleared = tokio::task::spawn_blocking(move || clear(&work, &cleared)).await;
            match cleared {
                Ok(Ok(true)) => {
                    self.entries.lock().remove(&name);
                }
                Ok(Ok(false)) => {}
                Ok(Err(error)) => tracing::warn!(attempt = name, %error, "cannot clear a command away"),
                Err(error) => tracing::debug!(attempt = name, %error, "not cleared away"),
            }
        }
    }
}

/// Stops and removes an attempt, as far as that goes at the moment; `true` if nothing of it is left.
fn clear(work: &Path, name: &str) -> Result<bool, DetachedError> {
    // One that cannot be read can only be removed.
    if let Ok(Some(attempt)) = Attempt::open(work, name) {
        match attempt.state() {
            Ok(State::Running) => {
                attempt.stop()?;
                return Ok(false);
            }
            Ok(State::Interrupted(Interruption::Killed)) if !attempt.end_leftovers()? => return Ok(false),
            _ => {}
        }
    }
    match Attempt::remove_named(work, name) {
        // Its supervisor was quicker.
        Err(DetachedError::InUse(_)) => Ok(false),
        removed => removed.map(|()| true),
    }
}

/// A run's hold on its attempt. Dropped before the attempt is over, it stops the command, unless this process goes and
/// leaves it to the next one.
pub struct Hold {
    yard: Arc<Yard>,
    name: String,
    report: Report,
    over: bool,
}

impl Hold {
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn report(&self) -> &Report {
        &self.report
    }

    /// The attempt is over, and the run has what became of it.
    pub fn is_over(mut self) {
        self.over = true;
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let entry = if self.over {
            Entry::Over(self.report.clone())
        } else if handover::is_leaving(&self.report) {
            Entry::HandedOver
        } else {
            // At once and not in the background: this process may end before anybody comes to it.
            let stopped = Attempt::open(self.yard.work(), &self.name);
            if let Err(error) = stopped.and_then(|attempt| attempt.map_or(Ok(()), |attempt| attempt.stop())) {
                tracing::warn!(attempt = self.name, %error, "cannot stop a command; trying again");
            }
            Entry::Unwanted
        };
        self.yard.entries.lock().insert(std::mem::take(&mut self.name), entry);
    }
}
