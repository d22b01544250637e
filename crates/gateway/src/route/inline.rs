//! A call that is not a task (yet): its progress, its questions, its end.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use taskgate_engine::{AnswerTo, Ending, InlineCall, InlineEvent, Launch};
use taskgate_task::{Outcome, Payload, Question, Round};
use taskgate_wire::dialect::{d2025_10_20, d2025_11_25, d2026_07_28};
use taskgate_wire::question::for_session;
use taskgate_wire::{ErrorCode, Message, RawObject, RpcError, method, translate};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::logging;
use super::parked::ParkedCall;
use super::tasks::refusal;
use super::{Answer, Caller, Request};
use crate::gateway::{Gateway, Target};
use crate::random::random;
use crate::session::{Outlet, Session};
use crate::to_client::ToClient;
use crate::upstream::unanswered;

/// Drives an inline call for its caller.
pub struct Inline<'a> {
    gateway: &'a Gateway,
    caller: &'a Caller,
    request: &'a Request<'a>,
    target: &'a Target,
    out: &'a Outlet,
    /// How to call the upstream again when it ended its call to ask and the caller can be asked on the spot.
    pub relaunch: Option<Launch>,
    /// Whether the call is, or may become, a task.
    pub lasts: bool,
    /// Whether the time in which the caller is asked counts, too: it gives up the call after a time of its own, and what is
    /// not answered by then is asked again in another call.
    pub counts_asking: bool,
    /// What the work of such a call said last of its progress.
    pub heard: Option<String>,
}

/// How that ended.
#[expect(clippy::large_enum_variant, reason = "it is taken apart as soon as it is returned")]
pub enum Ended {
    /// The caller gets this.
    Answered(Answer),
    /// The caller's patience is over; the call runs on.
    TooLong(InlineCall),
}

/// An upstream that never stops asking is not followed for ever.
const MOST_ROUNDS: usize = 32;

impl<'a> Inline<'a> {
    /// For this request.
    pub fn new(
        gateway: &'a Gateway,
        caller: &'a Caller,
        request: &'a Request<'a>,
        target: &'a Target,
        out: &'a Outlet,
    ) -> Self {
        Inline {
            gateway,
            caller,
            request,
            target,
            out,
            relaunch: None,
            lasts: false,
            counts_asking: false,
            heard: None,
        }
    }

    /// Waits for the end, at most `patience` long if given.
    pub async fn drive(&mut self, mut call: InlineCall, patience: Option<Duration>) -> Ended {
        let deadline = patience.map(|patience| Instant::now() + patience);
        let asking_until = deadline.filter(|_| self.counts_asking);
        let mut answers = FuturesUnordered::new();
        let mut rounds = 0;
        loop {
            let event = tokio::select! {
                biased;
                event = call.next() => event,
                Some(unanswered) = answers.next() => {
                    call.waits_for_caller(!answers.is_empty());
                    call.ask_later(unanswered);
                    continue;
                }
                // While the caller is being asked, the time is the caller's, or all questions are given up at its end.
                () = taskgate_engine::sleep_until(deadline), if deadline.is_some() && answers.is_empty() => {
                    return Ended::TooLong(call);
                }
            };
            match event {
                InlineEvent::Progress { raw, message } => {
                    if self.counts_asking && message.is_some() {
                        self.heard = message;
                    }
                    self.pass_progress(&raw);
                }
                InlineEvent::Log(raw) => self.pass_log(raw),
                InlineEvent::Asked(questions) => match self.caller {
                    Caller::Session(session) => {
                        for question in questions {
                            let asked = self.ask(session, question.question.clone());
                            answers.push(pass_back(asked, question, asking_until));
                        }
                        call.waits_for_caller(true);
                    }
                    Caller::Stateless { .. } if method::may_ask(self.request.method) => {
                        let questions = self.without_stray(questions);
                        if !questions.is_empty() {
                            return Ended::Answered(self.park(call, questions));
                        }
                    }
                    // No other request may be answered with questions: the upstream hears that nobody answers.
                    Caller::Stateless { .. } => {
                        questions.into_iter().for_each(|AnswerTo { reply, .. }| {
                            let _ = reply.send(Err(unanswered()));
                        })
                    }
                },
                InlineEvent::Ended(Ending::Finished(outcome)) => {
                    return Ended::Answered(self.outcome(outcome));
                }
                InlineEvent::Ended(Ending::Lost { message } | Ending::PutBack { message, .. }) => {
                    return Ended::Answered(Err(RpcError::internal(message).to_payload()));
                }
                InlineEvent::Ended(Ending::Asked { questions, state, raw }) => {
                    let Caller::Session(session) = self.caller else {
                        return Ended::Answered(self.pass_round(questions, state, raw));
                    };
                    rounds += 1;
                    let next =
                        Box::pin(self.next_round(session, &questions, &state, rounds, asking_until)).await;
                    match next.transpose() {
                        Some(Ok(next)) => call = next,
                        Some(Err(error)) => return Ended::Answered(Err(error)),
                        None => {
                            call.end_later(Ending::Asked { questions, state, raw });
                            return Ended::TooLong(call);
                        }
                    }
                }
            }
        }
    }

