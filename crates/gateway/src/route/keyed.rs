//! Calls with an idempotency key: sending one again finds the task of the first, whatever became of its answer.
//!
//! The key is ours, not the protocol's: `io.taskgate/idempotency-key` in a request's `_meta`. It counts for callers who
//! can hold a task, for their calls of one tool, and for as long as the task exists. Such a call is a task from its
//! beginning, since only a record that is there before the work begins can be found by whoever comes again. Whoever has made it
//! hears its progress and its logs until the answer, as with any call; whoever finds it later does not.
//!
//! With `io.taskgate/idempotency-find: true` beside the key, the call is found or refused, and never made: for whoever cannot,
//! or does not dare to, make it again.

use std::time::Duration;

use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use taskgate_engine::{EngineError, Launch};
use taskgate_task::{IdempotencyKey, InvalidPayload, Owner, Payload, Status, Task};
use taskgate_wire::{RawObject, Reply, RpcError, meta};
use tokio::sync::mpsc;

use super::call_tool::Shape;
use super::inline::Inline;
use super::tasks::{encode, refusal};
use super::{Answer, Caller, Request};
use crate::gateway::{Gateway, Target};

/// Longer keys are no keys but mistakes.
const LONGEST: usize = 256;

/// A call that has a name.
pub(super) struct Keyed {
    key: IdempotencyKey,
    /// Whether it is only to be found.
    finds: bool,
}

impl Gateway {
    /// The request's idempotency key, if it has one and it counts for a call of this shape.
    pub(super) fn idempotency_key(
        &self,
        caller: &Caller,
        request: &Request<'_>,
        target: &Target,
        shape: &Shape,
    ) -> Result<Option<Keyed>, RpcError> {
        let finds = request.meta.idempotency_find.is_some_and(|said| said.get() == "true");
        let has_tasks = matches!(shape, Shape::Task(_) | Shape::TaskAfter(_));
        let (Some(raw), true) = (request.meta.idempotency_key, has_tasks) else {
            // It must not be made, and nothing says whether it was.
            return if finds { Err(RpcError::invalid_params(NEVER_KEYED)) } else { Ok(None) };
        };
        let key = read(raw, caller.owner())?;
        let name = target.tool.as_ref().map_or("", |tool| &tool.name);
        let digest = digest(request.raw).map_err(|error| RpcError::invalid_params(error.to_string()))?;
        let key = IdempotencyKey { tool: format!("{}/{name}", target.upstream.name()), key, digest };
        Ok(Some(Keyed { key, finds }))
    }

    /// Makes the task of this call, or finds the one that an earlier call made.
    pub(super) async fn call_once(
        &self,
        inline: &Inline<'_>,
        caller: &Caller,
        immediate: Option<String>,
        shape: Shape,
        Keyed { key, finds }: Keyed,
        launch: impl FnOnce() -> Result<Launch, Answer>,
    ) -> Answer {
        let found = if finds {
            // What the arguments were is not asked: whoever only looks for a call may not have them any more.
            let found = self.0.engine.find_keyed(caller.owner(), &key).await.map_err(refusal)?;
            let (task, _) = found.ok_or_else(|| unknown_key().to_payload())?;
            Some(task)
        } else {
            self.0.engine.keyed(caller.owner(), &key).await.map_err(refusal)?
        };
        let (ttl, patience) = match shape {
            Shape::Task(ttl) => (ttl, None),
            Shape::TaskAfter(patience) => (None, Some(patience)),
            Shape::Inline | Shape::Words(_) => (None, None),
        };
        let (listener, mut said) = mpsc::unbounded_channel();
        let task = match found {
            Some(task) => task,
            None => {
                let mut place = self.place_for_task(caller).await?;
                let launch = match launch() {
                    Ok(launch) => launch,
                    Err(answered) => return answered,
                };
                let listener = patience.is_some().then_some(listener);
                let size = launch.work.text().as_str().len();
                let submitted = self.0.engine.submit_heard(launch, Some(key), ttl, listener).await;
                let task = submitted.map_err(refusal)?.task;
                place.is_task(size);
                task
            }
        };
        let task = match patience {
            Some(patience) => {
                let ended = self.soon_ended(task, patience);
                inline.overhear(&mut said, ended).await.map_err(refusal)?
            }
            None => task,
        };
        match task.outcome.clone().filter(|_| patience.is_some()) {
            Some(outcome) => inline.outcome(outcome),
            None => self.handle(caller, &task, immediate.as_deref()),
        }
    }

