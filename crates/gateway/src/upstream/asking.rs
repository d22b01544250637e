//! The questions of one call, from the upstream to the requestor and back.

use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;
use taskgate_client::session::{self, QuestionReply};
use taskgate_engine::{Answered, Report};
use taskgate_task::{Payload, Question};
use taskgate_wire::{Id, RpcError, meta};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Questions that arrive together are asked together: this long after the first one, others may join it.
const TOGETHER: Duration = Duration::from_millis(10);

/// The questions of one call that are not answered yet.
#[derive(Default)]
pub struct Asking {
    count: usize,
    /// When what was gathered is to be asked.
    due: Option<Instant>,
    /// Not asked yet.
    gathered: Vec<(Question, Pending)>,
    out: Vec<(oneshot::Receiver<Answered>, Pending)>,
}

/// What is to be done next.
pub enum Due {
    /// The questions that were gathered are to be asked.
    Question,
    /// An answer is to be passed on. Without one there will be none.
    Answer(Option<Answered>, Pending),
}

/// What an upstream hears when nobody could be asked, or nobody said why there is no answer.
pub fn unanswered() -> Payload {
    RpcError::internal("The client did not answer the question").to_payload()
}

/// Who waits for an answer upstream.
pub struct Pending {
    id: Id,
    reply: QuestionReply,
}

impl Asking {
    /// Takes a question, to be asked together with others.
    pub fn gather(&mut self, question: session::Question) {
        let session::Question { id, method, params, reply } = question;
        self.count += 1;
        let key = format!("{}-{}", method.split('/').next().unwrap_or("question"), self.count);
        let question = Question { key, method, params: params.map(meta::without_progress_token) };
        self.due.get_or_insert_with(|| Instant::now() + TOGETHER);
        self.gathered.push((question, Pending { id, reply }));
    }

    /// Resolves when something is to be done; never, if nothing is asked. Nothing is lost if it is dropped before.
    pub async fn next(&mut self) -> Due {
        let Asking { due, out, .. } = self;
        let answered = std::future::poll_fn(|context| {
            let ready =
                |(index, (answer, _)): (usize, &mut (oneshot::Receiver<Answered>, Pending))| match answer
                    .poll_unpin(context)
                {
                    Poll::Ready(answer) => Some((index, answer)),
                    Poll::Pending => None,
                };
            match out.iter_mut().enumerate().find_map(ready) {
                Some((index, answer)) => Poll::Ready((answer.ok(), out.swap_remove(index).1)),
                None => Poll::Pending,
            }
        });
        tokio::select! {
            (answer, pending) = answered => Due::Answer(answer, pending),
            () = taskgate_engine::sleep_until(*due) => Due::Question,
        }
    }

    /// Does what is to be done.
    pub async fn go_on(&mut self, due: Due, report: &Report) {
        match due {
            Due::Question => self.ask(report).await,
            // `null` stands for a requestor that could not answer.
            Due::Answer(Some(Ok(answer)), pending) if answer == Payload::null() => {
                pending.reply.refuse(unanswered());
            }
            Due::Answer(Some(Ok(answer)), pending) => pending.reply.answer(answer),
            Due::Answer(Some(Err(error)), pending) => pending.reply.refuse(error),
            // It was not asked, or no longer can be: another call may have the question.
            Due::Answer(None, pending) => drop(pending),
        }
    }

    async fn ask(&mut self, report: &Report) {
        self.due = None;
        let (questions, pending): (Vec<_>, Vec<_>) = self.gathered.drain(..).unzip();
        match report.ask(questions).await {
            Ok(answers) => self.out.extend(answers.into_iter().zip(pending)),
            // The task has ended meanwhile. Dropping the replies lets another call have the questions, or refuses them.
            Err(error) => tracing::debug!(%error, "a question came too late"),
        }
    }

    /// The upstream takes a question back: whoever is asked need not answer any more.
    pub async fn take_back(&mut self, id: &Id, report: &Report) {
        self.gathered.retain(|(_, pending)| pending.id != *id);
        if self.gathered.is_empty() {
            self.due = None;
        }
        let before = self.out.len();
        self.out.retain(|(_, pending)| pending.id != *id);
        if self.out.len() < before
            && let Err(error) = report.take_back().await
        {
            tracing::debug!(%error, "a question could not be taken back");
        }
    }
}
