//! Our own client in front of servers on libraries that nobody in this project wrote: every way a call can go, in both eras and
//! over both transports, as far as each of them has it.

use std::collections::BTreeMap;
use std::fs;
use std::future::Future;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use taskgate_client::transport::http::ServerUrl;
use taskgate_client::{
    Answers, CallError, CallRequest, CallResult, Client, Event, Handle, HttpServer, Input, InputKind,
    PendingCall, StdioCommand, TaskStatus, Version,
};
use taskgate_proof::program::{Program, pid_with, signal};
use taskgate_proof::wait;

use crate::task_servers::{fastmcp, python, rmcp, tower, typescript};
use crate::urls::Scene;

/// What a program sees of each call. `task: ` is there where the server has made a task of it.
const USUAL: [(&str, &str); 12] = [
    ("plain", "Hello, Grüße 漢😀!"),
    ("task", "task: Grüße\u{2028}漢😀 took 0.1s"),
    ("error", "task: failed -32050 it went wrong"),
    ("is error", "task: isError it did not work"),
    ("input", "task: a.txt: accept true"),
    ("partial input", "task: 1 2"),
    ("large", "task: é*2000000"),
    ("cancel", "task: cancelled"),
    ("resume", "task: kept is done"),
    ("expiry", "task: expired"),
    ("unknown", "task: expired"),
    ("restart", "task: expired"),
];

