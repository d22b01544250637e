//! A server in this program that follows the steps in the arguments of a call, or of any other request that has some.
//!
//! Steps are objects with one member: `count`, `sleep` (ms), `wait` (a gate), `progress`, `log`, `ask` (a list of
//! requests, sent together), `ask_unnamed` (the same, as over stdio: nothing says which call asks), `take_back` (asks,
//! chatters until the gate `take back` is open, and asks no longer), `round` (input requests that end the call), `die`, `return`, `error`, `answers`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use taskgate_client::transport::memory::FarEnd;
use taskgate_client::transport::{CloseCause, CloseReason, Inbound};
use taskgate_task::Payload;
use taskgate_wire::{Id, Message};
use tokio::sync::{mpsc, oneshot};

use super::{Board, hosted};

/// Which generations a fake upstream speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// 2025-11-25 only.
    Session,
    /// 2026-07-28 only.
    Modern,
    /// Both, as rmcp handlers do.
    Both,
}

pub type Pending = Arc<Mutex<Waiting>>;

/// Questions to the client that wait for their answers.
#[derive(Default)]
pub struct Waiting {
    last: u64,
    answers: HashMap<u64, oneshot::Sender<Value>>,
}

/// One call that is being carried out.
struct Call {
    board: Board,
    out: mpsc::Sender<Inbound>,
    id: Id,
    params: Value,
    pending: Pending,
    answers: Value,
}

/// How a call ends.
enum Flow {
    Result(Value),
    Error(Value),
    Silence,
}

/// Says of a call that it runs for as long as it exists.
struct Running(Board);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.run(false);
    }
}

/// Serves one connection until it ends.
pub async fn serve(board: Board, far: FarEnd) {
    let FarEnd { mut inbox, out } = far;
    let pending = Pending::default();
    let mut calls: HashMap<Id, tokio::task::JoinHandle<()>> = HashMap::new();
    while let Some(message) = inbox.recv().await {
        match message {
            Message::Request { id, method, params } => {
                let params = value(params.as_ref());
                board.hear(json!({"method": method, "id": value_of(id.as_str()), "params": params}));
                if let Some(odd) = board.odd_answer(&method) {
                    let _ = out.send(reply(id, odd)).await;
                } else if method.starts_with("tasks/") && board.hosts() {
                    hosted::answer(&board, &method, &params, id, &out, &pending);
                } else if method == "tools/call" && hosted::is_wanted(&board, &params) {
                    let handle = hosted::create(&board, &params);
                    let (board, out) = (board.clone(), out.clone());
                    tokio::spawn(async move {
                        if board.holds_handles() {
                            board.pass("handles").await;
                        }
                        let _ = out.send(reply(id, Ok(handle))).await;
                    });
                } else if method == "tools/call" && board.hosts() && params["name"] == "required" {
                    let _ = out.send(reply(id, Err(hosted::refusal(&params)))).await;
                } else if method == "tools/call" || steps(&params).is_some() {
                    board.bump("calls");
                    board.run(true);
                    let running = Running(board.clone());
                    let call = Call {
                        board: board.clone(),
                        out: out.clone(),
                        id: id.clone(),
                        params,
                        pending: pending.clone(),
                        answers: json!({}),
                    };
                    calls.insert(id, tokio::spawn(call.run(running)));
                } else if let Some(answer) = simple(&board, &method, &params, &id, &out).await {
                    let _ = out.send(reply(id, answer)).await;
                }
            }
            Message::Notification { method, params } => {
                let params = value(params.as_ref());
                board.hear(json!({"method": method, "params": params}));
                if method == "notifications/cancelled"
                    && let Some(id) = raw(&params["requestId"])
                    && let Some(call) = calls.remove(&id)
                {
                    call.abort();
                }
                if method == "notifications/cancelled" {
                    board.unlisten(&params["requestId"]);
                }
            }
            Message::Response { id, result } => settle(&pending, &id, value(Some(&result))),
            Message::Error { id: Some(id), error } => {
                settle(&pending, &id, json!({"error": value(Some(&error))}))
            }
            Message::Error { id: None, .. } => {}
        }
    }
    calls.into_values().for_each(|call| call.abort());
}

