//! CASE 4: kill -9 of the real `taskgate serve` at six points of a task's way, each forced from outside.
//!
//! After the restart no task is left without somebody who works on it, within [`SETTLED`]: what may be repeated is run
//! again or waits for its server, and says so; the rest has failed as interrupted.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rusqlite::Connection;
use serde_json::{Value, json};
use taskgate_proof::modern::Modern;
use taskgate_proof::program::{Program, nothing_left_of, pid_with, signal};
use taskgate_proof::session::Session;
use taskgate_proof::wait;

use crate::place::Place;

/// How long after a restart a task may be without its decision.
const SETTLED: Duration = Duration::from_secs(5);

/// A place, a task whose work must not be repeated, and one whose work may be.
struct Scene {
    place: Place,
    live: String,
    again: String,
}

impl Scene {
    /// The two tasks, made while a gateway runs, and that gateway.
    fn start(tools: [&str; 2], before: impl FnOnce(&Place, &mut Modern)) -> (Scene, Program, SocketAddr) {
        let place = Place::new();
        let (gateway, address) = place.serve();
        let mut client = Modern::new(address);
        before(&place, &mut client);
        let [live, again] = [(tools[0], "live"), (tools[1], "again")].map(|(tool, label)| {
            let task = client.create(tool, json!({ "label": label })).expect("a handle");
            // A question of this upstream goes to the newest call, so the next call comes after it.
            if tool.starts_with("ask") {
                client.until(&task, "input_required");
            }
            task
        });
        (Scene { place, live, again }, gateway, address)
    }

    /// Two tasks whose work has begun and holds still.
    fn holding() -> (Scene, Program, SocketAddr) {
        let (scene, gateway, address) = Scene::start(["hold", "hold_again"], |_, _| {});
        for label in ["live", "again"] {
            wait::until(label, || (scene.place.begun(label) == 1).then_some(()));
        }
        (scene, gateway, address)
    }

    /// `kill -9`; nothing of it runs on.
    fn kill(&self, gateway: Program) {
        gateway.kill();
        nothing_left_of(self.place.mark());
    }

    /// A new gateway: the work that must not be repeated has failed as interrupted.
    fn restart(&self) -> (Program, SocketAddr) {
        let (gateway, address) = self.place.serve();
        let mut client = Modern::new(address);
        within("the failure", || {
            let task = client.get(&self.live);
            (task["status"] == "failed" && line(&task).contains("interrupted")).then_some(())
        });
        (gateway, address)
    }

    /// The other work has begun this often in all.
    fn begun_again(&self, count: usize) {
        within("the new beginning", || (self.place.begun("again") == count).then_some(()));
    }

    /// Its task completes, and nothing is left open nor has it moved as it must not.
    fn complete(&self, gateway: Program, address: SocketAddr) {
        self.place.write("open", "");
        Modern::new(address).until(&self.again, "completed");
        self.is_settled(&["failed", "completed"]);
        gateway.terminate();
        nothing_left_of(self.place.mark());
    }

    fn is_settled(&self, ends: &[&str]) {
        let (statuses, wrong) = self.place.audit();
        let mut expected = BTreeMap::new();
        for end in ends {
            *expected.entry((*end).to_owned()).or_insert(0) += 1;
        }
        assert!(wrong.is_empty() && statuses == expected, "{statuses:?} {wrong:?}");
    }
}

#[track_caller]
fn within<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    wait::until_within(SETTLED, what, look)
}

fn line(task: &Value) -> &str {
    task["statusMessage"].as_str().unwrap_or_default()
}

/// CASE 4, before the spawn: an attempt has begun, but the process that would do the work cannot be started.
///
/// A first attempt is never at this point: without a running server there is no tool, and without a tool no task.
#[test]
fn before_the_spawn() {
    let (scene, gateway, _) = Scene::holding();
    scene.kill(gateway);
    scene.place.take_server();
    for _ in 0..2 {
        let (gateway, address) = scene.restart();
        let mut client = Modern::new(address);
        within("a word about the server", || {
            let task = client.get(&scene.again);
            (task["status"] == "working" && line(&task).contains("Waiting for the server")).then_some(())
        });
        scene.kill(gateway);
    }
    assert_eq!(scene.place.begun("again"), 1);
    scene.place.bring_server();
    let (gateway, address) = scene.restart();
    scene.begun_again(2);
    scene.complete(gateway, address);
}

/// CASE 4, after the spawn: the process runs, but has taken no work yet. At the first kill it does not read the calls it
/// was sent, at the second one it has not even answered the first words.
#[test]
fn after_the_spawn() {
    let (scene, gateway, address) = Scene::start(["hold", "hold_again"], |place, client| {
        let first = client.create("work", json!({ "label": "first" })).expect("a handle");
        client.until(&first, "completed");
        let server = place.server();
        let line = server.to_str().expect("a plain path");
        signal(pid_with(line).expect("the server"), "STOP");
    });
    let mut client = Modern::new(address);
    for task in [&scene.live, &scene.again] {
        assert_eq!(client.get(task)["status"], "working");
    }
    scene.kill(gateway);
    scene.place.write("stall", "");
    let (gateway, address) = scene.restart();
    let mut client = Modern::new(address);
    within("the start of the server", || (scene.place.noted("started", "server") == 2).then_some(()));
    assert_eq!(client.get(&scene.again)["status"], "working");
    scene.kill(gateway);
    assert_eq!((scene.place.begun("live"), scene.place.begun("again")), (0, 0));
    scene.place.remove("stall");
    let (gateway, address) = scene.restart();
    let mut client = Modern::new(address);
    scene.begun_again(1);
    scene.place.write("open", "");
    client.until(&scene.again, "completed");
    scene.is_settled(&["completed", "failed", "completed"]);
    gateway.terminate();
    nothing_left_of(scene.place.mark());
}

