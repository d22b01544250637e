//! Tasks that a fake upstream hosts. They belong to its board and outlive every connection.
//!
//! Their steps are `count`, `wait`, `poll` (its interval from now on), `progress`, `say` (the status message), `tell` (says on all connections that the task has changed), `ask`
//! (a map of requests), `answers`, `return`, `error`, `cancelled`.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use taskgate_client::transport::Inbound;
use taskgate_task::Payload;
use taskgate_wire::{Id, Message};
use tokio::sync::mpsc;

use super::Board;
use super::fake::{Pending, ask_client, reply, steps};

/// One of them.
#[derive(Clone, Default)]
pub struct Hosted {
    /// Its status.
    pub status: String,
    /// Its status message.
    pub message: Option<String>,
    /// How it ended: the result or the error.
    pub end: Option<Result<Value, Value>>,
    /// Its questions by key, and the answers there are.
    pub questions: BTreeMap<String, (Value, Option<Value>)>,
    /// How often it wants to be asked, in milliseconds.
    pub poll: u64,
    /// How often it has changed.
    pub changes: u64,
}

impl Hosted {
    fn is_over(&self) -> bool {
        matches!(self.status.as_str(), "completed" | "failed" | "cancelled")
    }

    fn open(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.questions
            .iter()
            .filter(|(_, (_, answer))| answer.is_none())
            .map(|(key, (asked, _))| (key, asked))
    }

    fn shape(&self, id: &str, modern: bool) -> Value {
        let mut shape = json!({
            "taskId": id,
            "status": self.status,
            "createdAt": "2026-01-01T00:00:00Z",
            "lastUpdatedAt": format!("2026-01-01T00:00:{:02}Z", self.changes),
        });
        if let Some(message) = &self.message {
            shape["statusMessage"] = json!(message);
        }
        let (ttl, interval) = if modern { ("ttlMs", "pollIntervalMs") } else { ("ttl", "pollInterval") };
        (shape[ttl], shape[interval]) = (json!(60_000), json!(self.poll));
        if modern {
            match (&self.end, self.status.as_str()) {
                (Some(Ok(result)), "completed") => shape["result"] = result.clone(),
                (Some(Err(error)), "failed") => shape["error"] = error.clone(),
                (_, "input_required") => {
                    let open = self.open().map(|(key, asked)| (key.clone(), asked.clone()));
                    shape["inputRequests"] = Value::Object(open.collect());
                }
                _ => {}
            }
        }
        shape
    }
}

/// Whether a request is one of 2026-07-28.
fn is_modern(params: &Value) -> bool {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
}

/// Whether a call is to be answered with a task.
pub fn is_wanted(board: &Board, params: &Value) -> bool {
    let declared = &params["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"];
    board.hosts()
        && if is_modern(params) {
            declared["io.modelcontextprotocol/tasks"].is_object()
        } else {
            params["task"].is_object()
        }
}

/// The error of a call that must be a task and does not ask for one.
pub fn refusal(params: &Value) -> Value {
    if is_modern(params) {
        let required = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
        let data = json!({"requiredCapabilities": required});
        json!({"code": -32021, "message": "Missing required client capability", "data": data})
    } else {
        json!({"code": -32601, "message": "The tool needs task augmentation"})
    }
}

/// Makes a task of a call and returns its handle.
pub fn create(board: &Board, params: &Value) -> Value {
    let modern = is_modern(params);
    let id = board.host(Hosted { status: "working".to_owned(), poll: 60, ..Hosted::default() });
    let steps = steps(params).cloned().unwrap_or_default();
    let shape = board.hosted(&id).expect("there").shape(&id, modern);
    let immediate = steps.first().and_then(|step| step.get("immediate")).cloned();
    board.bump("calls");
    tokio::spawn(run(board.clone(), id, steps, modern));
    if modern {
        let mut handle = shape;
        handle["resultType"] = json!("task");
        return handle;
    }
    match immediate {
        Some(text) => {
            json!({"task": shape, "_meta": {"io.modelcontextprotocol/model-immediate-response": text}})
        }
        None => json!({"task": shape}),
    }
}

async fn run(board: Board, id: String, steps: Vec<Value>, modern: bool) {
    let mut answers = json!({});
    for step in steps {
        let (name, what) = step.as_object().and_then(|step| step.iter().next()).expect("a step");
        let end = |status: &str, end: Option<Result<Value, Value>>| {
            board.change_hosted(&id, |task| (task.status, task.end) = (status.to_owned(), end));
        };
        match name.as_str() {
            "immediate" => {}
            "count" => board.bump(what.as_str().expect("a name")),
            "wait" => board.pass(what.as_str().expect("a gate")).await,
            "say" => board.change_hosted(&id, |task| task.message = what.as_str().map(ToOwned::to_owned)),
            "progress" => {
                let mut params = what.clone();
                params["progressToken"] = board.heard("tools/call").last().expect("a call")["id"].clone();
                board.say("notifications/progress", Some(params)).await;
            }
            "poll" => board.change_hosted(&id, |task| task.poll = what.as_u64().expect("ms")),
            "tell" => board.tell_of(&id, modern).await,
            "ask" => {
                let asked = what.as_object().expect("requests").clone();
                let keys: Vec<String> = asked.keys().cloned().collect();
                board.change_hosted(&id, |task| {
                    task.status = "input_required".to_owned();
                    task.questions.extend(asked.into_iter().map(|(key, asked)| (key, (asked, None))));
                });
                board.wait_hosted(&id, |task| task.is_over() || task.open().next().is_none()).await;
                let task = board.hosted(&id).expect("there");
                let given = keys.into_iter().map(|key| (key.clone(), task.questions[&key].1.clone()));
                answers = Value::Object(given.map(|(key, answer)| (key, answer.into())).collect());
                board.change_hosted(&id, |task| task.status = "working".to_owned());
            }
            "answers" => {
                let text = answers.to_string();
                end("completed", Some(Ok(json!({"content": [{"type": "text", "text": text}]}))));
            }
            "return" => {
                // "For tool calls specifically, this includes cases where the tool call result has isError set to true."
                let status = if !modern && what["isError"] == true { "failed" } else { "completed" };
                end(status, Some(Ok(what.clone())));
            }
            "error" => end("failed", Some(Err(what.clone()))),
            "cancelled" => {
                board.change_hosted(&id, |task| task.message = what.as_str().map(ToOwned::to_owned));
                end("cancelled", None);
            }
            other => panic!("unknown step {other}"),
        }
        if board.hosted(&id).is_none_or(|task| task.is_over()) {
            return;
        }
    }
    let done = json!({"content": [{"type": "text", "text": "done"}]});
    board.change_hosted(&id, |task| (task.status, task.end) = ("completed".to_owned(), Some(Ok(done))));
}

