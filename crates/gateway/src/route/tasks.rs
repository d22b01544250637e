//! The task verbs.

use std::sync::Arc;

use taskgate_engine::EngineError;
use taskgate_task::{Payload, Status, Task, TaskId};
use taskgate_wire::{Dialect, Reply, RpcError};

use super::{Answer, Caller};
use crate::audit::found;
use crate::gateway::Gateway;
use crate::session::{Outlet, Session};

/// How many tasks a page of `tasks/list` holds.
pub(super) const PAGE: usize = 100;

impl Gateway {
    /// `tasks/get`. It may carry the task's questions, too.
    pub(super) async fn get_task(&self, caller: &Caller, id: TaskId, out: &Outlet) -> Answer {
        let task = self.0.engine.get(caller.owner(), id).await.map_err(refusal)?;
        if let Caller::Session(session) = caller
            && task.status == Status::InputRequired
        {
            self.ask_polling(session, &task, out).await;
            session.tell(id);
            // The task may be from before this session, or from another one: its questions are asked here all the same.
            self.send_courier(session, &task);
        }
        tell(caller, task, |task| Reply::State(task)).await
    }

    /// `tasks/result`: blocks until the task has ended; meanwhile its questions go on this request's stream.
    pub(super) async fn task_result(
        &self,
        session: &Arc<Session>,
        caller: &Caller,
        id: TaskId,
        out: &Outlet,
    ) -> Answer {
        let task = self.0.engine.get(caller.owner(), id).await.map_err(refusal)?;
        if task.status.is_terminal() {
            found();
            return tell(caller, task, |task| Reply::Outcome(task)).await;
        }
        let _place = self.0.limits.stream(caller).map_err(|refusal| refusal.to_error().to_payload())?;
        let _open = session.result_opened(id, out.clone());
        self.send_courier(session, &task);
        let task = self.0.engine.wait(caller.owner(), id).await.map_err(refusal)?;
        // The stream ends with the answer, and what is taken back belongs on it.
        session.nothing_is_asked(&id).await;
        found();
        tell(caller, task, |task| Reply::Outcome(task)).await
    }

    /// `tasks/list`, only where owners can be told apart.
    pub(super) async fn list_tasks(&self, caller: &Caller, after: Option<i64>) -> Answer {
        if caller.owner().is_anonymous() {
            return Err(RpcError::method_not_found(taskgate_wire::method::TASKS_LIST).to_payload());
        }
        let page = self.0.engine.list(caller.owner(), after, PAGE).await.map_err(refusal)?;
        encode(caller, Reply::Page { tasks: &page.tasks, next: page.next })
    }

    /// `tasks/cancel`. A task that has ended is an error in 2025-11-25 and an empty acknowledgement in 2026-07-28.
    pub(super) async fn cancel_task(&self, caller: &Caller, id: TaskId) -> Answer {
        match self.0.engine.cancel(caller.owner(), id).await {
            Ok(task) => encode(caller, Reply::Cancelled(&task)),
            Err(EngineError::Terminal(_)) if caller.is_stateless() => encode(caller, Reply::Acknowledged),
            Err(error) => Err(refusal(error)),
        }
    }

    /// `tasks/update`. Only objects are answers; whatever else stands under a key leaves its question open (`to_client.rs`).
    pub(super) async fn update_task(
        &self,
        caller: &Caller,
        id: TaskId,
        mut answers: Vec<(String, Payload)>,
    ) -> Answer {
        answers.retain(|(_, answer)| answer.as_str().starts_with('{'));
        self.0.engine.answer(caller.owner(), id, answers).await.map_err(refusal)?;
        encode(caller, Reply::Acknowledged)
    }
}

/// From how many bytes on a result is put into words on a thread that may take its time.
const LONG: usize = 1 << 20;

/// Puts a task into the caller's words. Of megabytes every one takes some milliseconds, in which the thread could serve others.
async fn tell(caller: &Caller, task: Task, reply: fn(&Task) -> Reply<'_>) -> Answer {
    if task.outcome.as_ref().is_none_or(|outcome| outcome.body().as_str().len() < LONG) {
        return encode(caller, reply(&task));
    }
    let dialect = caller.dialect().unwrap_or(Dialect::D2025_11_25);
    let encoding = tokio::task::spawn_blocking(move || dialect.encode(reply(&task)));
    encoding.await.unwrap_or_else(|error| Err(RpcError::internal(error.to_string()).to_payload()))
}

/// Puts a reply into the caller's words.
pub(super) fn encode(caller: &Caller, reply: Reply<'_>) -> Answer {
    // Task verbs are only decoded for versions that have tasks.
    caller.dialect().unwrap_or(Dialect::D2025_11_25).encode(reply)
}

/// The error for what the engine refused.
pub(super) fn refusal(error: EngineError) -> Payload {
    match error {
        EngineError::NotFound => RpcError::unknown_task(),
        EngineError::Terminal(status) => {
            RpcError::invalid_params(format!("The task has ended already: it is {}", status.as_str()))
        }
        EngineError::KeyConflict => RpcError::invalid_params(
            "The idempotency key was used for a call with other arguments; a new call needs a new key",
        ),
        EngineError::KeyExpiring => RpcError::internal(
            "The idempotency key was used for a call whose task has expired and whose work is still being stopped; try \
             again later, or use another key",
        ),
        EngineError::TooLong(what) => RpcError::invalid_params(format!("This is too long: {what}")),
        EngineError::OutOfTouch => RpcError::internal(
            "This node was out of touch with the others and has not joined them again yet; try again in a moment",
        ),
        // Requestors give no orders.
        EngineError::Refused(refusal) => RpcError::internal(refusal.to_string()),
        EngineError::Draining => RpcError::internal("The gateway is shutting down; try again in a moment"),
        EngineError::Store(reason) => {
            tracing::error!(%reason, "the store failed");
            RpcError::internal("The task store failed; nothing was acknowledged. Try again")
        }
    }
    .to_payload()
}
