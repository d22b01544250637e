//! How a call ends is what the program ends with.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;

use crate::served::{Ran, Served};

/// Every documented code of a call, from a server that brings it about.
#[test]
fn each_end_of_a_call_has_its_code() {
    let demo = Served::demo();
    let call = |words: &[&str]| demo.run(&[&["call", &demo.url], words].concat());
    let completed = call(&["add", "a=1", "b=2"]);
    assert_eq!((completed.code, completed.out.as_str()), (0, "3\n"), "{completed:?}");
    for (words, code, said) in [
        (&["always_fails"][..], 10, "the tool reports an error"),
        (&["nope"], 11, "no tool \"nope\""),
        (&["slow_report", "seconds=1"], 11, "topic"),
        (&["book_table", "guests=4"], 13, "--answer"),
        (
            &["slow_report", "topic=x", "seconds=60", "--deadline", "1s"],
            14,
            "the deadline is over; the task may go on",
        ),
        (&["add", "a=x", "b=2"], 2, "must be a number"),
        (&["add", "a:={", "b=2"], 2, "is no JSON"),
        (&[], 2, "which tool?"),
    ] {
        let ran = call(words);
        assert!(ran.code == code && ran.err.contains(said), "{words:?}: {ran:?}");
    }
    let nobody = demo.run(&["call", "http://127.0.0.1:1/mcp", "add"]);
    assert!(nobody.code == 15 && nobody.err.contains("127.0.0.1:1"), "{nobody:?}");
    let unknown = demo.run(&["get", &demo.url, &"0".repeat(48)]);
    assert_eq!(unknown.code, 16, "{unknown:?}");
    let nowhere = demo.run(&["call", "some-name", "add"]);
    assert!(nowhere.code == 2 && nowhere.err.contains("some-name"), "{nowhere:?}");
}

/// A call, from its handle to its result, in several processes.
#[test]
fn a_task_is_left_and_come_back_to() {
    let served = Served::tasks();
    let handle = served.detached(&["slow_report", "topic=tides", "seconds=2"]);
    let state = served.run(&["get", &handle, "--output", "json"]);
    assert!(state.lines()[0]["status"] == "working" && state.code == 0, "{state:?}");
    let id = state.lines()[0]["taskId"].as_str().expect("an id").to_owned();
    let named = served.run(&["get", &served.url, &id]);
    assert!(named.code == 0 && named.out.contains(&id), "{named:?}");
    let both = served.detached(&["slow_report", "topic=winds", "seconds=1"]);
    let watched = served.run(&["watch", &handle, &both]);
    assert_eq!(watched.code, 0, "{watched:?}");
    // The tool is not called again, and nothing says that it is.
    assert!(watched.err.contains("looking for it") && !watched.err.contains("calling"), "{watched:?}");
    let places = ["tides", "winds"].map(|topic| watched.out.find(topic).expect("its report"));
    assert!(places[0] < places[1], "{watched:?}");
    let result = served.run(&["result", &handle]);
    assert!(result.out.contains("tides") && result.err.is_empty() && result.code == 0, "{result:?}");
}

#[test]
fn a_cancelled_task_says_so_to_whoever_comes_back() {
    let served = Served::tasks();
    let handle = served.detached(&["slow_report", "topic=x", "seconds=600"]);
    let cancelled = served.run(&["cancel", &handle, "--output", "json"]);
    assert!(cancelled.code == 0 && cancelled.lines()[0]["status"] == "cancelled", "{cancelled:?}");
    let watched = served.run(&["watch", &handle]);
    assert_eq!(watched.code, 12, "{watched:?}");
}

/// Arguments come as words, as text, from a file and from stdin; words go over the rest.
#[test]
fn arguments_come_from_anywhere() {
    let demo = Served::demo();
    let file = demo.file("arguments.json", "{\"a\": 20, \"b\": 1}");
    let at = format!("@{file}");
    for words in [
        &["--json", "{\"a\": 20, \"b\": 1}"][..],
        &["--json", &at],
        &["--json", "{}", "a:=20", "b=1"],
        &["--json", &at, "b=1"],
    ] {
        let ran = demo.run(&[&["call", &demo.url, "add"], words].concat());
        assert!(ran.code == 0 && ran.out == "21\n", "{words:?}: {ran:?}");
    }
}

