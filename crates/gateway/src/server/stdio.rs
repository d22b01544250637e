//! stdio: one client, one line a message, both eras on the same pipe.

use std::io;
use std::sync::Arc;

use futures_util::future::join_all;
use taskgate_task::{Owner, Payload};
use taskgate_wire::jsonrpc::{Line, Lines, batch_text, is_batch, one_line};
use taskgate_wire::{Id, Malformed, Message, Params, RpcError, method};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use super::{answer, lost, message, stateless_caller, too_many_requests};
use crate::backlog::{Backlog, Unread};
use crate::bounds::message_too_long;
use crate::gateway::{Gateway, LAST_WORDS};
use crate::route::{Answer, Arrival, Caller};
use crate::session::{Outlet, Session};
use crate::to_client::NoAnswer;

impl Gateway {
    /// Serves one client over a pair of pipes until its input ends or `shutdown` resolves, then drains and returns.
    pub async fn serve_stdio(
        &self,
        mut input: impl AsyncRead + Unpin,
        output: impl AsyncWrite + Unpin + Send + 'static,
        shutdown: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let (out, messages) = Outlet::new(Backlog::of_pipe(&self.0.limits));
        let backlog = messages.watch();
        let (batches, arrays) = mpsc::unbounded_channel();
        let writer = tokio::spawn(write(messages, arrays, output));
        let session = Session::over_pipes(Owner::local(), out.clone());
        let pipe =
            Pipe { gateway: self.clone(), session: session.clone(), out, batches, backlog: backlog.clone() };
        let mut lines = Lines::new(self.0.settings.max_message);
        let mut buffer = vec![0; 64 * 1024];
        tokio::pin!(shutdown);
        let ended = loop {
            // Whoever does not read what it asked for is asked nothing more, as a pipe does it.
            let take = async {
                backlog.has_room().await;
                input.read(&mut buffer).await
            };
            let read = tokio::select! {
                read = take => read,
                () = &mut shutdown => break Ok(()),
            };
            match read {
                Ok(0) => {
                    lines.finish().into_iter().for_each(|line| pipe.take(line));
                    break Ok(());
                }
                Ok(count) => lines.push(&buffer[..count]).into_iter().for_each(|line| pipe.take(line)),
                Err(error) => break Err(error),
            }
        };
        self.drain_after(session.quiet()).await;
        let _ = tokio::time::timeout(LAST_WORDS, session.quiet()).await;
        session.end();
        drop(pipe);
        // Answers that are still queued go out; a client that no longer reads does not hold the process.
        let _ = tokio::time::timeout(std::time::Duration::from_secs(1), writer).await;
        ended
    }
}

struct Pipe {
    gateway: Gateway,
    session: Arc<Session>,
    out: Outlet,
    /// Where the answers to a batch go, which are one line.
    batches: mpsc::UnboundedSender<Vec<Message>>,
    backlog: Arc<Backlog>,
}

impl Pipe {
    fn take(&self, line: Line) {
        let parsed = match &line {
            Line::Text(bytes) => {
                let text = one_line(bytes);
                if is_batch(&text) && self.session.takes_batches() {
                    return self.batch(&text);
                }
                Message::parse(&text)
            }
            Line::TooLong { limit, answered } => {
                Err(Malformed { id: None, answers: answered.clone(), error: message_too_long(*limit) })
            }
        };
        match parsed {
            Err(malformed) => {
                self.out.send(lost(&self.session, malformed));
            }
            Ok(Message::Request { id, method, params }) => self.request(id, method, params),
            Ok(Message::Notification { method, params }) => {
                self.gateway.heard(&self.session, &method, params.as_ref());
            }
            Ok(Message::Response { id, result }) => {
                self.session.answered(&id, Ok(result));
            }
            Ok(Message::Error { id: Some(id), error }) => {
                self.session.answered(&id, Err(NoAnswer::Error(error)));
            }
            Ok(Message::Error { id: None, .. }) => {
                tracing::debug!("the client reports an error without an id")
            }
        }
    }

    /// The answers to a batch go out together, when all are there; what its requests say on the way goes out at once.
    fn batch(&self, text: &[u8]) {
        let batch = match self.gateway.begin_batch(&self.session, &Arrival::default(), text, &self.out) {
            Ok(batch) => batch,
            Err(malformed) => {
                self.out.send(Message::error(malformed.id, &malformed.error));
                return;
            }
        };
        let (batches, backlog) = (self.batches.clone(), self.backlog.clone());
        tokio::spawn(async move {
            let answers: Vec<Message> = join_all(batch.answers).await.into_iter().flatten().collect();
            if !answers.is_empty() {
                backlog.takes_all(&answers);
                let _ = batches.send(answers);
            }
        });
    }

    fn request(&self, id: Id, name: String, raw: Option<Payload>) {
        let caller = match self.caller(raw.as_ref()) {
            Ok(caller) => caller,
            Err(error) => {
                self.out.send(Message::error(Some(id), &error));
                return;
            }
        };
        let (gateway, session, out) = (self.gateway.clone(), self.session.clone(), self.out.clone());
        let Some(stop) = session.began(&id) else {
            out.send(Message::error(Some(id), &too_many_requests(&gateway, session.owner(), None)));
            return;
        };
        let arrival = Arrival::default();
        tokio::spawn(async move {
            let answered = tokio::select! {
                // Once the client has cancelled, nothing more is said.
                biased;
                () = stop.notified() => cancelled(&name, &id),
                answered = answer(&gateway, &caller, &arrival, &id, &name, raw.as_ref(), &out) => Some(answered),
            };
            session.finished(&id);
            let opened = name == method::INITIALIZE && answered.as_ref().is_some_and(Result::is_ok);
            if let Some(answered) = answered {
                out.send(message(id, answered));
            }
            if opened {
                gateway.forward_changes(&session);
            }
        });
    }

    /// A request that names its version brings everything itself; others belong to the session.
    fn caller(&self, raw: Option<&Payload>) -> Result<Caller, RpcError> {
        let params = Params::parse(raw)?;
        if params.meta().protocol_version.is_some() {
            stateless_caller(&params, self.session.owner().clone())
        } else {
            Ok(Caller::Session(self.session.clone()))
        }
    }
}

/// A cancelled request gets no answer.
fn cancelled(name: &str, id: &Id) -> Option<Answer> {
    tracing::debug!(%name, %id, "cancelled by the client");
    None
}

async fn write(
    mut messages: Unread,
    mut batches: mpsc::UnboundedReceiver<Vec<Message>>,
    mut output: impl AsyncWrite + Unpin,
) {
    let (mut lines, backlog) = (Vec::new(), messages.watch());
    loop {
        let (mut next, answers) = tokio::select! {
            biased;
            Some(message) = messages.recv() => (Some(message), None),
            // What the requests of a batch said on the way goes out before their answers.
            Some(answers) = batches.recv() => (messages.try_recv(), Some(answers)),
            else => return,
        };
        lines.clear();
        while let Some(message) = next {
            line(&mut lines, &message.to_text());
            let more = answers.is_some() || lines.len() < 64 * 1024;
            next = if more { messages.try_recv() } else { None };
        }
        if let Some(answers) = answers {
            line(&mut lines, &batch_text(&answers));
            backlog.read_all(&answers);
        }
        if output.write_all(&lines).await.is_err() || output.flush().await.is_err() {
            // The client no longer reads; its input will end too.
            return;
        }
    }
}

fn line(lines: &mut Vec<u8>, text: &str) {
    lines.extend_from_slice(text.as_bytes());
    lines.push(b'\n');
}
