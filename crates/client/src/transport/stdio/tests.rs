//! Real child processes.

use std::time::{Duration, Instant};

use taskgate_task::Payload;
use taskgate_wire::{Id, Message, Version};

use super::*;
use crate::session::{CallFailure, CallOptions, Lane, OpenOptions, PendingCall, Session};
use crate::transport::{CloseCause, Inbound};

const LEGACY: Lane = Lane::Legacy(Version::V2025_11_25);

fn sh(script: &str) -> StdioCommand {
    let grace = Duration::from_millis(300);
    StdioCommand { grace, ..StdioCommand::new("sh").args(["-c", script]) }
}

/// A server in Python: `handle` is run for each request with `m` (the message), `reply(result)` and `send(object)`.
fn python(before: &str, handle: &str) -> StdioCommand {
    let handle = handle.replace('\n', "\n        ");
    let script = format!(
        r#"
import sys, json, os, signal, time
def send(o):
    sys.stdout.write(json.dumps(o) + "\n"); sys.stdout.flush()
{before}
for line in sys.stdin:
    m = json.loads(line)
    def reply(result):
        send({{"jsonrpc": "2.0", "id": m["id"], "result": result}})
    if m["method"] == "initialize":
        reply({{"protocolVersion": "2025-11-25", "capabilities": {{}}, "serverInfo": {{"name": "p", "version": "1"}}}})
    elif m["method"] == "server/discover":
        send({{"jsonrpc": "2.0", "id": m["id"], "error": {{"code": -32601, "message": "no"}}}})
    elif m["method"] != "notifications/initialized":
        {handle}
"#
    );
    StdioCommand { grace: Duration::from_millis(300), ..StdioCommand::new("python3").args(["-c", &script]) }
}

async fn open(command: &StdioCommand) -> Session {
    let link = spawn(command).expect("spawn");
    Session::open(link, OpenOptions::new("test", "1")).await.expect("open")
}

fn call(session: &Session, params: &str) -> PendingCall {
    let params = Payload::parse(params.to_owned()).expect("JSON");
    session.call(LEGACY, "tools/call", Some(params.as_raw()), CallOptions::default())
}

/// Whether a process runs; one that is dead and not yet reaped by whoever inherited it does not.
pub(super) fn runs(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    !stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with(['Z', 'X']))
}

