//! The command line is killed in the middle of a call, and another one goes on with it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use crate::served::{Ran, Served, word};

/// A call that has become a task, in a process of its own.
fn calling(served: &Served, seconds: &str) -> Child {
    let words = ["call", &served.url, "slow_report", "topic=tides", seconds, "--output", "json"];
    let mut child = served.command(&words).stdout(Stdio::piped()).spawn().expect("it runs");
    let mut first = String::new();
    BufReader::new(child.stdout.as_mut().expect("stdout")).read_line(&mut first).expect("a line");
    assert!(first.contains("\"accepted\""), "{first}");
    child
}

#[test]
fn a_call_whose_caller_was_killed_is_gone_on_with() {
    let served = Served::tasks();
    let mut caller = calling(&served, "seconds=3");
    let early = served.run(&["resume", &served.url]);
    assert!(early.code == 1 && early.err.contains("another taskgate"), "{early:?}");
    caller.kill().expect("killed");
    caller.wait().expect("it ends");
    // Nobody has to know where it was.
    let resumed = served.run(&["resume"]);
    assert!(resumed.code == 0 && resumed.out.contains("Report on tides"), "{resumed:?}");
    let store = served.store();
    let made = served.run(&["tasks", "list", "--store", word(&store), "--output", "json"]);
    assert_eq!(made.lines().len(), 1, "the tool was called once: {made:?}");
    let again = served.run(&["resume", &served.url]);
    assert!(again.code == 0 && again.out.is_empty() && again.err.contains("nothing is open"), "{again:?}");
    // No server is asked where nothing can be open.
    let gone = served.end();
    let elsewhere = Served::demo();
    let mut nothing = elsewhere.command(&["resume"]);
    let nothing = nothing.env("XDG_STATE_HOME", gone.path().join("state")).output().expect("it runs");
    let nothing = Ran::of(&nothing);
    assert!(nothing.code == 0 && nothing.err.contains("nothing is open"), "{nothing:?}");
}

/// A server that is away keeps what is open there from nobody but itself.
#[test]
fn what_cannot_be_reached_stays_open() {
    let served = Served::tasks();
    served.detached(&["slow_report", "topic=tides", "seconds=1"]);
    let gone = served.end();
    let other = Served::tasks();
    let state = gone.path().join("state");
    let run = |words: &[&str]| {
        Ran::of(&other.command(words).env("XDG_STATE_HOME", &state).output().expect("it runs"))
    };
    let left = run(&["call", &other.url, "slow_report", "topic=winds", "seconds=1", "--detach"]);
    assert_eq!(left.code, 0, "{left:?}");
    for _ in 0..2 {
        let resumed = run(&["resume"]);
        assert!(resumed.code == 15 && resumed.err.contains("refused"), "{resumed:?}");
    }
}

/// What is left on purpose is open as well, until somebody has seen its end.
#[test]
fn what_was_left_is_open_until_its_end_was_seen() {
    let served = Served::tasks();
    let handle = served.detached(&["slow_report", "topic=tides", "seconds=1"]);
    assert_eq!(served.run(&["result", &handle]).code, 0);
    served.detached(&["slow_report", "topic=winds", "seconds=1"]);
    served.detached(&["slow_report", "topic=rain", "seconds=1"]);
    // Without a server, what is open is known from here; looking changes nothing.
    for _ in 0..2 {
        let listed = served.run(&["list", "--output", "json"]);
        let [winds, rain] = &listed.lines()[..] else { panic!("{listed:?}") };
        assert_eq!(
            (&winds["tool"], &winds["endpoint"]),
            (&"slow_report".into(), &served.url.as_str().into())
        );
        let handle = rain["handle"].as_str().expect("a handle");
        let stands = served.run(&["get", handle, "--output", "json"]);
        assert_eq!((&rain["state"], &stands.lines()[0]["taskId"]), (&"accepted".into(), &rain["taskId"]));
        assert!(rain["createdMs"].as_u64() >= winds["createdMs"].as_u64());
    }
    let table = served.run(&["list"]);
    assert!(table.out.starts_with("SERVER") && table.out.contains("tg1_"), "{table:?}");
    let resumed = served.run(&["resume", &served.url]);
    let after = served.run(&["list"]);
    assert!(after.code == 0 && after.out == "nothing is open\n", "{after:?}");
    assert!(resumed.out.contains("winds") && !resumed.out.contains("tides"), "{resumed:?}");
    let state = served.store().with_file_name("state/taskgate/calls");
    for file in std::fs::read_dir(state).expect("the state directory").flatten() {
        // Case 37: of arguments there is only a digest.
        let bytes = std::fs::read(file.path()).expect("read");
        assert!(!bytes.windows(5).any(|part| part == b"tides"), "{:?}", file.path());
    }
}
