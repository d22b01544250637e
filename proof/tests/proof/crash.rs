//! kill -9 of the real `taskgate serve` in front of a child process.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::thread;

use serde_json::{Value, json};
use taskgate_proof::modern::Modern;
use taskgate_proof::program::{nothing_left_of, processes_with};
use taskgate_proof::session::Session;
use taskgate_proof::wait;

use crate::place::Place;

/// Issue 2, Proof; CASES 1, 3, 4, 5 and 20: 100 finished and 20 running tasks, kill -9, a new process.
///
/// Each finished result is the same to the byte, in both generations. Each running task has failed as interrupted, or
/// was run again where that is allowed. There is no other state, and no child process is left behind.
#[test]
fn a_kill_loses_nothing_and_leaves_nothing() {
    let place = Place::new();
    let (gateway, address) = place.serve();
    let mut client = Modern::new(address);
    let create = |client: &mut Modern, tool: &str, label: String| {
        client.create(tool, json!({ "label": label })).expect("a handle")
    };
    let finished: Vec<String> =
        (0..100).map(|number| create(&mut client, "work", format!("work {number}"))).collect();
    for task in &finished {
        client.until(task, "completed");
    }
    let held = |client: &mut Modern, tool: &str, count: usize| -> Vec<(String, String)> {
        let labels = (0..count).map(|number| format!("{tool} {number}"));
        labels.map(|label| (create(client, tool, label.clone()), label)).collect()
    };
    let live = held(&mut client, "hold", 8);
    let repeatable = held(&mut client, "hold_again", 10);
    for (_, label) in live.iter().chain(&repeatable) {
        wait::until(&format!("the beginning of {label}"), || (place.begun(label) == 1).then_some(()));
    }
    // Over stdio a question of this upstream's generation does not say which call it belongs to; each of these calls shows
    // one all the same, be it the other's.
    let asking = held(&mut client, "ask", 2);
    for (task, _) in &asking {
        client.until(task, "input_required");
    }
    let before = all_of(&finished, address);
    // What the upstream wrote arrives as it wrote it: odd numbers, odd spacing, doubled members.
    assert!(
        before[0].0.contains(r#""big":123456789012345678901234567890,"e":1E+2, "twice":1,"twice":2"#),
        "{}",
        before[0].0
    );

    assert!(!processes_with(place.mark()).is_empty(), "there is no child process to leave behind");
    gateway.kill();
    nothing_left_of(place.mark());

    let (gateway, address) = place.serve();
    let after = all_of(&finished, address);
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(before, after);
    }
    let mut client = Modern::new(address);
    for (task, label) in live.iter().chain(&asking) {
        let ended = client.until(task, "failed");
        let why = ended["statusMessage"].as_str().unwrap_or_default();
        assert!(why.contains("interrupted") && ended["error"]["message"] == why, "{label}: {ended:#}");
        assert_eq!(place.begun(label), 1, "{label} was run again");
    }
    for (task, label) in &repeatable {
        wait::until(&format!("the second beginning of {label}"), || (place.begun(label) == 2).then_some(()));
        assert_eq!(client.get(task)["status"], "working");
    }
    place.write("open", "");
    for (task, label) in &repeatable {
        let ended = client.until(task, "completed");
        assert_eq!(ended["result"]["content"][0]["text"], format!("{label} is done"));
        assert_eq!(place.begun(label), 2);
    }
    let (statuses, wrong) = place.audit();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let expected = BTreeMap::from([("completed".to_owned(), 110), ("failed".to_owned(), 10)]);
    assert_eq!(statuses, expected);
    gateway.terminate();
    nothing_left_of(place.mark());
}

/// The answers about these tasks as they come over the wire, in both generations.
fn all_of(tasks: &[String], address: SocketAddr) -> Vec<(String, String)> {
    let mut client = Modern::new(address);
    let mut session = Session::open(address);
    let both = tasks.iter().map(|task| {
        let params = json!({ "taskId": task });
        let modern = client.ask("tasks/get", params.clone()).expect("an answer").body;
        (modern, session.ask("tasks/result", &params).body)
    });
    both.collect()
}

/// A handle that a client got, and how its task ended if the client has seen that.
#[derive(Default)]
struct Seen(Mutex<BTreeMap<String, Option<String>>>);

