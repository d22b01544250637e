//! Servers that host tasks, on libraries that nobody in this project wrote, behind the real `taskgate`: every kind of end, to
//! real clients of both eras, through a kill of taskgate, and what becomes of the work at the server.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use taskgate_proof::program::Program;
use taskgate_proof::proxy::Proxy;
use taskgate_proof::{peers, wait};

use crate::clients::{every_real_client_with, ext_tasks};
use crate::serve::url;
use crate::urls::{Scene, checkpointed};

const ERAS: [&str; 2] = ["modern", "legacy"];

/// What a client of 2026-07-28 and one of 2025-11-25 are told of each call, unless a server's own table says something else.
const USUAL: [(&str, [&str; 2]); 9] = [
    ("plain", ["completed Hello, Grüße 漢😀!"; 2]),
    ("result", ["completed Grüße\u{2028}漢😀 took 0.1s"; 2]),
    ("error", ["failed -32050 it went wrong", "failed it went wrong"]),
    ("is error", ["completed isError it did not work", "failed it did not work"]),
    ("input", ["completed a.txt: accept true"; 2]),
    ("two inputs", ["completed 1 2"; 2]),
    ("large", ["completed é*2000000"; 2]),
    ("cancel", ["cancelled"; 2]),
    ("restart", ["completed kept is done"; 2]),
];

/// A cell of the table: which call, what the two clients are told, and why that is not the usual.
type Other = (&'static str, [&'static str; 2], &'static str);

struct Server {
    name: &'static str,
    command: fn() -> Command,
    /// How its endpoint is called; `None` for one over stdio.
    path: Option<&'static str>,
    speak: &'static str,
    others: &'static [Other],
}

pub fn typescript() -> Command {
    peers::node_command(&peers::files().join("servers/ts-tasks-server.mjs"))
}

pub fn python() -> Command {
    peers::python_command("legacy", &peers::files().join("servers/py-tasks-server.py"))
}

pub fn fastmcp() -> Command {
    peers::python_command("fastmcp", &peers::files().join("servers/fastmcp-server.py"))
}

pub fn rmcp() -> Command {
    peers::rust_command("rmcp-tasks-server")
}

pub fn tower() -> Command {
    peers::rust_command("tower-tasks-server")
}

const OF_A_CHILD: Other = (
    "restart",
    [
        "failed -32603 The server no longer knows the task it made of this call: …",
        "failed The server no longer knows the task it made of this call: …",
    ],
    "a child process and its memory end with the taskgate that started it",
);

const NO_ERROR_IS_KEPT: Other = (
    "error",
    ["failed -32603 Task … has no result stored", "failed it went wrong"],
    "its store keeps results and status lines, no errors",
);

impl Server {
    /// Starts what is to be started, with `rest` after the name of the upstream, and the taskgate in front of it.
    fn begin(&self, scene: &Scene) -> Option<Program> {
        self.path?;
        let mut command = (self.command)();
        command.arg(scene.address.port().to_string()).arg(scene.path());
        let program = scene.start(command, "peer listens");
        wait::until("its port", || std::net::TcpStream::connect(scene.address).ok());
        Some(program)
    }

    fn gateway(&self, scene: &Scene) -> (Program, std::net::SocketAddr) {
        let top = "single_user = true\nstream_close_after = \"1s\"\nstream_retry = \"200ms\"\n";
        let server = match self.path {
            Some(path) => format!("url = \"http://{}{path}\"", scene.address),
            None => {
                let command = (self.command)();
                let words = std::iter::once(command.get_program()).chain(command.get_args());
                let words: Vec<_> = words.map(|word| word.to_str().expect("UTF-8").to_owned()).collect();
                format!(
                    "command = {:?}",
                    [words, vec!["stdio".to_owned(), scene.path().display().to_string()]].concat()
                )
            }
        };
        let mut rest = format!(
            "speak = {:?}\nupstream_tasks = \"always\"\n[upstream.defaults]\ntasks = \"always\"\npoll_interval = \"500ms\"\n",
            self.speak
        );
        rest.push_str("[upstream.tools.greet]\ntasks = \"never\"\n");
        for tool in ["slow_compute", "protocol_error_job"] {
            rest.push_str(&format!("[upstream.tools.{tool}]\ntasks = \"auto\"\ninline_for = \"0s\"\n"));
        }
        scene.gateway_of(top, &server, &rest)
    }

