//! Where the commands of this gateway are, and who sees to each.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use taskgate_detached::{Attempt, DetachedError, Interruption, Launcher, State, attempts};
use taskgate_engine::{Engine, Report};
use taskgate_task::Timestamp;

use super::handover::Whereabouts;

/// How many times in a row no task must have been waiting before what belongs to none is cleared away. A task is taken up in
/// two steps, and whoever looks in between sees neither the one nor the other.
const QUIET: u32 = 10;

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
    id: String,
    /// Whether other nodes carry tasks of the same store.
    is_shared: bool,
    /// How many times in a row no task was waiting to be taken up.
    quiet: AtomicU32,
    entries: Mutex<HashMap<String, Entry>>,
}

/// Who sees to an attempt.
enum Entry {
    /// An earlier process has left it; its task will be taken up if there is one.
    Left,
    /// A run of this process, or whoever stops it.
    Carried,
    /// Nobody here at the moment: a run has let go of it. Its task will have it stopped, or this process goes and the next one takes
    /// it up.
    LetGo,
    /// It is over. Its directory is kept until what became of it is settled.
    Over(Report),
    /// Nobody wants it any more: it is stopped if it runs, and removed.
    Unwanted,
}

impl Yard {
    /// Finds what an earlier process has left.
    pub fn open(commands: Commands, is_shared: bool) -> Result<Arc<Yard>, DetachedError> {
        let id = taskgate_detached::identify(&commands.work)?;
        let left = attempts(&commands.work)?.into_iter().map(|name| (name, Entry::Left)).collect();
        Ok(Arc::new(Yard { commands, id, is_shared, quiet: AtomicU32::new(0), entries: Mutex::new(left) }))
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whether the command would be here if it were anywhere. On a store of several nodes it may be on the machine of another.
    pub fn is_home_of(&self, whereabouts: &Whereabouts) -> bool {
        !self.is_shared || whereabouts.yard == self.id
    }

    pub fn work(&self) -> &Path {
        &self.commands.work
    }

    pub fn launcher(&self) -> &Launcher {
        &self.commands.launcher
    }

    /// A run sees to this attempt from now on, until the hold is dropped.
    pub fn hold(self: &Arc<Self>, name: String) -> Hold {
        self.entries.lock().insert(name.clone(), Entry::Carried);
        Hold { yard: self.clone(), name, then: Some(Entry::Unwanted) }
    }

    /// Clears away what is to be. To be called again and again, but not by a process that is about to end: whoever comes
    /// next will want what lies here.
    pub async fn tidy(&self, engine: &Engine) {
        self.disown(engine).await;
        self.forget_settled().await;
        self.clear().await;
    }

    /// What an earlier process has left and no task has claimed is nobody's: it was the work of calls that were no tasks
    /// yet. It is stopped when for some time no task has been waiting to be taken up. On a store of several nodes nobody
    /// can know that; there such a command ends by itself.
    async fn disown(&self, engine: &Engine) {
        if self.is_shared || !self.entries.lock().values().any(|entry| matches!(entry, Entry::Left)) {
            return;
        }
        let store = engine.store();
        let waiting = (store.orphans(1).await, store.ready(Timestamp::NEVER, 1).await);
        if !matches!(waiting, (Ok(orphans), Ok(ready)) if orphans.is_empty() && ready.is_empty()) {
            self.quiet.store(0, Ordering::Relaxed);
            return;
        }
        if self.quiet.fetch_add(1, Ordering::Relaxed) < QUIET {
            return;
        }
        for (name, entry) in self.entries.lock().iter_mut() {
            if matches!(entry, Entry::Left) {
                tracing::info!(attempt = name, "clearing away a command that belongs to no task");
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
            match report.is_settled().await {
                Ok(true) => {
                    self.entries.lock().insert(name, Entry::Unwanted);
                }
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(attempt = name, %error, "cannot see whether a command is settled")
                }
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
            if let Err(error) = self.clear_one(&name).await {
                tracing::warn!(attempt = name, %error, "cannot clear a command away");
            }
        }
    }

    /// Stops and removes an attempt, as far as that goes at the moment; `true` if nothing of it is left.
    pub async fn clear_one(&self, name: &str) -> Result<bool, DetachedError> {
        let (work, cleared) = (self.commands.work.clone(), name.to_owned());
        let is_gone = match tokio::task::spawn_blocking(move || clear(&work, &cleared)).await {
            Ok(cleared) => cleared?,
            // The runtime goes.
            Err(_) => false,
        };
        if is_gone {
            self.entries.lock().remove(name);
        }
        Ok(is_gone)
    }
}

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

/// A hold on an attempt: what becomes of the attempt when it is dropped depends on how far it has got.
pub struct Hold {
    yard: Arc<Yard>,
    name: String,
    /// Who sees to it then; nobody, if nothing of it is left.
    then: Option<Entry>,
}

impl Hold {
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where the attempt is has been put down: from here on whoever drops the hold only lets go of it.
    pub fn may_be_let_go(&mut self) {
        self.then = Some(Entry::LetGo);
    }

    /// The attempt is over, and its run has what became of it.
    pub fn conclude(mut self, report: Report) {
        self.then = Some(Entry::Over(report));
    }

    /// Nothing of it is left.
    pub fn forget(mut self) {
        self.then = None;
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut entries = self.yard.entries.lock();
        match self.then.take() {
            Some(entry) => entries.insert(std::mem::take(&mut self.name), entry),
            None => entries.remove(&self.name),
        };
    }
}
