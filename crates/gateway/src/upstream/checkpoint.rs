//! Checkpoints of handlers in this program: how far a tool has come, for the process that goes on with it.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use serde::Serialize;
use serde_json::value::to_raw_value;
use taskgate_engine::{EngineError, Report};
use taskgate_task::{InvalidPayload, Payload};
use taskgate_wire::meta;

use super::hosted::Mark;
use crate::random::random;

/// The `_meta` key that leads a handler to the checkpoints of its call. It never leaves this program.
pub const TICKET: &str = "io.taskgate/checkpoint";

/// Where a tool of an rmcp handler in this program puts down how far it has come.
///
/// A call whose tool has the class [`WorkClass::Resumable`](crate::WorkClass::Resumable), which is `after_crash = "resume"` in a
/// configuration, finds one in its request's extensions:
///
/// ```no_run
/// # extern crate rmcp as sdk;
/// # use sdk::{RoleServer, service::RequestContext};
/// # async fn tool(context: RequestContext<RoleServer>) -> Result<(), Box<dyn std::error::Error>> {
/// use taskgate_gateway::Checkpoint;
///
/// let checkpoint = context.extensions.get::<Checkpoint>().ok_or("this tool is not to be resumed")?;
/// let mut done: u64 = match checkpoint.saved() {
///     Some(saved) => serde_json::from_str(saved.as_str())?,
///     None => 0,
/// };
/// while done < 100 {
///     // … one step …
///     done += 1;
///     checkpoint.save(&done).await?;
/// }
/// # Ok(()) }
/// ```
///
/// What a step did and was not saved is done again after a crash: a step must bear that.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    report: Report,
    saved: Option<Payload>,
}

/// Why nothing was saved. What was saved before still stands.
#[derive(Debug, thiserror::Error)]
pub enum NotSaved {
    /// The value cannot be written as JSON.
    #[error("the checkpoint cannot be written as JSON: {0}")]
    NotJson(#[from] InvalidPayload),
    /// The task has ended, another process goes on with it, or the store failed.
    #[error("the checkpoint was not kept: {0}")]
    NotKept(#[from] EngineError),
}

impl Checkpoint {
    /// What was saved last by whoever did this work before; `None` if the work begins.
    pub fn saved(&self) -> Option<&Payload> {
        self.saved.as_ref()
    }

    /// Saves how far the work has come, in place of what was saved before. It is durable when this returns, unless the call is no
    /// task yet: then it is when the task is.
    ///
    /// # Errors
    ///
    /// [`NotSaved`]: the work is somebody else's, or nobody's. It should stop.
    pub async fn save<T: Serialize + ?Sized>(&self, value: &T) -> Result<(), NotSaved> {
        let state = Mark::Saved(Payload::from_value(value)?).write()?;
        Ok(self.report.checkpoint(state).await?)
    }
}

/// Checkpoints on their way to their handlers. A message is text, so it carries the key of a place here instead.
static UNDER_WAY: Mutex<BTreeMap<String, Checkpoint>> = Mutex::new(BTreeMap::new());

/// A place that is cleared when the call is over.
pub struct Ticket(String);

impl Drop for Ticket {
    fn drop(&mut self) {
        UNDER_WAY.lock().remove(&self.0);
    }
}

impl Ticket {
    /// Keeps a place for the checkpoints of a call. The key cannot be guessed: callers could write one as well.
    pub fn issue(report: &Report, saved: Option<Payload>) -> Option<Ticket> {
        let key = random().ok()?;
        UNDER_WAY.lock().insert(key.clone(), Checkpoint { report: report.clone(), saved });
        Some(Ticket(key))
    }

    /// The params with the key.
    pub fn attach(&self, params: Option<&Payload>) -> Result<Payload, InvalidPayload> {
        meta::edit(params, |meta| {
            meta.set(TICKET, to_raw_value(&self.0)?);
            Ok(())
        })
    }
}

/// Redeems a key, once.
pub fn redeem(key: &str) -> Option<Checkpoint> {
    UNDER_WAY.lock().remove(key)
}
