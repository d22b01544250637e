//! Tasks that the client hosts: a server of 2025-11-25 may ask for one when it asks something that takes people long.
//!
//! They belong to the client and not to a connection: a server that comes back finds them by their id. They are kept in memory, and in
//! a ledger where that is wanted: then they outlast the program.

mod first;
mod kept;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use taskgate_task::{Payload, Status, Timestamp};
use taskgate_wire::own_task::{OwnTask, related};
use taskgate_wire::{RawObject, RpcError, meta, method};
use tokio::sync::{oneshot, watch};
use tokio::task::AbortHandle;

use super::builder::Answering;
use super::input::{Input, InputAnswer};
use super::{now, random};
use crate::session::TaskRequest;
pub(super) use kept::Kept;
use kept::{Asked, End};

/// How many tasks a client hosts for its server, and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hosting {
    /// How many there may be at a time, those that are over included.
    pub most: usize,
    /// How long one is kept where the server does not say.
    pub ttl: Duration,
    /// How long one is kept at most.
    pub max_ttl: Duration,
    /// How often the server should ask.
    pub poll_interval: Duration,
}

impl Default for Hosting {
    /// A hundred tasks, for an hour each, a day at most, to be asked about every five seconds.
    fn default() -> Self {
        Hosting {
            most: 100,
            ttl: Duration::from_secs(60 * 60),
            max_ttl: Duration::from_secs(24 * 60 * 60),
            poll_interval: Duration::from_secs(5),
        }
    }
}

/// The tasks of one client.
pub(super) struct Host {
    hosting: Hosting,
    kept: Kept,
    tasks: Mutex<HashMap<String, Hosted>>,
}

struct Hosted {
    task: OwnTask,
    asked: Asked,
    /// Whether its end is decided, though it may still have to be noted.
    is_settled: bool,
    /// What comes of it, once it is over.
    end: watch::Sender<Option<End>>,
    thinking: Option<AbortHandle>,
    forgetting: AbortHandle,
    /// How long it is kept after its end, if its server has named it (2025-10-20).
    keep_alive: Option<Duration>,
}

impl Host {
    pub(super) fn new(hosting: Hosting, kept: Kept) -> Arc<Host> {
        Arc::new(Host { hosting, kept, tasks: Mutex::default() })
    }

    /// What is declared, of these that can be asked at all.
    pub(super) fn capability(able: taskgate_wire::Capabilities) -> Value {
        let mut requests = serde_json::Map::new();
        if able.elicitation || able.elicitation_url {
            requests.insert("elicitation".to_owned(), json!({ "create": {} }));
        }
        if able.sampling {
            requests.insert("sampling".to_owned(), json!({ "createMessage": {} }));
        }
        json!({ "list": {}, "cancel": {}, "requests": requests })
    }

    /// The `task` member of a question, if it asks for a task that can be hosted.
    pub(super) fn wish(name: &str, params: Option<&Payload>) -> Option<Wish> {
        if !matches!(name, method::ELICIT | method::SAMPLE) {
            return None;
        }
        let params = RawObject::parse(params?.as_str()).ok()?;
        let task = RawObject::parse(params.get("task")?.get()).ok()?;
        let ttl = task.get("ttl").and_then(|ttl| serde_json::from_str::<u64>(ttl.get()).ok());
        Some(Wish { ttl: ttl.map(Duration::from_millis) })
    }

    /// Makes a task of a question and hands it to whoever answers. Says what its server is to get: a handle, or why there is none;
    /// where tasks are kept, after that is done.
    pub(super) fn begin(
        self: &Arc<Host>,
        wish: &Wish,
        method: String,
        params: Option<Payload>,
        ask: impl FnOnce(Input) -> Option<Answering> + Send + 'static,
        reply: impl FnOnce(Result<Payload, Payload>) + Send + 'static,
    ) {
        let failed = |why: String| RpcError::internal(why).to_payload();
        let id = match random::name() {
            Ok(id) => id,
            Err(error) => return reply(Err(failed(error.to_string()))),
        };
        let at = moment();
        let task = OwnTask {
            id: id.clone(),
            status: Status::Working,
            message: None,
            created: at,
            updated: at,
            ttl: wish.ttl.unwrap_or(self.hosting.ttl).min(self.hosting.max_ttl),
            poll_interval: self.hosting.poll_interval,
        };
        let created = match Payload::from_value(&task.created()) {
            Ok(created) => created,
            Err(error) => return reply(Err(failed(error.to_string()))),
        };
        let asked = Asked { method, params: params.map(without_task) };
        let too_many = move || failed("This client hosts as many tasks as it may".to_owned());
        let most = Some(self.hosting.most);
        if !self.kept.is_durable() {
            let is_placed = self.place(task, asked, most, None, ask);
            return reply(if is_placed { Ok(created) } else { Err(too_many()) });
        }
        if self.tasks.lock().len() >= self.hosting.most {
            return reply(Err(too_many()));
        }
        let host = self.clone();
        tokio::spawn(async move {
            // Before anybody answers, so that what is noted later is noted last.
            if let Err(why) = host.kept.note(&task, &asked, None).await {
                return reply(Err(failed(format!("The task cannot be kept: {why}"))));
            }
            if host.place(task, asked, most, None, ask) {
                return reply(Ok(created));
            }
            host.kept.forget(&id).await;
            reply(Err(too_many()));
        });
    }

