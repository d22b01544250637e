//! Tasks as SEP-1686 first had them, in a session of any version: the request's metadata makes it a task, under an id of the
//! requestor's own, and it is answered all the same when it has ended.

use std::sync::Arc;

use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use taskgate_engine::{EngineError, InlineEvent, Launch};
use taskgate_task::{GivenId, IdempotencyKey, Order, Owner, Payload, Status, Task, TaskId};
use taskgate_wire::dialect::d2025_10_20::{self as words, Call, TaskRequest};
use taskgate_wire::{Message, Params, RpcError, meta, method};
use tokio::sync::mpsc;

use super::call_tool::for_upstream;
use super::inline::Inline;
use super::tasks::{PAGE, refusal};
use super::{Answer, Caller, Request};
use crate::audit::{Reason, carried, refused};
use crate::gateway::{Gateway, Target};
use crate::policy::TaskMode;
use crate::random::random;
use crate::session::{Outlet, Session};
use crate::upstream::{check_secrets, redacted};

impl Gateway {
    /// Answers a request about tasks in the words of this generation; `None` if it is none.
    pub(super) async fn first_task_verb(
        &self,
        session: &Arc<Session>,
        caller: &Caller,
        request: &Request<'_>,
    ) -> Option<Answer> {
        match words::decode(request.method, &request.params, session.has_given_ids()) {
            Ok(call) => {
                let call = call?;
                if caller.dialect().is_none() {
                    // No other words for tasks can be meant in this session, so a list need not say so.
                    session.gives_ids();
                }
                Some(self.first_verb(session, call).await)
            }
            Err(wrong) => Some(Err(wrong.to_payload())),
        }
    }

    async fn first_verb(&self, session: &Session, call: Call) -> Answer {
        let owner = session.owner();
        match call {
            Call::GetTask(id) => words::state(&self.task_named(session, &id).await?),
            Call::TaskResult(id) => words::outcome(&self.task_named(session, &id).await?),
            Call::ListTasks(_) if owner.is_anonymous() => {
                Err(RpcError::method_not_found(method::TASKS_LIST).to_payload())
            }
            Call::ListTasks(after) => {
                let page = self.0.engine.list(owner, after, PAGE).await.map_err(refusal)?;
                words::page(&page.tasks, page.next)
            }
            Call::DeleteTask(id) => {
                let task = self.task_named(session, &id).await?;
                self.delete(&task).await?;
                words::deleted(&id)
            }
        }
    }

    /// "Receivers MAY accept or reject delete requests": what has not ended is to be cancelled first, and what is still being
    /// stopped elsewhere can only be found by its record.
    async fn delete(&self, task: &Task) -> Result<(), Payload> {
        let wrong = |message: &str| Err(RpcError::invalid_params(message).to_payload());
        if !task.status.is_terminal() {
            return wrong("The task has not ended: cancel its request before it is deleted");
        }
        match self.0.engine.order(task.id, Order::Prune).await {
            Ok(_) | Err(EngineError::NotFound) => Ok(()),
            Err(EngineError::Refused(_)) => {
                wrong("The work of the task is still being stopped: delete it later")
            }
            Err(error) => Err(refusal(error)),
        }
    }

    /// The task that a requestor calls so: by an id of its own, or by ours.
    async fn task_named(&self, session: &Session, name: &str) -> Result<Task, Payload> {
        let given = GivenId { scope: scope(session), id: name.to_owned() };
        match self.0.engine.named(session.owner(), &given).await {
            Err(EngineError::NotFound) => match TaskId::parse(name) {
                Ok(id) => self.0.engine.get(session.owner(), id).await.map_err(refusal),
                Err(_) => Err(RpcError::unknown_task().to_payload()),
            },
            found => found.map_err(refusal),
        }
    }