    /// Asks everything of a round and calls the upstream again with the answers; `None` if they are not there in time.
    async fn next_round(
        &self,
        session: &Arc<Session>,
        questions: &[Question],
        state: &Payload,
        rounds: usize,
        until: Option<Instant>,
    ) -> Result<Option<InlineCall>, Payload> {
        let launch = match &self.relaunch {
            Some(launch) if rounds <= MOST_ROUNDS => launch.clone(),
            _ => return Err(RpcError::internal("The server does not stop asking for input").to_payload()),
        };
        let keys: Vec<String> = questions.iter().map(|question| question.key.clone()).collect();
        let asked = questions.iter().map(|question| {
            let asked = self.ask(session, question.clone());
            async move {
                let Some(mut asked) = asked else { return Some(Payload::null()) };
                tokio::select! {
                    biased;
                    answer = asked.answer() => Some(answer.and_then(Result::ok).unwrap_or_else(Payload::null)),
                    () = taskgate_engine::sleep_until(until), if until.is_some() => {
                        asked.take_back();
                        None
                    }
                }
            }
        });
        let answers = futures_util::future::join_all(asked).await;
        let Some(answers) = answers.into_iter().collect::<Option<Vec<_>>>() else { return Ok(None) };
        if answers.contains(&Payload::null()) {
            return Err(RpcError::internal("The client did not answer the server's question").to_payload());
        }
        let round = Round { state: state.clone(), answers: keys.into_iter().zip(answers).collect() };
        self.gateway.0.engine.start(launch, Some(round)).map(Some).map_err(refusal)
    }

    /// Puts a question to a session's client on this request's stream; `None` if it did not declare that it can be asked.
    fn ask(&self, session: &Arc<Session>, question: Question) -> Option<ToClient> {
        let Question { method, params, .. } = question;
        self.caller.capabilities().allow(&method, params.as_ref()).ok()?;
        let id = random().ok()?;
        let params = for_session(&method, params, || id).ok()?;
        Some(ToClient::send(session, self.out, method, params))
    }

    /// Without what the upstream only asks in passing: many servers ask for the roots as soon as they are connected, so
    /// that the question falls into whichever call is first. A caller that has none is no reason to fail it: the server
    /// hears what a client without roots would say.
    fn without_stray(&self, questions: Vec<AnswerTo>) -> Vec<AnswerTo> {
        let able = self.caller.capabilities();
        let stray = |asked: &AnswerTo| {
            let AnswerTo { question, .. } = asked;
            question.method == method::ROOTS_LIST
                && able.allow(&question.method, question.params.as_ref()).is_err()
        };
        let (stray, rest): (Vec<_>, Vec<_>) = questions.into_iter().partition(stray);
        for AnswerTo { question, reply } in stray {
            let _ = reply.send(Err(RpcError::method_not_found(&question.method).to_payload()));
        }
        rest
    }

    /// Answers a 2026-07-28 caller with the questions; the call waits, parked, for the answers.
    fn park(&self, call: InlineCall, questions: Vec<AnswerTo>) -> Answer {
        self.declared(questions.iter().map(|asked| &asked.question))?;
        self.gateway.park(
            self.caller,
            self.request,
            self.target,
            ParkedCall::new(call, questions, self.target.upstream.clone()),
        )
    }

    /// Answers a 2026-07-28 caller with the questions its upstream ended the call with.
    fn pass_round(&self, questions: Vec<Question>, state: Payload, raw: Payload) -> Answer {
        self.declared(questions.iter())?;
        self.gateway.sealed(self.caller, self.request, self.target, raw, state)
    }

