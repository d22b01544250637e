//! What waits for a client that does not read.
//!
//! The client's own connection holds up what is written to it; what comes meanwhile waits in memory, and somebody who never reads must
//! not fill that. Beyond the limit, progress and logs are left out, which nobody needs to have seen, and answers are kept, which
//! somebody waits for; whatever else there is ends the stream, so that its client knows that it has missed something.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use taskgate_wire::{Message, method};
use tokio::sync::{Notify, mpsc};

use crate::bounds::Limits;

/// How much waits.
pub struct Backlog {
    waiting: AtomicUsize,
    most: usize,
    /// Whether what is neither an answer nor to be left out is kept, too: on a connection that carries everything, its reader's own
    /// requests are held up instead.
    keeps: bool,
    limits: Arc<Limits>,
    shrunk: Notify,
}

/// Where what waits is read.
pub struct Unread {
    messages: mpsc::UnboundedReceiver<Message>,
    backlog: Arc<Backlog>,
}

impl Backlog {
    /// Of a stream that can be ended.
    pub fn of_stream(limits: &Arc<Limits>) -> Backlog {
        Backlog {
            waiting: AtomicUsize::new(0),
            most: limits.backlog(),
            keeps: false,
            limits: limits.clone(),
            shrunk: Notify::new(),
        }
    }

    /// Of a connection that carries everything.
    pub fn of_pipe(limits: &Arc<Limits>) -> Backlog {
        Backlog { keeps: true, ..Backlog::of_stream(limits) }
    }

    /// Whether a message is to be sent; `None` if it cannot be, and must not be left out either.
    pub fn takes(&self, message: &Message) -> Option<bool> {
        let size = size(message);
        let before = self.waiting.fetch_add(size, Ordering::Relaxed);
        // One message always fits, however long it is: it waits for nobody.
        if before == 0 || before + size <= self.most {
            return Some(true);
        }
        let can_miss = matches!(
            message,
            Message::Notification { method, .. } if matches!(method.as_str(), method::PROGRESS | method::LOG_MESSAGE)
        );
        if !can_miss && (self.keeps || !matches!(message, Message::Notification { .. })) {
            return Some(true);
        }
        self.waiting.fetch_sub(size, Ordering::Relaxed);
        if can_miss {
            self.limits.numbers.left_out.inc();
            return Some(false);
        }
        None
    }

    /// Counts the answers to a batch, which are kept like any answer.
    pub fn takes_all(&self, answers: &[Message]) {
        self.waiting.fetch_add(answers.iter().map(size).sum(), Ordering::Relaxed);
    }

    /// They have been read.
    pub fn read_all(&self, answers: &[Message]) {
        self.waiting.fetch_sub(answers.iter().map(size).sum(), Ordering::Relaxed);
        self.shrunk.notify_waiters();
    }

    fn read(&self, message: &Message) {
        self.waiting.fetch_sub(size(message), Ordering::Relaxed);
        self.shrunk.notify_waiters();
    }

    /// Whether its reader is too far behind.
    fn is_full(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > self.most
    }

    /// Resolves when it is not.
    pub async fn has_room(&self) {
        loop {
            let shrunk = self.shrunk.notified();
            if !self.is_full() {
                return;
            }
            shrunk.await;
        }
    }
}

impl std::fmt::Debug for Backlog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Backlog")
            .field("waiting", &self.waiting)
            .field("most", &self.most)
            .finish_non_exhaustive()
    }
}

impl Unread {
    pub(crate) fn new(messages: mpsc::UnboundedReceiver<Message>, backlog: Arc<Backlog>) -> Self {
        Unread { messages, backlog }
    }

    /// The next message; `None` when there will be none.
    pub async fn recv(&mut self) -> Option<Message> {
        let message = self.messages.recv().await?;
        self.backlog.read(&message);
        Some(message)
    }

    /// The next message, if there is one now.
    pub fn try_recv(&mut self) -> Option<Message> {
        let message = self.messages.try_recv().ok()?;
        self.backlog.read(&message);
        Some(message)
    }

