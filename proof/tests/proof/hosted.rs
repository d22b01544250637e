//! CASES 1, 4 and 29: kill -9 of the real `taskgate serve` in front of a server whose own tasks outlive both.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::thread;

use serde_json::{Value, json};
use taskgate_proof::dice::Dice;
use taskgate_proof::modern::Modern;
use taskgate_proof::program::{Program, nothing_left_of};
use taskgate_proof::{programs, wait};

const SERVER: &str = env!("CARGO_BIN_EXE_hosting-server");

struct Scene(tempfile::TempDir);

impl Scene {
    fn new() -> Scene {
        let scene = Scene(tempfile::Builder::new().prefix("taskgate-hosted-").tempdir().expect("a folder"));
        let folder = scene.mark();
        let config = format!(
            "listen = \"127.0.0.1:0\"\nsingle_user = true\nstore = \"tasks.db\"\n\
             [defaults]\ntasks = \"always\"\npoll_interval = \"10ms\"\n\
             [[upstream]]\nname = \"far\"\ncommand = [{SERVER:?}, {folder:?}]\nupstream_tasks = \"always\"\n"
        );
        fs::write(scene.path("taskgate.toml"), config).expect("the folder can be written");
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn mark(&self) -> &str {
        self.0.path().to_str().expect("a plain path")
    }

    fn serve(&self) -> (Program, SocketAddr) {
        let mut command = Command::new(programs::taskgate());
        command.args(["serve", "--config"]).arg(self.path("taskgate.toml"));
        Program::serve(command)
    }

    fn kill(&self, gateway: Program) {
        gateway.kill();
        nothing_left_of(self.mark());
    }

    /// The server hears requests of this method from now on, and does not do them; of none, without one.
    fn hush(&self, method: Option<&str>) {
        fs::write(self.path("hush"), method.unwrap_or_default()).expect("the folder can be written");
    }

    /// How often the server has heard this.
    fn heard(&self, line: &str) -> usize {
        let text = fs::read_to_string(self.path("heard")).unwrap_or_default();
        text.lines().filter(|heard| *heard == line).count()
    }

    fn until_heard(&self, line: &str) {
        wait::until(line, || (self.heard(line) > 0).then_some(()));
    }

    /// How many calls it has heard.
    fn calls(&self) -> usize {
        let text = fs::read_to_string(self.path("heard")).unwrap_or_default();
        text.lines().filter(|heard| heard.starts_with("tools/call ")).count()
    }

    fn is_stopped(&self, id: &str) -> bool {
        self.path("tasks").join(id).join("cancelled").exists()
    }
}

fn text(task: &Value) -> &str {
    task["result"]["content"][0]["text"].as_str().unwrap_or_default()
}

fn answer(client: &mut Modern, task: &str, value: &str) {
    let open = client.until(task, "input_required");
    let key =
        open["inputRequests"].as_object().and_then(|open| open.keys().next()).expect("a question").clone();
    let answer = json!({ key: { "action": "accept", "content": { "value": value } } });
    client.call("tasks/update", json!({ "taskId": task, "inputResponses": answer })).expect("acknowledged");
}

/// While the server's task waits for an answer: it is asked again, answered once, and its tool was called once. A task that
/// only works is found again beside it.
#[test]
fn while_it_waits_for_an_answer() {
    let scene = Scene::new();
    let (mut gateway, address) = scene.serve();
    let mut client = Modern::new(address);
    let asking = client.create("ask", json!({ "label": "a" })).expect("a handle");
    let holding = client.create("hold", json!({ "label": "h" })).expect("a handle");
    scene.until_heard("tasks/get h");
    for _ in 0..2 {
        client.until(&asking, "input_required");
        scene.kill(gateway);
        let address;
        (gateway, address) = scene.serve();
        client = Modern::new(address);
    }
    answer(&mut client, &asking, "x");
    assert_eq!(text(&client.until(&asking, "completed")), "a got x");
    assert_eq!(client.get(&holding)["status"], "working");
    fs::write(scene.path("open"), "").expect("the folder can be written");
    assert_eq!(text(&client.until(&holding, "completed")), "h is done");
    assert_eq!((scene.heard("tools/call a"), scene.heard("tools/call h")), (1, 1));
    assert!(!scene.is_stopped("far-1") && !scene.is_stopped("far-2"));
    gateway.terminate();
}

/// While an answer is on its way to the server: nobody is asked a second time.
#[test]
fn while_an_answer_is_on_its_way() {
    let scene = Scene::new();
    let (gateway, address) = scene.serve();
    let mut client = Modern::new(address);
    let task = client.create("ask", json!({ "label": "a" })).expect("a handle");
    scene.hush(Some("tasks/update"));
    answer(&mut client, &task, "x");
    scene.until_heard("tasks/update a");
    scene.kill(gateway);
    scene.hush(None);
    let (gateway, address) = scene.serve();
    let ended = Modern::new(address).until(&task, "completed");
    assert_eq!((text(&ended), scene.heard("tools/call a")), ("a got x", 1));
    gateway.terminate();
}

/// While a cancel is on its way: the next gateway sees to it that the server's task is stopped.
#[test]
fn while_a_cancel_is_on_its_way() {
    let scene = Scene::new();
    let (gateway, address) = scene.serve();
    let mut client = Modern::new(address);
    let task = client.create("hold", json!({ "label": "h" })).expect("a handle");
    scene.until_heard("tasks/get h");
    scene.hush(Some("tasks/cancel"));
    client.call("tasks/cancel", json!({ "taskId": task })).expect("acknowledged");
    scene.until_heard("tasks/cancel h");
    scene.kill(gateway);
    assert!(!scene.is_stopped("far-1"));
    scene.hush(None);
    let (gateway, address) = scene.serve();
    wait::until("its end", || scene.is_stopped("far-1").then_some(()));
    assert_eq!(Modern::new(address).get(&task)["status"], "cancelled");
    gateway.terminate();
}

/// Before the server has named its task: a call that must not be made again is not, one that may be is.
#[test]
fn before_there_is_a_handle() {
    let scene = Scene::new();
    let (gateway, address) = scene.serve();
    let mut client = Modern::new(address);
    scene.hush(Some("tools/call"));
    let once = client.create("hold", json!({ "label": "once" })).expect("a handle");
    let again = client.create("hold_again", json!({ "label": "again" })).expect("a handle");
    scene.until_heard("tools/call once");
    scene.until_heard("tools/call again");
    scene.kill(gateway);
    scene.hush(None);
    fs::write(scene.path("open"), "").expect("the folder can be written");
    let (gateway, address) = scene.serve();
    let mut client = Modern::new(address);
    let failed = client.until(&once, "failed");
    assert!(failed["statusMessage"].as_str().unwrap_or_default().contains("interrupted"), "{failed:#}");
    assert_eq!(text(&client.until(&again, "completed")), "again is done");
    assert_eq!((scene.heard("tools/call once"), scene.heard("tools/call again")), (1, 2));
    gateway.terminate();
}

/// The server has forgotten everything meanwhile: what may be called again is.
#[test]
fn a_server_that_has_forgotten_is_called_again() {
    let scene = Scene::new();
    let (gateway, address) = scene.serve();
    let mut client = Modern::new(address);
    let once = client.create("hold", json!({ "label": "once" })).expect("a handle");
    let again = client.create("hold_again", json!({ "label": "again" })).expect("a handle");
    scene.until_heard("tasks/get once");
    scene.until_heard("tasks/get again");
    scene.kill(gateway);
    fs::remove_dir_all(scene.path("tasks")).expect("the folder can be written");
    fs::write(scene.path("open"), "").expect("the folder can be written");
    let (gateway, address) = scene.serve();
    let mut client = Modern::new(address);
    let failed = client.until(&once, "failed");
    assert!(failed["statusMessage"].as_str().unwrap_or_default().contains("no longer knows"), "{failed:#}");
    assert_eq!(text(&client.until(&again, "completed")), "again is done");
    assert_eq!((scene.heard("tools/call once"), scene.heard("tools/call again")), (1, 2));
    gateway.terminate();
}

/// At any moment, again and again: every handle leads to an end, no tool that must be called once was called twice, and no task
/// of the server goes on whose own has ended otherwise.
#[test]
fn at_any_moment() {
    let rounds = std::env::var("TASKGATE_CRASH_ROUNDS").map_or(8, |rounds| rounds.parse().expect("a number"));
    let scene = Scene::new();
    let mut dice = Dice::new(0x5eed);
    let mut handles: Vec<(String, String, &str)> = Vec::new();
    for round in 0..rounds {
        let (gateway, address) = scene.serve();
        let calling = thread::spawn(move || {
            let mut client = Modern::new(address);
            let mut got = Vec::new();
            for number in 0.. {
                let tool = ["hold", "ask", "hold_again"][number % 3];
                let label = format!("{round}-{number}");
                let Some(task) = client.create(tool, json!({ "label": label })) else { return got };
                let cancels = number % 4 == 3;
                if cancels && client.ask("tasks/cancel", json!({ "taskId": task })).is_err() {
                    return got;
                }
                got.push((task, label, tool));
            }
            got
        });
        let enough = scene.calls() + 1 + dice.roll(40) as usize;
        wait::until("some load", || (scene.calls() >= enough).then_some(()));
        scene.kill(gateway);
        handles.extend(calling.join().expect("no panic"));
    }
    fs::write(scene.path("open"), "").expect("the folder can be written");
    let (gateway, address) = scene.serve();
    let mut client = Modern::new(address);
    let mut ends = std::collections::BTreeMap::new();
    for (task, label, tool) in &handles {
        let ended = wait::until(&format!("the end of {label}"), || {
            let task_now = client.get(task);
            if task_now["status"] == "input_required" {
                answer(&mut client, task, "x");
            }
            ["completed", "failed", "cancelled"].contains(&task_now["status"].as_str()?).then_some(task_now)
        });
        let status = ended["status"].as_str().expect("a word").to_owned();
        if status == "completed" {
            assert!(text(&ended).starts_with(label.as_str()), "{label}: {ended:#}");
        } else if status == "failed" {
            let why = ended["statusMessage"].as_str().unwrap_or_default();
            assert!(why.contains("interrupted") && *tool != "hold_again", "{label}: {ended:#}");
        }
        let calls = scene.heard(&format!("tools/call {label}"));
        assert!(calls <= 1 || *tool == "hold_again", "{label} was called {calls} times");
        *ends.entry(status).or_insert(0) += 1;
    }
    assert!(handles.len() >= rounds, "there was no load");
    println!("{rounds} kills, {} handles: {ends:?}", handles.len());
    gateway.terminate();
    nothing_left_of(scene.mark());
}
