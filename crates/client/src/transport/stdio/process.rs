use std::process::ExitStatus;
use std::time::Duration;

use tokio::process::Child;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::group::Group;
use super::tail::Tail;
use crate::transport::{CloseCause, CloseReason, Inbound};

/// How long to wait for the exit status after the streams have ended: usually it follows within a millisecond.
const STATUS_WAIT: Duration = Duration::from_millis(200);
/// How long to read what a dead process left in its pipes. They end at once unless a process has left the group.
const DRAIN_WAIT: Duration = Duration::from_millis(500);

/// Whether, and how, a process is to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    No,
    Gently,
    Now,
}

/// The process at the other end of a link.
#[derive(Debug, Clone)]
pub struct ProcessControl {
    pid: u32,
    stop: watch::Sender<Stop>,
    end: watch::Receiver<Option<CloseReason>>,
    tail: Tail,
}

impl ProcessControl {
    pub(super) fn new(
        pid: u32,
        stop: watch::Sender<Stop>,
        end: watch::Receiver<Option<CloseReason>>,
        tail: Tail,
    ) -> Self {
        ProcessControl { pid, stop, end, tail }
    }

    /// The process id, which is also the id of its group.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The last 64 KiB of what it wrote on stderr.
    pub fn stderr_tail(&self) -> String {
        self.tail.text().unwrap_or_default()
    }

    /// Starts stopping it: stdin is closed, then after a grace each comes SIGTERM and SIGKILL to the whole group.
    pub fn stop(&self) {
        ask(&self.stop);
    }

    /// Kills the whole group at once.
    pub fn kill(&self) {
        self.stop.send_replace(Stop::Now);
    }

    /// Waits until the process has exited and its group was cleared.
    pub async fn ended(&self) -> CloseReason {
        let mut end = self.end.clone();
        match end.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or_else(lost),
            Err(_) => lost(),
        }
    }
}

/// Asks for a stop, unless one was asked for already.
fn ask(stop: &watch::Sender<Stop>) {
    stop.send_if_modified(|stop| {
        let first = *stop == Stop::No;
        if first {
            *stop = Stop::Gently;
        }
        first
    });
}

/// The supervisor went away with its runtime.
fn lost() -> CloseReason {
    CloseReason::failed("the process is no longer supervised")
}

/// A running process and the tasks that pump its streams.
pub(super) struct Process {
    pub(super) child: Child,
    pub(super) group: Group,
    pub(super) writer: JoinHandle<std::io::Result<()>>,
    pub(super) reader: JoinHandle<()>,
    pub(super) listener: JoinHandle<()>,
    pub(super) inbound: mpsc::Sender<Inbound>,
    pub(super) stop: watch::Sender<Stop>,
    pub(super) stopping: watch::Receiver<Stop>,
    pub(super) tail: Tail,
    pub(super) grace: Duration,
}

impl Process {
    /// Sees the process to its end, whatever ends it, and reaps it.
    pub(super) async fn supervise(mut self, ended: watch::Sender<Option<CloseReason>>) {
        let mut told = false;
        let mut requested = false;
        let early = tokio::select! {
            status = self.child.wait() => Some(status.ok()),
            written = &mut self.writer => {
                // The link was dropped, or the process reads no more.
                requested = matches!(written, Ok(Ok(())));
                None
            }
            _ = &mut self.reader => None,
            () = self.inbound.closed() => {
                requested = true;
                None
            }
            _ = self.stopping.wait_for(|stop| *stop != Stop::No) => {
                requested = true;
                None
            }
        };
        let status = match early {
            Some(status) => status,
            None if requested => self.end().await,
            // A dying process closes its streams a moment before its status can be read.
            None => match timeout(STATUS_WAIT, self.child.wait()).await {
                Ok(status) => status.ok(),
                Err(_) => {
                    told = self.tell(self.reason(CloseCause::PeerClosed)).await;
                    self.end().await
                }
            },
        };
        // A stop that was asked for explains the exit better than the signal it took.
        let cause = if requested { CloseCause::Requested } else { cause(status) };
        // The leader is gone. Nobody else of the group may keep the pipes or the machine busy.
        self.group.clear();
        self.writer.abort();
        let _ = timeout(DRAIN_WAIT, async {
            // A task that was awaited to its end must not be awaited again.
            for task in [&mut self.reader, &mut self.listener] {
                if !task.is_finished() {
                    let _ = task.await;
                }
            }
        })
        .await;
        self.reader.abort();
        self.listener.abort();
        let reason = self.reason(cause);
        if !told {
            self.tell(reason.clone()).await;
        }
        ended.send_replace(Some(reason));
    }

    /// Stops the process: close stdin, wait, SIGTERM, wait, SIGKILL.
    async fn end(&mut self) -> Option<ExitStatus> {
        ask(&self.stop);
        for terminate in [false, true] {
            if terminate {
                self.group.terminate();
            }
            tokio::select! {
                status = timeout(self.grace, self.child.wait()) => {
                    if let Ok(status) = status {
                        return status.ok();
                    }
                }
                _ = self.stopping.wait_for(|stop| *stop == Stop::Now) => break,
            }
        }
        self.group.kill();
        // Where there are no groups this is what kills.
        let _ = self.child.start_kill();
        self.child.wait().await.ok()
    }

    fn reason(&self, cause: CloseCause) -> CloseReason {
        CloseReason { cause, stderr: self.tail.text().map(Into::into) }
    }

    async fn tell(&self, reason: CloseReason) -> bool {
        // A reader that does not read must not keep the process from being reaped.
        let _ = timeout(DRAIN_WAIT, self.inbound.send(Inbound::Closed(reason))).await;
        true
    }
}

fn cause(status: Option<ExitStatus>) -> CloseCause {
    #[cfg(unix)]
    if let Some(signal) = status.and_then(|status| std::os::unix::process::ExitStatusExt::signal(&status)) {
        return CloseCause::Signalled(signal);
    }
    match status.and_then(|status| status.code()) {
        Some(code) => CloseCause::Exited(code),
        None => CloseCause::PeerClosed,
    }
}
