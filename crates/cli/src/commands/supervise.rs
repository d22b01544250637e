//! `taskgate supervise`: sees one command to its end, whether or not a gateway lives.

use crate::args::Supervise;
use crate::exit_code::{ExitCode, Failure};

/// The words that start it, before the attempt's directory.
pub const WORDS: [&str; 1] = ["supervise"];

/// Runs the command of the attempt. What it complains of is kept beside the command's output.
pub fn run(supervise: &Supervise) -> Result<(), Failure> {
    taskgate_detached::supervise(&supervise.dir).map_err(|error| Failure::new(ExitCode::Failure, error))
}
