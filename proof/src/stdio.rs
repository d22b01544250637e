//! A client over pipes: both generations on one connection, every message seen.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Instant;

use serde_json::{Value, json};

use crate::program::Program;
use crate::{modern, session, wait};

/// A server behind pipes.
pub struct Pipe {
    program: Program,
    stdin: Option<ChildStdin>,
    lines: Receiver<Value>,
    waiting: VecDeque<Value>,
    next_id: u64,
}

impl Pipe {
    /// Starts the server.
    pub fn start(mut command: Command) -> Pipe {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut program = Program::start(command);
        let stdin = program.child().stdin.take();
        let stdout = BufReader::new(program.child().stdout.take().expect("stdout is a pipe"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let message = serde_json::from_str(&line).unwrap_or_else(|_| json!({ "not JSON": line }));
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        Pipe { program, stdin, lines, waiting: VecDeque::new(), next_id: 0 }
    }

    /// Writes a line.
    pub fn write(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        writeln!(stdin, "{line}").and_then(|()| stdin.flush()).expect("the server reads");
    }

    /// Sends a message.
    pub fn send(&mut self, message: &Value) {
        self.write(&message.to_string());
    }

    /// The first message that fits, whether it is here already or still to come. Others wait for their turn.
    #[track_caller]
    pub fn take(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        if let Some(place) = self.waiting.iter().position(&fits) {
            return self.waiting.remove(place).expect("it is there");
        }
        let end = Instant::now() + wait::DEADLINE;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(message) if fits(&message) => return message,
                Ok(message) => self.waiting.push_back(message),
                Err(RecvTimeoutError::Timeout) => {
                    panic!("waited in vain for {what}; there was only {:?}", self.waiting)
                }
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("the server ended before {what}; there was only {:?}", self.waiting)
                }
            }
        }
    }

    /// Takes the answer to the request with this id apart.
    #[track_caller]
    pub fn answer(&mut self, id: &Value) -> Result<Value, Value> {
        let message = self.take(&format!("the answer to {id}"), |message| {
            message["id"] == *id && message.get("method").is_none()
        });
        modern::answer(&message.to_string())
    }

    /// A request of the session: sent and answered.
    #[track_caller]
    pub fn in_session(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let id = self.fresh_id();
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        self.answer(&id)
    }

    /// A request of 2026-07-28: sent and answered.
    #[track_caller]
    pub fn modern(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let id = self.fresh_id();
        self.send(&modern::request(id.clone(), method, params, &modern::capabilities()));
        self.answer(&id)
    }

    /// Opens the session and returns what the server said of itself.
    #[track_caller]
    pub fn initialize(&mut self, version: &str) -> Value {
        let said =
            self.in_session("initialize", session::initialize(version)).expect("initialize is accepted");
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        said
    }

    /// An id that was not used before.
    pub fn fresh_id(&mut self) -> Value {
        self.next_id += 1;
        json!(self.next_id)
    }

    /// Closes stdin; the server must end by itself. Returns every message that nobody has taken.
    #[track_caller]
    pub fn close(mut self) -> Vec<Value> {
        self.stdin = None;
        let status =
            wait::until("the server's end", || self.program.child().try_wait().expect("can be waited for"));
        assert!(status.success(), "it ended with {status}:\n{}", self.program.said());
        let mut rest: Vec<Value> = self.waiting.drain(..).collect();
        rest.extend(self.lines.iter());
        rest
    }
}
