//! What the program's exit code says.

use std::fmt;

/// The exit codes of `taskgate`. Scripts and service managers may rely on them: a code never changes its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitCode {
    /// 0: all is well; a server was told to stop and has stopped in good order.
    Success,
    /// 1: something went wrong that has no code of its own.
    Failure,
    /// 2: the command line or the configuration is not valid. Starting again with the same words is no use.
    Invalid,
    /// 3: the store cannot be opened: another taskgate has it, or the file is not ours, not readable or damaged.
    StoreUnavailable,
    /// 4: the address cannot be listened on: it is in use, or not ours.
    AddressUnavailable,
    /// 5: a store was checked, and what was found in it cannot be so.
    Unsound,
    /// 10: the tool was called and says that it failed.
    ToolError,
    /// 11: the call or its task failed: the server answered with an error.
    Failed,
    /// 12: the call was cancelled.
    Cancelled,
    /// 13: the server asks something, and nobody is here to answer it.
    NeedsInput,
    /// 14: the deadline is over; a task goes on.
    Timeout,
    /// 15: the server cannot be reached.
    Unreachable,
    /// 16: there is no such task, or not any more.
    NoTask,
    /// 17: the call was sent and its answer is lost: the tool may have run or not.
    Uncertain,
    /// 18: a signal ended the following of a call; a task goes on.
    Detached,
    /// 128 and the signal's number: a second signal came while the first one's shutdown was still going on.
    Killed(Signal),
}

/// A signal that asks the program to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT: Ctrl-C.
    Interrupt,
    /// SIGTERM: a service manager or an MCP host.
    Terminate,
}

/// The exit codes for the help text.
pub const HELP: &str = "\
Exit codes:
  0        all is well
  1        something else went wrong
  2        the command line or the configuration is not valid
  3        the store cannot be opened
  4        the address cannot be listened on
  5        the checked store is damaged
  10       the tool reports an error
  11       the call or its task failed
  12       the call was cancelled
  13       the server asks something that nobody here can answer
  14       the deadline is over
  15       the server cannot be reached
  16       there is no such task
  17       the tool may have run or not
  18       no longer followed because of a signal
  130/143  a second SIGINT/SIGTERM cut the shutdown short";

impl ExitCode {
    /// The number the operating system gets.
    pub fn number(self) -> u8 {
        match self {
            ExitCode::Success => 0,
            ExitCode::Failure => 1,
            ExitCode::Invalid => 2,
            ExitCode::StoreUnavailable => 3,
            ExitCode::AddressUnavailable => 4,
            ExitCode::Unsound => 5,
            ExitCode::ToolError => 10,
            ExitCode::Failed => 11,
            ExitCode::Cancelled => 12,
            ExitCode::NeedsInput => 13,
            ExitCode::Timeout => 14,
            ExitCode::Unreachable => 15,
            ExitCode::NoTask => 16,
            ExitCode::Uncertain => 17,
            ExitCode::Detached => 18,
            ExitCode::Killed(Signal::Interrupt) => 130,
            ExitCode::Killed(Signal::Terminate) => 143,
        }
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        code.number().into()
    }
}

/// Why the program ends with another code than 0.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    /// The code it ends with.
    pub code: ExitCode,
    /// What the user is told on stderr.
    pub message: String,
}

impl Failure {
    /// A failure with this code.
    pub fn new(code: ExitCode, message: impl fmt::Display) -> Self {
        Failure { code, message: message.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_names_every_code() {
        for code in [
            ExitCode::Success,
            ExitCode::Failure,
            ExitCode::Invalid,
            ExitCode::StoreUnavailable,
            ExitCode::AddressUnavailable,
            ExitCode::Unsound,
            ExitCode::ToolError,
            ExitCode::Failed,
            ExitCode::Cancelled,
            ExitCode::NeedsInput,
            ExitCode::Timeout,
            ExitCode::Unreachable,
            ExitCode::NoTask,
            ExitCode::Uncertain,
            ExitCode::Detached,
            ExitCode::Killed(Signal::Interrupt),
            ExitCode::Killed(Signal::Terminate),
        ] {
            assert!(HELP.contains(&code.number().to_string()), "{code:?}");
        }
    }
}
