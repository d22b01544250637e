//! A client over stdio, byte by byte.

use std::collections::VecDeque;

use serde_json::{Value, json};
use taskgate_gateway::Gateway;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::{Answer, eventually_with, logs, modern, soon, steps};

/// The client.
pub struct Pipe {
    input: Option<DuplexStream>,
    output: BufReader<DuplexStream>,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<std::io::Result<()>>,
    next: u64,
    /// Messages that came while an answer was waited for.
    pub others: VecDeque<Value>,
}

impl Pipe {
    /// Serves a gateway on a pipe.
    pub fn start(gateway: &Gateway) -> Pipe {
        logs::watch();
        let (input, served_input) = tokio::io::duplex(64 * 1024);
        let (served_output, output) = tokio::io::duplex(64 * 1024);
        let (stop, stopped) = oneshot::channel::<()>();
        let gateway = gateway.clone();
        let task = tokio::spawn(async move {
            let stopped = async {
                let _ = stopped.await;
            };
            gateway.serve_stdio(served_input, served_output, stopped).await
        });
        let output = BufReader::new(output);
        Pipe { input: Some(input), output, stop: Some(stop), task, next: 1, others: VecDeque::new() }
    }

    /// Serves a gateway and opens a session on it whose client knows tasks.
    pub async fn open(gateway: &Gateway) -> Pipe {
        let mut pipe = Pipe::start(gateway);
        let able = json!({"elicitation": {}, "sampling": {}, "roots": {}, "tasks": {}});
        pipe.initialize("2025-11-25", able).await;
        pipe
    }

    /// Opens the session.
    pub async fn initialize(&mut self, version: &str, capabilities: Value) -> Answer {
        let info = json!({"name": "test", "version": "1"});
        let params = json!({"protocolVersion": version, "capabilities": capabilities, "clientInfo": info});
        let answer = self.ask("initialize", params).await;
        self.write(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n").await;
        answer
    }

    /// Writes bytes as they are.
    pub async fn write(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().expect("open");
        soon("room in the pipe", input.write_all(bytes)).await.expect("the server reads");
    }

    /// Closes the input.
    pub fn close(&mut self) {
        self.input = None;
    }

    /// Begins the shutdown.
    pub fn stop(&mut self) {
        drop(self.stop.take());
    }

    /// Waits for the end of the server and returns the lines it had still to say.
    pub async fn ended(mut self) -> Vec<Value> {
        soon("the end of the server", &mut self.task).await.expect("no panic").expect("served");
        let mut rest: Vec<Value> = self.others.drain(..).collect();
        while let Some(line) = self.line().await {
            rest.push(serde_json::from_str(&line).expect("JSON"));
        }
        rest
    }

    /// The next line; `None` at the end.
    pub async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = soon("a line", self.output.read_line(&mut line)).await.expect("UTF-8");
        assert!(!line.contains('\r'), "{line:?}");
        (read > 0).then(|| line.trim_end().to_owned())
    }

    /// The next message.
    pub async fn message(&mut self) -> Value {
        if let Some(message) = self.others.pop_front() {
            return message;
        }
        let line = self.line().await.expect("a message");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// The next message that fits; others are kept.
    pub async fn find(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        if let Some(index) = self.others.iter().position(&fits) {
            return self.others.remove(index).expect("there");
        }
        loop {
            let line = self.line().await.expect("a message");
            let message: Value = serde_json::from_str(&line).expect("JSON");
            if fits(&message) {
                return message;
            }
            self.others.push_back(message);
        }
    }

    /// The first message that was kept and fits.
    pub fn kept(&mut self, fits: impl Fn(&Value) -> bool) -> Option<Value> {
        let index = self.others.iter().position(fits)?;
        self.others.remove(index)
    }

    /// Sends a request and returns its id.
    pub async fn begin(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next;
        self.next += 1;
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.write(format!("{message}\n").as_bytes()).await;
        id
    }

    /// Waits for the answer to a request.
    pub async fn answer(&mut self, id: u64) -> Answer {
        let json = self.find(|message| message["id"] == id && message.get("method").is_none()).await;
        Answer { status: 0, raw: json.to_string(), json, before: Vec::new() }
    }

    /// Sends a request and waits for its answer.
    pub async fn ask(&mut self, method: &str, params: Value) -> Answer {
        let id = self.begin(method, params).await;
        self.answer(id).await
    }

    /// Sends a request of 2026-07-28 and waits for its answer.
    pub async fn ask_modern(&mut self, method: &str, mut params: Value) -> Answer {
        params["_meta"] = modern_meta(modern::everything());
        self.ask(method, params).await
    }

    /// Calls a tool as a task and returns its id.
    pub async fn task(&mut self, name: &str, what: Value) -> String {
        self.ask("tools/call", json!({"name": name, "arguments": steps(&what), "task": {}})).await.task()
    }

    /// Polls until the task has this status.
    pub async fn until(&mut self, id: &str, status: &str) -> Value {
        eventually_with(self, &format!("{status} of a task"), async |pipe| {
            let task = pipe.ask("tasks/get", json!({"taskId": id})).await.result().clone();
            (task["status"] == status).then_some(task)
        })
        .await
    }

    /// Answers a request of the server.
    pub async fn respond(&mut self, id: &Value, result: Value) {
        let message = json!({"jsonrpc": "2.0", "id": id, "result": result});
        self.write(format!("{message}\n").as_bytes()).await;
    }

    /// Shows that the connection lives.
    pub async fn ping(&mut self) {
        assert_eq!(self.ask("ping", json!({})).await.result(), &json!({}));
    }

    /// The same under an id of one's own, whatever else comes meanwhile.
    pub async fn ping_under(&mut self, id: &str) {
        let ping = json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
        self.write(format!("{ping}\n").as_bytes()).await;
        loop {
            let line = self.line().await.expect("an answer");
            let message: Value =
                serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
            if message["id"] == id {
                assert_eq!(message["result"], json!({}), "{message}");
                self.others.clear();
                return;
            }
        }
    }

    /// The same without a session.
    pub async fn ping_modern(&mut self) {
        assert_eq!(self.ask_modern("server/discover", json!({})).await.result()["resultType"], "complete");
    }
}

/// The `_meta` of a 2026-07-28 request.
pub fn modern_meta(capabilities: Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    })
}

impl Pipe {
    /// The next line, however long it takes.
    pub async fn read_line_patiently(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).await.expect("UTF-8");
        line
    }
}
