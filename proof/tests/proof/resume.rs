//! kill -9 of a program whose tool makes checkpoints: examples/resume.

use std::path::Path;
use std::process::Command;

use serde_json::json;
use taskgate_proof::modern::Modern;
use taskgate_proof::program::Program;
use taskgate_proof::{programs, wait};

fn start(store: &Path) -> (Program, Modern) {
    let mut command = Command::new(programs::plain_example("resume"));
    command.arg("127.0.0.1:0").arg(store);
    let (program, address) = Program::serve(command);
    (program, Modern::new(address))
}

/// Issue 4, class `resumable`: killed twice in the middle, a tool counts on from its last checkpoint each time.
#[test]
fn a_killed_tool_goes_on_from_its_checkpoint() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("tasks.db");
    let (program, mut client) = start(&store);
    let task = client.create("count", json!({ "to": 60, "ms": 20 })).expect("a handle");
    let mut program = program;
    for least in [10.0, 25.0] {
        wait::until("some steps", || {
            let line = client.get(&task)["statusMessage"].as_str()?.to_owned();
            let done: f64 = line.strip_prefix("Progress: ")?.split('/').next()?.parse().ok()?;
            (done >= least).then_some(())
        });
        program.kill();
        (program, client) = start(&store);
    }
    let ended = client.until(&task, "completed");
    let counted = &ended["result"]["structuredContent"];
    let from = counted["from"].as_u64().expect("a number");
    assert!((25..60).contains(&from) && counted["to"] == 60, "{ended:#}");
    program.kill();
}
