//! `tools/call`: create a task, run inline and become a task if it takes too long, or just run.

use std::sync::Arc;

use taskgate_engine::{InlineCall, Launch};
use taskgate_task::{Payload, WorkClass};
use taskgate_wire::dialect::d2026_07_28::missing_tasks_extension;
use taskgate_wire::tool::ToolFacts;
use taskgate_wire::{CallTool, Dialect, ErrorCode, Params, RawObject, RpcError};

use super::inline::{Ended, Inline};
use super::logging;
use super::parked::Resumed;
use super::state::replaced;
use super::tasks::refusal;
use super::{Answer, Caller, Request};
use crate::audit::{Reason, refused};
use crate::bounds::{QUEUED, TaskPlace, Ticket, Turn};
use crate::gateway::{Gateway, Target};
use crate::immediate;
use crate::policy::TaskMode;
use crate::rules::Again;
use crate::session::Outlet;
use crate::upstream::{self, check_secrets, redacted};

/// What a call becomes.
pub(super) enum Shape {
    /// A task at once, with the ttl its caller asks for.
    Task(Option<std::time::Duration>),
    /// A task if it takes longer than this.
    TaskAfter(std::time::Duration),
    /// A task if it takes longer than this, of which its caller is told in words: it has no tasks.
    Words(std::time::Duration),
    /// Never a task.
    Inline,
}

impl Gateway {
    pub(super) async fn call_tool(
        &self,
        caller: &Caller,
        request: &Request<'_>,
        call: CallTool,
        out: &Outlet,
    ) -> Answer {
        let rpc = |error: RpcError| error.to_payload();
        if let Some(companion) = self.companion(caller, &request.meta, &call.name).await {
            return Box::pin(self.accompany(caller, request, companion, call, out)).await;
        }
        let looked_up;
        let target = match request.tool {
            Some(found) => found,
            None => {
                looked_up = self.find_tool(caller.owner(), request.arrival.identity(), &call.name).await;
                &looked_up
            }
        };
        let target = match target {
            Ok(target) => target,
            Err(unknown) => {
                refused(Reason::UnknownTool).await;
                return Err(unknown.to_payload());
            }
        };
        check_secrets(&target.policy, request.params.arguments()).map_err(rpc)?;
        let shape = match shape(caller, target, &call, || self.patience_of(caller, &request.meta)) {
            Ok(shape) => shape,
            Err(unfit) => {
                refused(Reason::Policy).await;
                return Err(rpc(unfit));
            }
        };
        if caller.dialect().is_none() {
            // Later versions have wrong arguments as a result of the tool, which its runner gives (SEP-1303).
            let tool = target.tool.as_ref().map_or(&*call.name, |tool| &tool.name);
            let checked = target.upstream.check_arguments(tool, request.params.arguments());
            let clean = |why| redacted(&target.policy, request.params.arguments(), why);
            checked.map_err(|why| rpc(RpcError::invalid_params(clean(why))))?;
        }
        let mut inline = Inline::new(self, caller, request, target, out);
        inline.lasts = !matches!(shape, Shape::Inline);
        inline.counts_asking = matches!(shape, Shape::Words(_));
        let is_keyed = self.idempotency_key(caller, request, target, &shape).map_err(rpc)?;
        // Before anything is begun or used up: a call that may become a task finds out now whether it may.
        let mut place = match shape {
            Shape::Task(_) | Shape::TaskAfter(_) | Shape::Words(_) if is_keyed.is_none() => {
                Some(self.place_for_task(caller).await?)
            }
            _ => None,
        };
        let name = target.tool.as_ref().map_or(&*call.name, |tool| &tool.name);
        let (answers, own) =
            (|| Ok(call.answers), |raw: &Payload| for_upstream(raw, &request.params, caller, name));
        if let Some(key) = is_keyed {
            let launch =
                || self.launch_of(caller, request, target, own, None, true).map_err(|error| Err(rpc(error)));
            return Box::pin(self.call_once(
                &inline,
                caller,
                immediate_of(target, request),
                shape,
                key,
                launch,
            ))
            .await;
        }
        let running = match self.begin(&mut inline, caller, request, target, answers, own).await {
            Ok(running) => running,
            Err(answered) => return answered,
        };
        match shape {
            Shape::Task(ttl) => self.created(caller, request, running, ttl, place).await,
            Shape::Words(budget) => match inline.drive(running, Some(budget)).await {
                Ended::Answered(answer) => answer,
                Ended::TooLong(running) => {
                    let heard = inline.heard.take();
                    place.iter_mut().for_each(|place| place.is_task(request.size()));
                    Box::pin(self.told_in_words(caller, target, &call.name, running, budget, heard)).await
                }
            },
            Shape::Inline => match inline.drive(running, None).await {
                Ended::Answered(answer) => answer,
                // Without a deadline it only ends with an answer.
                Ended::TooLong(_) => Err(rpc(RpcError::internal("The call ended without an answer"))),
            },
            Shape::TaskAfter(patience) => match inline.drive(running, Some(patience)).await {
                Ended::Answered(answer) => answer,
                Ended::TooLong(running) => self.created(caller, request, running, None, place).await,
            },
        }
    }

