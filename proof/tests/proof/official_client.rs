//! The official conformance suite's client scenarios, with a small program around our client: `examples/conformance-client`.

use std::process::ExitStatus;
use std::time::Duration;

use serde_json::Value;
use taskgate_proof::{peers, programs};

use crate::official::results;

/// How long a whole suite may take.
const LIMIT: Duration = Duration::from_secs(300);

/// Every scenario of each version that is not about sending a person to a page, and how many checks passed in all when this was
/// written.
const SUITES: [(&str, &[&str], usize); 3] = [
    ("2025-06-18", &["initialize", "tools_call"], 3),
    (
        "2025-11-25",
        &[
            "initialize",
            "tools_call",
            "elicitation-sep1034-client-defaults",
            "sse-retry",
            "json-schema-2020-12-preservation",
        ],
        20,
    ),
    (
        "2026-07-28",
        &[
            "tools_call",
            "request-metadata",
            "sep-2322-client-request-state",
            "http-standard-headers",
            "http-custom-headers",
            "http-invalid-tool-headers",
            "json-schema-ref-no-deref",
            "json-schema-2020-12-preservation",
        ],
        62,
    ),
];

fn suite(arguments: &[&str]) -> (ExitStatus, String) {
    let client = programs::plain_example("conformance-client");
    let mut command = peers::node_command(&peers::npm("@modelcontextprotocol/conformance/dist/index.js"));
    command.arg("client").arg("--command").arg(client).args(arguments);
    let output = peers::run(command, LIMIT);
    let said = [output.stdout, output.stderr].concat();
    (output.status, String::from_utf8_lossy(&said).into_owned())
}

/// Issue 6, Proof: all scenarios of requests, headers, metadata and rounds of questions. What is skipped there is about what our
/// client does not declare (sampling, roots) or what a version does not have (`initialize` in 2026-07-28). The others stand in
/// `peers/expected-failures.yml`, and one that passes by now is a failure too.
#[test]
fn the_client_scenarios_pass() {
    let expected = peers::files().join("expected-failures.yml");
    let expected = expected.to_str().expect("a plain path");
    for (version, scenarios, least) in SUITES {
        let out = tempfile::tempdir().expect("a folder");
        let folder = out.path().to_str().expect("a plain path");
        let (ended, said) = suite(&[
            "--suite",
            "all",
            "--spec-version",
            version,
            "--expected-failures",
            expected,
            "-o",
            folder,
        ]);
        assert!(ended.success(), "{version}: {said}");
        let ran = results(out.path());
        let mut passed = 0;
        for scenario in scenarios {
            let found = ran.iter().find(|(name, _)| name == scenario);
            let (_, checks) = found.unwrap_or_else(|| panic!("{scenario} of {version} did not run: {said}"));
            let wrong: Vec<&Value> = checks
                .iter()
                .filter(|check| check["status"] == "FAILURE" || check["status"] == "WARNING")
                .collect();
            assert!(wrong.is_empty(), "{scenario} of {version}: {wrong:#?}");
            let good = checks.iter().filter(|check| check["status"] == "SUCCESS").count();
            assert!(good > 0, "{scenario} of {version} checked nothing: {checks:#?}");
            passed += good;
        }
        assert!(passed >= least, "only {passed} checks of {version} ran");
        println!("{version}: {passed} checks of {} client scenarios", scenarios.len());
    }
}

/// The one scenario of credentials that a program has without people, which no version's suite holds.
#[test]
fn the_client_has_credentials_of_its_own() {
    let (ended, said) = suite(&["--scenario", "auth/client-credentials-basic"]);
    assert!(ended.success() && said.contains("Passed: 9/9"), "{said}");
}