    /// Nothing is asked that the caller did not declare: -32021 names what is missing.
    fn declared<'q>(&self, mut questions: impl Iterator<Item = &'q Question>) -> Result<(), Payload> {
        let able = self.caller.capabilities();
        let Some(missing) =
            questions.find_map(|question| able.allow(&question.method, question.params.as_ref()).err())
        else {
            return Ok(());
        };
        let message = format!("Missing required client capability: the request needs {missing}");
        Err(RpcError::new(ErrorCode::MissingRequiredClientCapability, message)
            .with_data(&serde_json::json!({ "requiredCapabilities": missing.required() }))
            .to_payload())
    }

    /// Waits for what comes of a task, and passes on what its work says meanwhile.
    pub async fn overhear<T>(
        &self,
        said: &mut mpsc::UnboundedReceiver<InlineEvent>,
        ended: impl Future<Output = T>,
    ) -> T {
        self.overhear_with(|raw| raw, said, ended).await
    }

    /// The same for a task of 2025-10-20: everything that is said of it says which one it is.
    pub async fn overhear_of<T>(
        &self,
        name: &str,
        said: &mut mpsc::UnboundedReceiver<InlineEvent>,
        ended: impl Future<Output = T>,
    ) -> T {
        let named = |raw: Payload| d2025_10_20::related(&raw, name).unwrap_or(raw);
        self.overhear_with(named, said, ended).await
    }

    async fn overhear_with<T>(
        &self,
        named: impl Fn(Payload) -> Payload,
        said: &mut mpsc::UnboundedReceiver<InlineEvent>,
        ended: impl Future<Output = T>,
    ) -> T {
        let pass = |event| match event {
            InlineEvent::Progress { raw, .. } => self.pass_progress(&named(raw)),
            InlineEvent::Log(raw) => self.pass_log(named(raw)),
            // A task asks by its record, and ends by it.
            InlineEvent::Asked(_) | InlineEvent::Ended(_) => {}
        };
        let mut ended = std::pin::pin!(ended);
        loop {
            tokio::select! {
                biased;
                Some(event) = said.recv() => pass(event),
                end = &mut ended => {
                    // What was said before the end is heard before it.
                    while let Ok(event) = said.try_recv() {
                        pass(event);
                    }
                    return end;
                }
            }
        }
    }

    /// What the caller gets of an end.
    pub fn outcome(&self, outcome: Outcome) -> Answer {
        outcome_for(self.caller, outcome)
    }

    /// Only a caller that gave a token hears of progress, and under its own token.
    pub fn pass_progress(&self, raw: &Payload) {
        let Some(token) = self.request.meta.progress_token else { return };
        let params = RawObject::parse(raw.as_str()).and_then(|mut params| {
            params.set("progressToken", token.to_owned());
            params.to_payload()
        });
        if let Ok(params) = params {
            self.out
                .send(Message::Notification { method: method::PROGRESS.to_owned(), params: Some(params) });
        }
    }

    /// Only what the caller wants to hear of: the upstream may say more than that, for the sake of others.
    pub fn pass_log(&self, raw: Payload) {
        if logging::wants(self.caller, self.request, &raw) {
            self.out
                .send(Message::Notification { method: method::LOG_MESSAGE.to_owned(), params: Some(raw) });
        }
    }
}

/// What a caller gets of an end.
pub fn outcome_for(caller: &Caller, outcome: Outcome) -> Answer {
    match outcome {
        // Codes of earlier versions must not be used in 2026-07-28.
        Outcome::Error { body, .. } if caller.is_stateless() => {
            translate::error_for_stateless(body, caller.capabilities())
        }
        Outcome::Error { body, .. } => Err(body),
        Outcome::Result { body, .. } => {
            let result = if caller.is_stateless() {
                d2026_07_28::with_result_type(&body)
            } else {
                d2025_11_25::without_result_type(&body)
            };
            result.map_err(|error| RpcError::internal(error.to_string()).to_payload())
        }
    }
}

/// Passes the client's answer, or its error, back to the work; nothing if its stream is gone. Should the work take the
/// question back, the client is told. Returns the question if it is not answered `until` then.
async fn pass_back(asked: Option<ToClient>, to: AnswerTo, until: Option<Instant>) -> Option<AnswerTo> {
    let AnswerTo { question, mut reply } = to;
    let Some(mut asked) = asked else {
        let _ = reply.send(Err(unanswered()));
        return None;
    };
    tokio::select! {
        answer = asked.answer() => if let Some(answer) = answer {
            let _ = reply.send(answer);
        },
        () = reply.closed() => asked.take_back(),
        () = taskgate_engine::sleep_until(until), if until.is_some() => {
            asked.take_back();
            return Some(AnswerTo { question, reply });
        }
    }
    None
}
