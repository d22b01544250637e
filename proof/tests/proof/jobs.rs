//! Job APIs behind the real `taskgate serve`: Temporal itself with a worker, and Step Functions as moto has them.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;

use serde_json::{Value, json};
use taskgate_proof::http::Http;
use taskgate_proof::modern::Modern;
use taskgate_proof::program::Program;
use taskgate_proof::{peers, programs, wait};

struct Scene {
    folder: tempfile::TempDir,
    address: SocketAddr,
    _api: Program,
}

impl Scene {
    /// An API, and a gateway's configuration for it.
    fn new(peer: &str, job: impl FnOnce(SocketAddr) -> String) -> Scene {
        let script = peers::files().join("jobs").join(peer);
        let (api, address) = Program::serve(peers::python_command("jobs", &script));
        let folder = tempfile::Builder::new().prefix("taskgate-jobs-").tempdir().expect("a folder");
        let config = format!(
            "listen = \"127.0.0.1:0\"\nsingle_user = true\nstore = \"tasks.db\"\ndrain_grace = \"0s\"\n\
             [[upstream]]\nname = \"jobs\"\n[upstream.job]\ntool = \"work\"\n\
             status = {{ poll = \"100ms\", poll_max = \"500ms\" }}\n{}\n\
             [upstream.defaults]\ntasks = \"always\"\n",
            job(address)
        );
        fs::write(folder.path().join("taskgate.toml"), config).expect("the folder can be written");
        Scene { folder, address, _api: api }
    }

    fn serve(&self) -> (Program, Modern) {
        let mut command = Command::new(programs::taskgate());
        command.args(["serve", "--config", "taskgate.toml"]).current_dir(self.folder.path());
        command
            .env("AWS_ACCESS_KEY_ID", "AKID")
            .env("AWS_SECRET_ACCESS_KEY", "sesame")
            .env_remove("AWS_SESSION_TOKEN");
        let (gateway, address) = Program::serve(command);
        (gateway, Modern::new(address))
    }
}

fn failed_with(task: &Value, why: &str) {
    assert_eq!(
        (&task["result"]["isError"], &task["result"]["content"][0]["text"]),
        (&json!(true), &json!(why)),
        "{task:#}"
    );
}

/// CASE 1 and 20, with work on a real engine: `kill -9` in the middle of the workflow, and its progress, question and result are
/// there under the next gateway. A cancel is Temporal's, too, and so is a failure.
#[test]
fn a_temporal_workflow_is_a_task() {
    let scene = Scene::new("temporal.py", |address| {
        format!(
            "preset = \"temporal\"\n\
             with = {{ address = \"http://{address}\", workflow = \"Report\", task_queue = \"reports\", query = \"status\" }}"
        )
    });
    let (gateway, mut client) = scene.serve();
    let task = client.create("work", json!({"topic": "seas", "pause": 1})).expect("a handle");
    let cancelled = client.create("work", json!({"topic": "x", "pause": 600})).expect("a handle");
    wait::until("its progress", || (client.get(&task)["statusMessage"] == "page 2").then_some(()));
    gateway.kill();
    let (gateway, mut client) = scene.serve();
    let asks = client.until(&task, "input_required");
    assert_eq!(asks["inputRequests"]["title"]["params"]["message"], "Which title?", "{asks:#}");
    gateway.kill();
    let (_gateway, mut client) = scene.serve();
    let asks = client.until(&task, "input_required");
    let (key, _) = asks["inputRequests"].as_object().and_then(|asks| asks.iter().next()).expect("a question");
    let answer = json!({ key: {"action": "accept", "content": {"name": "Of seas"}} });
    client.call("tasks/update", json!({"taskId": task, "inputResponses": answer})).expect("taken");
    let done = client.until(&task, "completed");
    let expected = json!({"topic": "seas", "action": "accept", "title": "Of seas"});
    assert_eq!(done["result"]["structuredContent"], expected, "{done:#}");

    let fails = client.create("work", json!({"fail": "the ink is dry"})).expect("a handle");
    failed_with(&client.until(&fails, "completed"), "the ink is dry");

    let mut temporal = Http::new(scene.address);
    let mut ids = |status: &str| {
        let query = format!("/api/v1/namespaces/default/workflows?query=ExecutionStatus%3D%22{status}%22");
        let listed = temporal.get(&query).expect("an answer").body;
        let listed: Value = serde_json::from_str(&listed).expect("JSON");
        listed["executions"].as_array().map_or(0, Vec::len)
    };
    wait::until("three workflows", || {
        (ids("Running") == 1 && ids("Completed") == 1 && ids("Failed") == 1).then_some(())
    });
    client.call("tasks/cancel", json!({"taskId": cancelled})).expect("taken");
    client.until(&cancelled, "cancelled");
    wait::until("it is cancelled at Temporal", || {
        (ids("Canceled") == 1 && ids("Running") == 0).then_some(())
    });
}

/// The same with Step Functions, to signed requests.
#[test]
fn a_state_machine_is_a_task() {
    let scene = Scene::new("step_functions.py", |address| {
        format!(
            "preset = \"aws-step-functions\"\n\
             with = {{ state_machine = \"arn:aws:states:us-east-1:123456789012:stateMachine:Forge\", endpoint = \"http://{address}\" }}"
        )
    });
    let (gateway, mut client) = scene.serve();
    let task =
        client.create("work", json!({"wait": 3, "cold": false, "what": "a \"nail\""})).expect("a handle");
    wait::until("it runs", || (client.get(&task)["statusMessage"] == "The job is RUNNING.").then_some(()));
    gateway.kill();
    let (_gateway, mut client) = scene.serve();
    let done = client.until(&task, "completed");
    assert_eq!(done["result"]["structuredContent"]["what"], "a \"nail\"", "{done:#}");
    let fails = client.create("work", json!({"wait": 0, "cold": true})).expect("a handle");
    failed_with(&client.until(&fails, "completed"), "Cold: the iron is cold");
    let cancelled = client.create("work", json!({"wait": 600, "cold": false})).expect("a handle");
    wait::until("it runs", || {
        (client.get(&cancelled)["statusMessage"] == "The job is RUNNING.").then_some(())
    });
    client.call("tasks/cancel", json!({"taskId": cancelled})).expect("taken");
    client.until(&cancelled, "cancelled");
    wait::until("it is stopped", || {
        let mut ask = Command::new("curl");
        ask.args([
            "-s",
            "-H",
            "X-Amz-Target: AWSStepFunctions.ListExecutions",
            "-H",
            "Content-Type: application/x-amz-json-1.0",
        ]);
        ask.args(["-H", "Authorization: AWS4-HMAC-SHA256 Credential=AKID/20260101/us-east-1/states/aws4_request, SignedHeaders=host, Signature=0"]);
        ask.args([
            "-d",
            r#"{"stateMachineArn": "arn:aws:states:us-east-1:123456789012:stateMachine:Forge"}"#,
        ]);
        ask.arg(format!("http://{}/", scene.address));
        let listed = peers::run(ask, wait::DEADLINE);
        String::from_utf8_lossy(&listed.stdout).contains("ABORTED").then_some(())
    });
}
