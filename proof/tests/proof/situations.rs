//! The situations that SEP-1686 gives as the reason for tasks, each as its example in `examples/situations` has it.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use taskgate_proof::http::Http;
use taskgate_proof::modern::Modern;
use taskgate_proof::program::Program;
use taskgate_proof::session::Session;
use taskgate_proof::{programs, wait};

/// An example, served with a store of its own.
struct Situation {
    folder: tempfile::TempDir,
    config: &'static str,
}

impl Situation {
    fn of(config: &'static str) -> Situation {
        let folder = tempfile::Builder::new().prefix("taskgate-situation-").tempdir().expect("a folder");
        Situation { folder, config }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn serve(&self) -> (Program, SocketAddr) {
        Program::serve(self.command())
    }

    fn command(&self) -> Command {
        let file = programs::repository().join("examples/situations").join(self.config);
        let mut command = Command::new(programs::taskgate());
        command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(file);
        command.arg("--store").arg(self.path().join("tasks.db"));
        command
    }
}

fn status_line(seen: &Value) -> &str {
    seen["statusMessage"].as_str().unwrap_or_default()
}

fn ended(client: &mut Modern, task: &str) -> Value {
    wait::until("its end", || Some(client.get(task)).filter(|seen| seen["status"] != "working"))
}

/// Code migration: two hundred files, and taskgate dies in the middle. The migration does not notice, and its result is with
/// the next taskgate.
#[test]
fn a_code_base_is_migrated() {
    let situation = Situation::of("code-migration.toml");
    let root = situation.path().join("shop");
    fs::create_dir_all(root.join("deep/er")).expect("a folder");
    for number in 0..200 {
        let text =
            "import os, old_http\nfrom old_http.errors import Gone\nold_http.get('x')\nimport old_http\n";
        fs::write(root.join(format!("deep/module_{number:03}.py")), text).expect("written");
    }
    fs::write(root.join("deep/er/latin.py"), b"# \xe9\nimport old_http\n").expect("written");
    fs::write(root.join("notes.txt"), "import old_http\n").expect("written");
    let (gateway, address) = situation.serve();
    let mut client = Modern::new(address);
    let asked = |root: &Path, dry: bool| json!({ "root": root, "from": "old_http", "to": "new_http", "dry_run": dry });
    let tried = client.create("migrate_imports", asked(&root, true)).expect("a handle");
    let told = ended(&mut client, &tried);
    assert_eq!(
        told["result"]["structuredContent"]["changed"].as_object().map(|all| all.len()),
        Some(200),
        "{told}"
    );
    assert!(fs::read_to_string(root.join("deep/module_000.py")).expect("a file").contains("import old_http"));

    let task = client.create("migrate_imports", asked(&root, false)).expect("a handle");
    gateway.kill();
    let (gateway, address) = situation.serve();
    let mut client = Modern::new(address);
    let told = ended(&mut client, &task);
    let result = &told["result"]["structuredContent"];
    assert_eq!((&result["files"], &result["dry_run"]), (&json!(201), &json!(false)), "{told}");
    assert_eq!(result["unreadable"], json!(["deep/er/latin.py"]));
    let changed = fs::read_to_string(root.join("deep/module_199.py")).expect("a file");
    assert_eq!(
        changed,
        "import os, old_http\nfrom new_http.errors import Gone\nold_http.get('x')\nimport new_http\n"
    );
    assert_eq!(fs::read_to_string(root.join("notes.txt")).expect("a file"), "import old_http\n");

    let nowhere =
        client.create("migrate_imports", asked(Path::new("/no/such/folder"), false)).expect("a handle");
    let told = ended(&mut client, &nowhere);
    assert_eq!(told["result"]["isError"], true);
    assert!(told.to_string().contains("The directory cannot be migrated."), "{told}");
    gateway.terminate();
}

const TESTS: &str = r#"
import os, pathlib, time, unittest

class Shop(unittest.TestCase):
    def test_1_opens(self):
        self.assertNotIn("SECRET", os.environ)

    def test_2_waits(self):
        here = pathlib.Path(__file__).parent
        while not (here / "open").exists():
            time.sleep(0.02)

