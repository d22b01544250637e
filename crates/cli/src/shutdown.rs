//! When to stop: the first signal asks for a shutdown in good order, a second one insists.

use std::future::Future;
use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::exit_code::Signal;

/// The program's end, as far as it has been asked for.
#[derive(Debug)]
pub struct Shutdown(watch::Sender<Asked>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Nothing,
    /// A shutdown in good order.
    ToDrain,
    /// An end at once.
    ToStop(Signal),
}

impl Shutdown {
    /// Catches SIGINT and SIGTERM from now on. Must be called within a tokio runtime.
    pub fn on_signals() -> io::Result<Shutdown> {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let shutdown = Shutdown(watch::Sender::new(Asked::Nothing));
        let asked = shutdown.0.clone();
        tokio::spawn(async move {
            loop {
                let signal = tokio::select! {
                    Some(()) = interrupt.recv() => Signal::Interrupt,
                    Some(()) = terminate.recv() => Signal::Terminate,
                    else => return,
                };
                ask(&asked, signal);
            }
        });
        Ok(shutdown)
    }

    /// Resolves when the shutdown has been asked for.
    pub fn begun(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut asked = self.0.subscribe();
        async move {
            // Without a sender nobody can ask any more, and the program is at its end.
            let _ = asked.wait_for(|asked| *asked != Asked::Nothing).await;
        }
    }

    /// Resolves when somebody insists on an end at once.
    pub async fn insisted(&self) -> Signal {
        let mut asked = self.0.subscribe();
        loop {
            if let Asked::ToStop(signal) = *asked.borrow_and_update() {
                return signal;
            }
            if asked.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

fn ask(asked: &watch::Sender<Asked>, signal: Signal) {
    let mut is_first = false;
    asked.send_modify(|asked| {
        is_first = *asked == Asked::Nothing;
        *asked = if is_first { Asked::ToDrain } else { Asked::ToStop(signal) };
    });
    if is_first {
        tracing::info!(?signal, "stopping; a second signal stops at once");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shutdown() -> Shutdown {
        Shutdown(watch::Sender::new(Asked::Nothing))
    }

    #[tokio::test]
    async fn the_second_signal_insists() {
        let shutdown = shutdown();
        ask(&shutdown.0, Signal::Terminate);
        shutdown.begun().await;
        assert_eq!(*shutdown.0.borrow(), Asked::ToDrain);
        ask(&shutdown.0, Signal::Interrupt);
        assert_eq!(shutdown.insisted().await, Signal::Interrupt);
    }
}
