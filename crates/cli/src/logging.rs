//! Logs go to stderr: stdout belongs to MCP, or to what a command was asked to print.

use std::io::{IsTerminal, stderr};

use tracing_subscriber::EnvFilter;

use crate::exit_code::{ExitCode, Failure};

/// The variable that says what is logged, in the words of `tracing`'s `EnvFilter`, such as `taskgate=debug`.
pub const VARIABLE: &str = "TASKGATE_LOG";

/// Our own crates, whose names all begin with `taskgate`, may tell what they do; others only what is wrong.
const DEFAULT: &str = "warn,taskgate=info";

/// Starts logging.
pub fn start() -> Result<(), Failure> {
    let invalid = |error: String| Failure::new(ExitCode::Invalid, format!("{VARIABLE}: {error}"));
    let filter = match std::env::var(VARIABLE) {
        Ok(wanted) if !wanted.is_empty() => {
            EnvFilter::try_new(wanted).map_err(|error| invalid(error.to_string()))?
        }
        Ok(_) | Err(std::env::VarError::NotPresent) => EnvFilter::new(DEFAULT),
        Err(error) => return Err(invalid(error.to_string())),
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(stderr)
        .with_ansi(stderr().is_terminal())
        .init();
    Ok(())
}