/// Answers a request about a task; some take their time, so they get what they need to do it.
pub fn answer(
    board: &Board,
    method: &str,
    params: &Value,
    id: Id,
    out: &mpsc::Sender<Inbound>,
    pending: &Pending,
) {
    let (board, method, params) = (board.clone(), method.to_owned(), params.clone());
    let (out, pending) = (out.clone(), pending.clone());
    tokio::spawn(async move {
        let answer = about(&board, &method, &params, &out, &pending).await;
        let _ = out.send(reply(id, answer)).await;
    });
}

async fn about(
    board: &Board,
    method: &str,
    params: &Value,
    out: &mpsc::Sender<Inbound>,
    pending: &Pending,
) -> Result<Value, Value> {
    let modern = is_modern(params);
    let invalid = |message: &str| Err(json!({"code": -32602, "message": message}));
    if modern && params["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"].is_null() {
        return Err(refusal(params));
    }
    let id = params["taskId"].as_str().unwrap_or_default();
    let Some(task) = board.hosted(id) else { return invalid("Task not found") };
    let complete = json!({"resultType": "complete"});
    match method {
        "tasks/get" => {
            let mut shape = task.shape(id, modern);
            if modern {
                shape["resultType"] = json!("complete");
            }
            Ok(shape)
        }
        "tasks/cancel" if modern || !task.is_over() => {
            board.change_hosted(id, |task| task.status = "cancelled".to_owned());
            Ok(if modern { complete } else { board.hosted(id).expect("there").shape(id, false) })
        }
        "tasks/cancel" => invalid("Cannot cancel task: already in terminal status"),
        "tasks/update" if modern => {
            for (key, answer) in params["inputResponses"].as_object().into_iter().flatten() {
                board.answer_hosted(id, key, answer.clone());
            }
            Ok(complete)
        }
        "tasks/result" if !modern => result(board, id, out, pending).await,
        _ => Err(json!({"code": -32601, "message": "Method not found"})),
    }
}

/// `tasks/result`: puts the open questions on this connection and waits for the end.
async fn result(
    board: &Board,
    id: &str,
    out: &mpsc::Sender<Inbound>,
    pending: &Pending,
) -> Result<Value, Value> {
    let related = json!({"io.modelcontextprotocol/related-task": {"taskId": id}});
    let mut asked = Vec::new();
    loop {
        let task = board.hosted(id).expect("there");
        if let Some(end) = task.is_over().then_some(task.end.clone()) {
            let mut end = end.unwrap_or_else(|| Err(json!({"code": -32603, "message": "cancelled"})));
            if let Ok(result) = &mut end {
                result["_meta"] = related;
            }
            return end;
        }
        for (key, request) in task.open().filter(|(key, _)| !asked.contains(*key)).collect::<Vec<_>>() {
            asked.push(key.clone());
            let mut request = request.clone();
            request["params"]["_meta"] = related.clone();
            let answer = ask_client(&request, None, out, pending).await.1;
            let (board, id, key) = (board.clone(), id.to_owned(), key.clone());
            tokio::spawn(async move {
                if let Ok(answer) = answer.await {
                    board.answer_hosted(&id, &key, answer);
                }
            });
        }
        let changes = task.changes;
        board.wait_hosted(id, |task| task.changes != changes).await;
    }
}

impl Board {
    /// Says on all connections, or on all subscriptions to it, that a task is as it is.
    pub async fn tell_of(&self, id: &str, modern: bool) {
        let shape = self.hosted(id).expect("there").shape(id, modern);
        if !modern {
            return self.say("notifications/tasks/status", Some(shape)).await;
        }
        for listen in self.heard("subscriptions/listen") {
            if listen["params"]["notifications"]["taskIds"] == json!([id]) {
                let mut params = shape.clone();
                params["_meta"] = json!({"io.modelcontextprotocol/subscriptionId": listen["id"]});
                self.say("notifications/tasks", Some(params)).await;
            }
        }
    }
}

/// A message as the fake sends it.
pub fn request(number: u64, request: &Value) -> Message {
    Message::Request {
        id: Id::number(number),
        method: request["method"].as_str().expect("a method").to_owned(),
        params: Some(Payload::from_value(&request["params"]).expect("JSON")),
    }
}
