//! `taskgate completions`: what a shell needs to complete our command line.

use clap::CommandFactory;

use crate::args::{Args, Completions};
use crate::exit_code::{ExitCode, Failure};
use crate::say::say;

/// Prints it.
pub fn run(args: &Completions) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "taskgate", &mut script);
    let broken = |error| Failure::new(ExitCode::Failure, format!("the script is no text: {error}"));
    say(String::from_utf8(script).map_err(broken)?)
}
