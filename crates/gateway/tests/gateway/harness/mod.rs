//! What the tests stand on: upstreams that do as they are told, clients that see every byte, and deadlines.

pub mod at_url;
pub mod board;
pub mod child;
pub mod clock;
pub mod counter;
pub mod dice;
pub mod direct;
pub mod fake;
pub mod host;
pub mod hosted;
pub mod http;
pub mod job_api;
pub mod life;
pub mod logs;
pub mod modern;
pub mod offers;
pub mod old;
pub mod pairs;
pub mod pipe;
pub mod switch;

use std::time::Duration;

use serde_json::{Value, json};
use taskgate_gateway::{Gateway, GatewayBuilder, Settings, ToolPolicy};

pub use board::Board;
pub use child::Child;
pub use clock::paused_store;
pub use direct::Direct;
pub use fake::Era;
pub use host::Host;
pub use http::Server;
pub use life::Life;
pub use modern::Modern;
pub use offers::Offers;
pub use old::Old;
pub use pipe::Pipe;
pub use switch::Switch;

/// How long anything may take that should happen at once.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Waits for a future, but not for ever.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what} did not happen in {PATIENCE:?}"),
    }
}

/// Asks again and again until the answer is there.
pub async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut ask: impl FnMut() -> F) -> T {
    soon(what, async {
        loop {
            if let Some(value) = ask().await {
                return value;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
}

/// A policy with short times.
pub fn quick() -> ToolPolicy {
    ToolPolicy { poll_interval: Duration::from_millis(50), ..ToolPolicy::default() }
}

/// A builder in front of this board. `always` and `never` are what their names say, `at_once` becomes a task at once
/// where it may, `patient` after 300 ms, and `do`, `reader` and `headed` have the default of two seconds.
pub fn builder(board: &Board) -> GatewayBuilder {
    policies(Gateway::builder().add(board.spec("upstream")))
}

/// The policies of the board's tools.
pub fn policies(builder: GatewayBuilder) -> GatewayBuilder {
    let within = |millis| ToolPolicy { inline_for: Duration::from_millis(millis), ..quick() };
    builder
        .policy(quick())
        .tool("always", ToolPolicy { tasks: taskgate_gateway::TaskMode::Always, ..quick() })
        .tool("never", ToolPolicy { tasks: taskgate_gateway::TaskMode::Never, ..quick() })
        .tool("at_once", within(0))
        .tool("patient", within(300))
        .settings(settings())
}

/// Settings with short times.
pub fn settings() -> Settings {
    Settings {
        drain_grace: Duration::from_millis(500),
        keep_alive: Duration::from_secs(1),
        ..Settings::default()
    }
}

/// A gateway over HTTP in front of a board.
pub async fn serve(board: &Board) -> Server {
    Server::start(builder(board).build().await.expect("gateway")).await
}

/// The same with these settings.
pub async fn serve_with(board: &Board, settings: Settings) -> Server {
    Server::start(builder(board).settings(settings).build().await.expect("gateway")).await
}

/// The same for one known user.
pub async fn serve_local(board: &Board) -> Server {
    Server::start(builder(board).single_user(true).build().await.expect("gateway")).await
}

/// The arguments that make a board's tool do these steps.
pub fn steps(steps: &Value) -> Value {
    json!({ "steps": steps })
}

/// The id in a handle of either generation.
pub fn task_id(result: &Value) -> String {
    let id = result.get("taskId").or_else(|| result.get("task").and_then(|task| task.get("taskId")));
    id.and_then(Value::as_str).unwrap_or_else(|| panic!("no handle: {result}")).to_owned()
}

/// A form question.
pub fn form(message: &str) -> Value {
    json!({"method": "elicitation/create", "params": {
        "mode": "form",
        "message": message,
        "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
    }})
}

/// The answer to a form question.
pub fn accept(name: &str) -> Value {
    json!({"action": "accept", "content": {"name": name}})
}

/// An answer to any request.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The HTTP status; 0 over stdio.
    pub status: u16,
    /// The message as it came.
    pub raw: String,
    /// The message.
    pub json: Value,
    /// What came before it on its stream.
    pub before: Vec<Value>,
}

impl Answer {
    /// The result.
    #[track_caller]
    pub fn result(&self) -> &Value {
        self.json.get("result").unwrap_or_else(|| panic!("no result: {} {}", self.status, self.raw))
    }

    /// The error object.
    #[track_caller]
    pub fn error(&self) -> &Value {
        self.json.get("error").unwrap_or_else(|| panic!("no error: {} {}", self.status, self.raw))
    }

    /// The error's code.
    #[track_caller]
    pub fn code(&self) -> i64 {
        self.error()["code"].as_i64().expect("a code")
    }

    /// The id of the handle in the result.
    #[track_caller]
    pub fn task(&self) -> String {
        task_id(self.result())
    }

    /// The first text of the result's content.
    #[track_caller]
    pub fn text(&self) -> &str {
        self.result()["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {}", self.raw))
    }
}

/// The same as [`eventually`] for questions that need a client of their own.
pub async fn eventually_with<C, T>(
    client: &mut C,
    what: &str,
    mut ask: impl AsyncFnMut(&mut C) -> Option<T>,
) -> T {
    soon(what, async {
        loop {
            if let Some(value) = ask(client).await {
                return value;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
}
