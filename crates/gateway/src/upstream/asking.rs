//! The questions of one call, from the upstream to the requestor and back.

use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;
use taskgate_client::session::{self, QuestionReply};
use taskgate_engine::{Answered, EngineError, Report};
use taskgate_task::{Payload, Question};
use taskgate_wire::{Capabilities, Id, RpcError, meta, method};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Request;

/// Questions that arrive together are asked together: this long after the first one, others may join it.
const TOGETHER: Duration = Duration::from_millis(10);

/// Whom the questions of a call can be put to.
#[derive(Debug, Clone, Copy)]
pub struct Whom {
    able: Capabilities,
    stateless: bool,
}

impl Whom {
    /// Whoever has made this request.
    pub fn of(request: &Request) -> Whom {
        let able = request.capabilities.as_ref().and_then(|raw| Capabilities::parse(raw.as_raw()));
        Whom { able: able.unwrap_or_default(), stateless: request.stateless }
    }

    /// Whether there is a way to put a question to them.
    ///
    /// # Errors
    ///
    /// Why not, for the server that asks.
    pub fn allows(&self, name: &str, params: Option<&Payload>, report: &Report) -> Result<(), String> {
        if !method::is_question(name) && (report.is_task() || self.stateless) {
            return Err(format!("The client cannot be asked {name}"));
        }
        // Nobody who holds the handle could answer it, and it must not be sent to them.
        if report.is_task()
            && let Err(missing) = self.able.allow(name, params)
        {
            return Err(format!("The client did not declare {missing}"));
        }
        Ok(())
    }
}

/// The questions of one call that are not answered yet.
#[derive(Default)]
pub struct Asking {
    count: usize,
    /// When what was gathered is to be asked.
    due: Option<Instant>,
    /// Not asked yet.
    gathered: Vec<(Question, Pending)>,
    out: Vec<(oneshot::Receiver<Answered>, Pending)>,
    of_task: bool,
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
    /// For the questions of a task that the upstream hosts. Those that are open when this is dropped stay open there.
    pub fn of_task() -> Asking {
        Asking { of_task: true, ..Asking::default() }
    }

    /// Takes a question, to be asked together with others, or refuses it if nobody can be asked.
    pub fn take(&mut self, question: session::Question, whom: &Whom, report: &Report) {
        match whom.allows(&question.method, question.params.as_ref(), report) {
            Ok(()) => self.gather(question),
            Err(_) if !method::is_question(&question.method) => {
                question.reply.refuse(RpcError::method_not_found(&question.method).to_payload());
            }
            Err(why) => question.reply.refuse(RpcError::internal(why).to_payload()),
        }
    }

    fn gather(&mut self, question: session::Question) {
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
            // It was not asked, or no longer can be. The server's task waits for this answer and nobody else could give it;
            // without a task another call may have the question.
            Due::Answer(None, pending) if self.of_task => pending.reply.refuse(unanswered()),
            Due::Answer(None, pending) => drop(pending),
        }
    }

    async fn ask(&mut self, report: &Report) {
        self.due = None;
        let (questions, pending): (Vec<_>, Vec<_>) = self.gathered.drain(..).unzip();
        match report.ask(questions).await {
            Ok(answers) => self.out.extend(answers.into_iter().zip(pending)),
            // The server hears it, and may go on without.
            Err(error @ EngineError::TooLong(_)) => {
                let error = RpcError::internal(format!("The question cannot be asked: {error}")).to_payload();
                pending.into_iter().for_each(|pending| pending.reply.refuse(error.clone()));
            }
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