fn settle(pending: &Pending, id: &Id, answer: Value) {
    if let Some(waiting) = id.as_number().and_then(|number| pending.lock().answers.remove(&number)) {
        let _ = waiting.send(answer);
    }
}

/// Answers everything but tool calls.
async fn simple(
    board: &Board,
    method: &str,
    params: &Value,
    id: &Id,
    out: &mpsc::Sender<Inbound>,
) -> Option<Result<Value, Value>> {
    let offers = board.offers();
    if (offers.hangs && method.ends_with("/list")) || (board.is_listless() && method == "tools/list") {
        return None;
    }
    if let Some(answer) = offers.answer(board, method, params) {
        return Some(answer);
    }
    let capabilities = &offers.capabilities;
    Some(match (method, board.era()) {
        ("initialize", Era::Session | Era::Both) => Ok(json!({
            "protocolVersion": params["protocolVersion"],
            "capabilities": capabilities,
            "serverInfo": {"name": "fake", "version": "1"},
            "instructions": offers.instructions,
        })),
        ("server/discover", Era::Modern | Era::Both) => {
            let versions: &[&str] =
                if board.era() == Era::Both { &["2026-07-28", "2025-11-25"] } else { &["2026-07-28"] };
            Ok(json!({
                "resultType": "complete",
                "supportedVersions": versions,
                "capabilities": capabilities,
                "instructions": offers.instructions,
            }))
        }
        ("subscriptions/listen", Era::Modern | Era::Both) => {
            let mut granted = params["notifications"].clone();
            if let Some(uris) = granted.get_mut("resourceSubscriptions").and_then(Value::as_array_mut) {
                uris.retain(|uri| uri.as_str().is_some_and(|uri| offers.has(uri)));
                for uri in uris {
                    board.subscribe(json!({"uri": uri, "id": value_of(id.as_str())}), true);
                }
            }
            let params = json!({
                "_meta": {"io.modelcontextprotocol/subscriptionId": value_of(id.as_str())},
                "notifications": granted,
            });
            let _ = out.send(notification("notifications/subscriptions/acknowledged", &params)).await;
            return None;
        }
        ("resources/subscribe", Era::Session | Era::Both) => match params["uri"].as_str() {
            Some(uri) if offers.has(uri) => {
                board.subscribe(json!({"uri": uri}), true);
                Ok(json!({"x-own": true}))
            }
            uri => Err(offers.not_found(board, uri.unwrap_or_default())),
        },
        ("resources/unsubscribe", Era::Session | Era::Both) => {
            board.subscribe(json!({"uri": params["uri"]}), false);
            Ok(json!({}))
        }
        ("ping", _) => Ok(json!({})),
        _ => Err(json!({"code": -32601, "message": format!("Method not found: {method}")})),
    })
}

impl Call {
    async fn run(mut self, running: Running) {
        let steps = steps(&self.params).cloned().unwrap_or_default();
        let mut end = None;
        let mut rounds = 0;
        for step in &steps {
            end = self.step(step, &mut rounds).await;
            if end.is_some() {
                break;
            }
        }
        let done = || Flow::Result(json!({"content": [{"type": "text", "text": "done"}]}));
        let answer = match end.unwrap_or_else(done) {
            Flow::Result(result) => Ok(result),
            Flow::Error(error) => Err(error),
            Flow::Silence => return,
        };
        drop(running);
        let _ = self.out.send(reply(self.id, answer)).await;
    }