    /// The same, for a stream.
    pub fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Option<Message>> {
        let polled = self.messages.poll_recv(context);
        if let Poll::Ready(Some(message)) = &polled {
            self.backlog.read(message);
        }
        polled
    }

    /// Tells whoever takes more from the client to wait until it reads.
    pub fn watch(&self) -> Arc<Backlog> {
        self.backlog.clone()
    }
}

/// How much memory a message takes, about.
fn size(message: &Message) -> usize {
    const AROUND: usize = 128;
    let (name, payload) = match message {
        Message::Request { method, params, .. } | Message::Notification { method, params } => {
            (method.len(), params.as_ref())
        }
        Message::Response { result, .. } => (0, Some(result)),
        Message::Error { error, .. } => (0, Some(error)),
    };
    AROUND + name + payload.map_or(0, |payload| payload.as_str().len())
}

#[cfg(test)]
mod tests {
    use taskgate_task::Payload;
    use taskgate_wire::Id;

    use super::*;
    use crate::bounds::LimitSettings;

    fn notification(method: &str) -> Message {
        let params = Payload::parse(format!("\"{}\"", "x".repeat(400))).expect("JSON");
        Message::Notification { method: method.to_owned(), params: Some(params) }
    }

    /// A client that does not read its batches asks for no more.
    #[test]
    fn answers_to_a_batch_count() {
        let limits = Limits::new(LimitSettings { backlog: 1024, ..LimitSettings::default() });
        let answers = vec![Message::Response { id: Id::number(1), result: Payload::null() }; 10];
        let backlog = Backlog::of_pipe(&limits);
        backlog.takes_all(&answers);
        assert!(backlog.is_full());
        assert_eq!(backlog.takes(&notification(method::PROGRESS)), Some(false));
        backlog.read_all(&answers);
        assert!(!backlog.is_full());
        assert_eq!(backlog.waiting.load(Ordering::Relaxed), 0);
    }

    /// Progress is left out first, news end the stream, and an answer is always kept.
    #[test]
    fn what_nobody_reads_is_left_out_ends_the_stream_or_is_kept() {
        let limits = Limits::new(LimitSettings { backlog: 1024, ..LimitSettings::default() });
        let answer = Message::Response { id: Id::number(1), result: Payload::null() };
        for (backlog, of_news) in
            [(Backlog::of_stream(&limits), None), (Backlog::of_pipe(&limits), Some(true))]
        {
            assert_eq!(backlog.takes(&notification(method::TASK_NOTIFICATION)), Some(true));
            assert_eq!(backlog.takes(&notification(method::PROGRESS)), Some(false));
            assert_eq!(backlog.takes(&notification(method::LOG_MESSAGE)), Some(false));
            assert_eq!(backlog.takes(&notification(method::TASK_NOTIFICATION)), of_news);
            assert_eq!(backlog.takes(&answer), Some(true));
            assert_eq!(backlog.takes(&notification(method::PROGRESS)), Some(false));
            backlog.read(&notification(method::TASK_NOTIFICATION));
            if of_news.is_some() {
                backlog.read(&notification(method::TASK_NOTIFICATION));
            }
            assert!(!backlog.is_full());
            assert_eq!(backlog.takes(&notification(method::PROGRESS)), Some(true));
        }
        assert_eq!(limits.numbers.left_out.get(), 6);
    }

    /// However long one message is, it goes out to whoever reads.
    #[test]
    fn a_single_long_message_always_fits() {
        let limits = Limits::new(LimitSettings { backlog: 1024, ..LimitSettings::default() });
        let backlog = Backlog::of_stream(&limits);
        let params = Payload::parse(format!("\"{}\"", "x".repeat(10_000))).expect("JSON");
        let long =
            Message::Notification { method: method::TASK_NOTIFICATION.to_owned(), params: Some(params) };
        assert_eq!(backlog.takes(&long), Some(true));
        backlog.read(&long);
        assert_eq!(backlog.takes(&long), Some(true));
    }
}
