//! A client that writes down everything it learns.

use std::io;
use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::http::Response;
use crate::ledger::{Fact, Ledger, MODERN_GET, SESSION_GET, SESSION_RESULT};
use crate::modern::{Modern, answer};
use crate::session::Session;

/// The server did not answer: it has gone, or what leads to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gone;

/// What `tasks/get` said.
#[derive(Debug, Clone)]
pub struct Sight {
    /// The status word.
    pub status: String,
    /// The keys of open questions.
    pub open: Vec<String>,
}

impl Sight {
    /// Whether the task has ended.
    pub fn has_ended(&self) -> bool {
        ["completed", "failed", "cancelled"].contains(&self.status.as_str())
    }
}

/// A client of one generation. `None` from one of its requests means that the server has refused it, which is written
/// down as everything is.
pub struct Witness<'a> {
    ledger: &'a Ledger,
    name: String,
    address: SocketAddr,
    words: Words,
    answers: usize,
    /// Whether each request has a connection of its own, so that a proxy in between sends it to another node.
    is_restless: bool,
}

enum Words {
    Modern(Modern),
    Session(Session),
}

impl<'a> Witness<'a> {
    /// A client of 2026-07-28.
    pub fn modern(ledger: &'a Ledger, name: &str, address: SocketAddr) -> Witness<'a> {
        let words = Words::Modern(Modern::new(address));
        Witness { ledger, name: name.to_owned(), address, words, answers: 0, is_restless: false }
    }

    /// A client of 2025-11-25, with its session.
    pub fn session(ledger: &'a Ledger, name: &str, address: SocketAddr) -> Result<Witness<'a>, Gone> {
        let words = Words::Session(Session::try_open(address).map_err(|_| Gone)?);
        Ok(Witness { ledger, name: name.to_owned(), address, words, answers: 0, is_restless: false })
    }

    /// Under another name.
    pub fn named(mut self, name: &str) -> Witness<'a> {
        name.clone_into(&mut self.name);
        self
    }

    /// Connects anew for each request.
    pub fn restless(mut self) -> Witness<'a> {
        self.is_restless = true;
        self
    }

    /// Calls a tool that becomes a task.
    pub fn create(&mut self, tool: &str, arguments: &Value) -> Result<Option<String>, Gone> {
        let label = arguments["label"].as_str().expect("a label").to_owned();
        let mut params = json!({ "name": tool, "arguments": arguments });
        if self.is_session() {
            params["task"] = json!({});
        }
        self.ask("tools/call", &params, &label, |created| {
            let id = created["taskId"].as_str().or_else(|| created["task"]["taskId"].as_str());
            let task = id.unwrap_or_else(|| panic!("no handle: {created}")).to_owned();
            (Fact::Handle { task: task.clone(), label: label.clone() }, task)
        })
    }

    /// `tasks/get`.
    pub fn get(&mut self, task: &str) -> Result<Option<Sight>, Gone> {
        let how = if self.is_session() { SESSION_GET } else { MODERN_GET };
        self.ask_raw("tasks/get", &json!({ "taskId": task }), task, |seen, raw| {
            let status = seen["status"].as_str().unwrap_or_else(|| panic!("no status: {raw}")).to_owned();
            let open: Vec<String> = seen["inputRequests"]
                .as_object()
                .map(|open| open.keys().cloned().collect())
                .unwrap_or_default();
            let told = Fact::Told {
                task: task.to_owned(),
                status: status.clone(),
                how,
                open: open.clone(),
                raw,
                text: text_of(&seen["result"]),
            };
            (told, Sight { status, open })
        })
    }

    /// `tasks/result` of 2025-11-25, which waits for the end.
    pub fn result(&mut self, task: &str) -> Result<(), Gone> {
        assert!(self.is_session(), "the newer words have no such request");
        let (since, params) = (self.ledger.now(), json!({ "taskId": task }));
        let Ok(response) = self.send("tasks/result", &params) else {
            return self.silence(since, format!("tasks/result of {task}"));
        };
        let raw = response.body;
        let ended = |text| Fact::Told {
            task: task.to_owned(),
            status: "ended".to_owned(),
            how: SESSION_RESULT,
            open: Vec::new(),
            raw: raw.clone(),
            text,
        };
        let fact = match answer(&raw) {
            Ok(result) => ended(text_of(&result)),
            Err(error) if is_unknown(&error) => Fact::Unknown { task: task.to_owned() },
            Err(error) if is_passing(&error) => {
                Fact::Refused { what: format!("tasks/result of {task}"), error: error.to_string() }
            }
            // The error the work has ended with, or that it was cancelled or interrupted.
            Err(_) => ended(None),
        };
        self.write(since, fact);
        Ok(())
    }

