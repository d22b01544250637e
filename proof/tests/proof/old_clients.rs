//! Clients of libraries that their users have not renewed for a while: what worked without taskgate works with it, over HTTP and stdio.

use std::process::Command;

use serde_json::{Value, json};
use taskgate_proof::program::Program;
use taskgate_proof::{peers, programs};

/// Which versions of which library.
fn clients() -> Vec<(String, Command)> {
    let typescript = ["sdk-1.10", "sdk-1.20", "@modelcontextprotocol/sdk"].map(|package| {
        let mut command = peers::node_command(&peers::files().join("clients/ts-old-client.mjs"));
        command.arg(package);
        (format!("TypeScript {package}"), command)
    });
    let python = ["mcp-1.9", "mcp-1.22", "legacy"].map(|group| {
        let command = peers::python_command(group, &peers::files().join("clients/py-old-client.py"));
        (format!("Python {group}"), command)
    });
    typescript.into_iter().chain(python).collect()
}

fn run(plan: &Value, how: &str, connect: impl Fn(&mut Command)) {
    let mut versions = Vec::new();
    for (name, mut command) in clients() {
        command.arg(plan.to_string());
        connect(&mut command);
        let report = peers::passed(&format!("{name} {how}"), command);
        versions.push(report["version"].as_str().expect("a version").to_owned());
    }
    // Each is answered with what it asked for, which is why these are the versions here.
    assert_eq!(
        versions,
        ["2024-11-05", "2025-06-18", "2025-11-25", "2025-03-26", "2025-06-18", "2025-11-25"],
        "{how}"
    );
}

/// Cases 24 and 25: nothing of tasks is told to those that do not know them.
#[test]
fn old_clients_are_served_over_http() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("taskgate.toml");
    // The slow call takes longer than a stream may be quiet.
    let text = "listen = \"127.0.0.1:0\"\nsingle_user = true\nstore = \"memory\"\nkeep_alive = \"500ms\"\n[[upstream]]\nname = \"demo\"\ndemo = true\n";
    std::fs::write(&config, text).expect("written");
    let mut serve = Command::new(programs::taskgate());
    serve.args(["serve", "--config"]).arg(&config);
    let (_program, address) = Program::serve(serve);
    let plan = json!({
        "now": ["add", {"a": 1, "b": 2}, "3"],
        "slow": ["slow_report", {"topic": "tides", "seconds": 3}, "Report on tides"],
        "fail": ["always_fails", {}, "did not work"],
    });
    run(&plan, "over HTTP", |command| {
        command.arg(format!("http://{address}/mcp"));
    });
}

#[test]
fn old_clients_are_served_over_stdio() {
    let plan = json!({
        "now": ["echo", {"message": "Grüße 漢"}, "Grüße 漢"],
        "slow": ["trigger-long-running-operation", {"duration": 3, "steps": 6}, "completed"],
        "fail": ["get-sum", {"a": "x", "b": 1}, "a"],
    });
    run(&plan, "over stdio", |command| {
        command.arg("--stdio").arg(programs::taskgate()).args(["wrap", "--store", "memory", "--"]);
        command.args(crate::everything::server());
    });
}
