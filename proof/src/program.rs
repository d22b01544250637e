//! A program under test: started, watched, killed.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use crate::wait;

/// A running program. It is killed when dropped.
pub struct Program {
    child: Child,
    said: Arc<Mutex<String>>,
}

impl Program {
    /// Starts it with a pipe on stderr; stdin and stdout stay as the command has them.
    pub fn start(mut command: Command) -> Program {
        command.stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
        let stderr = BufReader::new(child.stderr.take().expect("stderr is a pipe"));
        let said = Arc::new(Mutex::new(String::new()));
        let heard = said.clone();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let mut said = heard.lock().expect("nobody panics with it");
                said.push_str(&line);
                said.push('\n');
            }
        });
        Program { child, said }
    }

    /// Starts a server on a free loopback port and waits until it says where it listens.
    pub fn serve(mut command: Command) -> (Program, SocketAddr) {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let mut program = Program::start(command);
        let address = wait::until("the server's address", || {
            let said = program.said();
            let found = said.lines().find_map(|line| {
                let rest = line.split_once("http://")?.1;
                rest[..rest.find('/')?].parse().ok()
            });
            if found.is_none()
                && let Ok(Some(status)) = program.child.try_wait()
            {
                panic!("the server ended with {status} before it served:\n{}", program.said());
            }
            found
        });
        (program, address)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The process, for its pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Everything it has written on stderr.
    pub fn said(&self) -> String {
        self.said.lock().expect("nobody panics with it").clone()
    }

    /// `kill -9`, and waits until it is gone.
    pub fn kill(mut self) {
        self.end();
    }

    /// SIGTERM; it must end by itself and without complaint.
    #[track_caller]
    pub fn terminate(self) {
        self.terminate_by("TERM");
    }

    /// The same by another signal.
    #[track_caller]
    pub fn terminate_by(mut self, name: &str) {
        signal(self.pid(), name);
        let status =
            wait::until("an end in good order", || self.child.try_wait().expect("it can be waited for"));
        assert!(status.success(), "it ended with {status}:\n{}", self.said());
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.end();
        if std::thread::panicking() {
            eprintln!("stderr of {}:\n{}", self.pid(), self.said());
        }
    }
}

/// Sends a signal to a process.
pub fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &pid.to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()), "cannot send {name} to {pid}");
}

/// The command lines of living processes that hold `mark`.
pub fn processes_with(mark: &str) -> Vec<String> {
    living(mark).map(|(_, line)| line).collect()
}

/// The id of a living process whose command line holds `mark`.
pub fn pid_with(mark: &str) -> Option<u32> {
    living(mark).map(|(pid, _)| pid).next()
}

fn living(mark: &str) -> impl Iterator<Item = (u32, String)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        // A zombie has no command line any more: it is dead, only nobody has asked for its status yet.
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        Some((pid, String::from_utf8_lossy(&line).replace('\0', " ")))
    });
    processes.filter(move |(_, line)| line.contains(mark))
}

/// Waits until no process has `mark` in its command line.
#[track_caller]
pub fn nothing_left_of(mark: &str) {
    wait::until(&format!("the end of every process of {mark}"), || {
        processes_with(mark).is_empty().then_some(())
    });
}
