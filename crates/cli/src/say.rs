//! What a command was asked to print.

use std::fmt::Display;
use std::io::{ErrorKind, Write, stdout};

use crate::exit_code::{ExitCode, Failure};

/// Prints a text on stdout. Whoever reads it may stop reading at any moment, as `head` does: that is no failure.
pub fn say(text: impl Display) -> Result<(), Failure> {
    let mut out = stdout().lock();
    match write!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(ExitCode::Failure, format!("stdout: {error}")))
        }
        _ => Ok(()),
    }
}
