//! Four client runs that nobody in this project wrote, over HTTP and over stdio.

use std::process::Command;

use taskgate_proof::{peers, programs};

use crate::serve::Fixtures;

/// Every client over HTTP, one after the other against one server.
///
/// CASES 6, 7, 9, 15, 24 and 26, seen from outside.
#[test]
fn every_real_client_is_content_over_http() {
    let server = Fixtures::start();
    every_real_client(&server.url(), "over HTTP");
}

/// Runs every client against the server at this URL, one after the other.
pub fn every_real_client(url: &str, how: &str) {
    every_real_client_with(url, how, |_, _| {});
}

/// The same after the clients have been told more, by their names.
pub fn every_real_client_with(url: &str, how: &str, tell: impl Fn(&str, &mut Command)) {
    for (name, mut command) in clients() {
        tell(name, &mut command);
        if name.starts_with("ext-tasks") {
            command.arg("--url");
        }
        command.arg(url);
        peers::passed(&format!("{name} {how}"), command);
    }
}

/// Every client over stdio, each starting a server of its own.
///
/// CASES 6, 7, 9, 15, 24 and 26, seen from outside.
#[test]
fn every_real_client_is_content_over_stdio() {
    let server = programs::example("conformance");
    for (name, mut command) in clients() {
        command.arg("--stdio").arg(&server).arg("--stdio");
        peers::passed(&format!("{name} over stdio"), command);
    }
}

/// The roles exchanged: a client that makes tasks of what it is asked, and the gateway as their requestor.
#[test]
fn a_client_that_hosts_tasks_is_asked_as_one() {
    let server = Fixtures::start();
    let receiver = || peers::node_command(&peers::files().join("clients/exttasks-receiver.mjs"));
    let mut http = receiver();
    http.arg(server.url());
    peers::passed("the receiver of ext-tasks over HTTP", http);
    let mut stdio = receiver();
    stdio.arg("--stdio").arg(programs::example("conformance")).arg("--stdio");
    peers::passed("the receiver of ext-tasks over stdio", stdio);
}

fn clients() -> [(&'static str, Command); 4] {
    [
        ("ext-tasks 2026-07-28", ext_tasks("modern")),
        ("FastMCP 2026-07-28", fastmcp()),
        ("Python SDK 2025-11-25", python_sdk()),
        ("ext-tasks 2025-11-25", ext_tasks("legacy")),
    ]
}

/// The TypeScript SDK with its tasks extension; `modern` is 2026-07-28 and `legacy` 2025-11-25.
pub fn ext_tasks(era: &str) -> Command {
    let mut command = peers::node_command(&peers::files().join("clients/exttasks-client.mjs"));
    command.args(["--era", era, "--timeout", "150"]);
    command
}

/// FastMCP with its tasks.
pub fn fastmcp() -> Command {
    peers::python_command("fastmcp", &peers::files().join("clients/fastmcp-client.py"))
}

fn python_sdk() -> Command {
    peers::python_command("legacy", &peers::files().join("clients/py-legacy-client.py"))
}