    async fn created(
        &self,
        caller: &Caller,
        request: &Request<'_>,
        running: InlineCall,
        ttl: Option<std::time::Duration>,
        place: Option<TaskPlace>,
    ) -> Answer {
        let immediate = running.immediate();
        let task = running.become_task(ttl).await.map_err(refusal)?;
        place.into_iter().for_each(|mut place| place.is_task(request.size()));
        self.handle(caller, &task, immediate.as_deref())
    }

    /// A place for a call that may become a task, or why there is none.
    pub(super) async fn place_for_task(&self, caller: &Caller) -> Result<TaskPlace, Payload> {
        let place = self.0.limits.create(caller, &self.0.engine).await;
        place.map_err(|refusal| refusal.to_error().to_payload())
    }

    /// Begins the call at the upstream, or goes on with the one whose questions this request answers. `own` makes the
    /// params the upstream is to get. `Err` is the caller's answer: an error, or the questions that are still open.
    async fn begin(
        &self,
        inline: &mut Inline<'_>,
        caller: &Caller,
        request: &Request<'_>,
        target: &Target,
        answers: impl FnOnce() -> Result<Option<Vec<(String, Payload)>>, RpcError>,
        own: impl FnOnce(&Payload) -> Result<Payload, RpcError>,
    ) -> Result<InlineCall, Answer> {
        let rpc = |error: RpcError| Err(error.to_payload());
        let resumed = match self.resumed(caller, request, target).await.map_err(rpc)? {
            Some(Resumed::Running(parked)) => {
                let answers = answers().map_err(rpc)?.unwrap_or_default();
                return parked.answer(answers).map_err(|parked| self.park(caller, request, target, parked));
            }
            resumed => resumed,
        };
        let launch = self.launch_of(caller, request, target, own, resumed, inline.lasts).map_err(rpc)?;
        inline.relaunch = Some(launch.clone());
        self.0.engine.start(launch, None).map_err(|error| Err(refusal(error)))
    }

