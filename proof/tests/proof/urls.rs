//! Servers that are URLs, behind the real `taskgate`: peers that nobody in this project wrote, and taskgate itself.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use taskgate_proof::modern::Modern;
use taskgate_proof::program::Program;
use taskgate_proof::proxy::Proxy;
use taskgate_proof::session::Session;
use taskgate_proof::{peers, programs, wait};

use crate::clients::every_real_client;
use crate::serve::{Fixtures, plain, rmcp, url};

/// A server and the taskgate in front of it, and where both leave their traces.
pub struct Scene {
    folder: tempfile::TempDir,
    pub address: SocketAddr,
}

pub fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port")
}

impl Scene {
    pub fn new() -> Scene {
        let folder = tempfile::Builder::new().prefix("taskgate-urls-").tempdir().expect("a folder");
        Scene { folder, address: free() }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Starts the taskgate. `rest` follows the URL.
    fn gateway(&self, rest: &str) -> (Program, SocketAddr) {
        self.gateway_at(self.address, rest)
    }

    fn gateway_at(&self, server: SocketAddr, rest: &str) -> (Program, SocketAddr) {
        self.gateway_with("", server, rest)
    }

    pub fn gateway_with(&self, top: &str, server: SocketAddr, rest: &str) -> (Program, SocketAddr) {
        self.gateway_of(top, &format!("url = {:?}", url(server)), rest)
    }

    /// The same with these words in the place of the URL.
    pub fn gateway_of(&self, top: &str, server: &str, rest: &str) -> (Program, SocketAddr) {
        Program::serve(self.command_of(top, server, rest))
    }

    fn command(&self, top: &str, url: &str, rest: &str) -> Command {
        self.command_of(top, &format!("url = {url:?}"), rest)
    }

    fn command_of(&self, top: &str, server: &str, rest: &str) -> Command {
        let config = format!(
            "listen = \"127.0.0.1:0\"\nstore = \"tasks.db\"\n{top}[[upstream]]\nname = \"far\"\n{server}\n{rest}\n"
        );
        let file = self.path().join("taskgate.toml");
        fs::write(&file, config).expect("the folder can be written");
        let mut command = Command::new(programs::taskgate());
        command.args(["serve", "--config"]).arg(file);
        command
    }

    pub fn start(&self, mut command: Command, says: &str) -> Program {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let program = Program::start(command);
        wait::until("the peer", || program.said().contains(says).then_some(()));
        program
    }

    fn python(&self, group: &str, script: &str, mode: &[&str]) -> Program {
        let mut command =
            peers::python_command(group, &peers::files().join(format!("servers/{script}-server.py")));
        command.arg(self.address.port().to_string()).arg(self.path()).args(mode);
        let program = self.start(command, "peer listens");
        // It says so right before it does.
        wait::until("its port", || std::net::TcpStream::connect(self.address).ok());
        program
    }

    pub fn begun(&self, label: &str) -> usize {
        let begun = fs::read_to_string(self.path().join("begun")).unwrap_or_default();
        begun.lines().filter(|line| *line == label).count()
    }

    pub fn begins(&self, label: &str, times: usize) {
        wait::until(&format!("{label} begins"), || (self.begun(label) == times).then_some(()));
    }

    pub fn open(&self) {
        fs::write(self.path().join("open"), "").expect("the folder can be written");
    }
}

const ALWAYS: &str =
    "[upstream.tools.steps]\ntasks = \"always\"\n[upstream.tools.held]\ntasks = \"always\"\n";

/// Calls a tool once its server is there.
#[track_caller]
fn tool(client: &mut Modern, name: &str, arguments: &Value) -> Value {
    let params = json!({ "name": name, "arguments": arguments });
    client.call("tools/call", params).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}

/// The reference server over HTTP, through its sessions: progress, questions on the stream of their call, and its end in the
/// middle of a call.
#[test]
fn the_reference_server_is_a_url() {
    let scene = Scene::new();
    let script = peers::npm("@modelcontextprotocol/server-everything/dist/index.js");
    let start = || {
        let mut command = peers::node_command(&script);
        command.arg("streamableHttp").env("PORT", scene.address.port().to_string());
        scene.start(command, "listening on port")
    };
    let server = start();
    let (long, ask) = ("trigger-long-running-operation", "trigger-elicitation-request");
    let policies = format!(
        "[upstream.tools.{long}]\ntasks = \"always\"\nafter_crash = \"fail\"\n[upstream.tools.{ask}]\ntasks = \"always\"\n"
    );
    let (gateway, address) = scene.gateway(&policies);
    let mut client = Modern::new(address);
    assert_eq!(text(&tool(&mut client, "echo", &json!({ "message": "é" }))), "Echo: é");
    // Two callers are in flight, and the question still finds its own.
    let slow = client.create(long, json!({ "duration": 3, "steps": 6 })).expect("a handle");
    let asking = client.create(ask, json!({})).expect("a handle");
    let open = client.until(&asking, "input_required");
    let key = open["inputRequests"].as_object().expect("questions").keys().next().expect("one").clone();
    let answer = json!({ "action": "accept", "content": { "name": "Ada", "check": true } });
    client
        .call("tasks/update", json!({ "taskId": asking, "inputResponses": { key: answer } }))
        .expect("taken");
    let ended = client.until(&asking, "completed");
    assert!(ended["result"].to_string().contains("Name: Ada"), "{ended:#}");
    wait::until("its progress", || {
        client.get(&slow)["statusMessage"].as_str().is_some_and(|line| line.contains('6')).then_some(())
    });
    client.until(&slow, "completed");
    // Case 29: in flight when its server is killed, and called for the first time when that is there again without its session.
    let lost = client.create(long, json!({ "duration": 600, "steps": 600 })).expect("a handle");
    wait::until("its progress", || client.get(&lost)["statusMessage"].as_str().map(|_| ()));
    server.kill();
    let server = start();
    let ended = client.until(&lost, "failed");
    assert!(ended["error"]["message"].as_str().is_some_and(|why| why.contains("interrupted")), "{ended:#}");
    let echoed = wait::until("the server", || {
        client.call("tools/call", json!({ "name": "echo", "arguments": { "message": "again" } })).ok()
    });
    assert_eq!(text(&echoed), "Echo: again");
    // Started anew while nothing is in flight: nobody notices.
    server.kill();
    let _server = start();
    wait::until("the server", || {
        client.call("tools/call", json!({ "name": "echo", "arguments": { "message": "third" } })).ok()
    });
    gateway.terminate();
}

/// The Python SDK's server with sessions, without them and with plain JSON answers.
#[test]
fn a_python_server_is_a_url() {
    for mode in ["sessions", "stateless", "json"] {
        let scene = Scene::new();
        let server = scene.python("legacy", "py-legacy", &[mode]);
        let (gateway, address) = scene.gateway(ALWAYS);
        let mut client = Modern::new(address);
        assert_eq!(text(&tool(&mut client, "echo", &json!({ "text": "é" }))), "é", "{mode}");
        let task = client.create("steps", json!({ "label": "one" })).expect("a handle");
        scene.begins("one", 1);
        if mode == "sessions" {
            wait::until("its progress", || {
                (client.get(&task)["statusMessage"] == "one has begun").then_some(())
            });
        }
        scene.open();
        let ended = client.until(&task, "completed");
        assert_eq!(text(&ended["result"]), "one is done", "{mode}");
        fs::remove_file(scene.path().join("open")).expect("it is there");
        // Killed in the middle of the call, the gateway does not know what became of it and does not try again.
        let lost = client.create("steps", json!({ "label": "lost" })).expect("a handle");
        scene.begins("lost", 1);
        gateway.kill();
        let (gateway, address) = scene.gateway(ALWAYS);
        let mut client = Modern::new(address);
        let ended = client.until(&lost, "failed");
        assert!(
            ended["error"]["message"].as_str().is_some_and(|why| why.contains("interrupted")),
            "{ended:#}"
        );
        scene.open();
        assert_eq!(text(&tool(&mut client, "echo", &json!({ "text": "after" }))), "after", "{mode}");
        assert_eq!(scene.begun("lost"), 1);
        gateway.terminate();
        server.kill();
    }
}

/// Over https only a certificate counts that this machine trusts, and whoever looks at the error knows what is wrong.
#[test]
fn a_certificate_must_be_trusted() {
    let scene = Scene::new();
    let _server = scene.python("legacy", "py-legacy", &["tls"]);
    let url = url(scene.address).replace("http://", "https://");
    let echo = json!({ "name": "echo", "arguments": { "text": "sealed" } });
    let (strict, address) = Program::serve(scene.command("", &url, ""));
    let mut client = Modern::new(address);
    let error = client.call("tools/call", echo.clone()).expect_err("it is not trusted");
    let why = error["message"].as_str().unwrap_or_default();
    assert!(why.contains("certificate") && why.contains("https://127.0.0.1"), "{error}");
    strict.kill();
    let mut command = scene.command("", &url, "");
    command.env("SSL_CERT_FILE", scene.path().join("cert.pem"));
    let (trusting, address) = Program::serve(command);
    let mut client = Modern::new(address);
    let echoed = wait::until("the server", || client.call("tools/call", echo.clone()).ok());
    assert_eq!(text(&echoed), "sealed");
    trusting.terminate();
}

/// A server that wants a token of somebody else's, made for it and for what it demands: who gives those out is found by its word.
#[test]
fn a_server_says_who_gives_out_its_tokens() {
    let scene = Scene::new();
    let _server = scene.python("legacy", "guarded", &[]);
    let issuer = fs::read_to_string(scene.path().join("issuer")).expect("it is there");
    let oauth = |issuer: &str, secret: &str| {
        format!("[upstream.oauth]\nissuer = {issuer:?}\nclient_id = \"me\"\nclient_secret = {secret:?}")
    };
    let (gateway, address) = scene.gateway(&oauth(&issuer, "geheim"));
    let mut client = Modern::new(address);
    assert_eq!(text(&tool(&mut client, "echo", &json!({ "text": "é" }))), "é");
    // No longer good, the token is replaced by one from the same place.
    fs::write(scene.path().join("revoked"), "").expect("the folder can be written");
    assert_eq!(text(&tool(&mut client, "echo", &json!({ "text": "again" }))), "again");
    assert_eq!((scene.begun("metadata"), scene.begun("token")), (1, 2));
    gateway.terminate();
    for (issuer, secret, says) in [
        (issuer.as_str(), "wrong", "invalid_client"),
        ("https://auth.example", "geheim", "not of the issuer https://auth.example"),
    ] {
        let (gateway, address) = scene.gateway(&oauth(issuer, secret));
        let mut client = Modern::new(address);
        let echo = json!({ "name": "echo", "arguments": { "text": "never" } });
        let error = client.call("tools/call", echo).expect_err("there is no token");
        let why = error["message"].as_str().unwrap_or_default();
        assert!(why.contains(says) && !why.contains("geheim"), "{error}");
        gateway.kill();
    }
    assert_eq!(scene.begun("echo"), 2);
}

/// FastMCP with its tasks in 2026-07-28: a call here is one task there, and is found again after `kill -9`.
#[test]
fn a_fastmcp_task_is_found_again_after_a_kill() {
    let scene = Scene::new();
    let _server = scene.python("fastmcp", "fastmcp", &[]);
    let rest = format!("upstream_tasks = \"always\"\n{ALWAYS}");
    let (gateway, address) = scene.gateway(&rest);
    let mut client = Modern::new(address);
    assert_eq!(text(&tool(&mut client, "echo", &json!({ "text": "é" }))), "é");
    let (kept, cancelled) = (
        client.create("held", json!({ "label": "kept" })).expect("a handle"),
        client.create("held", json!({ "label": "cancelled" })).expect("a handle"),
    );
    for label in ["kept", "cancelled"] {
        scene.begins(label, 1);
    }
    checkpointed(&scene, 2);
    gateway.kill();
    let (gateway, address) = scene.gateway(&rest);
    let mut client = Modern::new(address);
    client.call("tasks/cancel", json!({ "taskId": cancelled })).expect("cancelled");
    client.until(&cancelled, "cancelled");
    assert_eq!(client.get(&kept)["status"], "working");
    scene.open();
    let ended = client.until(&kept, "completed");
    assert_eq!(text(&ended["result"]), "kept is done");
    assert_eq!((scene.begun("kept"), scene.begun("cancelled")), (1, 1));
    gateway.terminate();
}

/// Waits until the ways back to so many far tasks are in the store.
pub fn checkpointed(scene: &Scene, tasks: i64) {
    let store = scene.path().join("tasks.db");
    wait::until("the checkpoints", || {
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY | rusqlite::OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let store = rusqlite::Connection::open_with_flags(&store, flags).ok()?;
        let count = "SELECT count(*) FROM task WHERE checkpoint IS NOT NULL";
        store.query_row(count, [], |row| row.get::<_, i64>(0)).ok().filter(|count| *count == tasks)
    });
}

/// The clients that nobody here wrote, in front of a taskgate in front of a taskgate in front of the fixtures, in both
/// ways the two can speak and both in which a 2025-11-25 client can be asked.
#[test]
fn every_real_client_is_content_through_two_gateways() {
    every_real_client_behind(&plain(), "through two gateways");
}

/// The same with rmcp's HTTP server in the place of the far taskgate.
#[test]
fn every_real_client_is_content_with_rmcp_at_a_url() {
    every_real_client_behind(&rmcp(), "with rmcp at a URL");
}

fn every_real_client_behind(far: &Fixtures, how: &str) {
    for (speak, questions) in [("auto", "get"), ("session", "result")] {
        let scene = Scene::new();
        let mut rest =
            format!("speak = {speak:?}\n[upstream.defaults]\ntasks = \"never\"\npoll_interval = \"500ms\"\n");
        for (tool, policy) in [
            ("slow_compute", "tasks = \"auto\"\ninline_for = \"0s\""),
            ("protocol_error_job", "tasks = \"auto\"\ninline_for = \"0s\""),
            ("failing_job", "tasks = \"always\""),
            ("confirm_delete", "tasks = \"always\""),
            ("multi_input", "tasks = \"always\""),
            ("test_tool_with_task", "tasks = \"auto\"\ninline_for = \"200ms\""),
        ] {
            rest.push_str(&format!("[upstream.tools.{tool}]\n{policy}\n"));
        }
        // As the fixtures themselves are served.
        let top = format!(
            "single_user = true\nstream_close_after = \"1s\"\nstream_retry = \"200ms\"\nstream_task_questions = {questions:?}\n"
        );
        let (_gateway, address) = scene.gateway_with(&top, far.address, &rest);
        every_real_client(&url(address), &format!("{how}, {speak}, questions with {questions}"));
    }
}

/// Case 29 with real processes: the far taskgate is killed and started again between two polls, then the near one; the far
/// task goes on by the far one's rules, is asked for once, and both eras tell of it.
#[test]
fn a_taskgate_behind_a_taskgate_is_followed_through_kills() {
    for speak in ["auto", "session"] {
        let scene = Scene::new();
        let far_store = scene.path().join("far.db");
        let proxy = Proxy::start(&[]);
        let far = || {
            let mut command = Command::new(programs::example("conformance"));
            command.args(["--repeatable", "--listen", "127.0.0.1:0", "--store"]).arg(&far_store);
            let (program, address) = Program::serve(command);
            proxy.serve(&[address]);
            program
        };
        let first = far();
        let rest = format!(
            "speak = {speak:?}\nupstream_tasks = \"always\"\n[upstream.tools.slow_compute]\ntasks = \"always\"\n"
        );
        let (near, address) = scene.gateway_at(proxy.address(), &rest);
        let mut client = Modern::new(address);
        let task =
            client.create("slow_compute", json!({ "seconds": 6, "label": "through" })).expect("a handle");
        checkpointed(&scene, 1);
        proxy.serve(&[]);
        first.kill();
        let second = far();
        near.kill();
        let (near, address) = scene.gateway_at(proxy.address(), &rest);
        let mut client = Modern::new(address);
        let ended = client.until(&task, "completed");
        assert!(ended["result"].to_string().contains("through"), "{speak}: {ended:#}");
        let own = Session::open(address).call("tasks/result", &json!({ "taskId": task })).expect("a result");
        assert_eq!(own["content"], ended["result"]["content"]);
        near.terminate();
        second.kill();
    }
}
