use std::time::Duration;

use serde_json::json;
use taskgate_client::session::{CallEvent, CallFailure, PendingCall};
use taskgate_engine::{EngineError, Report};
use taskgate_task::Payload;
use taskgate_wire::{Dialect, hosted, method};

use super::{Handle, Line, Mark};

/// How long a call that was given up may still turn out to be a task. Servers say so before they begin the work.
const SAID_WITHIN: Duration = Duration::from_secs(30);

/// A call that may be answered with a task.
///
/// Given up before that is known, it must not be forgotten: the task is cancelled as soon as it has a name.
pub struct Begun {
    call: Option<PendingCall>,
    line: Line,
    /// Whether it asked for a task and nothing has come of it yet.
    is_owed: bool,
}

impl Begun {
    /// Notes that the call asks for a task.
    pub fn new(call: PendingCall, line: Line, asks: bool) -> Begun {
        Begun { call: Some(call), line, is_owed: asks }
    }

    /// The next event. Cancel safe.
    pub async fn next(&mut self) -> CallEvent {
        let event = match &mut self.call {
            Some(call) => call.next().await,
            None => CallEvent::Done(Err(CallFailure::Taken)),
        };
        if let CallEvent::Done(_) = &event {
            self.is_owed = false;
        }
        event
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if let (Some(call), true) = (self.call.take(), self.is_owed)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(take_back(call, self.line.clone()));
        }
    }
}

/// Cancels the call in the way of its era, and the task it may turn out to be.
async fn take_back(mut call: PendingCall, line: Line) {
    let Some(dialect) = line.dialect() else { return };
    if dialect == Dialect::D2026_07_28 {
        // It may as well be answered plainly, after any time. Should it have become a task, that is cancelled below.
        let params = Payload::from_value(&json!({ "requestId": call.id() })).ok();
        line.session.notify(method::CANCELLED, params);
    }
    let answered = async {
        loop {
            if let CallEvent::Done(outcome) = call.next().await {
                return outcome.ok();
            }
        }
    };
    match tokio::time::timeout(SAID_WITHIN, answered).await {
        Ok(Some(result)) => {
            if let Some(Ok((id, _))) = hosted::created(dialect, &result) {
                line.let_go_of(&id);
            }
        }
        Ok(None) => {}
        // It was told already.
        Err(_) if dialect == Dialect::D2026_07_28 => call.abandon(),
        // A call that asked for a task and got none in all this time is a plain one: dropping it cancels it.
        Err(_) => drop(call),
    }
}

/// Puts the handle down. Should that be refused, the work is nobody's, and the task is cancelled.
///
/// It goes on if the future is dropped: what becomes of the handle must not depend on who still waits for it.
pub async fn keep(line: &Line, handle: &Handle, report: &Report) -> Result<(), EngineError> {
    let state = Mark::Task(handle.clone()).write().map_err(|error| EngineError::Store(error.to_string()))?;
    let (line, id, report) = (line.clone(), handle.id.clone(), report.clone());
    let mut kept = Box::pin(async move {
        let kept = report.checkpoint(state).await;
        if kept.is_err() {
            line.let_go_of(&id);
        }
        kept
    });
    // At once, and not when a new task gets to run: the write, or the place in a call that is no task yet, must be taken
    // before anybody can give the call up.
    match std::future::poll_fn(|context| std::task::Poll::Ready(kept.as_mut().poll(context))).await {
        std::task::Poll::Ready(kept) => kept,
        std::task::Poll::Pending => match tokio::spawn(kept).await {
            Ok(kept) => kept,
            Err(error) => Err(EngineError::Store(error.to_string())),
        },
    }
}
