//! Runs commands that outlive the process that started them.
//!
//! Whoever wants a command run makes an [`Attempt`], which is a directory, and starts a supervisor for it: a process in
//! a session of its own that runs the command, keeps what it writes and how it ends, and stops it when it is told to or
//! at its deadline. The directory is all that the two share, so whoever comes later, after a `kill -9` of the starter
//! too, opens it and knows as much: [`Attempt::state`].
//!
//! No process is believed by its number alone. The supervisor holds a lock of the operating system for as long as it
//! lives; what is left of a command whose supervisor was killed is known by its session and by the mark or the start
//! time of one of its processes.
//!
//! Linux only: it reads `/proc`.

mod attempt;
mod clock;
mod durable;
mod error;
mod launcher;
mod output;
mod process;
mod record;
mod supervise;

pub use attempt::{Attempt, Interruption, State, attempts, identify};
pub use error::DetachedError;
pub use launcher::{Environment, Launcher, Supervisor};
pub use output::{Output, Seen};
pub use record::{Cause, Exit, Spec, Status};
pub use supervise::supervise;

/// The variable by which a command and all it starts can be recognised. Its value is the attempt's directory.
pub const MARK: &str = "TASKGATE_ATTEMPT";