/// A cell of the table: which call, what is seen of it, and why that is not the usual.
type Other = (&'static str, &'static str, &'static str);

/// The message of a form, and how it is filled in.
type Filled = (&'static str, Value);

struct Peer {
    name: &'static str,
    command: fn() -> Command,
    /// How its endpoint is called; `None` for one over stdio.
    path: Option<&'static str>,
    prefer: Version,
    speaks: Version,
    others: &'static [Other],
}

/// A server that is up, and what it leaves behind.
struct Stage<'a> {
    peer: &'a Peer,
    scene: Scene,
    program: Option<Program>,
}

impl<'a> Stage<'a> {
    fn new(peer: &'a Peer) -> Stage<'a> {
        let mut stage = Stage { peer, scene: Scene::new(), program: None };
        stage.serve();
        stage
    }

    fn serve(&mut self) {
        if self.peer.path.is_none() {
            return;
        }
        let mut command = (self.peer.command)();
        command.arg(self.scene.address.port().to_string()).arg(self.scene.path());
        self.program = Some(self.scene.start(command, "peer listens"));
        wait::until("its port", || std::net::TcpStream::connect(self.scene.address).ok());
    }

    /// Kills the server and all it had in mind, and sees to it that there is one again.
    fn restart(&mut self) {
        match self.program.take() {
            Some(program) => {
                program.kill();
                self.serve();
            }
            // The client starts another one.
            None => signal(self.child(), "KILL"),
        }
    }

    /// The server that the client has started.
    fn child(&self) -> u32 {
        let mark = format!("stdio {}", self.scene.path().display());
        wait::until("the server", || pid_with(&mark))
    }

    async fn client(&self) -> Client {
        let builder = match self.peer.path {
            Some(path) => {
                let url = format!("http://{}{path}", self.scene.address);
                Client::builder(HttpServer::new(ServerUrl::parse(&url).expect("a URL")))
            }
            None => {
                let command = (self.peer.command)();
                let word = |word: &std::ffi::OsStr| word.to_str().expect("a plain path").to_owned();
                let words = command.get_args().map(word);
                let words = words.chain(["stdio".to_owned(), self.scene.path().display().to_string()]);
                Client::builder(StdioCommand::new(word(command.get_program())).args(words))
            }
        };
        let builder = builder.prefer(self.peer.prefer).answers(Answers::ELICITATION);
        let client = builder.deadline(wait::DEADLINE).connect().await.expect("a connection");
        assert_eq!(client.protocol_version(), Some(self.peer.speaks.as_str()), "{}", self.peer.name);
        client
    }

    fn stopped(&self, label: &str) -> bool {
        let stopped = fs::read_to_string(self.scene.path().join("stopped")).unwrap_or_default();
        stopped.lines().any(|line| line == label)
    }

    fn expected(&self, call: &str) -> &'static str {
        let other = self.peer.others.iter().find(|(known, ..)| *known == call).map(|(_, seen, _)| *seen);
        other.unwrap_or_else(|| USUAL.iter().find(|(known, _)| *known == call).expect("a known call").1)
    }
}

/// What a program sees of the end of a call, in a line.
pub fn line(handle: Option<&Handle>, outcome: Result<CallResult, CallError>) -> String {
    let seen = match outcome {
        Ok(result) if result.is_error => format!("isError {}", result.text()),
        Ok(result) => match result.text() {
            long if long.len() > 1000 && long.chars().all(|letter| letter == 'é') => {
                format!("é*{}", long.chars().count())
            }
            text => text,
        },
        Err(CallError::Failed { error: Some(error), .. }) => {
            format!("failed {} {}", error.code, error.message)
        }
        Err(CallError::Failed { message: Some(message), .. }) => format!("failed {message}"),
        Err(CallError::Cancelled { .. }) => "cancelled".to_owned(),
        Err(CallError::Expired { handle }) => {
            let said = CallError::Expired { handle: handle.clone() }.to_string();
            assert!(said.contains("does not know the task") && said.contains(&handle.task), "{said}");
            "expired".to_owned()
        }
        Err(error) => format!("{error}"),
    };
    if handle.is_some() { format!("task: {seen}") } else { seen }
}

/// Follows a call to its end. Of the questions, the first is answered at once, all others when the server has that answer.
/// Nothing is asked twice.
async fn seen(client: &Client, mut call: PendingCall, answers: &[Filled]) -> String {
    let mut asked: BTreeMap<String, usize> = BTreeMap::new();
    let mut waiting: Vec<Input> = Vec::new();
    let mut is_answered = false;
    let answer = |input: Input| {
        let InputKind::Form { message, .. } = input.kind() else { panic!("{input:?} is no form") };
        let content = answers.iter().find(|(known, _)| *known == message).map(|(_, content)| content.clone());
        input.answer(content.unwrap_or_else(|| panic!("nobody expects {message:?}")));
    };
    while let Some(event) = call.next().await {
        match event {
            Event::Asked(input) => {
                let times = asked.entry(input.key.clone()).or_default();
                *times += 1;
                if asked.len() == 1 || is_answered { answer(input) } else { waiting.push(input) }
            }
            Event::Answered(_) if !is_answered => {
                is_answered = true;
                if let (Some(left), Some(handle)) = (waiting.first(), call.handle())
                    && client.protocol_version() == Some(Version::V2026_07_28.as_str())
                {
                    // The task still waits, and for the other question alone.
                    let state = client.get(&handle).await.expect("its state");
                    let open: Vec<_> = state.inputs.iter().map(|(key, _)| key).collect();
                    assert_eq!((state.status, open), (TaskStatus::InputRequired, vec![&left.key]));
                }
                waiting.drain(..).for_each(answer);
            }
            _ => {}
        }
    }
    assert!(asked.values().all(|times| *times == 1), "asked twice: {asked:?}");
    let line = line(call.handle().as_ref(), call.result().await);
    if asked.len() == answers.len() { line } else { format!("{line}, after {} questions", asked.len()) }
}

/// Waits until the server has made a task of a call.
pub async fn accepted(mut call: PendingCall) -> (PendingCall, Handle) {
    while let Some(event) = call.next().await {
        if let Event::Accepted(handle) = event {
            return (call, handle);
        }
    }
    panic!("no task was made of it: {:?}", call.result().await)
}

/// What becomes of a task that is to be kept for a moment only.
async fn expiry(client: &Client) -> String {
    let request = CallRequest {
        ttl: Some(Duration::from_secs(3)),
        ..CallRequest::new("slow_compute", json!({ "seconds": 0.1, "label": "brief" }))
    };
    let (call, handle) = accepted(client.call_with(request)).await;
    let result = call.result().await.expect("a result");
    assert_eq!(result.text(), "brief took 0.1s");
    match client.get(&handle).await {
        Ok(state) if state.ttl.is_none() => return "task: kept without limit".to_owned(),
        Ok(state) if state.ttl > Some(wait::DEADLINE) => {
            return format!("task: kept for {} s", state.ttl.unwrap_or_default().as_secs());
        }
        _ => {}
    }
    let gone = async {
        loop {
            match client.get(&handle).await {
                Ok(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                Err(error) => return line(Some(&handle), Err(error)),
            }
        }
    };
    tokio::time::timeout(wait::DEADLINE, gone).await.unwrap_or_else(|_| "task: kept for ever".to_owned())
}

async fn every_call(stage: &mut Stage<'_>) -> Vec<(&'static str, String)> {
    let client = stage.client().await;
    let mut all = Vec::new();
    let no_questions: &[Filled] = &[];
    let both = [("one", json!({ "value": "1" })), ("two", json!({ "value": "2" }))];
    let calls: [(&str, &str, Value, &[Filled]); 7] = [
        ("plain", "greet", json!({ "name": "Grüße 漢😀" }), no_questions),
        ("task", "slow_compute", json!({ "seconds": 0.1, "label": "Grüße\u{2028}漢😀" }), no_questions),
        ("error", "protocol_error_job", json!({}), no_questions),
        ("is error", "failing_job", json!({}), no_questions),
        (
            "input",
            "confirm_delete",
            json!({ "filename": "a.txt" }),
            &[("Delete a.txt?", json!({ "confirm": true }))],
        ),
        ("partial input", "multi_input", json!({}), &both),
        ("large", "large", json!({ "size": 2_000_000 }), no_questions),
    ];
    for (name, tool, arguments, answers) in calls {
        all.push((name, seen(&client, client.call(tool, arguments), answers).await));
    }
    let (call, handle) = accepted(client.call("held", json!({ "label": "cancel" }))).await;
    stage.scene.begins("cancel", 1);
    all.push(("cancel", line(Some(&handle), call.cancel().await)));
    wait::until("the end of the work", || stage.stopped("cancel").then_some(()));

    let (call, handle) = accepted(client.call("held", json!({ "label": "kept" }))).await;
    stage.scene.begins("kept", 1);
    assert_eq!(call.detach().as_ref(), Some(&handle));
    // As another program would, after the end of this one: it has nothing but the text of the handle.
    client.close().await;
    let text = serde_json::to_string(&handle).expect("JSON");
    // It stays connected: the end of any session ends the tasks of all with the Python SDK.
    let other = stage.client().await;
    stage.scene.open();
    let outcome = other.result_of(&serde_json::from_str(&text).expect("a handle")).await;
    all.push(("resume", line(Some(&handle), outcome)));
    fs::remove_file(stage.scene.path().join("open")).expect("it is there");

    all.push(("expiry", expiry(&client).await));
    let never = Handle { task: "0123456789abcdef0123456789abcdef".to_owned(), ..handle };
    all.push(("unknown", line(Some(&never), client.result_of(&never).await)));

    let (call, _) = accepted(client.call("held", json!({ "label": "lost" }))).await;
    stage.scene.begins("lost", 1);
    // Its server must not be taken for this one's.
    other.close().await;
    stage.restart();
    all.push(("restart", seen(&client, call, no_questions).await));
    assert_eq!(stage.scene.begun("lost"), 1, "called twice");
    client.close().await;
    all
}

/// Runs this to its end.
pub fn on_runtime<T>(what: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(what)
}

fn every_cell(peer: &Peer) {
    let mut stage = Stage::new(peer);
    let all = on_runtime(every_call(&mut stage));
    let mut wrong = Vec::new();
    for (call, _) in USUAL {
        let seen = all.iter().find(|(known, _)| *known == call).map(|(_, seen)| seen.as_str());
        let expected = stage.expected(call);
        let fits = seen.is_some_and(|seen| match expected.strip_suffix('…') {
            Some(start) => seen.starts_with(start),
            None => seen == expected,
        });
        if !fits {
            wrong.push(format!("{call}: {seen:?}, not {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}: {wrong:#?}", peer.name);
    println!("{}: {} ways of a call", peer.name, all.len());
}

/// How long a task is kept is the server's to say in 2026-07-28, so there is none that expires in time for a test.
const KEPT: Other =
    ("expiry", "task: kept for 300 s", "in 2026-07-28 a caller does not say how long a task is kept");

/// What has no memory that outlasts it knows nothing of the tasks of the process before.
const OF_A_CHILD: Other =
    ("resume", "task: expired", "another client starts another child process, which has another memory");

/// The TypeScript SDK's tasks of 2025-11-25, over HTTP and stdio.
#[test]
fn our_client_calls_the_typescript_sdk() {
    const ERROR: Other =
        ("error", "task: failed -32603 Task …", "its store keeps results and status lines, no errors");
    let peer = Peer {
        name: "TypeScript SDK",
        command: typescript,
        path: Some("/mcp"),
        prefer: Version::V2026_07_28,
        speaks: Version::V2025_11_25,
        others: &[ERROR],
    };
    every_cell(&peer);
    every_cell(&Peer { name: "TypeScript SDK over stdio", path: None, others: &[ERROR, OF_A_CHILD], ..peer });
}

/// The Python SDK's tasks of 2025-11-25, over HTTP and stdio.
#[test]
fn our_client_calls_the_python_sdk() {
    const ERROR: Other = (
        "error",
        "task: failed it went wrong",
        "of an error it keeps the message alone, as the task's status line",
    );
    let peer = Peer {
        name: "Python SDK",
        command: python,
        path: Some("/mcp"),
        prefer: Version::V2026_07_28,
        speaks: Version::V2025_11_25,
        others: &[ERROR],
    };
    every_cell(&peer);
    every_cell(&Peer { name: "Python SDK over stdio", path: None, others: &[ERROR, OF_A_CHILD], ..peer });
}

const KEPT_LONGER: Other = (KEPT.0, "task: kept for 900 s", KEPT.2);

/// FastMCP's tasks of 2026-07-28, over HTTP and stdio.
#[test]
fn our_client_calls_fastmcp() {
    let peer = Peer {
        name: "FastMCP",
        command: fastmcp,
        path: Some("/mcp"),
        prefer: Version::V2026_07_28,
        speaks: Version::V2026_07_28,
        others: &[KEPT_LONGER],
    };
    every_cell(&peer);
    let others = &[KEPT_LONGER, OF_A_CHILD];
    every_cell(&Peer { name: "FastMCP over stdio", path: None, others, ..peer });
}

/// rmcp's `TaskManager`, over HTTP and stdio.
#[test]
fn our_client_calls_rmcp() {
    let peer = Peer {
        name: "rmcp",
        command: rmcp,
        path: Some("/mcp"),
        prefer: Version::V2026_07_28,
        speaks: Version::V2026_07_28,
        others: &[KEPT],
    };
    every_cell(&peer);
    let others = &[KEPT, OF_A_CHILD];
    every_cell(&Peer { name: "rmcp over stdio", path: None, others, ..peer });
}

/// tower-mcp's tasks of both eras, over HTTP and stdio.
#[test]
fn our_client_calls_tower_mcp() {
    let peer = Peer {
        name: "tower-mcp",
        command: tower,
        path: Some("/"),
        prefer: Version::V2026_07_28,
        speaks: Version::V2026_07_28,
        others: &[KEPT],
    };
    every_cell(&peer);
    let others = &[KEPT, OF_A_CHILD];
    every_cell(&Peer { name: "tower-mcp over stdio", path: None, others, ..peer });
    let version = Version::V2025_11_25;
    const NO_RESULT: &str = "task: the server does not offer this: it has no tasks/result, …";
    const WHY: &str = "in its 2025-11-25 there is no tasks/result, which alone could bring a question";
    let others = &[("input", NO_RESULT, WHY), ("partial input", NO_RESULT, WHY)];
    every_cell(&Peer { name: "tower-mcp with sessions", prefer: version, speaks: version, others, ..peer });
}