impl Seen {
    fn handle(&self, task: &str) {
        self.0.lock().expect("nobody panics with it").insert(task.to_owned(), None);
    }

    fn end(&self, task: &str, raw: &str) {
        let mut all = self.0.lock().expect("nobody panics with it");
        let before = all.insert(task.to_owned(), Some(raw.to_owned())).flatten();
        // A terminal status is final, and its answer never changes.
        assert!(before.as_ref().is_none_or(|before| before == raw), "{before:?} became {raw}");
    }
}

/// CASES 1, 3 and 4: kill -9 at any moment under load, again and again on the same file.
///
/// Every handle that a client ever got can be read afterwards, what was seen to have ended has not changed by a byte,
/// and every task has exactly one terminal event. `TASKGATE_CRASH_ROUNDS` asks for more rounds.
#[test]
fn no_handle_is_lost_whenever_the_gateway_is_killed() {
    let rounds =
        std::env::var("TASKGATE_CRASH_ROUNDS").map_or(10, |rounds| rounds.parse().expect("a number"));
    let place = Place::new();
    place.write("open", "");
    let seen = Seen::default();
    // Rounds differ in when the kill comes; a fixed sequence makes a failure one that can be had again.
    let mut moment = Moments(0x9e37_79b9_7f4a_7c15);
    for round in 0..rounds {
        let (gateway, address) = place.serve();
        let enough = moment.next(400) as usize + 1;
        thread::scope(|scope| {
            let clients: Vec<_> = (0..4)
                .map(|number| {
                    scope.spawn({
                        let seen = &seen;
                        move || load(address, seen, &format!("{round} {number}"))
                    })
                })
                .collect();
            // The moment is counted in what the clients have got, so that a slow machine has its kills in mid-load too.
            let start = seen.0.lock().expect("nobody panics with it").len();
            wait::until("some load", || {
                let now = seen.0.lock().expect("nobody panics with it").len();
                (now >= start + enough || clients.iter().all(|client| client.is_finished())).then_some(())
            });
            gateway.kill();
            for client in clients {
                client.join().expect("a client does not fail");
            }
        });
        nothing_left_of(place.mark());
    }
    let (gateway, address) = place.serve();
    let mut client = Modern::new(address);
    let seen = seen.0.into_inner().expect("nobody panics with it");
    assert!(seen.len() >= rounds, "there was no load");
    for (task, before) in &seen {
        wait::until(&format!("the end of {task}"), || {
            let raw = client.ask("tasks/get", json!({ "taskId": task })).expect("an answer").body;
            let status = status_of(&raw).unwrap_or_else(|| panic!("the handle {task} is lost: {raw}"));
            assert!(before.as_ref().is_none_or(|before| *before == raw), "{before:?} became {raw}");
            is_terminal(&status).then_some(())
        });
    }
    let (statuses, wrong) = place.audit();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(!statuses.contains_key("working") && !statuses.contains_key("input_required"), "{statuses:?}");
    println!("{rounds} kills, {} handles: {statuses:?}", seen.len());
    gateway.terminate();
    nothing_left_of(place.mark());
}

/// Creates, reads and cancels until the server is gone.
fn load(address: SocketAddr, seen: &Seen, label: &str) {
    let mut client = Modern::new(address);
    for number in 0.. {
        let (tool, millis) = [("work", 0), ("work", 30), ("hold_again", 0), ("work", 5)][number % 4];
        let arguments = json!({ "label": format!("{label} {number}"), "millis": millis });
        let Some(task) = client.create(tool, arguments) else { return };
        seen.handle(&task);
        if number % 7 == 3 && client.ask("tasks/cancel", json!({ "taskId": task })).is_err() {
            return;
        }
        let Ok(raw) = client.ask("tasks/get", json!({ "taskId": task })) else { return };
        let status = status_of(&raw.body).unwrap_or_else(|| panic!("{task} is lost at once: {}", raw.body));
        if is_terminal(&status) {
            seen.end(&task, &raw.body);
        }
    }
}

fn status_of(raw: &str) -> Option<String> {
    let message: Value = serde_json::from_str(raw).ok()?;
    message["result"]["status"].as_str().map(str::to_owned)
}

fn is_terminal(status: &str) -> bool {
    ["completed", "failed", "cancelled"].contains(&status)
}

/// Numbers that look random and are the same each time (xorshift64).
struct Moments(u64);

impl Moments {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}
