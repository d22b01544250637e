use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, OnceLock};
use std::{fs, io, thread};

use crate::record::name;
use crate::{Attempt, DetachedError};

/// How a supervisor is started: the program, and the words before the attempt's directory.
#[derive(Debug, Clone)]
pub struct Launcher {
    /// The program. It must call [`supervise`](crate::supervise) with the directory it is given.
    pub program: PathBuf,
    /// The words before the directory.
    pub args: Vec<String>,
}

impl Launcher {
    /// The running program itself with these words, even if its file has been replaced or removed meanwhile: the
    /// supervisor then is of the same version.
    pub fn this_program(args: &[&str]) -> Launcher {
        let args = args.iter().map(|word| (*word).to_owned()).collect();
        Launcher { program: PathBuf::from("/proc/self/exe"), args }
    }
}

/// The variables of a command.
///
/// The supervisor itself is started with them and hands them on, so that they are written nowhere.
#[derive(Clone, Default)]
pub struct Environment {
    /// Variables to set.
    pub set: Vec<(String, String)>,
    /// Whether the command gets these only, instead of the starter's and these.
    pub clear: bool,
}

impl std::fmt::Debug for Environment {
    /// Values of variables may be secrets, so only their names are shown.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.set.iter().map(|(name, _)| name).collect();
        f.debug_struct("Environment").field("set", &names).field("clear", &self.clear).finish()
    }
}

/// A supervisor that this process has started. Dropping it changes nothing: the supervisor is not stopped.
#[derive(Debug, Clone)]
pub struct Supervisor(Arc<OnceLock<Option<ExitStatus>>>);

impl Supervisor {
    /// Whether it has ended. While it has not, an attempt that is [`State::Waiting`](crate::State::Waiting) is about to
    /// begin.
    pub fn has_ended(&self) -> bool {
        self.0.get().is_some()
    }
}

impl Attempt {
    /// Starts a supervisor. It begins the command unless one has done so before, whoever that was: of any number of
    /// supervisors only one ever does.
    ///
    /// # Errors
    ///
    /// If the program cannot be started. Whether the supervisor then did what it should, [`Attempt::state`] tells.
    pub fn start(&self, launcher: &Launcher, environment: &Environment) -> Result<Supervisor, DetachedError> {
        let path = self.dir().join(name::LOG);
        let log = fs::OpenOptions::new().append(true).create(true).mode(0o600).open(&path);
        let log = log.map_err(DetachedError::file("write", &path))?;
        let mut command = Command::new(&launcher.program);
        command.args(&launcher.args).arg(self.dir()).current_dir("/");
        // For people who look at the list of processes.
        command.arg0("taskgate");
        // None of them may be a pipe of ours: it shall not notice our end.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        if environment.clear {
            command.env_clear();
        }
        command.envs(environment.set.iter().map(|(name, value)| (name, value)));
        let failed = |source: io::Error| DetachedError::Launch { program: launcher.program.clone(), source };
        let mut child = command.spawn().map_err(failed)?;
        let ended = Arc::new(OnceLock::new());
        let end = ended.clone();
        // Somebody must ask for its status, or it stays as a zombie. A thread costs little beside a process.
        let waiting = thread::Builder::new().name("taskgate-command".to_owned()).stack_size(64 << 10);
        waiting.spawn(move || end.set(child.wait().ok())).map_err(failed)?;
        Ok(Supervisor(ended))
    }
}