    /// What is needed to start the call. `lasts` says whether it is, or may become, a task.
    pub(super) fn launch_of(
        &self,
        caller: &Caller,
        request: &Request<'_>,
        target: &Target,
        own: impl FnOnce(&Payload) -> Result<Payload, RpcError>,
        resumed: Option<Resumed>,
        lasts: bool,
    ) -> Result<Launch, RpcError> {
        let limits = &self.0.limits;
        // Whoever comes back with an answer was admitted before, and waits for a turn if need be.
        let ticket = match resumed {
            Some(_) => None,
            None => {
                let ticket = limits.turns().admit(&limits.of(caller));
                Some(ticket.or_else(|refusal| limits.refused(refusal)).map_err(|no| no.to_error())?)
            }
        };
        let params = request.raw.map(own).transpose()?;
        let policy = &target.policy;
        // What is to fail when this process dies gains nothing from a task of the upstream's.
        let lasts = lasts && policy.class != Some(WorkClass::Live);
        let tool = target.tool.as_ref();
        let asks =
            |tool: &&Arc<ToolFacts>| target.upstream.is_asked_for_task(tool, caller.is_stateless(), lasts);
        let asked = tool.filter(asks);
        // Past the run limit nobody waits for it.
        let ttl = || u64::try_from(policy.lifetime.run_limit.as_millis()).unwrap_or(u64::MAX);
        let work = upstream::Request {
            method: request.method.to_owned(),
            params: with_state(params, resumed)?,
            stateless: caller.is_stateless(),
            capabilities: caller.raw_capabilities().map(|raw| without_tasks(&raw)),
            caller: caller.attribution(request.id),
            log_level: logging::wanted(caller, request),
            task_ttl: asked.map(|_| ttl()),
            is_checked: tool.is_some()
                && (policy.check_arguments || policy.check_output != crate::policy::CheckOutput::Off),
            max_calls: tool
                .filter(|tool| {
                    policy.class.is_some_and(can_repeat) || policy.class.is_none() && tool.repeatable
                })
                .map(|_| policy.max_attempts),
            may_save: tool.is_some() && policy.class == Some(WorkClass::Resumable),
            is_once: policy.class.is_none() && asked.is_some_and(|tool| !tool.repeatable),
            grounds: tool.and_then(|tool| {
                self.0.rules.grounds(caller.owner(), request.arrival.identity(), tool.hints)
            }),
        };
        let launch = self.launch(target, caller.owner().clone(), work, immediate_of(target, request))?;
        let queued = ticket.as_ref().is_some_and(Ticket::waits).then(|| QUEUED.to_owned());
        let again = Again::of(&self.0.rules, &target.upstream);
        Ok(Launch {
            with: Turn::before(limits.clone(), again, launch.with.clone(), ticket),
            queued,
            ..launch
        })
    }

    /// Passes a request that is no tool call on to an upstream, and its answer back.
    pub(crate) async fn pass_on(
        &self,
        caller: &Caller,
        request: &Request<'_>,
        target: Target,
        out: &Outlet,
    ) -> Answer {
        let rpc = |error: RpcError| error.to_payload();
        let modern = target.upstream.is_stateless_for(caller.is_stateless());
        let mut inline = Inline::new(self, caller, request, &target, out);
        let (answers, own) = (|| request.params.input_responses(), |raw: &Payload| Ok(raw.clone()));
        let running = match self.begin(&mut inline, caller, request, &target, answers, own).await {
            Ok(running) => running,
            Err(answered) => return answered,
        };
        match inline.drive(running, None).await {
            Ended::Answered(answer) => super::in_words_of(caller, request.method, modern, answer),
            Ended::TooLong(_) => Err(rpc(RpcError::internal("The call ended without an answer"))),
        }
    }
}

/// What a host may tell its model at once, should the call become a task.
pub(super) fn immediate_of(target: &Target, request: &Request<'_>) -> Option<String> {
    let template = target.policy.immediate_response.as_deref()?;
    let arguments = request.params.arguments();
    let marks = &target.policy.secret_arguments;
    let is_secret = |name: &str| marks.iter().any(|mark| mark.split('.').next() == Some(name));
    Some(redacted(&target.policy, arguments, immediate::fill(template, arguments, is_secret)))
}

/// Whether a tool that is configured so may be called again.
fn can_repeat(class: WorkClass) -> bool {
    matches!(class, WorkClass::Repeatable | WorkClass::Resumable)
}

