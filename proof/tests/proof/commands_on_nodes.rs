//! Commands that are tools, on several nodes of one Postgres: on one machine, where the nodes find each other's commands, and on
//! two, which are told apart by where they keep their state.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use taskgate_proof::modern::Modern;
use taskgate_proof::postgres::Postgres;
use taskgate_proof::program::{Program, nothing_left_of, pid_with, processes_with, signal};
use taskgate_proof::{programs, wait};

/// The command counts its beginnings and ends when it is let.
const SCRIPT: &str = "echo begun >> begun; while [ ! -e open ]; do sleep 0.05; done; echo done";

struct Scene {
    folder: tempfile::TempDir,
    database: String,
}

impl Scene {
    fn new() -> Scene {
        let folder = tempfile::Builder::new().prefix("taskgate-nodes-").tempdir().expect("a folder");
        Scene { folder, database: Postgres::shared().database() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Everything that runs of it.
    fn mark(&self) -> &str {
        self.folder.path().to_str().expect("a plain path")
    }

    /// Starts a node on this machine.
    fn serve(&self, node: &str, machine: &str) -> (Program, SocketAddr) {
        let folder = self.mark();
        let config = format!(
            "listen = \"127.0.0.1:0\"\nsingle_user = true\nstore = {:?}\nnode_name = {node:?}\ndrain_grace = \"0s\"\n\
             lease = \"3s\"\nheartbeat = \"500ms\"\n[[upstream]]\nname = \"jobs\"\ncwd = {folder:?}\n\
             [upstream.run]\ntool = \"render\"\ncommand = [\"sh\", \"-c\", '''{SCRIPT}''', {folder:?}]\n\
             [upstream.defaults]\ntasks = \"always\"\n",
            self.database
        );
        let file = self.path(&format!("{node}.toml"));
        fs::write(&file, config).expect("the folder can be written");
        let mut command = Command::new(programs::taskgate());
        command.args(["serve", "--config"]).arg(file).env("XDG_STATE_HOME", self.path(machine));
        Program::serve(command)
    }

    /// A task whose command runs.
    fn begin(&self, address: SocketAddr) -> String {
        let task = Modern::new(address).create("render", json!({})).expect("a handle");
        wait::until("a beginning", || self.path("begun").exists().then_some(()));
        task
    }

    fn let_it_end(&self) {
        fs::write(self.path("open"), "").expect("the folder can be written");
    }

    fn completes(&self, address: SocketAddr, task: &str) {
        let ended = Modern::new(address).until(task, "completed");
        assert_eq!(ended["result"]["structuredContent"]["stdout"], "done\n", "{ended:#}");
    }

    /// Nothing of the command runs any more, and it has begun once in all.
    fn is_over(&self) {
        wait::until("its end", || {
            let commands = processes_with(self.mark()).into_iter().filter(|line| !line.contains(".toml"));
            (commands.count() == 0).then_some(())
        });
        assert_eq!(fs::read_to_string(self.path("begun")).expect("it has begun"), "begun\n");
    }
}

impl Drop for Scene {
    /// A test that fails leaves nobody behind.
    fn drop(&mut self) {
        while let Some(pid) = pid_with(self.mark()) {
            let _ = Command::new("kill").args(["-9", &pid.to_string()]).output();
        }
    }
}

fn line(task: &Value) -> &str {
    task["statusMessage"].as_str().unwrap_or_default()
}

/// Another node of the same machine goes on with the command of one that was killed; it was begun once.
#[test]
fn a_node_of_the_same_machine_takes_a_command_over() {
    let scene = Scene::new();
    let (a, at_a) = scene.serve("a", "one");
    let (b, at_b) = scene.serve("b", "one");
    let task = scene.begin(at_a);
    a.kill();
    scene.let_it_end();
    scene.completes(at_b, &task);
    scene.is_over();
    b.terminate();
    nothing_left_of(scene.mark());
}

/// A node that was frozen past its lease wakes up and finds its command over and its directory gone: nobody listens to what it
/// says of that.
#[test]
fn a_frozen_node_does_not_undo_what_became_of_its_command() {
    let scene = Scene::new();
    let (a, at_a) = scene.serve("a", "one");
    let (b, at_b) = scene.serve("b", "one");
    let task = scene.begin(at_a);
    signal(a.pid(), "STOP");
    scene.let_it_end();
    scene.completes(at_b, &task);
    let attempts = || {
        let yards = fs::read_dir(scene.path("one/taskgate")).expect("a state directory").flatten();
        let all = yards.filter_map(|yard| fs::read_dir(yard.path()).ok()).flat_map(|yard| yard.flatten());
        all.filter(|entry| entry.path().is_dir()).count()
    };
    wait::until("an empty work directory", || (attempts() == 0).then_some(()));
    signal(a.pid(), "CONT");
    // It is at work again, so it has heard what became of the old.
    wait::until("new work on the frozen node", || {
        // Until it has noticed that it was buried it refuses to make a task.
        let params = json!({ "name": "render", "arguments": {} });
        let created = Modern::new(at_a).call("tools/call", params).ok()?;
        let task = created["taskId"].as_str().expect("an id").to_owned();
        let ended = wait::until("its end", || {
            let task = Modern::new(at_b).get(&task);
            ["completed", "failed"].contains(&task["status"].as_str()?).then_some(task)
        });
        (ended["status"] == "completed").then_some(())
    });
    scene.completes(at_a, &task);
    a.terminate();
    b.terminate();
    nothing_left_of(scene.mark());
}

/// The command of a machine that is away runs on and waits for it: others say so and begin nothing.
#[test]
fn a_command_waits_for_its_own_machine() {
    let scene = Scene::new();
    let (a, at_a) = scene.serve("a", "one");
    let (b, at_b) = scene.serve("b", "two");
    let task = scene.begin(at_a);
    a.kill();
    wait::until("a word about its machine", || {
        let task = Modern::new(at_b).get(&task);
        (task["status"] == "working" && line(&task).contains("runs at another node")).then_some(())
    });
    scene.let_it_end();
    let (a, _) = scene.serve("a", "one");
    scene.completes(at_b, &task);
    scene.is_over();
    a.terminate();
    b.terminate();
    nothing_left_of(scene.mark());
}

/// CASE 16: cancelled through another machine, a command is stopped on its own: at once, or when its node is back.
#[test]
fn a_cancel_finds_the_machine_of_its_command() {
    for is_away in [false, true] {
        let scene = Scene::new();
        let (a, at_a) = scene.serve("a", "one");
        let (b, at_b) = scene.serve("b", "two");
        let task = scene.begin(at_a);
        let mut a = Some(a);
        if is_away {
            a.take().into_iter().for_each(Program::kill);
        }
        let mut client = Modern::new(at_b);
        client.call("tasks/cancel", json!({ "taskId": task })).expect("cancelled");
        assert_eq!(client.get(&task)["status"], "cancelled");
        let a = a.unwrap_or_else(|| scene.serve("a", "one").0);
        scene.is_over();
        assert_eq!(client.get(&task)["status"], "cancelled");
        a.terminate();
        b.terminate();
        nothing_left_of(scene.mark());
    }
}
