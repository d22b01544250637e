//! Commands that are tools, in front of the real `taskgate serve`: killed, stopped and started again.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use taskgate_proof::modern::Modern;
use taskgate_proof::postgres::Postgres;
use taskgate_proof::program::{Program, nothing_left_of, pid_with, processes_with, signal};
use taskgate_proof::session::Session;
use taskgate_proof::{programs, wait};

/// The command counts its beginnings and has a child that does not heed SIGTERM. It ends when it is let.
const SCRIPT: &str = r#"
echo begun >> begun
cat > arguments
sh -c 'trap "" TERM; echo ready > ready; while :; do sleep 0.05; done' child "$0" &
echo waiting
while [ ! -e open ]; do sleep 0.05; done
echo done
echo careful >&2
exit 3
"#;

/// The time a stop may take: a grace of five seconds for the child, and the machine's.
const STOPPED: Duration = Duration::from_secs(15);

struct Scene(tempfile::TempDir);

impl Scene {
    fn new() -> Scene {
        Scene::of(SCRIPT, "")
    }

    /// With another script, and more keys of `[upstream.run]`.
    fn of(script: &str, keys: &str) -> Scene {
        let scene = Scene(tempfile::Builder::new().prefix("taskgate-commands-").tempdir().expect("a folder"));
        let folder = scene.0.path().to_str().expect("a plain path");
        let config = format!(
            "listen = \"127.0.0.1:0\"\nsingle_user = true\nstore = \"tasks.db\"\ndrain_grace = \"0s\"\n\
             [[upstream]]\nname = \"jobs\"\ncwd = {folder:?}\n\
             [upstream.run]\ntool = \"render\"\ncommand = [\"sh\", \"-c\", '''{script}''', {folder:?}]\n{keys}\n\
             [upstream.defaults]\ntasks = \"always\"\n"
        );
        fs::write(scene.path("taskgate.toml"), config).expect("the folder can be written");
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn serve(&self) -> (Program, SocketAddr) {
        let mut command = Command::new(programs::taskgate());
        command.args(["serve", "--config", "taskgate.toml"]).current_dir(self.0.path());
        Program::serve(command)
    }

    /// A gateway with a task whose command runs, has a child, and has been heard.
    fn start(&self) -> (Program, SocketAddr, String) {
        let (gateway, address) = self.serve();
        let mut client = Modern::new(address);
        let task = client.create("render", json!({ "scene": "sea; echo $HOME" })).expect("a handle");
        self.wait_for("ready");
        wait::until("its line", || (line(&client.get(&task)) == "waiting").then_some(()));
        (gateway, address, task)
    }

    fn wait_for(&self, file: &str) {
        wait::until(file, || self.path(file).exists().then_some(()));
    }

    /// Everything that runs of it but the gateway: supervisor, command and child.
    fn mark(&self) -> &str {
        self.0.path().to_str().expect("a plain path")
    }

    /// The command lines of what runs of it, each once: a shell that is about to start something is there twice for a moment.
    fn running(&self) -> Vec<String> {
        let mut lines = processes_with(self.mark());
        lines.sort_unstable();
        lines.dedup();
        lines
    }

    fn let_it_end(&self) {
        fs::write(self.path("open"), "").expect("the folder can be written");
    }

    fn supervisor(&self) -> u32 {
        let line = format!("supervise {}", self.path("tasks.db.work").display());
        wait::until("a supervisor", || pid_with(&line))
    }

    /// The command has begun once in all, nothing of it runs, and nothing of it lies about.
    fn is_over(&self) {
        nothing_left_of(self.mark());
        let begun = fs::read_to_string(self.path("begun")).expect("it has begun");
        assert_eq!(begun, "begun\n");
        wait::until("an empty work directory", || {
            let left = fs::read_dir(self.path("tasks.db.work")).expect("a directory").flatten();
            (left.filter(|entry| entry.path().is_dir()).count() == 0).then_some(())
        });
    }

    /// The task completes with all the command has written, in both generations.
    fn completes(&self, address: SocketAddr, task: &str) {
        let ended = Modern::new(address).until(task, "completed");
        let result = &ended["result"];
        assert_eq!(result["isError"], true, "{ended:#}");
        assert_eq!(result["content"][0]["text"], "waiting\ndone\n");
        let expected = json!({
            "exitCode": 3, "stdout": "waiting\ndone\n", "stderr": "careful\n", "truncated": false
        });
        assert_eq!(result["structuredContent"], expected);
        let mut session = Session::open(address);
        let answer = session.ask("tasks/result", &json!({ "taskId": task })).body;
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        assert_eq!(answer["result"]["structuredContent"], expected, "{answer:#}");
        assert_eq!(answer["result"].get("resultType"), None);
        let arguments = fs::read_to_string(self.path("arguments")).expect("arguments");
        assert_eq!(arguments, r#"{"scene":"sea; echo $HOME"}"#);
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

/// `kill -9` of the gateway, twice: the command runs on, is begun once, and its task completes under the third one.
#[test]
fn a_command_outlives_a_killed_gateway() {
    let scene = Scene::new();
    let (gateway, _, task) = scene.start();
    gateway.kill();
    let (gateway, address) = scene.serve();
    let before = scene.running();
    assert_eq!(before.len(), 3, "{before:#?}");
    assert_eq!(Modern::new(address).get(&task)["status"], "working");
    gateway.kill();
    assert_eq!(scene.running(), before);
    scene.let_it_end();
    let (gateway, address) = scene.serve();
    scene.completes(address, &task);
    scene.is_over();
    gateway.terminate();
}

/// It ends while there is no gateway: its result is there all the same.
#[test]
fn a_result_waits_for_the_next_gateway() {
    let scene = Scene::new();
    let (gateway, _, task) = scene.start();
    gateway.kill();
    scene.let_it_end();
    nothing_left_of(scene.mark());
    let (gateway, address) = scene.serve();
    scene.completes(address, &task);
    scene.is_over();
    gateway.terminate();
}

/// A shutdown is not a cancel.
#[test]
fn a_command_outlives_a_shutdown() {
    let scene = Scene::new();
    let (gateway, _, task) = scene.start();
    gateway.terminate();
    assert_eq!(scene.running().len(), 3, "{:#?}", scene.running());
    let (gateway, address) = scene.serve();
    assert_eq!(Modern::new(address).get(&task)["status"], "working");
    scene.let_it_end();
    scene.completes(address, &task);
    scene.is_over();
    gateway.terminate();
}

/// CASE 16: cancelled at the gateway that has found it, the command goes with its child, which does not heed SIGTERM.
#[test]
fn a_command_can_be_cancelled_after_a_restart() {
    let scene = Scene::new();
    let (gateway, _, task) = scene.start();
    gateway.kill();
    let (gateway, address) = scene.serve();
    let mut client = Modern::new(address);
    client.call("tasks/cancel", json!({ "taskId": task })).expect("cancelled");
    assert_eq!(client.get(&task)["status"], "cancelled");
    wait::until_within(STOPPED, "its end", || processes_with(scene.mark()).is_empty().then_some(()));
    scene.is_over();
    assert_eq!(client.get(&task)["status"], "cancelled");
    gateway.terminate();
}

/// The child does not heed SIGTERM: without a grace it is gone long before the five seconds that it would have otherwise.
#[test]
fn how_long_a_command_has_to_end_is_a_setting() {
    let scene = Scene::of(SCRIPT, "stop_grace = \"0s\"");
    let (gateway, address, task) = scene.start();
    Modern::new(address).call("tasks/cancel", json!({ "taskId": task })).expect("cancelled");
    wait::until_within(Duration::from_secs(4), "its end", || {
        processes_with(scene.mark()).is_empty().then_some(())
    });
    gateway.terminate();
}

#[test]
fn how_much_of_a_command_is_kept_is_a_setting() {
    let scene = Scene::of(
        "echo begin; head -c 9000 /dev/zero | tr '\\0' x; echo; echo end",
        "output_limit = \"1KiB\"",
    );
    let (gateway, address) = scene.serve();
    let mut client = Modern::new(address);
    let task = client.create("render", json!({})).expect("a handle");
    let kept = client.until(&task, "completed")["result"]["structuredContent"].clone();
    let stdout = kept["stdout"].as_str().expect("a text");
    assert!(stdout.starts_with("begin\n") && stdout.ends_with("\nend\n"), "{stdout}");
    assert!(kept["truncated"] == true && stdout.len() < 1200, "{}", stdout.len());
    gateway.terminate();
}

/// CASE 6: the real program has the check of arguments, and what it refuses has left nothing behind.
#[test]
fn arguments_that_do_not_fit_start_nothing() {
    let keys = "input_schema = { type = \"object\", properties = { scene = { type = \"string\" } }, required = [\"scene\"] }";
    let scene = Scene::of(SCRIPT, keys);
    let (gateway, address) = scene.serve();
    let mut client = Modern::new(address);
    let task = client.create("render", json!({ "scene": 5 })).expect("a handle");
    let result = client.until(&task, "completed")["result"].clone();
    let text = result["content"][0]["text"].as_str().expect("a text");
    assert!(result["isError"] == true && text.contains("/scene: "), "{result:#}");
    assert!(!scene.path("begun").exists() && scene.running().is_empty());
    gateway.terminate();
}

/// The cancel was acknowledged, and the gateway killed before anything was stopped or just after: the next one sees to it.
#[test]
fn a_cancel_outlives_the_gateway() {
    let scene = Scene::new();
    let (gateway, address, task) = scene.start();
    Modern::new(address).call("tasks/cancel", json!({ "taskId": task })).expect("cancelled");
    gateway.kill();
    let (gateway, address) = scene.serve();
    assert_eq!(Modern::new(address).get(&task)["status"], "cancelled");
    wait::until_within(STOPPED, "its end", || processes_with(scene.mark()).is_empty().then_some(()));
    scene.is_over();
    gateway.terminate();
}

/// The supervisor was killed, with a gateway there or without: the task fails as interrupted, nothing runs on, and nothing is
/// begun again.
#[test]
fn a_killed_supervisor_interrupts_the_task() {
    for with_gateway in [true, false] {
        let scene = Scene::new();
        let (gateway, address, task) = scene.start();
        let supervisor = scene.supervisor();
        let (gateway, address) = if with_gateway {
            signal(supervisor, "KILL");
            (gateway, address)
        } else {
            gateway.kill();
            signal(supervisor, "KILL");
            wait::until("its end", || (scene.running().len() == 2).then_some(()));
            scene.serve()
        };
        let ended = Modern::new(address).until(&task, "failed");
        assert_eq!(line(&ended), "The work was interrupted: its supervisor was killed.");
        assert_eq!(ended["error"]["data"]["stdout"], "waiting\n", "{ended:#}");
        scene.is_over();
        gateway.terminate();
    }
}

/// After a restart of the machine nobody is left who could know how it ended, and it is not begun again. The test plays
/// the machine: it kills everybody, and lets the record tell of another boot.
#[test]
fn a_restart_of_the_machine_interrupts_the_task() {
    let scene = Scene::new();
    let (gateway, _, task) = scene.start();
    gateway.kill();
    signal(scene.supervisor(), "KILL");
    while let Some(pid) = pid_with(scene.mark()) {
        let _ = Command::new("kill").args(["-9", &pid.to_string()]).output();
    }
    let entries = fs::read_dir(scene.path("tasks.db.work")).expect("a directory").flatten();
    let attempt = entries.map(|entry| entry.path()).find(|path| path.is_dir()).expect("an attempt");
    let record = attempt.join("begun.json");
    let text = fs::read_to_string(&record).expect("a record");
    let mut begun: Value = serde_json::from_str(&text).expect("JSON");
    begun["boot_id"] = "another".into();
    fs::write(&record, begun.to_string()).expect("the folder can be written");
    let (gateway, address) = scene.serve();
    let ended = Modern::new(address).until(&task, "failed");
    assert_eq!(line(&ended), "The work was interrupted: the machine was restarted.");
    scene.is_over();
    gateway.terminate();
}

/// CASE 4: on a Postgres whose nodes are on several machines, here told apart by their state directories. The node of the machine finds its
/// command when it comes back, although another one has looked after the task meanwhile and cannot get at it.
#[test]
fn a_command_is_found_by_the_node_of_its_machine() {
    let scene = Scene::of(SCRIPT, "");
    let text = fs::read_to_string(scene.path("taskgate.toml")).expect("the configuration");
    fs::write(scene.path("taskgate.toml"), format!("lease = \"1s\"\n{text}"))
        .expect("the folder can be written");
    let database = Postgres::shared().database();
    let serve = |machine: &str| {
        let mut command = Command::new(programs::taskgate());
        command.args(["serve", "--config", "taskgate.toml"]).current_dir(scene.0.path());
        command.env("TASKGATE_STORE", &database).env("XDG_STATE_HOME", scene.path(machine));
        Program::serve(command)
    };
    let (home, address) = serve("home");
    let task =
        Modern::new(address).create("render", json!({ "scene": "sea; echo $HOME" })).expect("a handle");
    scene.wait_for("ready");
    home.kill();
    let (other, address) = serve("other");
    let mut client = Modern::new(address);
    wait::until("its line", || line(&client.get(&task)).contains("at another node").then_some(()));
    scene.let_it_end();
    let (home, _) = serve("home");
    // The other node has put the task back for half a minute.
    wait::until_within(Duration::from_secs(60), "its result", || {
        (client.get(&task)["status"] == "completed").then_some(())
    });
    scene.completes(address, &task);
    other.terminate();
    home.terminate();
}

/// A call that was no task yet has left nobody a handle: the next gateway stops its command.
#[test]
fn a_call_that_was_no_task_is_stopped() {
    let scene = Scene::new();
    let config = fs::read_to_string(scene.path("taskgate.toml")).expect("a file");
    let config = config.replace("tasks = \"always\"", "inline_for = \"10m\"");
    fs::write(scene.path("taskgate.toml"), config).expect("the folder can be written");
    let (gateway, address) = scene.serve();
    let calling = thread::spawn(move || {
        let params = json!({ "name": "render", "arguments": {} });
        Modern::new(address).ask("tools/call", params).is_err()
    });
    scene.wait_for("ready");
    gateway.kill();
    assert!(calling.join().expect("no panic"), "the call was answered");
    assert_eq!(scene.running().len(), 3, "{:#?}", scene.running());
    let (gateway, _) = scene.serve();
    wait::until_within(STOPPED + STOPPED, "its end", || {
        processes_with(scene.mark()).is_empty().then_some(())
    });
    scene.is_over();
    gateway.terminate();
}

/// `kill -9` at any moment, again and again: every handle leads to the output of its own command, and no command was begun
/// twice, whether or not its caller got a handle.
#[test]
fn no_command_is_begun_twice_whenever_the_gateway_is_killed() {
    let scene = Scene::of("line=$(cat)\necho \"$line\" >> begun\nsleep 0.05\necho \"$line\"\n", "");
    let mut handles = Vec::new();
    for round in 0..12 {
        let (gateway, address) = scene.serve();
        let calling = thread::spawn(move || {
            let mut client = Modern::new(address);
            let mut got = Vec::new();
            for number in 0.. {
                let label = format!("{round} {number}");
                match client.create("render", json!({ "label": label })) {
                    Some(task) => got.push((task, label)),
                    None => return got,
                }
            }
            got
        });
        // Each round is killed after one more beginning than the one before.
        let begun = || fs::read_to_string(scene.path("begun")).unwrap_or_default().lines().count();
        let before = begun();
        wait::until("some load", || (begun() > before + round).then_some(()));
        gateway.kill();
        handles.extend(calling.join().expect("no panic"));
    }
    let (gateway, address) = scene.serve();
    let mut client = Modern::new(address);
    assert!(handles.len() > 12, "{} handles", handles.len());
    for (task, label) in &handles {
        let ended = client.until(task, "completed");
        let expected = format!("{}\n", json!({ "label": label }));
        assert_eq!(ended["result"]["structuredContent"]["stdout"], expected, "{ended:#}");
    }
    nothing_left_of(scene.mark());
    let begun = fs::read_to_string(scene.path("begun")).expect("they have begun");
    let mut lines: Vec<&str> = begun.lines().collect();
    let all = lines.len();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), all, "{begun}");
    assert!(all >= handles.len());
    gateway.terminate();
}

/// What the command does that is given words.
const WORDS: &str = r#"
exec 3>&1 >&2
echo "step 1 of 4"; echo "step 3 of 4"
while [ ! -e open ]; do sleep 0.05; done
[ "$2" = -w ] && [ "$3" = 5 ] && [ "$4" = "--name=; touch broken" ] && [ "$5" = one ] && [ "$6" = "two three" ] || exit 2
[ -z "$(cat)" ] || exit 3
echo '{"steps": 4}' >&3
"#;

/// Issue 5, item 3: arguments are words and nothing else, lines tell how far it is, an exit code says what it means, and an
/// object on stdout is the structured content.
#[test]
fn arguments_are_words_and_output_is_read() {
    let scene = Scene(tempfile::Builder::new().prefix("taskgate-commands-").tempdir().expect("a folder"));
    let folder = scene.0.path().to_str().expect("a plain path");
    let words = r#""--", ["-w", "{{width}}"], "--off{{?off}}", "--name={{name}}", "{{files}}""#;
    let config = format!(
        "listen = \"127.0.0.1:0\"\nsingle_user = true\nstore = \"tasks.db\"\n\
         [[upstream]]\nname = \"jobs\"\ncwd = {folder:?}\n\
         [upstream.run]\ntool = \"render\"\nstdin = \"none\"\noutput = \"json\"\n\
         progress = 'step (?<progress>\\d+) of (?<total>\\d+)'\n\
         exit_codes = {{ 2 = \"The words are wrong.\" }}\n\
         command = [\"sh\", \"-c\", '''{WORDS}''', {folder:?}, {words}]\n\
         [upstream.run.input_schema]\ntype = \"object\"\n\
         properties = {{ width = {{}}, off = {{}}, name = {{}}, files = {{}} }}\n\
         [upstream.defaults]\ntasks = \"always\"\n"
    );
    fs::write(scene.path("taskgate.toml"), config).expect("the folder can be written");
    let (gateway, address) = scene.serve();
    let mut client = Modern::new(address);
    let given = |files: Value| json!({ "width": 5, "off": false, "name": "; touch broken", "files": files });
    let task = client.create("render", given(json!(["one", "two three"]))).expect("a handle");
    wait::until("how far it is", || (line(&client.get(&task)) == "3/4").then_some(()));
    let wrong = client.create("render", given(json!(["one"]))).expect("a handle");
    scene.let_it_end();
    let ended = |client: &mut Modern, task: &str| {
        wait::until("its end", || Some(client.get(task)).filter(|seen| seen["status"] != "working"))
    };
    let seen = ended(&mut client, &task);
    assert_eq!(seen["result"]["structuredContent"], json!({ "steps": 4 }), "{seen}");
    assert_eq!(seen["result"]["isError"], false);
    let seen = ended(&mut client, &wrong);
    assert_eq!(seen["result"]["isError"], true, "{seen}");
    let said = seen["result"]["content"][1]["text"].as_str().expect("a text");
    assert!(said.starts_with("The words are wrong. (exit code 2)"), "{said}");
    assert!(!scene.path("broken").exists());
    gateway.terminate();
    nothing_left_of(folder);
}
