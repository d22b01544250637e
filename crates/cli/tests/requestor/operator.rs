//! `taskgate tasks`, on a store that a gateway has open, and on one that none has.

use serde_json::json;

use crate::served::{Served, word};

#[test]
fn an_operator_sees_and_moves_the_tasks_of_a_running_gateway() {
    let served = Served::tasks();
    let store = served.store();
    let tasks = |words: &[&str]| served.run(&[&["tasks"], words, &["--store", word(&store)]].concat());
    assert_eq!(tasks(&["list"]).out, "no tasks\n");
    served.detached(&["slow_report", "topic=x", "seconds=600"]);
    served.detached(&["always_fails"]);
    let listed = tasks(&["list", "--output", "json"]).lines();
    assert_eq!(listed.len(), 2, "{listed:?}");
    let slow = listed[0]["taskId"].as_str().expect("an id").to_owned();
    let short = &slow[..16];
    assert_eq!((&listed[0]["owner"], &listed[0]["tool"]), (&json!("local"), &json!("slow_report")));
    for (filter, count) in [
        (&["--status", "working", "--tool", "slow_report"][..], 1),
        (&["--owner", "local", "--upstream", "demo"], 2),
        (&["--owner", "nobody"], 0),
        (&["--older-than", "1h"], 0),
        (&["--newer-than", "1h"], 2),
        (&["--limit", "1"], 1),
    ] {
        let found = tasks(&[&["list", "--output", "json"], filter].concat());
        assert_eq!(found.lines().len(), count, "{filter:?}: {found:?}");
    }
    let table = tasks(&["list"]).out;
    assert!(table.contains(short) && table.contains("slow_report"), "{table}");
    assert!(!table.contains(&slow), "the part of an id that opens the task is for JSON only: {table}");

    let back = tasks(&["requeue", short]);
    assert!(back.code == 0 && back.out.contains("put back by an operator"), "{back:?}");
    let message = "the disk is full";
    let failed = tasks(&["fail", short, "--message", message, "--output", "json"]);
    let failed = &failed.lines()[0];
    assert_eq!(
        (&failed["task"]["status"], &failed["task"]["statusMessage"]),
        (&json!("failed"), &json!(message))
    );
    let shown = served.run(&["get", &served.url, &slow]);
    assert!(shown.out.contains(message), "its requestor sees it: {shown:?}");
    let again = tasks(&["cancel", short]);
    assert!(again.code == 1 && again.err.contains("already failed"), "{again:?}");
    let none = tasks(&["show", "0123456789abcdef"]);
    assert_eq!(none.code, 16, "{none:?}");

    let dry = tasks(&["prune", "--ended-before", "0s", "--dry-run", "--output", "json"]).lines();
    assert!(dry[0]["pruned"].as_u64() >= Some(1) && dry[0]["dryRun"] == true, "{dry:?}");
    assert_eq!(tasks(&["prune", "--ended-before", "0s", "--status", "failed"]).out, "1 deleted\n");
    assert_eq!(tasks(&["show", short]).code, 16);
    assert_eq!(served.run(&["get", &served.url, &slow]).code, 16);
}

#[test]
fn the_store_of_no_gateway_is_opened_for_it() {
    let served = Served::tasks();
    served.detached(&["slow_report", "topic=x", "seconds=600"]);
    let elsewhere = Served::demo();
    let dir = served.end();
    let store = dir.path().join("tasks.db");
    assert!(!dir.path().join("tasks.db.admin").exists(), "the socket goes with its gateway");
    let tasks = |words: &[&str]| elsewhere.run(&[&["tasks"], words, &["--store", word(&store)]].concat());
    let listed = tasks(&["list", "--output", "json"]).lines();
    let task = listed[0]["taskId"].as_str().expect("an id").to_owned();
    let cancelled = tasks(&["cancel", &task, "--output", "json"]).lines();
    assert_eq!(cancelled[0]["task"]["status"], "cancelled");
    let last = cancelled[0]["events"].as_array().and_then(|events| events.last()).expect("an event");
    assert_eq!((&last["who"], &last["why"]), (&json!("receiver"), &json!("cancelled by an operator")));
    assert_eq!(tasks(&["prune", "--ended-before", "0s"]).out, "1 deleted\n");
    let none = elsewhere.run(&["tasks", "list", "--store", word(&dir.path().join("none.db"))]);
    assert!(none.code == 3 && none.err.contains("there is no store"), "{none:?}");
}
