//! A host that knows no tasks, with a model that does what it reads.

use std::time::Duration;

use serde_json::{Value, json};
use taskgate_gateway::Gateway;
use tokio::time::Instant;

use super::{Pipe, accept, pipe::modern_meta};

/// After how long it gives up a request, as most hosts do.
pub const CUT_OFF: Duration = Duration::from_secs(60);

/// The host, over stdio.
pub struct Host {
    /// Its connection.
    pub pipe: Pipe,
    capabilities: Value,
    is_modern: bool,
    /// How many calls its model has made.
    pub calls: usize,
    /// What its user was asked.
    pub asked: Vec<Value>,
    /// How long its user thinks about the next questions; those after them are answered at once.
    pub thinks: Vec<Duration>,
    /// What its user is asked at the moment, and until when the user thinks about it. It stays open when a call ends.
    thinking: Option<(Value, Instant)>,
}

impl Host {
    /// Opens a session of this version, or none under 2026-07-28.
    pub async fn open(gateway: &Gateway, version: &str, capabilities: Value) -> Host {
        let mut pipe = Pipe::start(gateway);
        let is_modern = version == "2026-07-28";
        if !is_modern {
            pipe.initialize(version, capabilities.clone()).await;
        }
        Host {
            pipe,
            capabilities,
            is_modern,
            calls: 0,
            asked: Vec::new(),
            thinks: Vec::new(),
            thinking: None,
        }
    }

    /// The names in its list of tools.
    pub async fn tools(&mut self) -> Vec<String> {
        let list = self.request("tools/list", json!({})).await;
        let tools = list["result"]["tools"].as_array().expect("tools").iter();
        tools.map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
    }

    /// A call as its model makes it: the answer, whatever it is, before the host gives up.
    pub async fn call(&mut self, name: &str, arguments: Value) -> Value {
        self.calls += 1;
        let mut params = json!({ "name": name, "arguments": arguments });
        loop {
            let answer = self.request("tools/call", params.clone()).await;
            let result = answer.get("result").unwrap_or(&answer).clone();
            if result["resultType"] != "input_required" {
                return result;
            }
            let mut answers = json!({});
            for (key, question) in result["inputRequests"].as_object().expect("questions") {
                answers[key] = self.think(question).await;
            }
            params["inputResponses"] = answers;
            if let Some(state) = result.get("requestState") {
                params["requestState"] = state.clone();
            }
        }
    }

    /// What a model does: it calls a tool, and then what the answer says, until the answer says nothing more.
    pub async fn work(&mut self, name: &str, arguments: Value) -> Value {
        let mut result = self.call(name, arguments).await;
        while let Some((next, arguments)) = told(&result) {
            result = self.call(&next, arguments).await;
        }
        result
    }

    async fn think(&mut self, question: &Value) -> Value {
        self.asked.push(question.clone());
        if !self.thinks.is_empty() {
            tokio::time::sleep(self.thinks.remove(0)).await;
        }
        accept("Ada")
    }

    async fn request(&mut self, method: &str, mut params: Value) -> Value {
        if self.is_modern {
            params["_meta"] = modern_meta(self.capabilities.clone());
        }
        let id = self.pipe.begin(method, params).await;
        let answered = tokio::time::timeout(CUT_OFF, self.answer(id));
        answered.await.expect("an answer before the host gives up")
    }

    /// Reads on until the answer is there. A user who thinks does not stop the clock of the request.
    async fn answer(&mut self, id: u64) -> Value {
        loop {
            let until = self.thinking.as_ref().map_or_else(Instant::now, |(_, until)| *until);
            let message = tokio::select! {
                biased;
                line = self.pipe.read_line_patiently() => serde_json::from_str::<Value>(&line).expect("JSON"),
                () = tokio::time::sleep_until(until), if self.thinking.is_some() => {
                    if let Some((asked, _)) = self.thinking.take() {
                        self.pipe.respond(&asked["id"], accept("Ada")).await;
                    }
                    continue;
                }
            };
            match message["method"].as_str() {
                None if message["id"] == id => return message,
                Some("elicitation/create") => {
                    self.asked.push(message.clone());
                    let thinks = if self.thinks.is_empty() { Duration::ZERO } else { self.thinks.remove(0) };
                    self.thinking = Some((message, Instant::now() + thinks));
                }
                Some("notifications/cancelled") => self.thinking = None,
                Some("notifications/tools/list_changed") => {}
                _ => panic!("a host without tasks cannot do anything with {message}"),
            }
        }
    }
}

/// The call that an answer tells its reader to make next.
pub fn told(result: &Value) -> Option<(String, Value)> {
    let text = result["content"][0]["text"].as_str()?;
    let next = text.lines().find_map(|line| line.strip_prefix("Next: call "))?;
    let (name, rest) = next.split_once(" with ")?;
    let arguments = rest.split_inclusive('}').next()?;
    Some((name.to_owned(), serde_json::from_str(arguments).expect("arguments")))
}