    async fn step(&mut self, step: &Value, rounds: &mut u64) -> Option<Flow> {
        let (name, what) = step.as_object().and_then(|step| step.iter().next()).expect("a step");
        match name.as_str() {
            "count" => self.board.bump(what.as_str().expect("a name")),
            "sleep" => tokio::time::sleep(Duration::from_millis(what.as_u64().expect("ms"))).await,
            "wait" => self.board.pass(what.as_str().expect("a gate")).await,
            "progress" => {
                let mut params = what.clone();
                params["progressToken"] = self.params["_meta"]["progressToken"].clone();
                self.say("notifications/progress", &params).await;
            }
            "log_at" => {
                self.say("notifications/message", &json!({"level": what, "data": what})).await;
            }
            "log" => self.say("notifications/message", &json!({"level": "info", "data": what})).await,
            "ask" | "ask_unnamed" => {
                let asked = self.ask(what, name == "ask").await;
                let mut answers = Vec::new();
                for (_, answer) in asked {
                    answers.push(answer.await.unwrap_or(Value::Null));
                }
                self.answers = Value::Array(answers);
            }
            "take_back" => {
                let asked = self.ask(what, true).await;
                let over = self.board.clone();
                let over = over.pass("take back");
                tokio::pin!(over);
                while tokio::time::timeout(Duration::from_millis(1), &mut over).await.is_err() {
                    let params =
                        json!({"progressToken": self.params["_meta"]["progressToken"], "progress": 1});
                    self.say("notifications/progress", &params).await;
                }
                for (number, _) in &asked {
                    self.say("notifications/cancelled", &json!({"requestId": number})).await;
                }
            }
            "round" => {
                *rounds += 1;
                let state = format!("round-{rounds}");
                let got = self.params["requestState"].as_str().unwrap_or("round-0");
                let got: u64 = got.trim_start_matches("round-").parse().unwrap_or(0);
                if got < *rounds {
                    let mut result = json!({"resultType": "input_required", "requestState": state});
                    if !what.is_null() {
                        result["inputRequests"] = what.clone();
                    }
                    return Some(Flow::Result(result));
                }
                if got == *rounds {
                    self.answers = self.params["inputResponses"].clone();
                }
            }
            "die" => {
                let gone = CloseReason::new(CloseCause::Signalled(9));
                let _ = self.out.send(Inbound::Closed(gone)).await;
                return Some(Flow::Silence);
            }
            "return" => return Some(Flow::Result(what.clone())),
            "error" => return Some(Flow::Error(what.clone())),
            "answers" => {
                let text = self.answers.to_string();
                return Some(Flow::Result(json!({"content": [{"type": "text", "text": text}]})));
            }
            other => panic!("unknown step {other}"),
        }
        None
    }

    /// Asks these together. The answers arrive at the receivers.
    async fn ask(&mut self, questions: &Value, named: bool) -> Vec<(u64, oneshot::Receiver<Value>)> {
        let mut waiting = Vec::new();
        for question in questions.as_array().expect("questions") {
            let origin = named.then(|| self.id.clone());
            waiting.push(ask_client(question, origin, &self.out, &self.pending).await);
        }
        waiting
    }

    async fn say(&self, method: &str, params: &Value) {
        let _ = self.out.send(notification(method, params)).await;
    }
}

/// Asks the client something. Returns the number of the question and where its answer arrives.
pub async fn ask_client(
    question: &Value,
    origin: Option<Id>,
    out: &mpsc::Sender<Inbound>,
    pending: &Pending,
) -> (u64, oneshot::Receiver<Value>) {
    let (sender, answer) = oneshot::channel();
    let number = {
        let mut pending = pending.lock();
        pending.last += 1;
        let number = pending.last;
        pending.answers.insert(number, sender);
        number
    };
    let message = hosted::request(number, question);
    let _ = out.send(Inbound::Message { message, origin }).await;
    (number, answer)
}

/// The steps of a call: among the arguments, or beside them where a request has none.
pub fn steps(params: &Value) -> Option<&Vec<Value>> {
    params["arguments"]["steps"].as_array().or_else(|| params["steps"].as_array())
}

fn notification(method: &str, params: &Value) -> Inbound {
    let params = Some(Payload::from_value(params).expect("JSON"));
    Message::Notification { method: method.to_owned(), params }.into()
}

/// An answer as the fake sends it.
pub fn reply(id: Id, answer: Result<Value, Value>) -> Inbound {
    match answer {
        Ok(result) => Message::Response { id, result: Payload::from_value(&result).expect("JSON") }.into(),
        Err(error) => {
            Message::Error { id: Some(id), error: Payload::from_value(&error).expect("JSON") }.into()
        }
    }
}

fn value(payload: Option<&Payload>) -> Value {
    payload.map_or(Value::Null, |payload| value_of(payload.as_str()))
}

/// A text as a value; too deep ones count as null, the fake does not look into them.
fn value_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or(Value::Null)
}

fn raw(id: &Value) -> Option<Id> {
    Id::from_raw(&serde_json::value::to_raw_value(id).ok()?)
}