    /// Answers a request that asks to be a task; `None` if it does not, or if what it asks for has none: then "the request MUST be
    /// processed normally".
    pub(super) async fn first_task(
        &self,
        session: &Arc<Session>,
        caller: &Caller,
        request: &Request<'_>,
        out: &Outlet,
    ) -> Option<Answer> {
        let asked = match words::asked(request.method, &request.params) {
            Ok(asked) => asked?,
            Err(wrong) => return Some(Err(wrong.to_payload())),
        };
        session.gives_ids();
        let (launch, target) = match self.launch_first(caller, request, out).await {
            Ok(launch) => launch?,
            Err(wrong) => return Some(Err(wrong.to_payload())),
        };
        Some(self.run_first(session, caller, request, out, &asked, launch, &target).await)
    }

    /// What is needed to start the work, and whose it is.
    async fn launch_first(
        &self,
        caller: &Caller,
        request: &Request<'_>,
        out: &Outlet,
    ) -> Result<Option<(Launch, Target)>, RpcError> {
        let bare = |raw: &Payload| -> Result<Payload, RpcError> {
            // The upstream is not asked for the same: its task would be nobody's.
            let edited = meta::edit(Some(raw), |meta| {
                meta.remove(words::TASK);
                Ok(())
            });
            edited.map_err(|error| RpcError::invalid_params(error.to_string()))
        };
        let target;
        let launch = if request.method == method::TOOLS_CALL {
            let name = request.params.tool()?;
            target = match self.find_tool(caller.owner(), request.arrival.identity(), &name).await {
                Ok(target) => target,
                Err(unknown) => {
                    refused(Reason::UnknownTool).await;
                    return Err(unknown);
                }
            };
            check_secrets(&target.policy, request.params.arguments())?;
            if target.policy.tasks == TaskMode::Never {
                return Ok(None);
            }
            let tool = target.tool.as_ref().map_or(&*name, |tool| &tool.name);
            let checked = target.upstream.check_arguments(tool, request.params.arguments());
            if caller.dialect().is_none() {
                let clean = |why| redacted(&target.policy, request.params.arguments(), why);
                checked.map_err(|why| RpcError::invalid_params(clean(why)))?;
            }
            let own = |raw: &Payload| for_upstream(&bare(raw)?, &request.params, caller, tool);
            self.launch_of(caller, request, &target, own, None, true)?
        } else {
            let whose = self.upstreams(caller.owner()).await.whose(request).await?;
            let mut candidates = whose.candidates.into_iter();
            // What several may have is asked for one after the other, which is no single piece of work.
            let (Some(candidate), None) = (candidates.next(), candidates.next()) else { return Ok(None) };
            target = Target::plain(candidate.upstream);
            let params = whose.params.as_ref().or(request.raw);
            let params = Params::parse(params).map(|known| (params, known))?;
            let request = Request { raw: params.0, params: params.1, ..*request };
            let mut inline = Inline::new(self, caller, &request, &target, out);
            inline.lasts = true;
            self.launch_of(caller, &request, &target, bare, None, true)?
        };
        Ok(Some((launch, target)))
    }

