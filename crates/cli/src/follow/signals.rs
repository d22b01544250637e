use std::io;

use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

use crate::exit_code::{ExitCode, Failure, Signal};

/// What the operating system tells whoever follows a call.
#[derive(Debug)]
pub struct Signals {
    interrupt: Stream,
    terminate: Stream,
}

impl Signals {
    /// Catches SIGINT and SIGTERM from now on. Must be called within a tokio runtime.
    ///
    /// # Errors
    ///
    /// If they cannot be caught.
    pub fn new() -> Result<Signals, Failure> {
        let caught = || -> io::Result<Signals> {
            Ok(Signals {
                interrupt: signal(SignalKind::interrupt())?,
                terminate: signal(SignalKind::terminate())?,
            })
        };
        caught().map_err(|error| Failure::new(ExitCode::Failure, format!("cannot start: {error}")))
    }

    /// The next one. Cancel safe.
    pub async fn next(&mut self) -> Signal {
        tokio::select! {
            Some(()) = self.interrupt.recv() => Signal::Interrupt,
            Some(()) = self.terminate.recv() => Signal::Terminate,
            else => std::future::pending().await,
        }
    }
}

impl Signal {
    /// Whether it is Ctrl-C.
    pub fn is_interrupt(self) -> bool {
        self == Signal::Interrupt
    }
}
