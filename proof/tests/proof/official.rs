//! The official conformance suite against the fixtures behind the gateway.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use serde_json::Value;
use taskgate_proof::program::Program;
use taskgate_proof::{peers, wait};

use crate::serve::{Fixtures, behind, plain, rmcp};

/// The scenarios of the tasks extension. Each runs by name and without a version, since with one it is skipped.
const TASKS: [&str; 10] = [
    "tasks-lifecycle",
    "tasks-capability-negotiation",
    "tasks-wire-fields",
    "tasks-request-state-removal",
    "tasks-mrtr-input",
    "tasks-request-headers",
    "tasks-dispatch-and-envelope",
    "tasks-status-notifications",
    "tasks-required-task-error",
    "tasks-mrtr-composition",
];

/// The one scenario that the suite itself skips, whatever the server does.
const SKIPPED_BY_THE_SUITE: &str = "tasks-status-notifications";

/// How long a whole suite may take.
const LIMIT: Duration = Duration::from_secs(600);

/// All ten scenarios of the tasks extension pass every check.
///
/// CASES 6, 7, 8, 15 and 24, as far as the suite looks at them.
#[test]
fn every_check_of_the_tasks_scenarios_passes() {
    let server = Fixtures::start();
    let out = tempfile::tempdir().expect("a folder");
    let mut wrong = Vec::new();
    let mut passed = 0;
    for scenario in TASKS {
        let folder = out.path().join(scenario);
        let ended = suite(&server.url(), &folder, &["--scenario", scenario]);
        let ran = results(&folder);
        if ran.len() != 1 || ran[0].1.is_empty() {
            wrong.push(format!("{scenario} left no checks: {}", ended.1));
        }
        for check in ran.iter().flat_map(|(_, checks)| checks) {
            match check["status"].as_str() {
                Some("SUCCESS" | "INFO") => passed += 1,
                Some("SKIPPED") if scenario == SKIPPED_BY_THE_SUITE => {}
                _ => wrong.push(format!("{scenario}: {check:#}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(passed >= 44, "only {passed} checks ran");
    println!("tasks: {passed} checks passed");
}

/// No check of 2025-06-18 fails.
#[test]
fn the_suite_of_2025_06_18_passes() {
    generic(&Fixtures::start(), "2025-06-18", 27);
}

/// No check of 2025-11-25 fails. That of resuming only passes, rather than informs, on a server that closes connections.
#[test]
fn the_suite_of_2025_11_25_passes() {
    let ran = generic(&Fixtures::start(), "2025-11-25", 33);
    let mut checks = ran.iter().flat_map(|(_, checks)| checks);
    let resumed = checks.find(|check| check["id"] == "server-sse-disconnect-resume").expect("it ran");
    assert_eq!(resumed["status"], "SUCCESS", "{resumed:#}");
}

/// No check of 2026-07-28 fails.
#[test]
fn the_suite_of_2026_07_28_passes() {
    generic(&Fixtures::start(), "2026-07-28", 40);
}

/// The same with the fixtures in a process of their own, a server over stdio that taskgate starts.
#[test]
fn the_suites_pass_with_the_server_in_a_process_of_its_own() {
    let server = plain();
    for (version, scenarios) in [("2025-06-18", 27), ("2025-11-25", 33), ("2026-07-28", 40)] {
        generic(&server, version, scenarios);
    }
}

/// The same again with that server at a URL: every message crosses HTTP twice, in both ways a server can be spoken to.
#[test]
fn the_suites_pass_with_the_server_at_a_url() {
    at_a_url(&plain());
}

/// The same with rmcp's HTTP server there, which nobody here wrote.
#[test]
fn the_suites_pass_with_rmcp_at_a_url() {
    at_a_url(&rmcp());
}

/// What the suite of 2026-07-28 looks for, the keys of questions for example, does not exist in a session.
fn at_a_url(far: &Fixtures) {
    for (speak, suites) in [("auto", 3), ("session", 2)] {
        let server = behind(&format!("url = {:?}\nspeak = {speak:?}", far.url()));
        let versions = [("2025-06-18", 27), ("2025-11-25", 33), ("2026-07-28", 40)];
        for (version, scenarios) in versions.into_iter().take(suites) {
            generic(&server, version, scenarios);
        }
    }
}

/// Whatever the reference server passes when it is asked directly, it passes behind taskgate, which starts it over stdio.
///
/// It offers few of the suite's fixtures, so most scenarios have nothing to find there. Two pass by mistake: for tools it
/// does not have it answers with a tool error, in which they find what they look for, and taskgate with -32602. Those of
/// streams look at the HTTP server alone, and at ours with the fixtures they need in the tests above.
#[test]
fn the_reference_server_loses_nothing() {
    let script = peers::npm("@modelcontextprotocol/server-everything/dist/index.js");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    drop(listener);
    let mut direct = peers::node_command(&script);
    direct.arg("streamableHttp").env("PORT", port.to_string()).stdin(Stdio::null()).stdout(Stdio::null());
    let direct = Program::start(direct);
    wait::until("the reference server", || direct.said().contains("listening on port").then_some(()));
    let passed = |url: &str| -> BTreeSet<(String, String)> {
        let out = tempfile::tempdir().expect("a folder");
        suite(url, out.path(), &["--suite", "all", "--spec-version", "2025-11-25"]);
        let ran = results(out.path());
        let passed = ran.iter().flat_map(|(scenario, checks)| {
            let passed = checks.iter().filter(|check| check["status"] == "SUCCESS");
            passed.map(|check| (scenario.clone(), check["id"].as_str().unwrap_or_default().to_owned()))
        });
        passed.collect()
    };
    let alone = passed(&format!("http://127.0.0.1:{port}/mcp"));
    assert!(alone.len() >= 10, "it passes too little to show anything: {alone:?}");
    let node = peers::node();
    let behind = passed(&behind(&format!("command = [{node:?}, {script:?}, \"stdio\"]")).url());
    let excused = |scenario: &str| {
        scenario.starts_with("server-sse-")
            || ["tools-call-error", "tools-call-simple-text"].contains(&scenario)
    };
    let lost: Vec<_> = alone.difference(&behind).filter(|(scenario, _)| !excused(scenario)).collect();
    assert!(lost.is_empty(), "of {} checks are lost: {lost:#?}", alone.len());
    println!("the reference server passes {} checks, behind taskgate {}", alone.len(), behind.len());
}

/// Runs all scenarios of a version. What may fail or warn, and why, would stand in `peers/expected-failures.yml`; the
/// suite also complains of entries that pass by now.
fn generic(server: &Fixtures, version: &str, scenarios: usize) -> Vec<(String, Vec<Value>)> {
    let out = tempfile::tempdir().expect("a folder");
    let expected = peers::files().join("expected-failures.yml");
    let expected = expected.to_str().expect("a plain path");
    let ended = suite(
        &server.url(),
        out.path(),
        &["--suite", "all", "--spec-version", version, "--expected-failures", expected],
    );
    let ran = results(out.path());
    let fails = |check: &&Value| check["status"] == "FAILURE" || check["status"] == "WARNING";
    let wrong: Vec<&Value> = ran.iter().flat_map(|(_, checks)| checks).filter(fails).collect();
    assert!(ended.0.success(), "{wrong:#?}\n{}", ended.1);
    // A scenario that throws leaves no file behind.
    let silent: Vec<&String> =
        ran.iter().filter(|(_, checks)| checks.is_empty()).map(|(name, _)| name).collect();
    assert!(
        silent.is_empty() && ran.len() == scenarios,
        "{} scenarios ran, {silent:?} checked nothing",
        ran.len()
    );
    let checks: usize = ran.iter().map(|(_, checks)| checks.len()).sum();
    println!("{version}: {checks} checks of {scenarios} scenarios, {} of them excused", wrong.len());
    ran
}

/// Runs the suite; what it says is worth reading only when something went wrong.
fn suite(url: &str, out: &Path, arguments: &[&str]) -> (ExitStatus, String) {
    let mut command = peers::node_command(&peers::npm("@modelcontextprotocol/conformance/dist/index.js"));
    command.args(["server", "--url", url, "-o"]).arg(out).args(arguments);
    let output = peers::run(command, LIMIT);
    let said = [output.stdout, output.stderr].concat();
    (output.status, String::from_utf8_lossy(&said).into_owned())
}

/// The checks of every scenario that left some.
pub fn results(out: &Path) -> Vec<(String, Vec<Value>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(out).into_iter().flatten().flatten() {
        let Ok(text) = fs::read_to_string(entry.path().join("checks.json")) else { continue };
        let name = entry.file_name().to_string_lossy().into_owned();
        // server-SCENARIO-2026-01-31T…
        let scenario = name.strip_prefix("server-").unwrap_or(&name);
        let scenario = scenario.get(..scenario.len().saturating_sub("-2026-01-31T00-00-00-000Z".len()));
        let checks = serde_json::from_str(&text).expect("a list of checks");
        all.push((scenario.unwrap_or_default().to_owned(), checks));
    }
    all
}