    fn expected(&self, call: &str) -> [&'static str; 2] {
        let other = self.others.iter().find(|(known, ..)| *known == call).map(|(_, told, _)| *told);
        other.unwrap_or_else(|| USUAL.iter().find(|(known, _)| *known == call).expect("a known call").1)
    }
}

fn calls(scene: &Scene, era: &str) -> String {
    let label = format!("cancel {era}");
    let begun = scene.path().join("begun");
    json!([
        { "id": "plain", "tool": "greet", "args": { "name": "Grüße 漢😀" }, "plain": true },
        { "id": "result", "tool": "slow_compute", "args": { "seconds": 0.1, "label": "Grüße\u{2028}漢😀" } },
        { "id": "error", "tool": "protocol_error_job" },
        { "id": "is error", "tool": "failing_job" },
        { "id": "input", "tool": "confirm_delete", "args": { "filename": "a.txt" },
          "answers": { "Delete a.txt?": { "confirm": true } } },
        { "id": "two inputs", "tool": "multi_input", "answers": { "one": { "value": "1" }, "two": { "value": "2" } } },
        { "id": "large", "tool": "large", "args": { "size": 2_000_000 } },
        { "id": "cancel", "tool": "held", "args": { "label": label }, "cancelWhen": { "file": begun, "line": label } },
    ])
    .to_string()
}

/// Ids of the server's mean nothing here.
fn without_ids(told: &str) -> String {
    let is_id = |word: &str| word.len() == 32 && word.chars().all(|letter| letter.is_ascii_hexdigit());
    told.split(' ').map(|word| if is_id(word) { "…" } else { word }).collect::<Vec<_>>().join(" ")
}

