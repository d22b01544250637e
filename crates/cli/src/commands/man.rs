//! `taskgate man`: the manual, one page for each command.

use std::fs;

use clap::CommandFactory;

use crate::args::{Args, Manual};
use crate::exit_code::{ExitCode, Failure};
use crate::say::say;

/// Writes all pages into a directory, or prints the first one.
pub fn run(args: &Manual) -> Result<(), Failure> {
    match &args.directory {
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Args::command())
                .render(&mut page)
                .map_err(|error| broken(&"stdout", &error))?;
            say(String::from_utf8_lossy(&page))
        }
        Some(directory) => {
            let written = fs::create_dir_all(directory)
                .and_then(|()| clap_mangen::generate_to(Args::command(), directory));
            written.map_err(|error| broken(&directory.display(), &error))
        }
    }
}

fn broken(what: &dyn std::fmt::Display, error: &std::io::Error) -> Failure {
    Failure::new(ExitCode::Failure, format!("{what}: {error}"))
}
