use serde_json::value::RawValue;
use taskgate_credentials::redact::redact_line;
use taskgate_wire::jsonrpc::{Line, Lines, one_line};
use taskgate_wire::{ErrorCode, Malformed, Message, RpcError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::{mpsc, watch};

use super::process::Stop;
use super::tail::Tail;
use crate::transport::Inbound;

/// How many bytes are read at once.
const CHUNK: usize = 64 << 10;
/// A write buffer that grew beyond this for one large message is given back.
const KEPT_BUFFER: usize = 1 << 20;
/// Longest piece of stderr that becomes one log entry.
const STDERR_LINE: usize = 8 << 10;

/// Writes messages as lines until the link is dropped or the process is to stop. Ends with an error if the process
/// no longer reads. Returning closes stdin.
pub(super) async fn write(
    mut stdin: ChildStdin,
    mut outgoing: mpsc::Receiver<Message>,
    mut stopping: watch::Receiver<Stop>,
) -> std::io::Result<()> {
    let mut batch = Vec::new();
    let mut buffer = Vec::new();
    let mut open = true;
    loop {
        tokio::select! {
            taken = outgoing.recv_many(&mut batch, 64) => {
                if taken == 0 {
                    return Ok(());
                }
            }
            _ = stopping.wait_for(|stop| *stop != Stop::No), if open => {
                // What was sent before still goes out; then the channel reports its end.
                outgoing.close();
                open = false;
                continue;
            }
        }
        for message in batch.drain(..) {
            buffer.extend_from_slice(&one_line(message.to_text().as_bytes()));
            buffer.push(b'\n');
        }
        stdin.write_all(&buffer).await?;
        buffer.clear();
        buffer.shrink_to(KEPT_BUFFER);
    }
}

/// Reads lines until stdout ends. Goes on reading when nobody wants the messages any more, so that a process that is
/// being stopped is not held up by a full pipe.
pub(super) async fn read(mut stdout: ChildStdout, inbound: mpsc::Sender<Inbound>, limit: usize) {
    let mut lines = Lines::new(limit);
    let mut chunk = vec![0; CHUNK];
    loop {
        let complete = match stdout.read(&mut chunk).await {
            Ok(0) | Err(_) => break,
            Ok(read) => lines.push(&chunk[..read]),
        };
        for line in complete {
            deliver(line, &inbound).await;
        }
    }
    if let Some(line) = lines.finish() {
        deliver(line, &inbound).await;
    }
}

async fn deliver(line: Line, inbound: &mpsc::Sender<Inbound>) {
    let text = match line {
        Line::TooLong { limit, answered } => {
            let message = format!("a line is longer than the limit of {limit} bytes");
            let error = RpcError::new(ErrorCode::InvalidRequest, message);
            let _ = inbound.send(Inbound::Malformed(Malformed { id: None, answers: answered, error })).await;
            return;
        }
        Line::Text(text) => text,
    };
    // Servers of 2025-03-26 may send batches.
    if text.trim_ascii_start().starts_with(b"[")
        && let Ok(batch) = serde_json::from_slice::<Vec<&RawValue>>(&text)
    {
        for message in batch {
            let _ = inbound.send(read_one(message.get().as_bytes())).await;
        }
        return;
    }
    let _ = inbound.send(read_one(&text)).await;
}

fn read_one(text: &[u8]) -> Inbound {
    match Message::parse(text) {
        Ok(message) => message.into(),
        Err(malformed) => Inbound::Malformed(malformed),
    }
}

/// Keeps the end of stderr and passes its lines on to the log.
pub(super) async fn listen(mut stderr: ChildStderr, tail: Tail, program: String) {
    let mut chunk = vec![0; 4096];
    let mut lines = Lines::new(STDERR_LINE);
    loop {
        let complete = match stderr.read(&mut chunk).await {
            Ok(0) | Err(_) => break,
            Ok(read) => lines.push(&chunk[..read]),
        };
        for line in complete {
            heard(&program, &tail, line);
        }
    }
    if let Some(line) = lines.finish() {
        heard(&program, &tail, line);
    }
}

/// What is kept of a line is kept without the secrets that are known now: when the end of stderr is told, those of a call may be forgotten, and
/// whoever hears it may be somebody else.
fn heard(program: &str, tail: &Tail, line: Line) {
    match line {
        Line::Text(text) => {
            let clean = redact_line(&String::from_utf8_lossy(&text));
            tail.push(clean.as_bytes());
            tail.push(b"\n");
            tracing::debug!(program, stderr = %clean);
        }
        Line::TooLong { limit, .. } => tracing::debug!(program, limit, "a long line on stderr was left out"),
    }
}
