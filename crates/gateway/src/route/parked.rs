//! Calls that wait for the answers of a 2026-07-28 caller (multi round-trip requests).
//!
//! The upstream's call is still running; what the caller gets is its questions and a sealed state that refers to it
//! (`state.rs`), which opens only for the same owner and the same request.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;
use taskgate_engine::{AnswerTo, InlineCall};
use taskgate_task::{Payload, Question};
use taskgate_wire::{RawObject, RpcError};
use tokio::time::Instant;

use super::state::{Bound, LIFE, Refers, replaced, unknown_state};
use super::{Answer, Caller, Request};
use crate::bounds::Places;
use crate::gateway::{Gateway, Target};
use crate::random::random;
use crate::upstream::{State, Upstream};

/// How long a call may stay parked although questions of others are refused because of it.
///
/// An older server over stdio does not say which of its calls asks, so as long as calls of several callers are in flight, what it
/// asks cannot be shown to anybody (`client/src/session/attribution.rs`). A caller who thinks about the answer and one who
/// will never come back look alike; after this long the others' questions are worth more than this one. Whoever
/// comes back later hears that the state has expired, and calls again.
const PATIENCE: Duration = Duration::from_secs(120);

/// The waiting calls, by a random name.
#[derive(Default)]
pub struct Parked(Mutex<HashMap<String, ParkedCall>>);

/// A waiting call.
pub struct ParkedCall {
    call: InlineCall,
    open: Vec<AnswerTo>,
    until: Instant,
    upstream: Arc<Upstream>,
    /// When its caller was last told what is open.
    told: Instant,
    /// What it is counted by.
    place: Option<Places>,
}

/// What a request with a `requestState` goes on with.
#[expect(clippy::large_enum_variant, reason = "it is taken apart as soon as it is returned")]
pub enum Resumed {
    /// With this call, which has waited for the answers.
    Running(ParkedCall),
    /// With a new call of an upstream that wants this back.
    Again(Payload),
}

impl Gateway {
    /// What the `requestState` of a request opens; `None` if it brings none, or may not bring one.
    pub(super) async fn resumed(
        &self,
        caller: &Caller,
        request: &Request<'_>,
        target: &Target,
    ) -> Result<Option<Resumed>, RpcError> {
        if !caller.is_stateless() || !taskgate_wire::method::may_ask(request.method) {
            return Ok(None);
        }
        let Some(state) = request.params.request_state()? else { return Ok(None) };
        let bound = Bound::to(caller.owner(), target.upstream.name(), request);
        let opened = self.0.states.open(&state, &bound, self.0.engine.now())?;
        match &opened.refers {
            Refers::Parked(name) => {
                let parked = self.0.parked.take(name).ok_or_else(unknown_state)?;
                Ok(Some(Resumed::Running(parked)))
            }
            Refers::Upstream(state) => {
                // A caller that comes while the upstream is away must be able to come again.
                Box::pin(target.upstream.session(caller.owner())).await?;
                self.0.states.use_up(&opened, self.0.engine.now())?;
                Ok(Some(Resumed::Again(state.clone())))
            }
        }
    }

    /// Keeps a running call and answers with the questions that are still open.
    pub(super) fn park(
        &self,
        caller: &Caller,
        request: &Request<'_>,
        target: &Target,
        mut call: ParkedCall,
    ) -> Answer {
        if call.place.is_none() {
            let place = self.0.limits.park(caller);
            call.place = Some(place.map_err(|refusal| refusal.to_error().to_payload())?);
        }
        let name =
            random().map_err(|error| RpcError::internal(format!("no randomness: {error}")).to_payload())?;
        let bound = Bound::to(caller.owner(), target.upstream.name(), request);
        let state = self.0.states.close(Refers::Parked(name.clone()), &bound, self.0.engine.now());
        let state = state.map_err(|error| RpcError::internal(error.to_string()).to_payload())?;
        let result = input_required(call.open.iter().map(|asked| &asked.question), Some(&state));
        call.told = Instant::now();
        self.0.parked.0.lock().insert(name, call);
        Ok(result)
    }