    /// The task when it has ended or asks, or as it is when the caller's patience is over.
    async fn soon_ended(&self, task: Task, patience: Duration) -> Result<Task, EngineError> {
        let mut watch = self.0.engine.watch(&task.owner, task.id).await?;
        let ended = async {
            while watch.current().status == Status::Working {
                watch.changed().await?;
            }
            Ok::<(), EngineError>(())
        };
        match tokio::time::timeout(patience, ended).await {
            Ok(Err(error)) => Err(error),
            Ok(Ok(())) | Err(_) => Ok(watch.current().clone()),
        }
    }

    /// The answer that hands a task out.
    pub(super) fn handle(&self, caller: &Caller, task: &Task, immediate: Option<&str>) -> Answer {
        let answer = encode(caller, Reply::Created { task, immediate });
        if let Caller::Session(session) = caller {
            // The caller has a handle: from now on its session hears of the task.
            self.send_courier(session, task);
        }
        answer
    }
}

/// The error for a call that is to be found where no call can be.
const NEVER_KEYED: &str =
    "_meta[\"io.taskgate/idempotency-find\"] needs a key beside it, and a call that can be a task";

fn unknown_key() -> RpcError {
    RpcError::invalid_params("No call with this idempotency key is known")
        .with_data(&serde_json::json!({ "reason": meta::KEY_NOT_FOUND }))
}

fn read(raw: &RawValue, owner: &Owner) -> Result<String, RpcError> {
    let wrong =
        |what: &str| RpcError::invalid_params(format!("_meta[\"io.taskgate/idempotency-key\"] {what}"));
    let key: String = serde_json::from_str(raw.get()).map_err(|_| wrong("must be a string"))?;
    if key.is_empty() || key.len() > LONGEST {
        return Err(wrong(&format!("must have 1 to {LONGEST} bytes")));
    }
    if owner.is_anonymous() {
        // Whoever guesses the key of another caller would get that caller's task.
        return Err(wrong("needs a caller who is known, and this server cannot tell its callers apart"));
    }
    Ok(key)
}

/// What is the same in every sending of one call: its arguments, however their members are ordered.
fn digest(params: Option<&Payload>) -> Result<[u8; 32], InvalidPayload> {
    let params = params.map(|params| RawObject::parse(params.as_str())).transpose()?.unwrap_or_default();
    let arguments = params.get("arguments").map_or("{}", RawValue::get);
    let mut arguments: serde_json::Value = serde_json::from_str(arguments)?;
    arguments.sort_all_objects();
    Ok(Sha256::digest(arguments.to_string().as_bytes()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest_of(text: &str) -> [u8; 32] {
        digest(Some(&Payload::parse(text.to_owned()).expect("JSON"))).expect("a digest")
    }

    #[test]
    fn the_order_of_members_and_what_is_beside_the_arguments_does_not_matter() {
        let one = digest_of(r#"{"name":"t","arguments":{"a":1,"b":{"c":2,"d":3}},"_meta":{"x":1}}"#);
        assert_eq!(one, digest_of(r#"{"arguments": {"b":{"d":3, "c":2},"a":1}, "task": {}}"#));
        assert_ne!(one, digest_of(r#"{"arguments":{"a":2,"b":{"c":2,"d":3}}}"#));
        assert_eq!(digest_of("{}"), digest_of(r#"{"arguments":{}}"#));
        assert_eq!(digest(None).expect("a digest"), digest_of("{}"));
    }
}