/// When this call becomes a task, or why it may not be made like this. `patience` is how long a caller without tasks waits.
fn shape(
    caller: &Caller,
    target: &Target,
    call: &CallTool,
    patience: impl FnOnce() -> Option<std::time::Duration>,
) -> Result<Shape, RpcError> {
    let mode = target.policy.tasks;
    let without_tasks = || patience().map_or(Shape::Inline, Shape::Words);
    match caller.dialect() {
        Some(Dialect::D2026_07_28) => match (mode, caller.capabilities().tasks_extension) {
            (TaskMode::Never, _) => Ok(Shape::Inline),
            (TaskMode::Auto, false) => Ok(without_tasks()),
            (TaskMode::Auto, true) => Ok(Shape::TaskAfter(target.policy.inline_for)),
            (TaskMode::Always, true) => Ok(Shape::Task(None)),
            (TaskMode::Always, false) => Err(missing_tasks_extension()),
        },
        // "Servers MUST return a -32601 (Method not found) error" (2025-11-25, tool-level negotiation).
        Some(Dialect::D2025_11_25) => match (mode, call.task) {
            (TaskMode::Never, Some(_)) => Err(RpcError::new(
                ErrorCode::MethodNotFound,
                format!("The tool {} does not support tasks: call it without params.task", call.name),
            )),
            (TaskMode::Always, None) => Err(RpcError::new(
                ErrorCode::MethodNotFound,
                format!("The tool {} can only be called as a task: add params.task", call.name),
            )),
            (_, Some(task)) => Ok(Shape::Task(task.ttl)),
            (TaskMode::Never, None) => Ok(Shape::Inline),
            (TaskMode::Auto, None) => Ok(without_tasks()),
        },
        None if mode == TaskMode::Never => Ok(Shape::Inline),
        None => Ok(without_tasks()),
    }
}

/// The params with the state that the upstream itself gave out, in place of the one it was sealed in.
fn with_state(params: Option<Payload>, resumed: Option<Resumed>) -> Result<Option<Payload>, RpcError> {
    let (Some(raw), Some(Resumed::Again(state))) = (&params, resumed) else { return Ok(params) };
    let params = replaced(raw, state.as_raw().to_owned());
    params.map(Some).map_err(|error| RpcError::invalid_params(error.to_string()))
}

/// A tool call's params as the upstream is to get them: its own name for the tool, and nothing that asked us for a task.
/// `known` is what the caller's params say.
pub(super) fn for_upstream(
    raw: &Payload,
    known: &Params<'_>,
    caller: &Caller,
    name: &str,
) -> Result<Payload, RpcError> {
    let drop_task = caller.dialect() == Some(Dialect::D2025_11_25) && known.has_task();
    if known.is_named(name) && !drop_task {
        return Ok(raw.clone());
    }
    let broken = |error: taskgate_task::InvalidPayload| RpcError::invalid_params(error.to_string());
    let mut params = RawObject::parse(raw.as_str()).map_err(broken)?;
    let name = serde_json::value::to_raw_value(name).map_err(|error| broken(error.into()))?;
    params.set("name", name);
    if drop_task {
        params.remove("task");
    }
    params.to_payload().map_err(broken)
}

/// A client's capabilities without its tasks: the upstream is not asked for a task of its own.
pub(super) fn without_tasks(raw: &Payload) -> Payload {
    let edit = || {
        let mut all = RawObject::parse(raw.as_str()).ok()?;
        all.remove("tasks");
        if let Some(extensions) = all.get("extensions").map(ToOwned::to_owned) {
            let mut extensions = RawObject::parse(extensions.get()).ok()?;
            extensions.remove(taskgate_wire::meta::TASKS_EXTENSION);
            if extensions.is_empty() {
                all.remove("extensions");
            } else {
                all.set("extensions", extensions.to_raw().ok()?);
            }
        }
        all.to_payload().ok()
    };
    edit().unwrap_or_else(|| raw.clone())
}
