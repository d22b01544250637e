//! Logs go to stderr: stdout belongs to MCP, or to what a command was asked to print. What is known as a secret is taken out of them.

use std::io::{self, IsTerminal, Write, stderr};

use taskgate_gateway::redact::redact_line;

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
        .with_writer(|| Discreet)
        .with_ansi(stderr().is_terminal())
        .init();
    Ok(())
}

/// Takes what must not be seen out of what is logged. Each line comes as a whole.
struct Discreet;

impl Write for Discreet {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        stderr().write_all(redact_line(&String::from_utf8_lossy(line)).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        stderr().flush()
    }
}