fn every_cell(server: &Server) {
    let scene = Scene::new();
    let _program = server.begin(&scene);
    let (mut gateway, address) = server.gateway(&scene);
    let front = Proxy::start(&[address]);
    let client = |era: &str, more: &[&str]| {
        let mut command = ext_tasks(era);
        command.args(["--url", &url(front.address())]).args(more).stdin(Stdio::null());
        peers::reported(&format!("{} {era}", server.name), command)
    };
    let mut told: Vec<(String, Value)> = Vec::new();
    for era in ERAS {
        let report = client(era, &["--phase", "calls", "--calls", &calls(&scene, era)]);
        for check in report["checks"].as_array().expect("checks") {
            told.push((format!("{} {era}", check["id"].as_str().expect("an id")), check["detail"].clone()));
        }
        let stopped = || fs::read_to_string(scene.path().join("stopped")).unwrap_or_default();
        wait::until("the end of the work", || stopped().contains(&format!("cancel {era}\n")).then_some(()));
    }
    // A new taskgate finds the work of the one that was killed, if there is still something to be found.
    for (number, era) in ERAS.into_iter().enumerate() {
        let reference = scene.path().join(format!("{era}.ref"));
        let reference = reference.to_str().expect("a plain path");
        let label = json!({ "label": format!("kept {era}") }).to_string();
        client(era, &["--phase", "create", "--ref", reference, "--slow", "held", "--slow-args", &label]);
        scene.begins(&format!("kept {era}"), 1);
        checkpointed(&scene, number as i64 + 1);
    }
    front.serve(&[]);
    gateway.kill();
    let address;
    (gateway, address) = server.gateway(&scene);
    front.serve(&[address]);
    scene.open();
    for era in ERAS {
        let reference = scene.path().join(format!("{era}.ref"));
        let report = client(era, &["--phase", "resume", "--ref", reference.to_str().expect("a plain path")]);
        told.push((format!("restart {era}"), report["checks"][0]["detail"].clone()));
    }
    let mut wrong = Vec::new();
    for (call, _) in USUAL {
        for (era, expected) in ERAS.into_iter().zip(server.expected(call)) {
            let cell = format!("{call} {era}");
            let told = told.iter().find(|(known, _)| *known == cell).and_then(|(_, told)| told.as_str());
            let told = told.map(without_ids);
            let fits = told.as_deref().is_some_and(|told| match expected.strip_suffix('…') {
                Some(start) => told.starts_with(start),
                None => told.replace(&format!("kept {era}"), "kept") == expected,
            });
            if !fits {
                wrong.push(format!("{cell}: {told:?}, not {expected:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}: {wrong:#?}\n{told:#?}", server.name);
    assert!(ERAS.iter().all(|era| scene.begun(&format!("kept {era}")) == 1), "called twice");
    gateway.terminate();
}

/// The whole of what the real clients look at, in front of this server.
fn every_client(server: &Server) {
    let scene = Scene::new();
    let _program = server.begin(&scene);
    let (_gateway, address) = server.gateway(&scene);
    every_real_client_with(&url(address), &format!("with {}", server.name), |name, command| {
        if !name.starts_with("Python") {
            command.args(["--compose", ""]);
        }
        // It expects both questions at a time, and that server asks one after the other.
        if name.starts_with("FastMCP") && server.name == "Python SDK" {
            command.args(["--multi", ""]);
        }
    });
}

/// CASES 6, 8, 9, 15 and 17 with the TypeScript SDK's tasks of 2025-11-25.
#[test]
fn the_typescript_sdk_hosts_tasks() {
    let others = &[NO_ERROR_IS_KEPT];
    let server =
        Server { name: "TypeScript SDK", command: typescript, path: Some("/mcp"), speak: "auto", others };
    every_cell(&server);
    every_client(&server);
    let others = &[NO_ERROR_IS_KEPT, OF_A_CHILD];
    every_cell(&Server { name: "TypeScript SDK over stdio", path: None, others, ..server });
}

/// The same with the Python SDK's.
#[test]
fn the_python_sdk_hosts_tasks() {
    const ERROR: Other = (
        "error",
        ["failed -32603 it went wrong", "failed it went wrong"],
        "of an error it keeps the message alone",
    );
    let others = &[ERROR];
    let server = Server { name: "Python SDK", command: python, path: Some("/mcp"), speak: "auto", others };
    every_cell(&server);
    every_client(&server);
}

/// The same with FastMCP's of 2026-07-28.
#[test]
fn fastmcp_hosts_tasks() {
    let server = Server { name: "FastMCP", command: fastmcp, path: Some("/mcp"), speak: "auto", others: &[] };
    every_cell(&server);
    every_client(&server);
}

/// The same with rmcp's `TaskManager`.
#[test]
fn rmcp_hosts_tasks() {
    let server = Server { name: "rmcp", command: rmcp, path: Some("/mcp"), speak: "auto", others: &[] };
    every_cell(&server);
    every_client(&server);
    every_cell(&Server { name: "rmcp over stdio", path: None, others: &[OF_A_CHILD], ..server });
}

const NO_RESULT: ([&str; 2], &str) = (
    [
        "failed -32603 The server has no tasks/result, so its task can neither ask nor answer: …",
        "failed The server has no tasks/result, so its task can neither ask nor answer: …",
    ],
    "in its 2025-11-25 there is no tasks/result, which alone could bring a question",
);

/// The same with tower-mcp's, which it has in both eras.
#[test]
fn tower_mcp_hosts_tasks() {
    let server = Server { name: "tower-mcp", command: tower, path: Some("/"), speak: "auto", others: &[] };
    every_cell(&server);
    every_client(&server);
    let others = &[("input", NO_RESULT.0, NO_RESULT.1), ("two inputs", NO_RESULT.0, NO_RESULT.1)];
    every_cell(&Server { name: "tower-mcp with sessions", speak: "session", others, ..server });
    every_cell(&Server { name: "tower-mcp over stdio", path: None, others: &[OF_A_CHILD], ..server });
}