/// A server that is a command, and one that has its name in a project's file.
#[test]
fn a_server_can_be_a_command_or_a_name() {
    let demo = Served::demo();
    let wrap =
        [env!("CARGO_BIN_EXE_taskgate"), "wrap", "--store", "memory", "--", env!("CARGO_BIN_EXE_taskgate")];
    let config = json!({"mcpServers": {
        "demo": {"url": demo.url},
        "broken": {"command": wrap[0], "args": &wrap[1..]},
    }});
    demo.file(".mcp.json", &config.to_string());
    let named = demo.run(&["call", "demo", "add", "a=1", "b=2"]);
    assert!(named.code == 0 && named.out == "3\n", "{named:?}");
    let tools = demo.run(&["tools", "demo", "--output", "json"]);
    let names: Vec<_> = tools.lines().iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(names, ["slow_report", "book_table", "always_fails", "add"], "{tools:?}");
    // It ends at once, since it has no command to run: its server is not available.
    let broken = demo.run(&["call", "broken", "add"]);
    assert!([11, 15].contains(&broken.code), "{broken:?}");
    let unstartable = demo.run(&["tools", "--", "/nowhere/at/all"]);
    assert_eq!(unstartable.code, 15, "{unstartable:?}");
    let two = demo.run(&["tools", "demo", "--", "true"]);
    assert!(two.code == 2 && two.err.contains("two servers"), "{two:?}");
}

/// A handle as anybody could write one.
fn forged(endpoint: &str, name: Option<&str>) -> String {
    let written = json!([endpoint, name, "2026-07-28", "some-id", "tool", 0]);
    format!("tg1_{}", URL_SAFE_NO_PAD.encode(written.to_string()))
}

/// Case 37: nobody sees where a handle leads, so no credentials follow it, and no server is started for a task that is not its own.
#[test]
fn a_handle_leads_no_credentials_away() {
    let demo = Served::demo();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("set");
    let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
    let started = demo.file("started", "");
    std::fs::remove_file(&started).expect("removed");
    let config = json!({"mcpServers": {
        "trap": {"url": url},
        "touch": {"command": "touch", "args": [started]},
    }});
    demo.file(".mcp.json", &config.to_string());
    let leads = [forged(&url, None), forged(&url, Some("trap"))];
    let credentials = [&["--header", "X-Key: sesame"][..], &["--bearer-env", "PATH"]];
    for verb in ["get", "watch", "result", "answer", "cancel"] {
        for (handle, credentials) in leads.iter().flat_map(|handle| credentials.map(|given| (handle, given)))
        {
            let ran = demo.run(&[&[verb, handle], credentials].concat());
            assert!(ran.code == 2 && ran.err.contains("a server that you name"), "{verb}: {ran:?}");
            assert!(!ran.err.contains("sesame"), "{ran:?}");
        }
        for named in ["touch", "trap"] {
            let foreign = forged("https://elsewhere.example/mcp", Some(named));
            let ran = demo.run(&[verb, &foreign]);
            assert!(ran.code == 2 && ran.err.contains("elsewhere.example"), "{verb}: {ran:?}");
            let ran = demo.run(&[verb, named, &foreign]);
            assert!(ran.code == 2 && ran.err.contains("elsewhere.example"), "{verb}: {ran:?}");
        }
    }
    let all = demo.run(&["resume", "--header", "X-Key: sesame"]);
    assert!(all.code == 2 && all.err.contains("a server that you name"), "{all:?}");
    assert!(listener.accept().is_err(), "somebody was told");
    assert!(!std::path::Path::new(&started).exists(), "a server was started");
    // Beside its server, a handle may be asked for with credentials.
    let handle = Served::tasks();
    let word = handle.detached(&["slow_report", "topic=x", "seconds=1"]);
    let ran = handle.run(&["get", &handle.url, &word, "--header", "X-Key: sesame"]);
    assert_eq!(ran.code, 0, "{ran:?}");
}

/// Without a terminal nobody can be asked: the first signal leaves the task to go on and says how to come back.
#[test]
fn a_signal_leaves_the_task_and_prints_its_handle() {
    let served = Served::tasks();
    for signal in ["INT", "TERM"] {
        let words = ["call", &served.url, "slow_report", "topic=x", "seconds=600", "--output", "json"];
        let mut child =
            served.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
        let mut out = BufReader::new(child.stdout.take().expect("stdout"));
        let mut first = String::new();
        out.read_line(&mut first).expect("a line");
        assert!(first.contains("\"accepted\""), "{first}");
        let killed = Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status();
        assert!(killed.expect("kill runs").success());
        let last = out.lines().map_while(Result::ok).last().expect("a last line");
        let ended = Ran::of(&child.wait_with_output().expect("it ends"));
        let last: serde_json::Value = serde_json::from_str(&last).expect("JSON");
        assert_eq!((ended.code, &last["event"]), (18, &json!("detached")), "{ended:?}");
        let handle = last["handle"].as_str().expect("a handle");
        let state = served.run(&["cancel", handle]);
        assert_eq!(state.code, 0, "the task went on: {state:?}");
    }
}

#[test]
fn shells_and_manuals_are_served() {
    let demo = Served::demo();
    let script = demo.run(&["completions", "bash"]);
    assert!(script.code == 0 && script.out.contains("complete") && script.out.contains("watch"));
    let page = demo.run(&["man"]);
    assert!(page.code == 0 && page.out.contains(".TH taskgate"));
    let folder = demo.store().with_file_name("man");
    assert_eq!(demo.run(&["man", crate::served::word(&folder)]).code, 0);
    assert!(folder.join("taskgate-call.1").is_file());
}
