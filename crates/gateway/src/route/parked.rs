//! Calls that wait for the answers of a 2026-07-28 caller (multi round-trip requests).
//!
//! The upstream's call is still running; what the caller gets is its questions and a reference to it. The
//! reference is 128 random bits, so it cannot be guessed, and any change to it finds nothing; it opens only for the same owner and the same call.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;
use taskgate_engine::{AnswerTo, InlineCall};
use taskgate_task::{Owner, Payload};
use taskgate_wire::{RawObject, RpcError};
use tokio::time::Instant;

use super::Request;

/// How long a call waits for its answers. Then it is dropped, which cancels it.
const PATIENCE: Duration = Duration::from_secs(600);
const MARK: &str = "taskgate-call-";

/// The waiting calls.
#[derive(Default)]
pub struct Parked(Mutex<HashMap<String, ParkedCall>>);

/// A waiting call.
pub struct ParkedCall {
    call: InlineCall,
    owner: Owner,
    /// What the caller must repeat for the reference to open: method, name and arguments.
    same: (String, Option<String>, Option<String>),
    open: Vec<AnswerTo>,
    until: Instant,
}

impl ParkedCall {
    /// A call that has these questions.
    pub fn new(call: InlineCall, owner: Owner, request: &Request<'_>, open: Vec<AnswerTo>) -> Self {
        ParkedCall { call, owner, same: sameness(request), open, until: Instant::now() + PATIENCE }
    }

    /// Hands over the answers. `Err` if some questions are still open.
    #[expect(clippy::result_large_err, reason = "the call comes back whole, to be parked again")]
    pub fn answer(mut self, answers: Vec<(String, Payload)>) -> Result<InlineCall, ParkedCall> {
        for (key, answer) in answers {
            // Only an object is an answer; unknown keys are ignored.
            if answer.as_str().starts_with('{')
                && let Some(index) = self.open.iter().position(|asked| asked.question.key == key)
            {
                let _ = self.open.swap_remove(index).reply.send(answer);
            }
        }
        if !self.open.is_empty() {
            return Err(self);
        }
        self.call.waits_for_caller(false);
        Ok(self.call)
    }
}

impl Parked {
    /// Keeps a call and returns the `InputRequiredResult` that asks its open questions.
    pub fn keep(&self, call: ParkedCall) -> Payload {
        let reference = match random() {
            Ok(bits) => format!("{MARK}{bits:032x}"),
            Err(error) => {
                tracing::error!(%error, "no randomness");
                return RpcError::internal("no randomness").to_payload();
            }
        };
        let result = input_required(&call.open, &reference);
        self.0.lock().insert(reference, call);
        result
    }

    /// Takes a call back. `None` if the state is not ours but the upstream's.
    pub fn take(
        &self,
        state: &str,
        owner: &Owner,
        request: &Request<'_>,
    ) -> Result<Option<ParkedCall>, RpcError> {
        if !state.starts_with(MARK) {
            return Ok(None);
        }
        let mut calls = self.0.lock();
        let fits = |call: &ParkedCall| call.owner == *owner && call.same == sameness(request);
        if !calls.get(state).is_some_and(fits) {
            return Err(unknown_state());
        }
        Ok(calls.remove(state))
    }

    /// Drops all.
    pub fn clear(&self) {
        let calls = std::mem::take(&mut *self.0.lock());
        drop(calls);
    }

    /// Drops what nobody came back for.
    pub fn drop_expired(&self) {
        let now = Instant::now();
        self.0.lock().retain(|_, call| call.until > now);
    }
}

/// The error for a state that opens nothing.
pub fn unknown_state() -> RpcError {
    RpcError::invalid_params("Unknown or expired requestState for this request")
}

fn sameness(request: &Request<'_>) -> (String, Option<String>, Option<String>) {
    let arguments = request.params.arguments().map(|raw| raw.get().to_owned());
    (request.method.to_owned(), request.params.name().ok().map(std::borrow::Cow::into_owned), arguments)
}

fn random() -> Result<u128, getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(u128::from_be_bytes(bytes))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InputRequired<'a> {
    result_type: &'static str,
    input_requests: RawObject<'a>,
    request_state: &'a str,
}

fn input_required(open: &[AnswerTo], reference: &str) -> Payload {
    #[derive(Serialize)]
    struct Asked<'a> {
        method: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        params: Option<&'a Payload>,
    }
    let mut input_requests = RawObject::default();
    for AnswerTo { question, .. } in open {
        let asked = Asked { method: &question.method, params: question.params.as_ref() };
        if let Ok(raw) = serde_json::value::to_raw_value(&asked) {
            input_requests.set(&question.key, raw);
        }
    }
    let shape = InputRequired { result_type: "input_required", input_requests, request_state: reference };
    Payload::from_value(&shape).unwrap_or_else(|_| Payload::null())
}
