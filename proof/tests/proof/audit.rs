//! The audit log of the real binary: what a `kill -9` leaves of it, and a file that is moved away.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use taskgate_proof::modern::Modern;
use taskgate_proof::program::{Program, signal};
use taskgate_proof::{programs, wait};

fn serve(folder: &Path) -> (Program, SocketAddr) {
    let mut command = Command::new(programs::taskgate());
    command.args(["serve", "--config", "taskgate.toml"]).current_dir(folder);
    Program::serve(command)
}

fn site() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::Builder::new().prefix("taskgate-audit-").tempdir().expect("a folder");
    let config = "listen = \"127.0.0.1:0\"\nsingle_user = true\nstore = \"tasks.db\"\n[audit]\nfile = \"audit.jsonl\"\n\
                  [[upstream]]\nname = \"demo\"\ndemo = true\n[upstream.defaults]\ntasks = \"always\"\n";
    fs::write(folder.path().join("taskgate.toml"), config).expect("written");
    let log = folder.path().join("audit.jsonl");
    (folder, log)
}

fn lines(log: &Path) -> Vec<Value> {
    let text = fs::read_to_string(log).unwrap_or_default();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}")))
        .collect()
}

/// The tasks with a line of this kind, each of which there must be once for each version.
fn tasks(lines: &[Value], fits: impl Fn(&Value) -> bool) -> BTreeSet<String> {
    let found = lines.iter().filter(|line| fits(line));
    found.map(|line| line["task"].as_str().expect("a task").to_owned()).collect()
}

/// Tasks are made until the program is killed in the middle of it: each whose handle has left has its line, no change has two, also
/// not those that the next start makes of what was lost, and these say which tool it was.
#[test]
fn no_handle_leaves_without_a_line_and_no_line_comes_twice() {
    let (folder, log) = site();
    let (gateway, address) = serve(folder.path());
    let makers: Vec<_> = (0..4)
        .map(|maker| {
            std::thread::spawn(move || {
                let mut client = Modern::new(address);
                let mut made = Vec::new();
                let topic = json!({ "topic": format!("{maker}"), "seconds": 60 });
                while let Some(id) = client.create("slow_report", topic.clone()) {
                    made.push(id);
                }
                made
            })
        })
        .collect();
    wait::until("some tasks", || (lines_so_far(&log) > 200).then_some(()));
    gateway.kill();
    let handles: Vec<String> =
        makers.into_iter().flat_map(|maker| maker.join().expect("its tasks")).collect();
    assert!(handles.len() > 100, "only {} handles", handles.len());
    let created = tasks(&lines(&log), |line| line["event"] == "create");
    for handle in &handles {
        assert!(created.contains(&handle[..16]), "{handle} has no line");
    }

    let (gateway, address) = serve(folder.path());
    let mut client = Modern::new(address);
    handles.iter().for_each(|id| drop(client.until(id, "failed")));
    gateway.terminate();
    let all = lines(&log);
    let failed = tasks(&all, |line| {
        line["event"] == "transition" && line["to"] == "failed" && line["tool"] == "slow_report"
    });
    for handle in &handles {
        assert!(failed.contains(&handle[..16]), "{handle} has no end");
    }
    let changes = all.iter().filter(|line| line["event"] == "create" || line["event"] == "transition");
    let mut seen = BTreeSet::new();
    for change in changes {
        assert!(seen.insert((change["task"].to_string(), change["version"].as_u64())), "twice: {change}");
    }
    let nodes: BTreeSet<String> = all.iter().map(|line| line["node"].to_string()).collect();
    assert_eq!(nodes.len(), 2, "{nodes:?}");
}

/// The file may end in the middle of a line as long as it is being written.
fn lines_so_far(log: &Path) -> usize {
    fs::read_to_string(log).unwrap_or_default().matches('\n').count()
}

/// A file that was moved away is made anew on SIGHUP, and a shutdown writes everything.
#[test]
fn a_file_is_moved_away_and_nothing_is_lost() {
    let (folder, log) = site();
    let (gateway, address) = serve(folder.path());
    let mut client = Modern::new(address);
    let first = client.create("slow_report", json!({ "topic": "a", "seconds": 60 })).expect("a handle");
    let moved = folder.path().join("audit.1");
    fs::rename(&log, &moved).expect("moved");
    signal(gateway.pid(), "HUP");
    wait::until("the new file", || log.is_file().then_some(()));
    let second = client.create("slow_report", json!({ "topic": "b", "seconds": 60 })).expect("a handle");
    gateway.terminate();
    let created = |file: &Path| tasks(&lines(file), |line| line["event"] == "create");
    assert_eq!(created(&moved), BTreeSet::from([first[..16].to_owned()]));
    assert_eq!(created(&log), BTreeSet::from([second[..16].to_owned()]));
    let ended = tasks(&lines(&log), |line| line["to"] == "failed");
    assert_eq!(ended.len(), 2, "the shutdown itself has its lines");
}