    /// Makes the task, says that it is there, and waits for its end.
    #[expect(clippy::too_many_arguments, reason = "they are the request and what was found for it")]
    async fn run_first(
        &self,
        session: &Arc<Session>,
        caller: &Caller,
        request: &Request<'_>,
        out: &Outlet,
        asked: &TaskRequest,
        launch: Launch,
        target: &Target,
    ) -> Answer {
        let given = GivenId { scope: scope(session), id: asked.id.clone() };
        // Whatever is asked for, another request under the same id is another task.
        let unlike_any = random().map_err(|error| RpcError::internal(error.to_string()).to_payload())?;
        let key = IdempotencyKey::of_given_id(&given, Sha256::digest(unlike_any.as_bytes()).into());
        let fate = Fate::of(self, session);
        let (listener, mut said) = mpsc::unbounded_channel();
        let mut place = self.place_for_task(caller).await?;
        let size = launch.work.text().as_str().len();
        let task = fate.create(launch, key, asked, listener).await?;
        place.is_task(size);
        drop(place);
        let params = words::created(&asked.id).ok();
        out.send(Message::Notification { method: method::TASK_CREATED.to_owned(), params });
        // As long as the request is open, the task's questions go on its stream.
        let _open = session.result_opened(task.id, out.clone());
        self.send_courier(session, &task);
        let inline = Inline::new(self, caller, request, target, out);
        let ended = self.0.engine.wait(session.owner(), task.id);
        let task = inline.overhear_of(&asked.id, &mut said, ended).await.map_err(refusal)?;
        fate.is_sealed();
        match &task.outcome {
            Some(outcome) => {
                let result = inline.outcome(outcome.clone())?;
                words::related(&result, &asked.id)
                    .map_err(|error| RpcError::internal(error.to_string()).to_payload())
            }
            None => {
                let why = match task.status {
                    Status::Cancelled => "The task was cancelled",
                    _ => task.status_message.as_deref().unwrap_or("The task did not complete"),
                };
                Err(RpcError::internal(why).to_payload())
            }
        }
    }
}

/// Where the ids of this session's requestor count. Callers without authorization may guess each other's.
fn scope(session: &Session) -> String {
    if session.owner().is_anonymous() { session.id().to_owned() } else { String::new() }
}

/// Ties a task to the request that made it: what cancels the one cancels the other, also before there is a task. The end of a
/// session cancels nothing.
struct Fate {
    gateway: Gateway,
    session: Arc<Session>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    task: Option<TaskId>,
    is_cancelled: bool,
    is_sealed: bool,
}

impl Fate {
    fn of(gateway: &Gateway, session: &Arc<Session>) -> Fate {
        Fate { gateway: gateway.clone(), session: session.clone(), state: Arc::default() }
    }

    /// Makes the task. Once that has begun, it goes on whatever becomes of the request.
    async fn create(
        &self,
        launch: Launch,
        key: IdempotencyKey,
        asked: &TaskRequest,
        listener: mpsc::UnboundedSender<InlineEvent>,
    ) -> Result<Task, Payload> {
        let (gateway, owner, keep) = (self.gateway.clone(), self.session.owner().clone(), asked.keep_alive);
        let state = self.state.clone();
        let making = tokio::spawn(carried(async move {
            let made = gateway.0.engine.submit_heard(launch, Some(key), keep, Some(listener)).await?;
            let is_cancelled = {
                let mut state = state.lock();
                state.task = Some(made.task.id);
                state.is_cancelled
            };
            if is_cancelled {
                cancel(&gateway, &owner, made.task.id).await;
            }
            Ok(made.task)
        }));
        let made = making.await.unwrap_or_else(|broken| Err(EngineError::Store(broken.to_string())));
        made.map_err(|error| match error {
            EngineError::KeyConflict | EngineError::KeyExpiring => {
                RpcError::invalid_params(format!("The task id {:?} is taken by another task", asked.id))
                    .to_payload()
            }
            error => refusal(error),
        })
    }

    /// The task has ended.
    fn is_sealed(&self) {
        self.state.lock().is_sealed = true;
    }
}

impl Drop for Fate {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        if state.is_sealed || self.session.is_ended() {
            return;
        }
        state.is_cancelled = true;
        if let Some(task) = state.task
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let (gateway, owner) = (self.gateway.clone(), self.session.owner().clone());
            runtime.spawn(async move { cancel(&gateway, &owner, task).await });
        }
    }
}

async fn cancel(gateway: &Gateway, owner: &Owner, task: TaskId) {
    match gateway.0.engine.cancel(owner, task).await {
        // "If a cancellation arrives after a task has reached a terminal status, receivers SHOULD ignore it."
        Ok(_) | Err(EngineError::Terminal(_) | EngineError::NotFound) => {}
        Err(error) => tracing::warn!(?task, %error, "the task of a cancelled request was not cancelled"),
    }
}