pub(super) async fn gone(pid: u32) {
    let limit = Instant::now() + Duration::from_secs(3);
    while runs(pid) {
        assert!(Instant::now() < limit, "process {pid} is still there");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Reads the ids a script prints as JSON-RPC notifications: `{"pids":[...]}`.
async fn pids(link: &mut Link) -> Vec<u32> {
    match link.inbound.recv().await {
        Some(Inbound::Message { message: Message::Notification { params: Some(params), .. }, .. }) => {
            let value: serde_json::Value = serde_json::from_str(params.as_str()).expect("JSON");
            serde_json::from_value(value["pids"].clone()).expect("ids")
        }
        other => panic!("unexpected: {other:?}"),
    }
}

const SAY_PIDS: &str = r#"echo "{\"jsonrpc\":\"2.0\",\"method\":\"pids\",\"params\":{\"pids\":[$$,$!]}}""#;

/// Case 5.
#[tokio::test]
async fn a_child_that_dies_during_a_call_fails_it_at_once_and_says_how() {
    let handle =
        "sys.stderr.write('lost my mind\\n'); sys.stderr.flush()\nos.kill(os.getpid(), signal.SIGKILL)";
    let session = open(&python("", handle)).await;
    let before = Instant::now();
    let failure = call(&session, r#"{"name":"die"}"#).outcome().await.expect_err("it died");
    assert!(before.elapsed() < Duration::from_secs(1), "{:?}", before.elapsed());
    let text = failure.to_string();
    assert!(text.contains("signal 9") && text.contains("lost my mind"), "{text}");
    assert_eq!(session.closed().await.cause, CloseCause::Signalled(9));
}

#[tokio::test]
async fn an_exit_code_is_reported() {
    let session = open(&python("", "sys.exit(7)")).await;
    let failure = call(&session, "{}").outcome().await.expect_err("it exited");
    assert!(failure.to_string().contains("exited with code 7"), "{failure}");
}

/// Case 5, the control.
#[tokio::test]
async fn a_child_that_is_silent_stays_alive() {
    let session = open(&python("", "pass")).await;
    let mut pending = call(&session, "{}");
    assert!(tokio::time::timeout(Duration::from_secs(2), pending.next()).await.is_err());
    let pid = session.process().expect("process").pid();
    assert!(runs(pid));
    session.close().await;
    assert!(!runs(pid));
    assert!(matches!(pending.outcome().await, Err(CallFailure::Closed(_))));
}

/// Case 31.
#[tokio::test]
async fn more_than_a_pipe_holds_goes_both_ways_at_once() {
    let before = "send({'jsonrpc': '2.0', 'method': 'x', 'params': {'fill': 'y' * (1 << 20)}})";
    let handle = "reply({'got': len(m['params']['arguments']['a'])})";
    let link = spawn(&python(before, handle)).expect("spawn");
    let big = "z".repeat(1 << 20);
    // Written before anything was read: the child fills its pipe first.
    let params = Payload::parse(format!(r#"{{"arguments":{{"a":"{big}"}}}}"#)).expect("JSON");
    let request =
        Message::Request { id: Id::number(1), method: "tools/call".to_owned(), params: Some(params) };
    let mut link = link;
    link.out.send(request).await.expect("open");
    let Some(Inbound::Message { message: Message::Notification { params, .. }, .. }) =
        link.inbound.recv().await
    else {
        panic!("the child's first message is missing")
    };
    assert!(params.expect("params").as_str().len() > 1 << 20);
    let Some(Inbound::Message { message: Message::Response { result, .. }, .. }) = link.inbound.recv().await
    else {
        panic!("the answer is missing")
    };
    assert_eq!(result.as_str(), r#"{"got": 1048576}"#);
}

/// Cases 19, 32 and 33: whatever is no message is skipped.
#[tokio::test]
async fn banners_line_ends_and_broken_lines_do_not_matter() {
    let script = r#"
printf '\357\273\277Server started on stdio\n\n'
printf '{"jsonrpc":"2.0","method":"a"}\r\n'
printf '\377\376\n'
printf '%0200d\n' 0
printf '[{"jsonrpc":"2.0","method":"b"},{"jsonrpc":"2.0","method":"c"}]\n'
printf '{"jsonrpc":"2.0","method":"d","params":{"t":"\360\237'; sleep 0.05; printf '\230\200"}}'
"#;
    let mut link = spawn(&StdioCommand { line_limit: 100, ..sh(script) }).expect("spawn");
    let mut seen = Vec::new();
    let reason = loop {
        match link.inbound.recv().await.expect("an end") {
            Inbound::Message { message: Message::Notification { method, params }, .. } => {
                seen.push(format!("{method}{}", params.map(|p| p.as_str().to_owned()).unwrap_or_default()));
            }
            Inbound::Malformed(malformed) => seen.push(malformed.error.code.number().to_string()),
            Inbound::Closed(reason) => break reason,
            other => panic!("unexpected: {other:?}"),
        }
    };
    assert_eq!(seen, ["-32700", "a", "-32700", "-32600", "b", "c", "d{\"t\":\"😀\"}"]);
    assert_eq!(reason.cause, CloseCause::Exited(0));
}

#[tokio::test]
async fn every_message_is_one_line_and_ends_with_lf_only() {
    let link = spawn(&sh("head -n 2 >&2")).expect("spawn");
    let params = Payload::parse("{\r\n \"a\":\n 1}".to_owned()).expect("JSON");
    for method in ["a", "b"] {
        let message = Message::Notification { method: method.to_owned(), params: Some(params.clone()) };
        link.out.send(message).await.expect("open");
    }
    let control = link.control.clone().expect("process");
    let reason = control.ended().await;
    let line = |method: &str| {
        format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\",\"params\":{{   \"a\":  1}}}}\n")
    };
    assert_eq!(reason.stderr.as_deref(), Some(format!("{}{}", line("a"), line("b")).as_str()));
}

/// Case 16: whoever ends it and however it behaves, nobody of the group stays.
#[tokio::test]
async fn the_whole_group_ends_with_the_link() {
    for script in [
        // Ends by itself when stdin is closed; its child would not.
        format!("sleep 300 </dev/null & {SAY_PIDS}; cat >/dev/null"),
        // Ignores the end of stdin.
        format!("sleep 300 & {SAY_PIDS}; exec sleep 300"),
        // Ignores SIGTERM too.
        format!("trap '' TERM; sleep 300 & {SAY_PIDS}; while :; do sleep 1; done"),
    ] {
        let mut link = spawn(&sh(&script)).expect("spawn");
        let all = pids(&mut link).await;
        assert!(all.iter().all(|pid| runs(*pid)), "{script}");
        drop(link);
        for pid in all {
            gone(pid).await;
        }
    }
}

/// Case 16: the leader has already exited, and the grandchild holds the pipes.
#[tokio::test]
async fn a_leader_that_exits_takes_its_group_along() {
    let mut link = spawn(&sh(&format!("sleep 300 & {SAY_PIDS}; exit 3"))).expect("spawn");
    let before = Instant::now();
    let all = pids(&mut link).await;
    let Some(Inbound::Closed(reason)) = link.inbound.recv().await else { panic!("no end") };
    assert_eq!(reason.cause, CloseCause::Exited(3));
    assert!(before.elapsed() < Duration::from_secs(1));
    gone(all[1]).await;
}

#[tokio::test]
async fn a_child_that_closes_its_stdout_is_reported_and_then_stopped() {
    let mut link = spawn(&sh(&format!("{SAY_PIDS}; exec >&- 2>&-; exec sleep 300")).clone()).expect("spawn");
    let Some(Inbound::Malformed(_) | Inbound::Message { .. }) = link.inbound.recv().await else { panic!() };
    let Some(Inbound::Closed(reason)) = link.inbound.recv().await else { panic!("no end") };
    assert_eq!(reason.cause, CloseCause::PeerClosed);
    let control = link.control.clone().expect("process");
    control.ended().await;
    gone(control.pid()).await;
}

#[tokio::test]
async fn stop_flushes_and_waits_while_kill_does_not() {
    let mut slow = sh(&format!("{SAY_PIDS}; cat >/dev/null; sleep 0.2; echo done >&2; exit 4"));
    slow.grace = Duration::from_secs(5);
    let link = spawn(&slow).expect("spawn");
    let control = link.control.clone().expect("process");
    control.stop();
    let reason = control.ended().await;
    assert_eq!((reason.cause, reason.stderr.as_deref()), (CloseCause::Requested, Some("done\n")));

    let mut stuck = sh("trap '' TERM; while :; do sleep 1; done");
    stuck.grace = Duration::from_secs(60);
    let link = spawn(&stuck).expect("spawn");
    let control = link.control.clone().expect("process");
    control.stop();
    control.kill();
    tokio::time::timeout(Duration::from_secs(2), control.ended()).await.expect("killed");
    gone(control.pid()).await;
}

/// Nothing is left behind even when nobody has the time to stop it in an orderly way.
#[test]
fn the_group_ends_with_the_runtime() {
    let runtime = tokio::runtime::Runtime::new().expect("runtime");
    let (link, all) = runtime.block_on(async {
        let mut link = spawn(&sh(&format!("sleep 300 & {SAY_PIDS}; exec sleep 300"))).expect("spawn");
        let all = pids(&mut link).await;
        (link, all)
    });
    runtime.shutdown_background();
    drop(link);
    let limit = Instant::now() + Duration::from_secs(3);
    while all.iter().any(|pid| runs(*pid)) {
        assert!(Instant::now() < limit, "left behind: {all:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[tokio::test]
async fn a_program_that_does_not_exist_is_an_error() {
    let error = spawn(&StdioCommand::new("/no/such/program")).expect_err("missing");
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
}

#[tokio::test]
async fn environment_and_directory_are_as_ordered() {
    let mut command = sh(r#"echo "$A $HOME $(pwd)" >&2"#);
    command.env = vec![("A".to_owned(), "b".to_owned()), ("PATH".to_owned(), "/usr/bin:/bin".to_owned())];
    command.clear_env = true;
    command.cwd = Some("/".into());
    let link = spawn(&command).expect("spawn");
    let reason = link.control.clone().expect("process").ended().await;
    assert_eq!(reason.stderr.as_deref(), Some("b  /\n"));
}

#[tokio::test]
async fn a_missing_directory_is_not_called_a_missing_program() {
    let nowhere = StdioCommand { cwd: Some("/no/such/place".into()), ..sh("true") };
    let said = spawn(&nowhere).expect_err("no directory").to_string();
    assert!(said.contains("no directory") && said.contains("/no/such/place"), "{said}");
    let said = spawn(&StdioCommand::new("/no/such/program")).expect_err("no program").to_string();
    assert!(!said.contains("directory \""), "{said}");
}
