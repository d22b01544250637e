//! What a server logs: during a call, and apart from calls.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::served::Served;

/// A server of 2025-11-25 that logs at once when its level is set, and says which level that is.
const TALKATIVE: &str = r#"
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$1" "$2"; }
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\("[^"]*"\|[0-9]*\).*/\1/p')
  case "$line" in
    *'"method":"initialize"'*)
      answer "$id" '{"protocolVersion":"2025-11-25","capabilities":{"logging":{}},"serverInfo":{"name":"talkative","version":"1"}}' ;;
    *'"method":"logging/setLevel"'*)
      level=$(printf '%s' "$line" | sed 's/.*"level":"\([a-z]*\)".*/\1/')
      answer "$id" '{}'
      printf '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"%s","logger":"db","data":"gone"}}\n' "$level" ;;
    *'"method":"notifications/'*) ;;
    *'"method":'*)
      printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}\n' "$id" ;;
  esac
done
"#;

/// The demo logs an error during a call (which is none of a task: what is logged in one has no stream to go by); whoever does not want such messages is not told.
#[test]
fn a_call_shows_what_its_server_logs() {
    let served = Served::demo();
    let call = |more: &[&str]| {
        served.run(&[&["call", &served.url, "always_fails", "--tasks", "never"], more].concat())
    };
    for (level, is_told) in
        [(&[][..], false), (&["--log-level", "critical"], false), (&["--log-level", "error"], true)]
    {
        let called = call(level);
        assert_eq!(called.err.contains("error: Nothing works today."), is_told, "{level:?}: {called:?}");
    }
    let lines = call(&["--log-level", "debug", "--output", "json"]).lines();
    let log = lines.iter().find(|line| line["event"] == "log").expect("a message");
    let said = (&log["params"]["level"], &log["params"]["data"]);
    assert_eq!(said, (&json!("error"), &json!("Nothing works today.")));
    let wrong = call(&["--log-level", "loud"]);
    assert!(wrong.code != 0 && wrong.err.contains("emergency"), "{wrong:?}");
}

/// What is logged comes as it comes, and Ctrl-C is how that ends.
#[test]
fn logs_are_printed_until_somebody_has_heard_enough() {
    let served = Served::demo();
    let params = json!({ "level": "info", "logger": "db", "data": "gone" });
    for (words, expected) in [
        (&["--level", "warning"][..], json!("warning db: gone")),
        (&["--output", "json"], json!({ "event": "log", "params": params })),
    ] {
        let words = [&["logs"], words, &["--", "sh", "-c", TALKATIVE]].concat();
        let mut listening = served.command(&words).stdout(Stdio::piped()).spawn().expect("it runs");
        let mut line = String::new();
        BufReader::new(listening.stdout.as_mut().expect("stdout")).read_line(&mut line).expect("a line");
        let read = serde_json::from_str(&line).unwrap_or_else(|_| Value::from(line.trim_end()));
        assert_eq!(read, expected);
        let stopped = Command::new("kill").args(["-INT", &listening.id().to_string()]).status();
        assert!(stopped.expect("kill runs").success());
        assert!(listening.wait().expect("it ends").success());
    }
}

/// It can be told how long to listen; a server that does not log says so at once.
#[test]
fn listening_has_an_end() {
    let served = Served::demo();
    let listened = served.run(&["logs", &served.url, "--for", "10ms"]);
    assert_eq!((listened.code, listened.out.as_str()), (0, ""), "{listened:?}");
    let silent = served.run(&["logs", "--", "sh", "-c", crate::asker::SCRIPT]);
    assert!(silent.code != 0 && silent.err.contains("logs nothing"), "{silent:?}");
}