    def test_3_sells(self):
        self.assertEqual(1, 2, "out of stock")
"#;

/// Test execution: the log can be read while the tests run, failed tests are a result, and a cancel ends them.
#[test]
fn tests_are_run() {
    let situation = Situation::of("test-execution.toml");
    let tests = situation.path().join("tests");
    fs::create_dir(&tests).expect("a folder");
    fs::write(tests.join("test_shop.py"), TESTS).expect("written");
    let (gateway, address) = situation.serve();
    let mut client = Modern::new(address);
    let cancelled = client.create("run_tests", json!({ "directory": tests })).expect("a handle");
    let task =
        client.create("run_tests", json!({ "directory": tests, "pattern": "test_s*.py" })).expect("a handle");
    wait::until("the log", || status_line(&client.get(&task)).contains("test_1_opens").then_some(()));
    client.call("tasks/cancel", json!({ "taskId": cancelled })).expect("an acknowledgement");
    assert_eq!(ended(&mut client, &cancelled)["status"], "cancelled");
    fs::write(tests.join("open"), "").expect("written");
    let told = ended(&mut client, &task);
    let result = &told["result"];
    assert_eq!(
        (&result["isError"], &result["structuredContent"]["exitCode"]),
        (&json!(false), &json!(1)),
        "{told}"
    );
    assert_eq!(result["content"][1]["text"], "Tests failed.");
    let log = result["structuredContent"]["stderr"].as_str().expect("a log");
    assert!(log.contains("out of stock") && log.contains("FAILED (failures=1)"), "{log}");
    let wrong = client.create("run_tests", json!({ "directory": 5 })).expect("a handle");
    assert!(ended(&mut client, &wrong).to_string().contains("Invalid arguments for run_tests: /directory"));
    gateway.terminate();
}

/// The two that are servers in a program of their own.
fn program(folder: &Path) -> (Program, SocketAddr) {
    let mut command = Command::new(programs::plain_example("situations"));
    command.arg("127.0.0.1:0").arg(folder.join("tasks.db"));
    Program::serve(command)
}

/// The screening of molecules: the program dies after some batches, and the next one screens the others.
#[test]
fn molecules_are_screened() {
    let folder = tempfile::Builder::new().prefix("taskgate-situation-").tempdir().expect("a folder");
    let (gateway, address) = program(folder.path());
    let mut client = Modern::new(address);
    let heavy = "C".repeat(50);
    let mut molecules: Vec<String> =
        (0..57).map(|number| format!("CCO{}", "C".repeat(number % 20))).collect();
    molecules.extend(["c1ccccc1Cl".to_owned(), heavy.clone(), "Xx".to_owned()]);
    let asked = json!({ "molecules": molecules, "batch": 3, "ms": 50 });
    let task = client.create("screen", asked).expect("a handle");
    let far = |client: &mut Modern| {
        let seen = client.get(&task);
        status_line(&seen).split(' ').next().and_then(|done| done.parse().ok()).unwrap_or(0_u32)
    };
    wait::until("some batches", || (far(&mut client) >= 6).then_some(()));
    gateway.kill();
    let (gateway, address) = program(folder.path());
    let mut client = Modern::new(address);
    let told = ended(&mut client, &task);
    let screened = &told["result"]["structuredContent"];
    assert_eq!((&screened["done"], &screened["batches"]), (&json!(60), &json!(20)), "{told}");
    assert_eq!(screened["unreadable"], json!(["Xx"]));
    let candidates = screened["candidates"].as_object().expect("an object");
    assert!(candidates.contains_key("c1ccccc1Cl") && !candidates.contains_key(&heavy));
    assert_eq!(candidates.len(), 21);
    gateway.terminate_by("INT");
}

/// Deep research: it reads, asks, and goes on with the answer, although the program died while it waited.
#[test]
fn a_research_asks_back() {
    let folder = tempfile::Builder::new().prefix("taskgate-situation-").tempdir().expect("a folder");
    let (gateway, address) = program(folder.path());
    let mut client = Modern::new(address);
    let pages = programs::repository().join("docs");
    let asked = json!({ "question": "Where are tasks kept when the store is a database?", "folder": pages });
    let task = client.create("research", asked).expect("a handle");
    client.until(&task, "input_required");
    gateway.kill();
    let (gateway, address) = program(folder.path());
    let mut client = Modern::new(address);
    let seen = wait::until("the question again", || {
        Some(client.get(&task))
            .filter(|seen| seen["inputRequests"].as_object().is_some_and(|open| !open.is_empty()))
    });
    let (key, question) =
        seen["inputRequests"].as_object().and_then(|open| open.iter().next()).expect("a question");
    let offered = &question["params"]["requestedSchema"]["properties"]["page"]["enum"];
    assert!(offered.as_array().is_some_and(|pages| pages.contains(&json!("nodes"))), "{question}");
    let answers = json!({ key: { "action": "accept", "content": { "page": "nodes" } } });
    client
        .call("tasks/update", json!({ "taskId": task, "inputResponses": answers }))
        .expect("an acknowledgement");
    let told = ended(&mut client, &task);
    let report = told["result"]["content"][0]["text"].as_str().expect("a report");
    assert!(report.contains("From nodes:") && report.to_lowercase().contains("store"), "{report}");
    gateway.terminate_by("INT");
}

/// Enterprise automation: a release starts, taskgate dies, the task asks for the approval, and the pipeline goes on with it. It
/// has been started once, and a release that is cancelled is stopped there.
#[test]
fn a_release_goes_through_a_pipeline() {
    let folder = tempfile::Builder::new().prefix("taskgate-situation-").tempdir().expect("a folder");
    let examples = programs::repository().join("examples/situations");
    let mut pipeline = Command::new("python3");
    pipeline.arg(examples.join("pipeline.py")).args(["0", "0.1"]);
    let (_pipeline, api) = Program::serve(pipeline);
    let config = fs::read_to_string(examples.join("enterprise-automation.toml")).expect("the example");
    let file = folder.path().join("taskgate.toml");
    fs::write(&file, config.replace("127.0.0.1:8700", &api.to_string())).expect("written");
    let serve = || {
        let mut command = Command::new(programs::taskgate());
        command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(&file);
        Program::serve(command)
    };
    let (gateway, address) = serve();
    let mut client = Modern::new(address);
    let task = client.create("release", json!({ "service": "shop", "version": "2.4.1" })).expect("a handle");
    gateway.kill();
    let (gateway, address) = serve();
    let mut client = Modern::new(address);
    let seen = client.until(&task, "input_required");
    let (key, question) =
        seen["inputRequests"].as_object().and_then(|open| open.iter().next()).expect("a question");
    assert_eq!(question["params"]["message"], "May shop 2.4.1 go to production?", "{seen}");
    let answers = json!({ key: { "action": "accept", "content": { "approved": true, "by": "Ada" } } });
    client
        .call("tasks/update", json!({ "taskId": task, "inputResponses": answers }))
        .expect("an acknowledgement");
    let told = client.until(&task, "completed");
    let released = json!({ "service": "shop", "version": "2.4.1", "approvedBy": "Ada" });
    assert_eq!(told["result"]["structuredContent"], released, "{told}");

    let stopped =
        client.create("release", json!({ "service": "shop", "version": "2.4.2" })).expect("a handle");
    client.until(&stopped, "input_required");
    client.call("tasks/cancel", json!({ "taskId": stopped })).expect("an acknowledgement");
    let state = |number: u32| {
        let seen = Http::new(api).get(&format!("/releases/{number}")).expect("an answer");
        let seen: Value = serde_json::from_str(&seen.body).expect("JSON");
        seen["state"].as_str().map(str::to_owned)
    };
    wait::until("the stop", || (state(2).as_deref() == Some("STOPPED")).then_some(()));
    assert_eq!((state(1).as_deref(), state(3)), (Some("RELEASED"), None));
    gateway.terminate();
}

/// Agent to agent: the task of the one is a task of the other, the other's question is the one's, and neither end of a process
/// has the work done twice.
#[test]
fn one_agent_works_for_another() {
    let folder = tempfile::Builder::new().prefix("taskgate-situation-").tempdir().expect("a folder");
    let (other, far) = program(folder.path());
    let situation = Situation::of("agent-to-agent.toml");
    let serve = || {
        let mut command = situation.command();
        command.env("OTHER_AGENT", format!("http://{far}/mcp"));
        Program::serve(command)
    };
    let (gateway, address) = serve();
    let mut client = Modern::new(address);
    let pages = programs::repository().join("docs");
    let asked = json!({ "question": "Where are tasks kept when the store is a database?", "folder": pages });
    let task = client.create("research", asked).expect("a handle");
    client.until(&task, "input_required");
    gateway.kill();
    let (gateway, address) = serve();
    let mut client = Modern::new(address);
    let seen = client.until(&task, "input_required");
    let (key, _) = seen["inputRequests"].as_object().and_then(|open| open.iter().next()).expect("a question");
    let answers = json!({ key: { "action": "accept", "content": { "page": "nodes" } } });
    client
        .call("tasks/update", json!({ "taskId": task, "inputResponses": answers }))
        .expect("an acknowledgement");
    let told = client.until(&task, "completed");
    assert!(
        told["result"]["content"][0]["text"].as_str().is_some_and(|text| text.contains("From nodes:")),
        "{told}"
    );
    let listed = Session::open(far).call("tasks/list", &json!({}));
    assert_eq!(listed.expect("an answer")["tasks"].as_array().map(Vec::len), Some(1), "one task there");
    gateway.terminate();
    other.terminate_by("INT");
}
