//! What programs read: the lines of JSON, with what differs from one run to the next replaced.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::asker;
use crate::served::Served;

/// Names instead of ids, handles and times.
fn stable(mut value: Value) -> Value {
    let replace = |value: &mut Value, name: &str, stands: &str| {
        if let Some(member) = value.get_mut(name) {
            *member = json!(stands);
        }
    };
    for (name, stands) in [
        ("handle", "HANDLE"),
        ("taskId", "ID"),
        ("createdAt", "TIME"),
        ("lastUpdatedAt", "TIME"),
        ("ttlMs", "TTL"),
    ] {
        replace(&mut value, name, stands);
    }
    value
}

/// Whether `said` is `expected` in this order, with more states of the work between where it was looked at more often.
fn check(said: &[Value], expected: &[Value]) {
    let mut rest = said.iter().cloned().map(stable).peekable();
    for line in expected {
        let found = rest.by_ref().find(|said| {
            let is_it = said == line;
            assert!(
                is_it || ["status", "progress"].contains(&said["event"].as_str().unwrap_or("")),
                "{said} is not {line}"
            );
            is_it
        });
        assert!(found.is_some(), "{line} is missing in {said:#?}");
    }
    assert!(rest.next().is_none(), "something comes after the last line");
}

/// JSON may have ends of lines between its members, and some programs take other characters for ends of lines, too.
#[test]
fn a_line_stays_one_however_the_server_writes_its_json() {
    let served = Served::demo();
    let words = ["call", "ask", "--output", "json", "--", "sh", "-c", asker::SCRIPT];
    let result = "{\"content\":[],\r\"x\":\"\u{85}\u{2028}\u{9b}2J\"}";
    let output = served.command(&words).env("RESULT", result).output().expect("it runs");
    let said = String::from_utf8(output.stdout).expect("text");
    let lines: Vec<&str> = said.split(['\n', '\r', '\u{85}', '\u{2028}', '\u{9b}']).collect();
    let [line, ""] = lines[..] else { panic!("{said:?} is not one line") };
    let line: Value = serde_json::from_str(line).expect("JSON");
    assert_eq!(line["result"]["x"], "\u{85}\u{2028}\u{9b}2J");
}

/// Whoever reads slowly, or not at all, does not have this program remember everything that a server says.
#[test]
fn what_nobody_reads_is_forgotten() {
    let served = Served::demo();
    let words = ["call", "ask", "--log-level", "debug", "--output", "json", "--", "sh", "-c", asker::SCRIPT];
    let flooded = served.store().with_file_name("flooded");
    assert!(Command::new("mkfifo").arg(&flooded).status().expect("mkfifo").success());
    let flood = json!({"jsonrpc": "2.0", "method": "notifications/message",
                       "params": {"level": "info", "data": "x".repeat(200)}});
    let mut call = served.command(&words);
    let call = call.env("FLOOD", flood.to_string()).env("FLOODED", &flooded).stdout(Stdio::piped());
    let call = call.spawn().expect("it runs");
    // Opens once the server has said it all.
    std::fs::read(&flooded).expect("the server opens it");
    let said = call.wait_with_output().expect("it ends").stdout;
    let said = String::from_utf8(said).expect("text");
    assert!(said.lines().last().expect("a result").contains(r#""event":"result""#));
    assert!(said.lines().count() < 10_000, "{} lines", said.lines().count());
}

#[test]
fn a_call_that_is_a_task() {
    let served = Served::tasks();
    let ran = served.run(&["call", &served.url, "slow_report", "topic=x", "seconds=1", "--output", "json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    check(
        &ran.lines(),
        &[
            json!({"event": "accepted", "handle": "HANDLE", "taskId": "ID", "tool": "slow_report"}),
            json!({"event": "status", "taskId": "ID", "status": "completed", "createdAt": "TIME", "lastUpdatedAt": "TIME",
                   "ttlMs": "TTL", "pollIntervalMs": 1000}),
            json!({"event": "result", "isError": false, "result": {"resultType": "complete", "content": [
                {"type": "text", "text": "Report on x: 1 pages in 1 seconds, and all is well."}], "isError": false}}),
        ],
    );
}

#[test]
fn a_call_that_is_answered_at_once() {
    let demo = Served::demo();
    let ran = demo.run(&["call", &demo.url, "add", "a=1", "b=2", "--output", "json"]);
    let result = json!({"event": "result", "isError": false, "result": {"resultType": "complete", "content": [
        {"type": "text", "text": "3"}], "isError": false}});
    check(&ran.lines(), &[result]);
}

#[test]
fn calls_that_fail() {
    let demo = Served::demo();
    let ran = demo.run(&["call", &demo.url, "nope", "--output", "json"]);
    let error = json!({"event": "error", "kind": "tool_not_found",
        "message": "the server has no tool \"nope\": Unknown tool: nope (-32602)",
        "error": {"code": -32602, "message": "Unknown tool: nope"}});
    check(&ran.lines(), &[error]);
    let ran = demo.run(&["call", &demo.url, "always_fails", "--output", "json"]);
    let last = ran.lines().pop().expect("a last line");
    assert_eq!((&last["event"], &last["isError"], ran.code), (&json!("result"), &json!(true), 10));
}

#[test]
fn a_call_that_asks() {
    let served = Served::tasks();
    let ran = served.run(&["call", &served.url, "book_table", "guests=4", "--output", "json"]);
    let time = json!({"type": "string", "title": "Time", "enum": ["18:00", "19:30", "21:00"]});
    let form = json!({"mode": "form", "message": "At what time do you want a table for 4?",
        "requestedSchema": {"type": "object", "properties": {"time": time}, "required": ["time"]}});
    let why = "nobody is here to be asked; give the answer with --answer, or later with `taskgate answer`";
    check(
        &ran.lines(),
        &[
            json!({"event": "accepted", "handle": "HANDLE", "taskId": "ID", "tool": "book_table"}),
            json!({"event": "asked", "key": "time", "method": "elicitation/create", "params": form}),
            json!({"event": "needs_input", "key": "time", "why": why, "handle": "HANDLE"}),
        ],
    );
}

#[test]
fn a_task_and_its_tools() {
    let served = Served::tasks();
    let handle = served.detached(&["slow_report", "topic=x", "seconds=600"]);
    let got = served.run(&["get", &handle, "--output", "json"]);
    let state = json!({"taskId": "ID", "status": "working", "createdAt": "TIME", "lastUpdatedAt": "TIME",
        "ttlMs": "TTL", "pollIntervalMs": 1000});
    assert_eq!(stable(got.lines().remove(0)), state);
}
