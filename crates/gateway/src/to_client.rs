//! A question of ours to the client of a session.
//!
//! A malformed answer is no answer, in either era: nobody has decided anything by it, so it neither ends the question nor
//! what waits for it, and the question is asked again. What that means differs.
//!
//! - In 2026-07-28 the question stands until the client sends something else: "the server SHOULD respond with a new
//!   InputRequiredResult requesting the missing information again, rather than returning an error" (multi round-trip
//!   requests). The client sets the pace, so there is no limit (`route/parked.rs`, `tasks/update`).
//! - In a session the answer is a response, and a request has one: "Result responses MUST include a `result` field", an
//!   object. What is none has used up the request's id, so the question is sent again as a new request. To take it for
//!   `cancel` would say that the "user dismissed without making an explicit choice", which nobody knows. Here the pace
//!   is ours, and a client that cannot do better must not be asked for ever: the last one counts as an error of the client.
//!
//! An error is an answer: the client says that there will be no result.

use std::sync::Arc;

use taskgate_task::Payload;
use taskgate_wire::hosted::NoTaskId;
use taskgate_wire::jsonrpc::error_object;
use taskgate_wire::{Message, RpcError, method};
use tokio::sync::oneshot;

use crate::client_task::{self, ClientTask};
use crate::session::{Outlet, Session};

/// How often a question is asked, if all that comes back is malformed.
const ASKED: usize = 3;

/// What comes back for a request.
pub type SentBack = Result<Payload, NoAnswer>;

/// Why what came back is no result.
#[derive(Debug)]
pub enum NoAnswer {
    /// The client's error object.
    Error(Payload),
    /// It was lost on the way, or is no message.
    Unreadable(String),
}

/// A request that was sent to the client on one of its streams.
#[derive(Debug)]
pub struct ToClient {
    session: Arc<Session>,
    outlet: Outlet,
    method: String,
    params: Option<Payload>,
    number: u64,
    answer: oneshot::Receiver<SentBack>,
    asked: usize,
    /// Whether the client may make a task of it.
    may_host: bool,
    /// The task it has made of it.
    task: Option<ClientTask>,
}

impl ToClient {
    /// Sends a request.
    pub fn send(session: &Arc<Session>, outlet: &Outlet, method: String, params: Option<Payload>) -> Self {
        let hosted = client_task::as_task(session, &method, params.as_ref());
        ToClient::send_as(session, outlet, method, params, hosted)
    }

    /// Sends a request on a stream that is about to end. The client is not asked to make a task of it: there would be no stream
    /// to follow that on.
    pub fn send_briefly(
        session: &Arc<Session>,
        outlet: &Outlet,
        method: String,
        params: Option<Payload>,
    ) -> Self {
        ToClient::send_as(session, outlet, method, params, None)
    }

    fn send_as(
        session: &Arc<Session>,
        outlet: &Outlet,
        method: String,
        params: Option<Payload>,
        hosted: Option<Payload>,
    ) -> Self {
        let may_host = hosted.is_some();
        let params = hosted.or(params);
        let (number, answer) = session.request(outlet, &method, params.clone());
        let (session, outlet) = (session.clone(), outlet.clone());
        ToClient { session, outlet, method, params, number, answer, asked: 1, may_host, task: None }
    }

    /// The client's result or error; `None` when nobody will come back to the stream or the session has ended.
    pub async fn answer(&mut self) -> Option<Result<Payload, Payload>> {
        let outlet = self.outlet.clone();
        self.answer_until(outlet.gone()).await
    }

    /// The client's result or error; `None` as soon as its connection breaks, for what others can be asked.
    pub async fn answer_while_connected(&mut self) -> Option<Result<Payload, Payload>> {
        let outlet = self.outlet.clone();
        self.answer_until(outlet.closed()).await
    }

    /// The client's result or error, whatever becomes of the stream; `None` when the session has ended, or the client answers
    /// with what is malformed and can no longer be told.
    pub async fn answer_at_any_time(&mut self) -> Option<Result<Payload, Payload>> {
        self.answer_until(std::future::pending()).await
    }

    /// The answer, unless its stream is lost before it, or before the task that the client makes of the question.
    async fn answer_until(&mut self, lost: impl Future<Output = ()>) -> Option<Result<Payload, Payload>> {
        if self.task.is_none() {
            let answer = tokio::select! {
                // What has been answered is answered, whatever became of the stream since.
                biased;
                answer = self.well_formed() => answer?,
                () = lost => return None,
            };
            let made = answer.as_ref().ok().filter(|_| self.may_host);
            match made.and_then(|answer| client_task::made_of(&self.session, &self.outlet, answer)) {
                None => return Some(answer),
                Some(Err(NoTaskId)) => {
                    let why = "The client made a task of the question whose id cannot be used";
                    return Some(Err(RpcError::internal(why).to_payload()));
                }
                Some(Ok(task)) => self.task = Some(task),
            }
        }
        self.task.as_mut()?.answer().await
    }

    /// Tells the client that its answer is no longer wanted, on the general stream if the question's own has ended.
    pub fn take_back(self) {
        if let Some(task) = self.task {
            return task.cancel();
        }
        let params =
            serde_json::json!({ "requestId": self.number, "reason": "The question is no longer open" });
        let params = Payload::from_value(&params).ok();
        let told = self
            .outlet
            .send(Message::Notification { method: method::CANCELLED.to_owned(), params: params.clone() });
        if !told && self.session.general().is_some() {
            self.session.notify(method::CANCELLED, params);
        }
    }

    /// What the client answers in the end. Whoever asked must not be handed a result that is no object, or an error that is
    /// none.
    async fn well_formed(&mut self) -> Option<Result<Payload, Payload>> {
        loop {
            let malformed = match (&mut self.answer).await.ok()? {
                Ok(result) if result.as_str().starts_with('{') => return Some(Ok(result)),
                Ok(_) => "The client's result is no object".to_owned(),
                Err(NoAnswer::Error(error)) => return Some(Err(error_object(error))),
                Err(NoAnswer::Unreadable(why)) => format!("The client's answer cannot be read: {why}"),
            };
            if self.asked == ASKED {
                return Some(Err(RpcError::internal(malformed).to_payload()));
            }
            tracing::debug!(session = self.session.id(), %malformed, "a question is asked again");
            self.asked += 1;
            (self.number, self.answer) =
                self.session.request(&self.outlet, &self.method, self.params.clone());
        }
    }
}
