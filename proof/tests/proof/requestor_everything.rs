//! Our own client in front of npm's `server-everything`, over stdio and HTTP: what it asks in the middle of a call, its task that
//! asks, the questions it wants tasks for, and its end in the middle of both.

use std::process::Stdio;

use serde_json::{Value, json};
use taskgate_client::transport::http::ServerUrl;
use taskgate_client::{
    Answers, CallError, Client, Endpoint, Event, Hosting, HttpServer, Input, InputAnswer, InputKind,
    StdioCommand, TaskStatus,
};
use taskgate_proof::program::{Program, pid_with, signal};
use taskgate_proof::{peers, wait};

use crate::requestor::{accepted, line, on_runtime};
use crate::urls::Scene;

const LONG: &str = "trigger-long-running-operation";
const RESEARCH: &str = "simulate-research-query";

/// A way to the server, and how to kill it.
struct Server {
    scene: Scene,
    program: Option<Program>,
    is_http: bool,
}

impl Server {
    fn new(is_http: bool) -> Server {
        let mut server = Server { scene: Scene::new(), program: None, is_http };
        server.serve();
        server
    }

    fn serve(&mut self) {
        if self.is_http {
            let mut command = peers::node_command(&script());
            command.arg("streamableHttp").env("PORT", self.scene.address.port().to_string());
            command.stdin(Stdio::null()).stdout(Stdio::null());
            self.program = Some(self.scene.start(command, "listening on port"));
        }
    }

    fn endpoint(&self) -> Endpoint {
        if self.is_http {
            let url = format!("http://{}/mcp", self.scene.address);
            return HttpServer::new(ServerUrl::parse(&url).expect("a URL")).into();
        }
        let script = script().into_os_string().into_string().expect("a plain path");
        // The last word means nothing to it, and its process is found by it.
        let mark = self.scene.path().display().to_string();
        let node = peers::node().into_os_string().into_string().expect("a plain path");
        StdioCommand::new(node).args([script, "stdio".to_owned(), mark]).into()
    }

    async fn client(&self) -> Client {
        let answers = Answers { form: true, url: true, sampling: true, roots: true };
        let builder = Client::builder(self.endpoint()).answers(answers).deadline(wait::DEADLINE);
        let builder = builder.host_tasks(Hosting::default());
        builder.input_handler(|input| async move { answer(&input) }).connect().await.expect("a connection")
    }

    /// Kills it, and sees to it that there is one again.
    fn restart(&mut self) {
        match self.program.take() {
            Some(program) => {
                program.kill();
                self.serve();
            }
            None => {
                let mark = format!("stdio {}", self.scene.path().display());
                signal(wait::until("the server", || pid_with(&mark)), "KILL");
            }
        }
    }
}

fn script() -> std::path::PathBuf {
    peers::npm("@modelcontextprotocol/server-everything/dist/index.js")
}

fn answer(input: &Input) -> InputAnswer {
    match input.kind() {
        InputKind::Form { message, .. } if message.contains("interpretations") => {
            InputAnswer::Accept(json!({ "interpretation": "snake" }))
        }
        InputKind::Form { .. } => InputAnswer::Accept(json!({ "name": "Ada", "check": true })),
        InputKind::Url { .. } => InputAnswer::Accept(json!({})),
        InputKind::Sampling => InputAnswer::Accept(json!({
            "role": "assistant", "model": "proof", "stopReason": "endTurn",
            "content": { "type": "text", "text": "forty-two" },
        })),
        InputKind::Roots => {
            InputAnswer::Accept(json!({ "roots": [{ "uri": "file:///tmp", "name": "here" }] }))
        }
        InputKind::Other => InputAnswer::Decline,
    }
}

/// What is called, with what, and what is in the line that a program sees of its end.
fn calls() -> [(&'static str, Value, &'static [&'static str]); 9] {
    [
        ("echo", json!({ "message": "é" }), &["Echo: é"]),
        ("get-sum", json!({ "a": "one" }), &["isError MCP error -32602", "get-sum"]),
        ("not-there", json!({}), &["isError MCP error -32602", "not-there not found"]),
        ("trigger-elicitation-request", json!({}), &["- Name: Ada"]),
        ("trigger-sampling-request", json!({ "prompt": "What is six times seven?" }), &["forty-two"]),
        ("trigger-elicitation-request-async", json!({}), &["[COMPLETED]", "- Name: Ada"]),
        (
            "trigger-sampling-request-async",
            json!({ "prompt": "Six times seven?" }),
            &["[COMPLETED]", "forty-two"],
        ),
        (RESEARCH, json!({ "topic": "plain" }), &["task: # Research Report: plain"]),
        (
            RESEARCH,
            json!({ "topic": "python", "ambiguous": true }),
            &["task: # Research Report: python (snake)"],
        ),
    ]
}

async fn everything(server: &mut Server) {
    let client = server.client().await;
    for (tool, arguments, expected) in calls() {
        let mut call = client.call(tool, arguments);
        while call.next().await.is_some() {}
        let seen = line(call.handle().as_ref(), call.result().await);
        assert!(expected.iter().all(|part| seen.contains(part)), "{tool}: {seen}");
    }
    // Progress of a call that is no task.
    let mut call = client.call(LONG, json!({ "duration": 1, "steps": 4 }));
    let mut steps = Vec::new();
    while let Some(event) = call.next().await {
        if let Event::Progress(progress) = event {
            steps.push(progress.progress.unwrap_or_default());
        }
    }
    assert!(call.result().await.expect("a result").text().contains("completed"));
    assert!(steps.is_sorted() && steps.len() >= 3, "{steps:?}");

    let (call, handle) = accepted(client.call(RESEARCH, json!({ "topic": "never" }))).await;
    assert_eq!(line(Some(&handle), call.cancel().await), "task: cancelled");
    assert_eq!(client.get(&handle).await.expect("it is kept").status, TaskStatus::Cancelled);

    // Its end in the middle of a task, and of a call that is none: nobody knows what became of that, and it is not made again.
    let (call, handle) = accepted(client.call(RESEARCH, json!({ "topic": "lost" }))).await;
    let mut plain = client.call(LONG, json!({ "duration": 600, "steps": 6000 }));
    while !matches!(plain.next().await.expect("it goes on"), Event::Progress(_)) {}
    server.restart();
    match plain.result().await {
        Err(CallError::Uncertain { .. }) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(line(Some(&handle), call.result().await), "task: expired");
    assert_eq!(line(None, client.call("echo", json!({ "message": "again" })).await), "Echo: again");
    client.close().await;
}

#[test]
fn our_client_calls_server_everything() {
    on_runtime(everything(&mut Server::new(false)));
}

/// The same over HTTP.
#[test]
fn our_client_calls_server_everything_over_http() {
    on_runtime(everything(&mut Server::new(true)));
}