    /// Puts a task into its place and has its question answered. False, if there would be more than that many.
    fn place(
        self: &Arc<Host>,
        task: OwnTask,
        asked: Asked,
        most: Option<usize>,
        keep_alive: Option<Duration>,
        ask: impl FnOnce(Input) -> Option<Answering>,
    ) -> bool {
        if most.is_some_and(|most| self.tasks.lock().len() >= most) {
            return false;
        }
        let (reply, answer) = oneshot::channel();
        let Asked { method, params } = asked.clone();
        let id = task.id.clone();
        let handled = ask(Input { key: id.clone(), method: method.clone(), params, reply });
        // Held until it is in its place, so that nobody is faster with an answer.
        let mut tasks = self.tasks.lock();
        let thinking = {
            let host = Arc::downgrade(self);
            tokio::spawn(async move {
                let answer = answered(answer, handled).await.into_result(&method);
                let Some(host) = host.upgrade() else { return };
                match answer {
                    Ok(result) => drop(host.settle(&id, Status::Completed, None, Ok(result)).await),
                    Err(why) => host.fail(&id, why).await,
                }
            })
            .abort_handle()
        };
        let forgetting = self.forget_after(&task);
        let end = watch::Sender::new(None);
        let hosted =
            Hosted { asked, end, is_settled: false, thinking: Some(thinking), forgetting, task, keep_alive };
        tasks.insert(hosted.task.id.clone(), hosted);
        true
    }

    /// Puts a task of an earlier life into its place, of which nobody has to think any more.
    #[cfg(feature = "ledger")]
    fn put_back(self: &Arc<Host>, task: OwnTask, asked: Asked, end: Option<End>) {
        let (forgetting, is_settled) = (self.forget_after(&task), end.is_some());
        let hosted = Hosted {
            asked,
            end: watch::Sender::new(end),
            is_settled,
            thinking: None,
            forgetting,
            task,
            keep_alive: None,
        };
        self.tasks.lock().insert(hosted.task.id.clone(), hosted);
    }

    /// When its time is over, whoever thinks about it need not any more, and whoever waits for it hears that it is unknown.
    fn forget_after(self: &Arc<Host>, task: &OwnTask) -> AbortHandle {
        let (host, id) = (Arc::downgrade(self), task.id.clone());
        let left = task.ttl.saturating_sub(moment().since(task.created));
        tokio::spawn(async move {
            tokio::time::sleep(left).await;
            let Some(host) = host.upgrade() else { return };
            let hosted = host.tasks.lock().remove(&id);
            if let Some(thinking) = hosted.and_then(|hosted| hosted.thinking) {
                thinking.abort();
            }
            host.kept.forget(&id).await;
        })
        .abort_handle()
    }

    /// Ends a task, once, and gives its state; `None`, if it is over already or unknown. Where it is kept, that is noted before
    /// anybody hears of it: what is over once stays so.
    async fn settle(&self, id: &str, status: Status, message: Option<String>, end: End) -> Option<Value> {
        let (mut task, asked) = {
            let mut tasks = self.tasks.lock();
            let hosted = tasks.get_mut(id).filter(|hosted| !hosted.is_settled)?;
            hosted.is_settled = true;
            (hosted.task.clone(), hosted.asked.clone())
        };
        (task.status, task.message, task.updated) = (status, message, moment());
        let is_named = self.keep_alive_of(id).is_some();
        if self.kept.is_durable()
            && !is_named
            && let Err(why) = self.kept.note(&task, &asked, Some(&end)).await
        {
            tracing::warn!(why, "the end of a hosted task is not kept");
        }
        let mut tasks = self.tasks.lock();
        let hosted = tasks.get_mut(id)?;
        hosted.task = task;
        hosted.end.send_replace(Some(end));
        Some(hosted.task.state())
    }

    async fn fail(&self, id: &str, why: String) {
        let error = super::drive::refusal(&why);
        self.settle(id, Status::Failed, Some(why), Err(error)).await;
    }