    /// Answers a question; the answer is one that was never given before.
    pub fn answer(&mut self, task: &str, key: &str) -> Result<bool, Gone> {
        self.answers += 1;
        let value = format!("{}/{}", self.name, self.answers);
        let answered = |acknowledged| Fact::Answered {
            task: task.to_owned(),
            key: key.to_owned(),
            value: value.clone(),
            acknowledged,
        };
        let since = self.ledger.now();
        let accepted = json!({ key: { "action": "accept", "content": { "value": value } } });
        let params = json!({ "taskId": task, "inputResponses": accepted });
        match self.send("tasks/update", &params) {
            Ok(response) => match answer(&response.body) {
                Ok(_) => {
                    self.write(since, answered(true));
                    Ok(true)
                }
                Err(error) => {
                    self.write(since, answered(false));
                    self.refused(since, "tasks/update", task, &error);
                    Ok(false)
                }
            },
            Err(_) => {
                self.write(since, answered(false));
                self.silence(since, format!("tasks/update of {task}"))
            }
        }
    }

    /// `tasks/cancel`.
    pub fn cancel(&mut self, task: &str) -> Result<bool, Gone> {
        let cancelled = self.ask("tasks/cancel", &json!({ "taskId": task }), task, |_| {
            (Fact::Cancelled { task: task.to_owned() }, ())
        })?;
        Ok(cancelled.is_some())
    }

    /// Whether it speaks the words of 2025-11-25.
    pub fn is_session(&self) -> bool {
        matches!(self.words, Words::Session(_))
    }

    fn ask<T>(
        &mut self,
        method: &str,
        params: &Value,
        about: &str,
        fact: impl FnOnce(&Value) -> (Fact, T),
    ) -> Result<Option<T>, Gone> {
        self.ask_raw(method, params, about, |result, _| fact(result))
    }

    fn ask_raw<T>(
        &mut self,
        method: &str,
        params: &Value,
        about: &str,
        fact: impl FnOnce(&Value, String) -> (Fact, T),
    ) -> Result<Option<T>, Gone> {
        let since = self.ledger.now();
        let Ok(response) = self.send(method, params) else {
            return self.silence(since, format!("{method} of {about}"));
        };
        match answer(&response.body) {
            Ok(result) => {
                let (fact, got) = fact(&result, response.body);
                self.write(since, fact);
                Ok(Some(got))
            }
            Err(error) => {
                self.refused(since, method, about, &error);
                Ok(None)
            }
        }
    }

    /// Sends a request; sessions that have gone are opened anew, as the protocol says.
    fn send(&mut self, method: &str, params: &Value) -> io::Result<Response> {
        if self.is_restless
            && let Words::Modern(modern) = &mut self.words
        {
            *modern = Modern::new(self.address);
        }
        match &mut self.words {
            Words::Modern(modern) => modern.ask(method, params.clone()),
            Words::Session(session) => {
                let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
                if self.is_restless {
                    session.reconnect();
                }
                let response = session.try_post(&message)?;
                if response.status != 404 {
                    return Ok(response);
                }
                *session = Session::try_open(self.address)?;
                session.try_post(&message)
            }
        }
    }

    fn write(&self, since: std::time::Duration, fact: Fact) {
        self.ledger.add(since, &self.name, &self.address.to_string(), fact);
    }

    fn silence<T>(&self, since: std::time::Duration, what: String) -> Result<T, Gone> {
        self.write(since, Fact::Silence { what });
        Err(Gone)
    }

    fn refused(&self, since: std::time::Duration, method: &str, about: &str, error: &Value) {
        let fact = if method != "tools/call" && is_unknown(error) {
            Fact::Unknown { task: about.to_owned() }
        } else {
            Fact::Refused { what: format!("{method} of {about}"), error: error.to_string() }
        };
        self.write(since, fact);
    }
}

/// What all generations say of a handle that they do not know.
fn is_unknown(error: &Value) -> bool {
    error["code"] == -32602 && error["message"] == "Unknown task"
}

/// Whether it says nothing about the task, but that the server cannot tell just now.
fn is_passing(error: &Value) -> bool {
    error["message"].as_str().is_some_and(|message| message.contains("ry again"))
}

fn text_of(result: &Value) -> Option<String> {
    result["content"][0]["text"].as_str().map(str::to_owned)
}
