//! The real program under very many clients that only listen.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use taskgate_proof::program::Program;
use taskgate_proof::{programs, wait};

/// How many streams there shall be.
const STREAMS: usize = 10_000;

/// Issue "Limits", load: ten thousand idle streams of one process. Each costs so much memory and no more, calls are answered meanwhile, the
/// numbers tell of them, and nothing is left of them when their clients have gone.
#[test]
fn ten_thousand_clients_listen_to_one_process() {
    // Two sides need a descriptor each; where there are fewer, there are fewer streams.
    let streams = STREAMS.min(open_files().saturating_sub(200));
    assert!(streams >= 500, "ulimit -n allows {streams} streams");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("taskgate.toml");
    let config = "listen = \"127.0.0.1:0\"\nstore = \"tasks.db\"\nsingle_user = true\n\
                  [metrics]\nlisten = \"127.0.0.1:0\"\n[[upstream]]\nname = \"demo\"\ndemo = true\n";
    std::fs::write(&file, config).expect("the folder can be written");
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n $(ulimit -H -n); exec \"$0\" serve --config \"$1\""]);
    command.arg(programs::taskgate()).arg(&file);
    let (program, address) = Program::serve(command);
    let numbers = wait::until("the address of the numbers", || {
        let said = program.said();
        let rest = said.split_once("numbers at http://")?.1;
        rest.get(..rest.find('/')?)?.parse::<SocketAddr>().ok()
    });
    assert!(get(numbers, "/healthz").ends_with("ok\n"));
    assert!(call(address).contains("\"text\":\"3\""));
    let before = resident(program.pid());
    let listening: Vec<TcpStream> = (0..streams).map(|_| listen(address)).collect();
    let each = resident(program.pid()).saturating_sub(before) / streams as u64;
    println!("{each} resident bytes for an idle stream and its connection, of {streams}");
    assert!(each < 64 * 1024, "{each} bytes each");
    let line = format!("taskgate_streams {streams}\n");
    let said = get(numbers, "/metrics");
    assert!(said.contains(&line), "{line}{said}");
    assert!(call(address).contains("\"text\":\"3\""), "whoever works is answered");
    drop(listening);
    wait::until("the end of the streams", || {
        get(numbers, "/metrics").contains("taskgate_streams 0\n").then_some(())
    });
    program.terminate();
}

/// How many files this process may have open.
fn open_files() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").expect("limits");
    let line = limits.lines().find(|line| line.starts_with("Max open files")).expect("a line");
    let soft = line.split_whitespace().nth(3).expect("the soft limit");
    soft.parse().unwrap_or(usize::MAX)
}

/// What a process has in memory, in bytes.
fn resident(pid: u32) -> u64 {
    let pages = std::fs::read_to_string(format!("/proc/{pid}/statm")).expect("statm");
    pages.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("pages") * 4096
}

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}"#;

fn post(address: SocketAddr, method: &str, name: &str, params: &str) -> TcpStream {
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{params},{META}}}}}"#);
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nAccept: application/json, \
         text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n{name}Content-Length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time-out");
    stream.write_all(format!("{head}{body}").as_bytes()).expect("a request");
    stream
}

/// Reads until this has come.
fn until(stream: &mut TcpStream, what: &str) -> String {
    let (mut said, mut buffer) = (String::new(), [0; 4096]);
    while !said.contains(what) {
        let count = stream.read(&mut buffer).unwrap_or_else(|error| panic!("{error}, after: {said}"));
        assert!(count > 0, "the connection ended after: {said}");
        said.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
    said
}

/// A subscription that hears of nothing.
fn listen(address: SocketAddr) -> TcpStream {
    let mut stream = post(address, "subscriptions/listen", "", r#""notifications":{"taskIds":[]}"#);
    until(&mut stream, "notifications/subscriptions/acknowledged");
    stream
}

fn call(address: SocketAddr) -> String {
    let params = r#""name":"add","arguments":{"a":1,"b":2}"#;
    until(&mut post(address, "tools/call", "Mcp-Name: add\r\n", params), "isError")
}

fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("a connection");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("a request");
    let mut said = String::new();
    stream.read_to_string(&mut said).expect("an answer");
    said
}