    /// Answers what a server asks about its tasks.
    pub(super) fn answer(self: &Arc<Host>, request: TaskRequest) {
        let params = request.params.as_ref().and_then(|params| RawObject::parse(params.as_str()).ok());
        let member = |name: &str| {
            params.as_ref().and_then(|params| serde_json::from_str::<String>(params.get(name)?.get()).ok())
        };
        if let Some(answer) = self.first_answer(&request.method, member("taskId").as_deref()) {
            return request.reply(answer);
        }
        let answer = match request.method.as_str() {
            method::TASKS_LIST => match member("cursor") {
                None => Ok(self.list()),
                Some(_) => Err(RpcError::invalid_params("Unknown cursor")),
            },
            method::TASKS_GET => self.state(member("taskId")),
            method::TASKS_CANCEL => return self.cancel(member("taskId"), request),
            method::TASKS_RESULT => return self.result(member("taskId"), request),
            other => Err(RpcError::method_not_found(other)),
        };
        reply(request, answer);
    }

    fn list(&self) -> Value {
        let tasks = self.tasks.lock();
        let mut listed: Vec<_> = tasks.values().map(|hosted| &hosted.task).collect();
        listed.sort_by(|one, other| (one.created, &one.id).cmp(&(other.created, &other.id)));
        json!({ "tasks": listed.into_iter().map(OwnTask::state).collect::<Vec<_>>() })
    }

    fn state(&self, id: Option<String>) -> Result<Value, RpcError> {
        let tasks = self.tasks.lock();
        let hosted = id.and_then(|id| tasks.get(&id)).ok_or_else(RpcError::unknown_task)?;
        Ok(hosted.task.state())
    }

    fn cancel(self: &Arc<Host>, id: Option<String>, request: TaskRequest) {
        let known = id.filter(|id| self.tasks.lock().contains_key(id));
        let Some(id) = known else { return reply(request, Err(RpcError::unknown_task())) };
        let host = self.clone();
        tokio::spawn(async move {
            let cancelled = RpcError::internal("The task was cancelled").to_payload();
            let state = host.settle(&id, Status::Cancelled, None, Err(cancelled)).await;
            if state.is_some()
                && let Some(Hosted { thinking: Some(thinking), .. }) = host.tasks.lock().get(&id)
            {
                thinking.abort();
            }
            reply(request, state.ok_or_else(|| RpcError::invalid_params("The task is over")));
        });
    }

    /// Answers as soon as the task is over.
    fn result(self: &Arc<Host>, id: Option<String>, request: TaskRequest) {
        let tasks = self.tasks.lock();
        let found = id.and_then(|id| Some((tasks.get(&id)?.end.subscribe(), id)));
        let Some((mut end, id)) = found else {
            return request.reply(Err(RpcError::unknown_task().to_payload()));
        };
        tokio::spawn(async move {
            let end = end.wait_for(Option::is_some).await.map(|end| end.clone());
            request.reply(match end {
                Ok(Some(Ok(result))) => Ok(with_related(&id, result)),
                Ok(Some(Err(error))) => Err(error),
                // It was forgotten.
                Ok(None) | Err(_) => Err(RpcError::unknown_task().to_payload()),
            });
        });
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        for hosted in self.tasks.lock().values() {
            if let Some(thinking) = &hosted.thinking {
                thinking.abort();
            }
            hosted.forgetting.abort();
        }
    }
}

/// What a server wants of a task.
pub(super) struct Wish {
    ttl: Option<Duration>,
}

/// The answer of whoever was asked; whoever says nothing has cancelled.
async fn answered(given: oneshot::Receiver<InputAnswer>, handled: Option<Answering>) -> InputAnswer {
    match handled {
        None => given.await.unwrap_or(InputAnswer::Cancel),
        Some(handled) => tokio::select! {
            biased;
            Ok(answer) = given => answer,
            answer = handled => answer,
        },
    }
}

fn reply(request: TaskRequest, answer: Result<Value, RpcError>) {
    let answer = answer.map_err(|error| error.to_payload());
    request.reply(answer.and_then(|value| {
        Payload::from_value(&value).map_err(|error| RpcError::internal(error.to_string()).to_payload())
    }));
}

fn moment() -> Timestamp {
    Timestamp::from_millis(i64::try_from(now()).unwrap_or(i64::MAX))
}

/// The params of a question without the wish for a task, which is nothing to whoever is asked.
fn without_task(params: Payload) -> Payload {
    let edit = || {
        let mut object = RawObject::parse(params.as_str()).ok()?;
        object.remove("task");
        object.to_payload().ok()
    };
    edit().unwrap_or(params)
}

/// A result that says which task it belongs to (2025-11-25).
pub(super) fn with_related(task: &str, result: Payload) -> Payload {
    let edited = meta::edit(Some(&result), |members| {
        let related = related(task);
        members.set(meta::RELATED_TASK, serde_json::value::to_raw_value(&related[meta::RELATED_TASK])?);
        Ok(())
    });
    edited.unwrap_or(result)
}
