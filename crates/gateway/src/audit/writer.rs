//! Writes the lines, one thread at a time and never one that others run on.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::{AuditPlace, State};

/// How many lines are written at a time.
const BATCH: usize = 512;
/// How much is kept that could not be written, before whoever has another line waits.
const MOST_KEPT: usize = 4 << 20;
/// When to try again.
const AGAIN: Duration = Duration::from_millis(250);

/// What the writer is to do.
pub(super) enum Order {
    /// Write this line, and say so.
    Line(String, Option<oneshot::Sender<()>>),
    /// Open the file again.
    Reopen,
    /// Say when everything before was written.
    Flush(oneshot::Sender<()>),
}

pub(super) struct Writer {
    orders: mpsc::Receiver<Order>,
    state: Arc<State>,
    sink: Sink,
    /// Whole lines that are to be written.
    kept: Vec<u8>,
    flushes: Vec<oneshot::Sender<()>>,
}

/// Where the lines go.
enum Sink {
    File { path: PathBuf, file: File, is_torn: bool },
    Stdout,
    Stderr,
}

impl Writer {
    pub(super) fn open(
        place: &AuditPlace,
        orders: mpsc::Receiver<Order>,
        state: Arc<State>,
    ) -> Result<Writer, String> {
        let sink = match place {
            AuditPlace::File(path) => {
                let file = open(path).map_err(|error| format!("cannot open {}: {error}", path.display()))?;
                Sink::File { path: path.clone(), file, is_torn: false }
            }
            AuditPlace::Stdout => Sink::Stdout,
            AuditPlace::Stderr => Sink::Stderr,
        };
        Ok(Writer { orders, state, sink, kept: Vec::new(), flushes: Vec::new() })
    }

    /// Until nobody has anything to write any more.
    pub(super) async fn run(mut self) {
        loop {
            let mut batch = Vec::new();
            if self.kept.is_empty() {
                if self.orders.recv_many(&mut batch, BATCH).await == 0 {
                    return;
                }
            } else {
                let has_room = self.kept.len() < MOST_KEPT;
                tokio::select! {
                    () = tokio::time::sleep(AGAIN) => {}
                    received = self.orders.recv_many(&mut batch, BATCH), if has_room => if received == 0 { return },
                }
            }
            let mut seen = Vec::new();
            let mut reopens = false;
            for order in batch {
                match order {
                    Order::Line(line, done) => {
                        self.kept.extend_from_slice(line.as_bytes());
                        seen.extend(done);
                    }
                    Order::Reopen => reopens = true,
                    Order::Flush(done) => self.flushes.push(done),
                }
            }
            self = match self.write(reopens).await {
                Some(writer) => writer,
                None => return,
            };
            // Whoever waits for its line need not wait for a disk that is full: the line is lost, or kept.
            seen.into_iter().for_each(|done| {
                let _ = done.send(());
            });
            if self.kept.is_empty() {
                self.flushes.drain(..).for_each(|done| {
                    let _ = done.send(());
                });
            }
        }
    }

    /// `None` if the program is at its end.
    async fn write(mut self, reopens: bool) -> Option<Writer> {
        tokio::task::spawn_blocking(move || {
            if reopens {
                self.sink.reopen();
            }
            let result = self.sink.write(&mut self.kept, &self.state);
            let was_failing = self.state.is_failing.swap(result.is_err(), Ordering::Relaxed);
            match result {
                Err(error) if !was_failing => {
                    tracing::error!(%error, "the audit log cannot be written");
                }
                Ok(()) if was_failing => {
                    tracing::warn!(lost = self.state.lost.get(), "the audit log is written again");
                }
                Ok(()) | Err(_) => {}
            }
            if self.state.is_failing.load(Ordering::Relaxed) && !self.state.keeps {
                let lost = count(&self.kept);
                self.state.lost.inc_by(lost);
                self.kept.clear();
            }
            self
        })
        .await
        .ok()
    }
}

impl Sink {
    /// What cannot be opened stays as it is: the old file still takes lines.
    fn reopen(&mut self) {
        if let Sink::File { path, file, is_torn } = self {
            match open(path) {
                Ok(fresh) => (*file, *is_torn) = (fresh, false),
                Err(error) => {
                    tracing::error!(file = %path.display(), %error, "the audit log cannot be opened again; it goes on where it was");
                }
            }
        }
    }

    /// Writes whole lines and takes away those that were written.
    fn write(&mut self, lines: &mut Vec<u8>, state: &State) -> io::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        let mut done = 0;
        let result = match self {
            Sink::Stdout => write_all(io::stdout().lock(), lines, &mut done),
            Sink::Stderr => write_all(io::stderr().lock(), lines, &mut done),
            Sink::File { file, is_torn, .. } => {
                // A line that broke off is ended, so that it spoils no other.
                let ended = if *is_torn { file.write_all(b"\n") } else { Ok(()) };
                ended.and_then(|()| {
                    let result = write_all(&*file, lines, &mut done);
                    *is_torn = result.is_err() && !lines.get(..done).is_none_or(ends_line);
                    result
                })
            }
        };
        let whole = lines.iter().take(done).rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let written = lines.get(..whole).map_or(0, count);
        state.written.inc_by(written);
        lines.drain(..whole);
        result
    }
}

fn ends_line(written: &[u8]) -> bool {
    written.is_empty() || written.ends_with(b"\n")
}

/// As the standard library does it, but it says how far it has come.
fn write_all(mut to: impl Write, bytes: &[u8], done: &mut usize) -> io::Result<()> {
    while let Some(rest) = bytes.get(*done..).filter(|rest| !rest.is_empty()) {
        match to.write(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => *done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    to.flush()
}

fn count(lines: &[u8]) -> u64 {
    lines.iter().filter(|byte| **byte == b'\n').count() as u64
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}
