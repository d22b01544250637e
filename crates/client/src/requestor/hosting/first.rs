//! Tasks that a server names itself (2025-10-20): its question says which task it is to be, and is answered all the same. They are kept
//! in memory, for as long after their end as the server has asked for.

use std::sync::Arc;
use std::time::Duration;

use taskgate_task::{Payload, Status};
use taskgate_wire::dialect::d2025_10_20::{self, TaskRequest};
use taskgate_wire::own_task::OwnTask;
use taskgate_wire::{Params, RpcError, meta, method};

use super::kept::Asked;
use super::{Host, moment};
use crate::requestor::builder::Answering;
use crate::requestor::input::Input;
use crate::session::QuestionReply;

impl Host {
    /// The task that a question is to be, if it names one.
    ///
    /// # Errors
    ///
    /// -32602 if what it asks for makes no sense.
    pub(in crate::requestor) fn named(
        name: &str,
        params: Option<&Payload>,
    ) -> Result<Option<TaskRequest>, RpcError> {
        if !matches!(name, method::ELICIT | method::SAMPLE) {
            return Ok(None);
        }
        d2025_10_20::wanted(&Params::parse(params)?)
    }

    /// Makes the task, says that it is there, and answers the question when it is over. `false` if there is such a task already, or there
    /// are as many as there may be: then the question was refused.
    pub(in crate::requestor) fn begin_named(
        self: &Arc<Host>,
        wanted: TaskRequest,
        method: String,
        params: Option<Payload>,
        ask: impl FnOnce(Input) -> Option<Answering>,
        reply: QuestionReply,
    ) -> bool {
        let refuse = |reply: QuestionReply, error: RpcError| {
            reply.refuse(error.to_payload());
            false
        };
        let TaskRequest { id, keep_alive } = wanted;
        if self.tasks.lock().contains_key(&id) {
            return refuse(reply, RpcError::invalid_params("There is a task with this id already"));
        }
        let at = moment();
        let task = OwnTask {
            id: id.clone(),
            status: Status::Working,
            message: None,
            created: at,
            updated: at,
            // Until its end it is kept as long as any may be.
            ttl: self.hosting.max_ttl,
            poll_interval: self.hosting.poll_interval,
        };
        let asked = Asked { method, params: params.map(|params| meta::without(d2025_10_20::TASK, params)) };
        let keep_alive = keep_alive.unwrap_or(self.hosting.ttl).min(self.hosting.max_ttl);
        if !self.place(task, asked, Some(self.hosting.most), Some(keep_alive), ask) {
            return refuse(reply, RpcError::internal("This client hosts as many tasks as it may"));
        }
        let end = self.tasks.lock().get(&id).map(|hosted| hosted.end.subscribe());
        reply.tell(method::TASK_CREATED, d2025_10_20::created(&id).ok());
        let host = Arc::downgrade(self);
        tokio::spawn(async move {
            let Some(mut end) = end else { return };
            let end = end.wait_for(Option::is_some).await.ok().and_then(|end| end.clone());
            match end {
                Some(Ok(result)) => reply.answer(d2025_10_20::related(&result, &id).unwrap_or(result)),
                Some(Err(error)) => reply.refuse(error),
                // It was deleted, or its time was over.
                None => reply.refuse(RpcError::internal("The task is gone").to_payload()),
            }
            if let Some(host) = host.upgrade() {
                host.keep_for(&id, keep_alive);
            }
        });
        true
    }

    /// The server has taken back the question that is this task, which cancels it.
    pub(in crate::requestor) fn cancel_named(self: &Arc<Host>, id: String) {
        let host = self.clone();
        tokio::spawn(async move {
            let cancelled = RpcError::internal("The task was cancelled").to_payload();
            if host.settle(&id, Status::Cancelled, None, Err(cancelled)).await.is_some()
                && let Some(thinking) = host.tasks.lock().get(&id).and_then(|hosted| hosted.thinking.clone())
            {
                thinking.abort();
            }
        });
    }

    pub(super) fn keep_alive_of(&self, id: &str) -> Option<Duration> {
        self.tasks.lock().get(id)?.keep_alive
    }

    /// What a server gets that asks about a task it has named itself; `None` if it is about no such task.
    pub(super) fn first_answer(&self, name: &str, id: Option<&str>) -> Option<Result<Payload, Payload>> {
        let mut tasks = self.tasks.lock();
        if name == method::TASKS_LIST {
            let mut named: Vec<_> =
                tasks.values().filter_map(|one| Some((&one.task, one.keep_alive?))).collect();
            if named.is_empty() || named.len() < tasks.len() {
                return None;
            }
            named.sort_by(|(one, _), (other, _)| (one.created, &one.id).cmp(&(other.created, &other.id)));
            return Some(d2025_10_20::own_list(named.into_iter()));
        }
        let hosted = tasks.get(id?)?;
        let (task, keep_alive) = (&hosted.task, hosted.keep_alive?);
        match name {
            method::TASKS_GET => Some(d2025_10_20::own(task, keep_alive, task.message.as_deref())),
            method::TASKS_RESULT => Some(match (&task.status, &*hosted.end.borrow()) {
                (Status::Completed, Some(Ok(result))) => {
                    Ok(d2025_10_20::related(result, &task.id).unwrap_or_else(|_| result.clone()))
                }
                (status, _) => {
                    let status = status.as_str();
                    let why = format!("Cannot retrieve the result: the task is {status}, not completed");
                    Err(RpcError::invalid_params(why).to_payload())
                }
            }),
            method::TASKS_DELETE => {
                let gone = tasks.remove(id?)?;
                gone.forgetting.abort();
                if let Some(thinking) = gone.thinking {
                    thinking.abort();
                }
                Some(d2025_10_20::deleted(&gone.task.id))
            }
            // It is cancelled by its question.
            other => Some(Err(RpcError::method_not_found(other).to_payload())),
        }
    }

    /// From its end on it is kept that long.
    fn keep_for(self: &Arc<Host>, id: &str, keep_alive: Duration) {
        let (host, name) = (Arc::downgrade(self), id.to_owned());
        let forgetting = tokio::spawn(async move {
            tokio::time::sleep(keep_alive).await;
            if let Some(host) = host.upgrade() {
                host.tasks.lock().remove(&name);
            }
        })
        .abort_handle();
        match self.tasks.lock().get_mut(id) {
            Some(hosted) => std::mem::replace(&mut hosted.forgetting, forgetting).abort(),
            None => forgetting.abort(),
        }
    }
}