    /// The questions an upstream ended its call with, for a caller that will come back with the answers: the upstream's own
    /// state travels inside ours.
    pub(super) fn sealed(
        &self,
        caller: &Caller,
        request: &Request<'_>,
        target: &Target,
        raw: Payload,
        state: Payload,
    ) -> Answer {
        if state == Payload::null() || !taskgate_wire::method::may_ask(request.method) {
            return Ok(raw);
        }
        let internal = |why: String| RpcError::internal(why).to_payload();
        let bound = Bound::to(caller.owner(), target.upstream.name(), request);
        let state = self.0.states.close(Refers::Upstream(state), &bound, self.0.engine.now());
        let state = state.map_err(|error| internal(error.to_string()))?;
        let edited = serde_json::value::to_raw_value(&state).map_err(Into::into);
        let edited = edited.and_then(|state| replaced(&raw, state));
        edited.map_err(|error| internal(error.to_string()))
    }
}

impl ParkedCall {
    /// A call at this upstream that has these questions.
    pub fn new(call: InlineCall, open: Vec<AnswerTo>, upstream: Arc<Upstream>) -> Self {
        let now = Instant::now();
        ParkedCall { call, open, until: now + LIFE, upstream, told: now, place: None }
    }

    /// Whether it is to be kept for a caller who has not come back yet.
    fn is_kept(&self, now: Instant) -> bool {
        let in_the_way = || match self.upstream.state() {
            State::Up(session) => session.ambiguous_at().is_some_and(|at| at >= self.told),
            _ => false,
        };
        now < self.until && (now < self.told + PATIENCE || !in_the_way())
    }

    /// Hands over the answers. `Err` if some questions are still open.
    #[expect(clippy::result_large_err, reason = "the call comes back whole, to be parked again")]
    pub fn answer(mut self, answers: Vec<(String, Payload)>) -> Result<InlineCall, ParkedCall> {
        for (key, answer) in answers {
            // Only an object is an answer, and what is none leaves its question open (`to_client.rs`); unknown keys are ignored.
            if answer.as_str().starts_with('{')
                && let Some(index) = self.open.iter().position(|asked| asked.question.key == key)
            {
                let _ = self.open.swap_remove(index).reply.send(Ok(answer));
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
    /// Takes a call back: whatever opened its state, only one gets it.
    fn take(&self, name: &str) -> Option<ParkedCall> {
        self.0.lock().remove(name)
    }

    /// Drops all.
    pub fn clear(&self) {
        let calls = std::mem::take(&mut *self.0.lock());
        drop(calls);
    }

    /// Drops what nobody came back for.
    pub fn drop_expired(&self) {
        let now = Instant::now();
        // Dropping a call moves its questions on or refuses them, which should not keep others from theirs.
        let dropped: Vec<_> = self.0.lock().extract_if(|_, call| !call.is_kept(now)).collect();
        drop(dropped);
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InputRequired<'a> {
    result_type: &'static str,
    input_requests: RawObject<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_state: Option<&'a str>,
}

/// The result that asks these questions. Without a `reference`, the request itself says what they belong to.
pub(super) fn input_required<'q>(
    open: impl Iterator<Item = &'q Question>,
    reference: Option<&'q str>,
) -> Payload {
    #[derive(Serialize)]
    struct Asked<'a> {
        method: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        params: Option<&'a Payload>,
    }
    let mut input_requests = RawObject::default();
    for question in open {
        let asked = Asked { method: &question.method, params: question.params.as_ref() };
        if let Ok(raw) = serde_json::value::to_raw_value(&asked) {
            input_requests.set(&question.key, raw);
        }
    }
    let shape = InputRequired { result_type: "input_required", input_requests, request_state: reference };
    Payload::from_value(&shape).unwrap_or_else(|_| Payload::null())
}
