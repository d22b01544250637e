//! The questions of a task of 2026-07-28: found in its state, answered by `tasks/update`.

use std::collections::HashMap;
use std::task::Poll;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use taskgate_client::session::CallFailure;
use taskgate_engine::{Answered, EngineError, Report};
use taskgate_task::Payload;
use taskgate_wire::{RawObject, method};
use tokio::sync::oneshot;

use super::super::asking::Whom;
use super::super::ending::question;

/// A task that asks more often than this asks nobody in particular.
const MOST_QUESTIONS: usize = 1024;

/// The questions of one task, as far as they were seen by this attempt.
#[derive(Default)]
pub struct Inputs {
    /// By the server's keys, which it never uses twice.
    known: HashMap<String, Known>,
    /// What was answered to an earlier attempt, by the server's keys, and perhaps never arrived.
    given: HashMap<String, Given>,
    out: Vec<(String, oneshot::Receiver<Answered>)>,
    sent: FuturesUnordered<BoxFuture<'static, Sent>>,
}

/// An answer by its key, and whether the server has taken it.
type Sent = (String, Payload, Result<Payload, CallFailure>);

/// A question that was answered to an earlier attempt.
struct Given {
    method: String,
    params: Option<Payload>,
    answer: Payload,
}

struct Known {
    is_elicitation: bool,
    /// An answer that the server has not taken yet.
    undelivered: Option<Payload>,
}

/// What happened to a question.
pub enum News {
    /// It was answered: the key, and what the server is to get. `None` if there will be no answer.
    Answered(String, Option<Payload>),
    /// The server has taken an answer, or has not.
    Delivered(Result<Payload, CallFailure>),
}

impl Inputs {
    /// Takes in what was answered to earlier attempts: a question that the server still shows is not asked a second time.
    pub async fn remember(&mut self, report: &Report) {
        let asked = match report.asked().await {
            Ok(asked) => asked.unwrap_or_default(),
            // It is asked again, then.
            Err(error) => return tracing::warn!(%error, "cannot see what was answered before"),
        };
        for asked in asked.all() {
            // `null` stands for a requestor that could not answer, and for a question whose attempt was lost.
            if let Some(answer) = asked.answer.clone().filter(|answer| *answer != Payload::null()) {
                let key = asked.asker_key.as_ref().unwrap_or(&asked.key).clone();
                let (method, params) = (asked.method.clone(), asked.params.clone());
                self.given.insert(key, Given { method, params, answer });
            }
        }
    }

    /// Takes in which questions are open now: asks those that are new, takes back those that are gone. Returns the answers
    /// that were given but never arrived.
    ///
    /// # Errors
    ///
    /// Why the task cannot be followed any more: it asks what nobody can be asked.
    pub async fn listed(
        &mut self,
        requests: Option<&Payload>,
        whom: &Whom,
        report: &Report,
    ) -> Result<Vec<(String, Payload)>, String> {
        let requests = requests.map(|requests| RawObject::parse(requests.as_str())).transpose();
        let requests = requests
            .map_err(|error| format!("The server's questions cannot be read: {error}"))?
            .unwrap_or_default();
        let (mut questions, mut undelivered) = (Vec::new(), Vec::new());
        for (key, request) in requests.iter() {
            if let Some(known) = self.known.get_mut(key) {
                undelivered.extend(known.undelivered.take().map(|answer| (key.to_owned(), answer)));
                continue;
            }
            if self.known.len() >= MOST_QUESTIONS {
                return Err("The server does not stop asking for input".to_owned());
            }
            let question = question(key, request)
                .map_err(|error| format!("The server's questions cannot be read: {error}"))?;
            whom.allows(&question.method, question.params.as_ref(), report)?;
            let is_elicitation = question.method == method::ELICIT;
            self.known.insert(key.to_owned(), Known { is_elicitation, undelivered: None });
            match self.given.remove(key) {
                Some(given) if given.method == question.method && given.params == question.params => {
                    undelivered.push((key.to_owned(), given.answer));
                }
                _ => questions.push(question),
            }
        }
        let before = self.out.len();
        self.out.retain(|(key, _)| requests.get(key).is_some());
        if self.out.len() < before
            && let Err(error) = report.take_back().await
        {
            tracing::debug!(%error, "a question could not be taken back");
        }
        if questions.is_empty() {
            return Ok(undelivered);
        }
        let keys: Vec<String> = questions.iter().map(|question| question.key.clone()).collect();
        match report.ask(questions).await {
            Ok(answers) => self.out.extend(keys.into_iter().zip(answers)),
            Err(error @ EngineError::TooLong(_)) => {
                return Err(format!("The server's questions cannot be asked: {error}"));
            }
            // The task has ended meanwhile, and this attempt with it.
            Err(error) => tracing::debug!(%error, "a question came too late"),
        }
        Ok(undelivered)
    }

    /// Notes that an answer is on its way.
    pub fn sent(
        &mut self,
        key: String,
        answer: Payload,
        taken: impl Future<Output = Result<Payload, CallFailure>> + Send + 'static,
    ) {
        self.sent.push(Box::pin(async move { (key, answer, taken.await) }));
    }

    /// Resolves when something has happened; never, if nothing is asked. Nothing is lost if it is dropped before.
    pub async fn next(&mut self) -> News {
        let Inputs { known, out, sent, .. } = self;
        let news = std::future::poll_fn(|context| {
            if let Poll::Ready(Some((key, answer, taken))) = sent.poll_next_unpin(context) {
                return Poll::Ready((key, Err((answer, taken))));
            }
            let ready =
                |(index, (_, answer)): (usize, &mut (String, oneshot::Receiver<Answered>))| match answer
                    .poll_unpin(context)
                {
                    Poll::Ready(answer) => Some((index, answer)),
                    Poll::Pending => None,
                };
            match out.iter_mut().enumerate().find_map(ready) {
                Some((index, answer)) => Poll::Ready((out.swap_remove(index).0, Ok(answer.ok()))),
                None => Poll::Pending,
            }
        });
        match news.await {
            (key, Ok(answer)) => {
                let is_elicitation = known.get(&key).is_some_and(|known| known.is_elicitation);
                News::Answered(key, worded(answer, is_elicitation))
            }
            (key, Err((answer, taken))) => {
                if let (Err(_), Some(known)) = (&taken, known.get_mut(&key)) {
                    known.undelivered = Some(answer);
                }
                News::Delivered(taken)
            }
        }
    }
}

/// An answer as a result, which is all that `tasks/update` can carry: whoever was asked and said nothing has cancelled the
/// form. `null` stands for a requestor that could not answer.
fn worded(answer: Option<Answered>, is_elicitation: bool) -> Option<Payload> {
    match answer {
        Some(Ok(answer)) if answer != Payload::null() => Some(answer),
        _ if is_elicitation => Payload::parse(r#"{"action":"cancel"}"#.to_owned()).ok(),
        _ => None,
    }
}
