//! A request on its way through the gateway: what it asks and of whom, for the lines that are written because of it.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Deserialize;
use serde_json::value::RawValue;
use taskgate_task::{Owner, Payload, TaskId};
use taskgate_wire::{Dialect, RpcError, Version, method};

use super::Audit;
use super::line::{Line, Reason, locator, short};
use crate::bounds::{Refusal, is_unknown};
use crate::gateway::Gateway;
use crate::route::{Answer, Caller, Request, method_of_companion};
use crate::session::Outlet;

/// How many digits of an id may be shown.
const SHOWN: usize = 16;

tokio::task_local! {
    /// The request that is being answered.
    static ASKED: Arc<Asked>;
}

/// Who a client says that it is.
#[derive(Debug, Clone, Default)]
pub struct Client {
    name: Option<String>,
    version: Option<String>,
}

/// What is said of a request in a line.
#[derive(Debug)]
pub struct Asked {
    audit: Audit,
    owner: Owner,
    id: String,
    method: String,
    tool: Option<String>,
    /// What is asked of a task, by whatever words.
    verb: Option<&'static str>,
    task: Option<String>,
    given_id: Option<String>,
    protocol: Option<&'static str>,
    dialect: Option<&'static str>,
    client: Client,
    peer: Option<IpAddr>,
    /// It has made a task, which has a line of its own.
    has_task: AtomicBool,
    is_refused: AtomicBool,
    /// What was asked for is there, and is told.
    is_found: AtomicBool,
}

impl Client {
    /// Reads it, as far as it can be read.
    pub fn of(info: &RawValue) -> Client {
        #[derive(Deserialize)]
        struct Info {
            #[serde(default)]
            name: Option<String>,
            #[serde(default)]
            version: Option<String>,
        }
        let bounded = |text: Option<String>| text.map(|text| short(&text).into_owned());
        match serde_json::from_str::<Info>(info.get()) {
            Ok(Info { name, version }) => Client { name: bounded(name), version: bounded(version) },
            Err(_) => Client::default(),
        }
    }
}

/// Goes on with a future elsewhere as part of the request that is being answered here.
pub fn carried<T: Send>(future: impl Future<Output = T> + Send) -> impl Future<Output = T> + Send {
    let asked = Asked::now();
    async move {
        match asked {
            Some(asked) => ASKED.scope(asked, future).await,
            None => future.await,
        }
    }
}

/// Says that the request that is being answered is refused. It has one such line, whoever else refuses it.
pub async fn refused(reason: Reason) {
    if let Some(asked) = Asked::now() {
        asked.refuse(reason, None, None).await;
    }
}

/// Says that the outcome of a task is about to be told. If that is an error, it is no refusal.
pub fn found() {
    if let Some(asked) = Asked::now() {
        asked.is_found.store(true, Ordering::Relaxed);
    }
}

/// Says which tasks somebody who listens is told of, before it is told; one line if it listens to no task.
pub async fn told(tasks: impl Iterator<Item = &TaskId>) {
    let Some(asked) = Asked::now() else { return };
    let tasks: Vec<Option<String>> = tasks.map(locator).map(Some).collect();
    let tasks = if tasks.is_empty() { vec![None] } else { tasks };
    let lines = tasks.into_iter().map(|task| Line { task, ..asked.line("retrieval") });
    asked.audit.put_all_in_time(lines).await;
}

impl Asked {
    /// The request that is being answered, if anybody keeps account of it.
    pub fn now() -> Option<Arc<Asked>> {
        ASKED.try_with(Arc::clone).ok()
    }

    fn of(audit: &Audit, caller: &Caller, request: &Request<'_>) -> Asked {
        let bounded = |text: &str| short(text).into_owned();
        let tool = if request.method == method::TOOLS_CALL { request.params.name().ok() } else { None };
        let companion = tool.as_deref().and_then(method_of_companion);
        let verb = companion.or_else(|| verb(request.method));
        let named = match companion {
            Some(_) => request.params.arguments().and_then(task_argument),
            None => request.params.task_id().ok().map(|id| id.into_owned()),
        };
        let named = named.filter(|_| verb.is_some());
        let id = named.as_deref().and_then(|text| TaskId::parse(text).ok());
        let (client, version, given) = match caller {
            Caller::Session(session) => (
                session.client(),
                session.negotiated().map(|negotiated| negotiated.version),
                session.has_given_ids() || request.meta.first_task.is_some(),
            ),
            Caller::Stateless { .. } => {
                let client = request.meta.client_info.map(Client::of);
                let version = request.meta.protocol_version;
                let version = version.and_then(|raw| serde_json::from_str::<&str>(raw.get()).ok());
                (client, version.and_then(Version::from_wire), false)
            }
        };
        let dialect = match caller.dialect() {
            _ if given => Some("2025-10-20"),
            Some(Dialect::D2025_11_25) => Some("2025-11-25"),
            Some(Dialect::D2026_07_28) => Some("2026-07-28"),
            None => None,
        };
        Asked {
            audit: audit.clone(),
            owner: caller.owner().clone(),
            id: bounded(request.id.as_str()),
            method: bounded(request.method),
            tool: tool.map(|tool| bounded(&tool)),
            verb,
            task: id.as_ref().map(locator),
            given_id: named.filter(|_| id.is_none()).map(|named| without_secrets(&bounded(&named))),
            protocol: version.map(Version::as_str),
            dialect,
            client: client.unwrap_or_default(),
            peer: request.arrival.peer,
            has_task: AtomicBool::new(false),
            is_refused: AtomicBool::new(false),
            is_found: AtomicBool::new(false),
        }
    }