/// CASE 4, before the first checkpoint: the work has begun and has not given a sign of life since.
#[test]
fn before_the_first_checkpoint() {
    let (scene, gateway, address) = Scene::holding();
    let mut client = Modern::new(address);
    for task in [&scene.live, &scene.again] {
        let task = client.get(task);
        assert!(task["status"] == "working" && task.get("statusMessage").is_none(), "{task}");
    }
    scene.kill(gateway);
    let (gateway, address) = scene.restart();
    scene.begun_again(2);
    scene.complete(gateway, address);
    assert_eq!(scene.place.begun("live"), 1);
}

/// CASE 4, in the middle of polls. The point is meant for upstreams that are polled; there are none yet, so it is the
/// clients who poll: one without a pause, one in a call that waits for the end. With the same ids they go on polling at
/// the next gateway.
#[test]
fn in_the_middle_of_polls() {
    let (scene, gateway, address) = Scene::holding();
    let polls = AtomicUsize::new(0);
    thread::scope(|scope| {
        for task in [&scene.live, &scene.again] {
            let polls = &polls;
            scope.spawn(move || {
                let mut client = Modern::new(address);
                while let Ok(response) = client.ask("tasks/get", json!({ "taskId": task })) {
                    assert!(response.body.contains(r#""status":"working""#), "{}", response.body);
                    polls.fetch_add(1, Ordering::Relaxed);
                }
            });
            let mut session = Session::open(address);
            scope.spawn(move || {
                let params = json!({ "taskId": task });
                let wait = json!({ "jsonrpc": "2.0", "id": 1, "method": "tasks/result", "params": params });
                assert!(session.try_post(&wait).is_err(), "there was an end before the kill");
            });
        }
        wait::until("polls", || (polls.load(Ordering::Relaxed) > 100).then_some(()));
        gateway.kill();
    });
    nothing_left_of(scene.place.mark());
    let (gateway, address) = scene.restart();
    scene.begun_again(2);
    let mut session = Session::open(address);
    let error = session.call("tasks/result", &json!({ "taskId": scene.live })).expect_err("no result");
    assert!(error["message"].as_str().is_some_and(|text| text.contains("interrupted")), "{error}");
    scene.complete(gateway, address);
}

/// CASE 4, while asking: the question of the dead work is gone; work that is run again asks again, under another key.
#[test]
fn while_asking() {
    let (scene, gateway, address) = Scene::start(["ask", "ask_again"], |_, _| {});
    let key = |task: &Value| task["inputRequests"].as_object()?.keys().next().cloned();
    let first = key(&Modern::new(address).get(&scene.again)).expect("a question");
    scene.kill(gateway);
    let (gateway, address) = scene.restart();
    let mut client = Modern::new(address);
    scene.begun_again(2);
    let second = within("the new question", || key(&client.get(&scene.again)).filter(|key| *key != first));
    let mut answer = |key: &str| {
        let answers = json!({ key: { "action": "accept", "content": {} } });
        let params = json!({ "taskId": scene.again, "inputResponses": answers });
        client.call("tasks/update", params).expect("acknowledged");
        client.get(&scene.again)["status"].clone()
    };
    assert_eq!(answer(&first), "input_required");
    assert_ne!(answer(&second), "input_required");
    scene.complete(gateway, address);
    assert_eq!((scene.place.begun("live"), scene.place.begun("again")), (1, 2));
}

/// CASE 4, before the result's commit: the gateway has the results, but the disk has not. They are lost, so the work that
/// may be repeated is, and the other one is not said to have succeeded.
#[test]
fn before_the_result_is_committed() {
    let (scene, gateway, address) = Scene::holding();
    let other = Connection::open(scene.place.store()).expect("the store");
    // From here on nobody else can write.
    other.execute_batch("BEGIN IMMEDIATE").expect("the lock");
    scene.place.write("open", "");
    for label in ["live", "again"] {
        wait::until(label, || (scene.place.noted("answered", label) == 1).then_some(()));
    }
    let mut client = Modern::new(address);
    // The server is asked whether it has this tool now. What it says comes after the results, on the same pipe.
    let unknown = client.call("tools/call", json!({ "name": "unknown", "arguments": {} }));
    assert_eq!(unknown.expect_err("no such tool")["code"], -32602);
    for task in [&scene.live, &scene.again] {
        assert_eq!(client.get(task)["status"], "working");
    }
    scene.kill(gateway);
    drop(other);
    scene.place.remove("open");
    let (gateway, address) = scene.restart();
    scene.begun_again(2);
    scene.complete(gateway, address);
    assert_eq!(scene.place.begun("live"), 1);
}
