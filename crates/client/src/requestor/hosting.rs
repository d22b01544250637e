//! Tasks that the client hosts: a server of 2025-11-25 may ask for one when it asks something that takes people long.
//!
//! They are kept in memory, and belong to the client and not to a connection: a server that comes back finds them by their id.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use taskgate_task::{Payload, Status, Timestamp};
use taskgate_wire::own_task::{OwnTask, related};
use taskgate_wire::{RawObject, RpcError, meta, method};
use tokio::sync::{oneshot, watch};
use tokio::task::AbortHandle;

use super::input::{Input, InputAnswer};
use super::{now, random};
use crate::session::TaskRequest;

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
    tasks: Mutex<HashMap<String, Hosted>>,
}

struct Hosted {
    task: OwnTask,
    /// What comes of it, once it is over.
    end: watch::Sender<Option<Result<Payload, Payload>>>,
    thinking: AbortHandle,
    forgetting: AbortHandle,
}

impl Host {
    pub(super) fn new(hosting: Hosting) -> Arc<Host> {
        Arc::new(Host { hosting, tasks: Mutex::default() })
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

    /// Makes a task of a question and hands it to whoever answers. Gives what its server is to get: a handle, or why there is none.
    pub(super) fn begin(
        self: &Arc<Host>,
        wish: &Wish,
        name: String,
        params: Option<Payload>,
        ask: impl FnOnce(Input) -> Option<super::builder::Answering>,
    ) -> Result<Payload, Payload> {
        let failed = |why: String| RpcError::internal(why).to_payload();
        let id = random::name().map_err(|error| failed(error.to_string()))?;
        let ttl = wish.ttl.unwrap_or(self.hosting.ttl).min(self.hosting.max_ttl);
        let at = moment();
        let task = OwnTask {
            id: id.clone(),
            status: Status::Working,
            message: None,
            created: at,
            updated: at,
            ttl,
            poll_interval: self.hosting.poll_interval,
        };
        if self.tasks.lock().len() >= self.hosting.most {
            return Err(failed("This client hosts as many tasks as it may".to_owned()));
        }
        let created = Payload::from_value(&task.created()).map_err(|error| failed(error.to_string()))?;
        let (reply, answer) = oneshot::channel();
        let input = Input { key: id.clone(), method: name.clone(), params: params.map(without_task), reply };
        let handled = ask(input);
        // Held until it is in its place, so that nobody is faster with an answer.
        let mut tasks = self.tasks.lock();
        let thinking = {
            let (host, id) = (Arc::downgrade(self), id.clone());
            tokio::spawn(async move {
                let answer = answered(answer, handled).await;
                over(&host, &id, answer.into_result(&name));
            })
            .abort_handle()
        };
        let forgetting = {
            let (host, id) = (Arc::downgrade(self), id.clone());
            tokio::spawn(async move {
                tokio::time::sleep(ttl).await;
                if let Some(host) = host.upgrade() {
                    host.forget(&id);
                }
            })
            .abort_handle()
        };
        tasks.insert(id, Hosted { task, end: watch::Sender::new(None), thinking, forgetting });
        Ok(created)
    }

    /// Its time is over: whoever thinks about it need not any more, and whoever waits for it hears that it is unknown.
    fn forget(&self, id: &str) {
        let Some(hosted) = self.tasks.lock().remove(id) else { return };
        hosted.thinking.abort();
    }

    /// Answers what a server asks about its tasks.
    pub(super) fn answer(self: &Arc<Host>, request: TaskRequest) {
        let params = request.params.as_ref().and_then(|params| RawObject::parse(params.as_str()).ok());
        let member = |name: &str| {
            params.as_ref().and_then(|params| serde_json::from_str::<String>(params.get(name)?.get()).ok())
        };
        let answer = match request.method.as_str() {
            method::TASKS_LIST => match member("cursor") {
                None => Ok(self.list()),
                Some(_) => Err(RpcError::invalid_params("Unknown cursor")),
            },
            method::TASKS_GET => self.state(member("taskId")),
            method::TASKS_CANCEL => self.cancel(member("taskId")),
            method::TASKS_RESULT => return self.result(member("taskId"), request),
            other => Err(RpcError::method_not_found(other)),
        };
        let answer = answer.map_err(|error| error.to_payload());
        request.reply(answer.and_then(|value| {
            Payload::from_value(&value).map_err(|error| RpcError::internal(error.to_string()).to_payload())
        }));
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

    fn cancel(&self, id: Option<String>) -> Result<Value, RpcError> {
        let mut tasks = self.tasks.lock();
        let hosted = id.and_then(|id| tasks.get_mut(&id)).ok_or_else(RpcError::unknown_task)?;
        if hosted.task.status != Status::Working {
            return Err(RpcError::invalid_params("The task is over"));
        }
        hosted.thinking.abort();
        let cancelled = RpcError::internal("The task was cancelled").to_payload();
        hosted.end(Status::Cancelled, Err(cancelled));
        Ok(hosted.task.state())
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
            hosted.thinking.abort();
            hosted.forgetting.abort();
        }
    }
}

impl Hosted {
    fn end(&mut self, status: Status, end: Result<Payload, Payload>) {
        (self.task.status, self.task.updated) = (status, moment());
        self.end.send_replace(Some(end));
    }
}

/// What a server wants of a task.
pub(super) struct Wish {
    ttl: Option<Duration>,
}

/// The answer of whoever was asked; whoever says nothing has cancelled.
async fn answered(
    given: oneshot::Receiver<InputAnswer>,
    handled: Option<super::builder::Answering>,
) -> InputAnswer {
    match handled {
        None => given.await.unwrap_or(InputAnswer::Cancel),
        Some(handled) => tokio::select! {
            biased;
            Ok(answer) = given => answer,
            answer = handled => answer,
        },
    }
}

/// The question of a task has its answer, or there is none.
fn over(host: &Weak<Host>, id: &str, answer: Result<Payload, String>) {
    let Some(host) = host.upgrade() else { return };
    let mut tasks = host.tasks.lock();
    let Some(hosted) = tasks.get_mut(id).filter(|hosted| hosted.task.status == Status::Working) else {
        return;
    };
    match answer {
        Ok(result) => hosted.end(Status::Completed, Ok(result)),
        Err(why) => {
            hosted.task.message = Some(why.clone());
            hosted.end(Status::Failed, Err(super::drive::refusal(&why)));
        }
    }
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
