//! Starting what the tests talk to.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use taskgate_proof::program::Program;
use taskgate_proof::programs;

/// The example with all fixtures of the official suite, over HTTP with one known user and a store of its own.
pub struct Fixtures {
    _program: Program,
    pub address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Fixtures {
    pub fn start() -> Fixtures {
        let folder = tempfile::tempdir().expect("a folder");
        let (program, address) = Program::serve(fixtures("127.0.0.1:0", &folder.path().join("tasks.db")));
        Fixtures { _program: program, address, _folder: folder }
    }

    pub fn url(&self) -> String {
        url(self.address)
    }
}

/// The same fixtures in a process of their own, as a plain server over stdio behind the real `taskgate`.
pub fn plain() -> Fixtures {
    behind(&format!("command = [{:?}, \"--plain\"]", programs::example("conformance")))
}

/// The same fixtures over rmcp's own HTTP server, with no taskgate in front.
pub fn rmcp() -> Fixtures {
    let mut command = Command::new(programs::example("conformance"));
    command.arg("--plain-http");
    let (program, address) = Program::serve(command);
    Fixtures { _program: program, address, _folder: tempfile::tempdir().expect("a folder") }
}

/// A server behind the real `taskgate`, plainly: none of its calls becomes a task. `upstream` says how it is started.
pub fn behind(upstream: &str) -> Fixtures {
    let folder = tempfile::tempdir().expect("a folder");
    let config = format!(
        r#"
listen = "127.0.0.1:0"
single_user = true
store = "tasks.db"

[[upstream]]
name = "behind"
{upstream}

[upstream.defaults]
tasks = "never"
"#
    );
    let file = folder.path().join("taskgate.toml");
    std::fs::write(&file, config).expect("the folder can be written");
    let mut command = Command::new(programs::taskgate());
    command.args(["serve", "--config"]).arg(file);
    let (program, address) = Program::serve(command);
    Fixtures { _program: program, address, _folder: folder }
}

/// The command that serves the fixtures over HTTP.
pub fn fixtures(listen: &str, store: &Path) -> Command {
    let mut command = Command::new(programs::example("conformance"));
    command.args(["--single-user", "--listen", listen, "--store"]).arg(store);
    command
}

/// The command that serves the fixtures over stdio, with tasks in memory.
pub fn fixtures_stdio() -> Command {
    let mut command = Command::new(programs::example("conformance"));
    command.arg("--stdio");
    command
}

pub fn url(address: SocketAddr) -> String {
    format!("http://{address}/mcp")
}