    /// The request has made a task.
    pub(super) fn makes_task(&self) {
        self.has_task.store(true, Ordering::Relaxed);
    }

    /// Says who has asked in a line about something else.
    pub(super) fn say<'a>(&'a self, line: Line<'a>) -> Line<'a> {
        Line {
            owner: Some(self.owner.as_str()),
            method: Some(&self.method),
            request_id: Some(&self.id),
            protocol: self.protocol,
            dialect: self.dialect,
            client: self.client.name.as_deref(),
            client_version: self.client.version.as_deref(),
            peer: self.peer,
            ..line
        }
    }

    /// Says all of it.
    fn line(&self, event: &'static str) -> Line<'_> {
        let line = Line {
            task: self.task.clone(),
            given_id: self.given_id.as_deref(),
            tool: self.tool.as_deref(),
            verb: self.verb.filter(|verb| *verb != self.method),
            ..Line::now(event)
        };
        self.say(line)
    }

    async fn refuse(&self, reason: Reason, why: Option<&'static str>, code: Option<i64>) {
        if !self.is_refused.swap(true, Ordering::Relaxed) {
            let why = why.map(Into::into);
            self.audit.put_in_time(Line { reason: Some(reason), why, code, ..self.line("refusal") }).await;
        }
    }

    /// Keeps account of what was answered, before it leaves.
    async fn answered(&self, answer: &Answer) {
        if self.is_refused.load(Ordering::Relaxed) {
            return;
        }
        let code = answer.as_ref().err().and_then(code);
        match (self.verb, answer) {
            (Some(_), _) if self.is_found.load(Ordering::Relaxed) => {
                self.audit.put_in_time(self.line("retrieval")).await;
            }
            (verb, Err(error)) => match (Refusal::read(error), verb) {
                (Some((limit, _)), _) => self.refuse(Reason::Limit, Some(limit.name()), code).await,
                (None, Some(_)) if is_unknown(error) => self.refuse(Reason::UnknownTask, None, code).await,
                (None, Some(_)) => self.refuse(Reason::Error, None, code).await,
                // What a tool answers is no refusal of ours.
                (None, None) => self.called(code).await,
            },
            // It was written when it began.
            (Some(method::LISTEN), Ok(_)) => {}
            (Some(method::TASKS_GET | method::TASKS_RESULT | method::TASKS_LIST), Ok(_)) => {
                self.audit.put_in_time(self.line("retrieval")).await;
            }
            (Some(_), Ok(_)) => self.audit.put_in_time(self.line("request")).await,
            (None, Ok(_)) => self.called(None).await,
        }
    }

    /// A call of a tool that is no task has no other line.
    async fn called(&self, code: Option<i64>) {
        if self.method == method::TOOLS_CALL && !self.has_task.load(Ordering::Relaxed) {
            self.audit.put_in_time(Line { code, ..self.line("call") }).await;
        }
    }
}

impl Gateway {
    /// Answers a request and keeps account of it.
    pub(crate) async fn answer_audited(
        &self,
        audit: &Audit,
        caller: &Caller,
        request: &Request<'_>,
        out: &Outlet,
    ) -> Answer {
        let asked = Arc::new(Asked::of(audit, caller, request));
        let begins_work = request.method == method::TOOLS_CALL || request.meta.first_task.is_some();
        if begins_work && asked.verb.is_none() && audit.refuses_work() {
            let error = RpcError::internal(
                "The audit log cannot be written, and nothing may be done without it; nothing was done. Try again later",
            );
            asked.refuse(Reason::Audit, None, Some(error.code.number().into())).await;
            return Err(error.to_payload());
        }
        let answer = ASKED.scope(asked.clone(), self.answer_plainly(caller, request, out)).await;
        asked.answered(&answer).await;
        answer
    }
}

/// What is asked of tasks by this method, if it asks for tasks.
fn verb(name: &str) -> Option<&'static str> {
    [
        method::TASKS_GET,
        method::TASKS_RESULT,
        method::TASKS_LIST,
        method::TASKS_CANCEL,
        method::TASKS_UPDATE,
        method::TASKS_DELETE,
        method::LISTEN,
    ]
    .into_iter()
    .find(|verb| *verb == name)
}

/// What is nearly an id may be one to whoever reads it: of many digits in a row only as many are left as may be shown.
fn without_secrets(text: &str) -> String {
    let mut digits = 0;
    let mut kept = String::with_capacity(text.len());
    for c in text.chars() {
        digits = if c.is_ascii_hexdigit() { digits + 1 } else { 0 };
        if digits <= SHOWN {
            kept.push(c);
        } else if digits == SHOWN + 1 {
            kept.push('…');
        }
    }
    kept
}

/// The task that a tool of ours is called about.
fn task_argument(arguments: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Arguments {
        task: String,
    }
    serde_json::from_str::<Arguments>(arguments.get()).ok().map(|arguments| arguments.task)
}

fn code(error: &Payload) -> Option<i64> {
    #[derive(Deserialize)]
    struct Shape {
        code: i64,
    }
    serde_json::from_str::<Shape>(error.as_str()).ok().map(|shape| shape.code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_nearly_an_id_is_not_shown_whole() {
        let id = "0123456789abcdef0123456789abcdef0123456789abcdef";
        for (text, shown) in [
            (format!("task {id} "), "task 0123456789abcdef… "),
            (id.to_uppercase(), "0123456789ABCDEF…"),
            ("my-task-7".to_owned(), "my-task-7"),
        ] {
            assert_eq!(without_secrets(&text), shown);
        }
    }
}
