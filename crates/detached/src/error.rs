use std::io;
use std::path::{Path, PathBuf};

/// Why something could not be done with an attempt.
#[derive(Debug, thiserror::Error)]
pub enum DetachedError {
    /// The operating system refused something about a file.
    #[error("cannot {what} {path}: {source}")]
    File {
        /// What was tried, as the verb of the sentence.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A record is there, but makes no sense.
    #[error("{path} is damaged ({why}); the attempt's directory can only be removed")]
    Damaged {
        /// The record.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A name that is no plain name of a directory.
    #[error("{0:?} is no attempt's name: it must be letters and digits only")]
    Name(String),
    /// The supervisor could not be started.
    #[error("the supervisor {program} cannot be started: {source}")]
    Launch {
        /// The program.
        program: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The attempt cannot be removed: its supervisor lives.
    #[error("{0} is in use: its supervisor runs; stop the command first")]
    InUse(PathBuf),
    /// The supervisor cannot leave the session of whoever started it.
    #[error("no session of its own ({0}): a supervisor is started by taskgate, not from a shell")]
    Session(io::Error),
}

impl DetachedError {
    /// For `map_err`: what was tried with which file.
    pub(crate) fn file(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> DetachedError + use<> {
        let path = path.to_owned();
        move |source| DetachedError::File { what, path, source }
    }

    /// Whether it says that the attempt's directory, or a file of it, is not there.
    pub fn is_missing(&self) -> bool {
        matches!(self, DetachedError::File { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}
