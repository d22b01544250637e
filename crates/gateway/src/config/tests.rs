//! The golden files in `golden/` are configurations with mistakes, each beside the text a user gets to see.
//! `TASKGATE_BLESS=1 cargo test -p taskgate-gateway config` writes these texts anew; read the difference before you keep it.

mod auth;

use std::path::{Path, PathBuf};
use std::time::Duration;

use taskgate_task::WorkClass;

use super::raw::audit::AUDIT;
use super::raw::connections::{CONNECTIONS, TLS};
use super::raw::encryption::{ENCRYPTION, KEY};
use super::raw::hosts::HOSTS;
use super::raw::http::{OAUTH, SECRET};
use super::raw::limits::{LIMITS, METRICS};
use super::raw::network::NETWORK;
use super::raw::{DEFAULTS, RUN, TOOL, TOP, UPSTREAM, UPSTREAM_DEFAULTS, VARIABLE};
use super::raw_job::{JOB, PARTS};
use super::*;
use crate::policy::{Settings, Speak, StorePlace, TaskMode, ToolPolicy, UpstreamTasks};
use crate::upstream::CommandTool;

mod edges;
mod encryption;
mod manual;
mod presets;
mod rules;

/// The least that is valid.
const LEAST: &str = "[[upstream]]\nname = \"a\"\ncommand = [\"server\"]\n";

fn parse(text: &str) -> Result<Config, ConfigErrors> {
    let env = |name: &str| match name {
        "HOME" => Some("/home/me".to_owned()),
        "SECRET" | "SEARCH_TOKEN" | "GITHUB_TOKEN" | "HF_TOKEN" => Some("sesame".to_owned()),
        _ => None,
    };
    Config::parse_with(text, "taskgate.toml", Path::new("/etc/taskgate"), &env)
}

fn valid(text: &str) -> Config {
    parse(text).unwrap_or_else(|errors| panic!("{errors}"))
}

fn problems(text: &str) -> Vec<String> {
    let problems = parse(text).expect_err("has problems").problems;
    problems.into_iter().map(|problem| problem.what).collect()
}

fn command(upstream: &UpstreamConfig) -> &taskgate_client::transport::stdio::StdioCommand {
    match &upstream.server {
        UpstreamServer::Command(command) => command,
        UpstreamServer::Url(_) | UpstreamServer::Run(_) | UpstreamServer::Job(_) | UpstreamServer::Demo => {
            panic!("no command")
        }
    }
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn broken_files_are_explained() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/config/golden");
    let entries =
        fs::read_dir(&directory).expect("the golden files").map(|entry| entry.expect("entry").path());
    let mut files: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|ext| ext == "toml")).collect();
    files.sort();
    assert!(files.len() >= 6, "the golden files are there");
    for file in files {
        let text = fs::read_to_string(&file).expect("golden file");
        let shown = format!("{}\n", parse(&text).expect_err("has problems"));
        let expected = file.with_extension("txt");
        if std::env::var_os("TASKGATE_BLESS").is_some() {
            fs::write(&expected, &shown).expect("write");
        }
        assert_eq!(shown, fs::read_to_string(&expected).unwrap_or_default(), "{}", file.display());
    }
}

#[test]
fn the_least_file_gets_every_default() {
    let config = valid(LEAST);
    assert_eq!(config.listen, DEFAULT_LISTEN);
    assert_eq!(config.store, None);
    assert_eq!(format!("{:?}", config.settings), format!("{:?}", Settings::default()));
    assert_eq!(config.defaults, ToolPolicy::default());
    assert_eq!(config.upstreams[0].policy, ToolPolicy::default());
    assert_eq!(config.upstreams[0].speak, Speak::Auto);
    assert_eq!(config.upstreams[0].upstream_tasks, UpstreamTasks::Auto);
}

#[test]
fn a_tool_inherits_from_its_upstream_and_that_from_the_top() {
    let config = valid(
        r#"
        [defaults]
        retention = "2h"
        idle_limit = "5m"
        immediate_response = "Wait."
        [[upstream]]
        name = "a"
        demo = true
        defaults = { tasks = "always", after_crash = "repeat" }
        tools.slow = { idle_limit = "off", immediate_response = "", after_crash = "annotations" }
        [[upstream]]
        name = "b"
        demo = true
        "#,
    );
    let [a, b] = &config.upstreams[..] else { panic!("two upstreams") };
    let slow = &a.tools["slow"];
    assert_eq!(
        (a.policy.tasks, slow.tasks, b.policy.tasks),
        (TaskMode::Always, TaskMode::Always, TaskMode::Auto)
    );
    assert_eq!(slow.lifetime.retention, Duration::from_secs(7200));
    assert_eq!(b.policy.lifetime.idle_limit, Some(Duration::from_secs(300)));
    assert_eq!((slow.lifetime.idle_limit, slow.immediate_response.clone()), (None, None));
    assert_eq!((a.policy.class, slow.class), (Some(WorkClass::Repeatable), None));
    assert_eq!(b.policy.immediate_response.as_deref(), Some("Wait."));
}

#[test]
fn paths_are_taken_from_the_directory_of_the_file() {
    let with = |line: &str| valid(&format!("{line}\n{LEAST}")).store;
    let file = |path: &str| Some(StorePlace::Sqlite(PathBuf::from(path)));
    assert_eq!(with("store = \"tasks.db\""), file("/etc/taskgate/tasks.db"));
    assert_eq!(with("store = \"sqlite:/var/tasks.db\""), file("/var/tasks.db"));
    assert_eq!(with("store = \"~/tasks.db\""), file("/home/me/tasks.db"));
    assert_eq!(with("store = \"memory\""), Some(StorePlace::Memory));
    let config = valid(&format!("{LEAST}cwd = \"work\""));
    assert_eq!(command(&config.upstreams[0]).cwd.as_deref(), Some(Path::new("/etc/taskgate/work")));
}

#[test]
fn variables_come_from_the_file_or_the_environment() {
    let config = valid(&format!("{LEAST}env = {{ A = \"1\", B = {{ from_env = \"SECRET\" }} }}"));
    let pairs = [("A", "1"), ("B", "sesame")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(command(&config.upstreams[0]).env, pairs);
}

#[test]
fn secrets_are_neither_shown_nor_printed() {
    let config = valid(&format!("{LEAST}env = {{ B = {{ from_env = \"SECRET\" }} }}"));
    assert!(!format!("{config:?}").contains("sesame"), "debug output");
    assert!(!config.to_toml().contains("sesame"), "printed configuration");
}

#[test]
fn a_printed_configuration_means_the_same() {
    let config = valid(
        r#"
        listen = "[::1]:9000"
        store = "a b\".db"
        single_user = true
        allowed_hosts = ["Mcp.Example.org"]
        drain_grace = "0s"
        node_name = "east 1"
        lease = "30s"
        store_poll = "1s"
        max_sessions = 5
        owner_session_idle = "2m"
        max_owner_sessions = 4
        session_requests = 6
        session_replay = "2KiB"
        replay_events = 7
        replay_size = "1KiB"
        replay_for = "1m"
        stream_close_after = "30s"
        stream_retry = "500ms"
        stream_task_questions = "get"
        [connections]
        max = 9
        head_timeout = "2s"
        body_timeout = "3s"
        max_head = "9KiB"
        [audit]
        file = "/var/log/audit.jsonl"
        on_failure = "refuse"
        [tls]
        certificate = "/etc/cert.pem"
        key = "/etc/key.pem"
        [defaults]
        inline_for = "1s500ms"
        [[upstream]]
        name = "a"
        command = ["server", "--quote", "\"\\'"]
        cwd = "/tmp"
        prefix = "x"
        speak = "session"
        upstream_tasks = "always"
        sessions = "owner"
        [upstream.defaults]
        idle_limit = "1m"
        [upstream.tools."odd name.here"]
        immediate_response = "Two\nlines"
        tasks = "never"
        [[upstream]]
        name = "b"
        demo = true
        [[upstream]]
        name = "u"
        url = "https://mcp.example.com/mcp"
        headers = { X-Team = "(hidden)" }
        [upstream.oauth]
        token_url = "https://auth.example.com/token"
        client_id = "me"
        client_secret = "(hidden)"
        secret_in = "form"
        scopes = ["a", "b"]
        [[upstream]]
        name = "w"
        url = "https://mcp.example.com/mcp"
        [upstream.oauth]
        issuer = "https://auth.example.com/tenant"
        client_id = "me"
        client_secret = "(hidden)"
        [[upstream]]
        name = "v"
        url = "http://mcp.example.com/mcp"
        bearer = "(hidden)"
        plain_http = true
        [[upstream]]
        name = "c"
        cwd = "/srv"
        clear_env = true
        [upstream.run]
        tool = "render"
        command = ["render-it", "--fast"]
        description = "Renders.\nSlowly."
        input_schema = { type = "object", properties = { n = { minimum = 0x10, maximum = 2.5 } }, required = ["n"] }
        output_limit = "2KiB"
        stop_grace = "1m"
        [upstream.defaults]
        tasks = "always"
        "#,
    );
    let again = valid(&config.to_toml());
    assert_eq!(format!("{again:#?}"), format!("{config:#?}"));
}

/// Wherever a secret comes from and wherever it stands, it is not shown.
#[test]
fn secrets_of_a_url_are_not_shown() {
    let directory = tempfile::tempdir().expect("directory");
    let file = directory.path().join("token");
    fs::write(&file, "sesame\n").expect("write");
    let file = file.display();
    for (url, rest) in [
        ("{ from_env = \"URL\" }", "oauth = { token_url = \"https://a/\", client_id = \"me\", refresh_token = \"sesame\" }".to_owned()),
        ("\"https://a/mcp?key=sesame\"", "bearer = { from_env = \"SECRET\" }".to_owned()),
        ("\"https://a/mcp\"", format!("bearer = {{ from_file = \"{file}\" }}")),
        ("\"https://a/mcp\"", format!("headers = {{ Authorization = \"Basic sesame\", x = {{ from_file = \"{file}\" }} }}")),
        ("\"https://a/mcp\"", "oauth = { token_url = \"https://a/\", client_id = \"me\", client_secret = { from_env = \"SECRET\" } }".to_owned()),
    ] {
        let text = format!("[[upstream]]\nname = \"a\"\nurl = {url}\n{rest}");
        let env = |name: &str| match name {
            "URL" => Some("https://a/sesame/mcp".to_owned()),
            _ => Some("sesame".to_owned()),
        };
        let config = Config::parse_with(&text, "f", Path::new("/"), &env).unwrap_or_else(|errors| panic!("{errors}"));
        assert!(matches!(config.upstreams[0].server, UpstreamServer::Url(_)));
        assert!(!format!("{config:?}").contains("sesame"), "{config:?}");
        assert!(!config.to_toml().contains("sesame"), "{}", config.to_toml());
    }
}

#[test]
fn a_command_is_a_tool() {
    let config = valid(
        r#"
        [defaults]
        after_crash = "fail"
        [[upstream]]
        name = "jobs"
        env = { TOKEN = { from_env = "SECRET" } }
        [upstream.run]
        tool = "render"
        command = ["render-it", "--fast"]
        "#,
    );
    let UpstreamServer::Run(tool) = &config.upstreams[0].server else { panic!("a command") };
    let expected = CommandTool {
        env: vec![("TOKEN".to_owned(), "sesame".to_owned())],
        ..CommandTool::new("render", ["render-it", "--fast"])
    };
    assert_eq!(tool, &expected);
    assert!(!format!("{config:?}").contains("sesame") && !config.to_toml().contains("sesame"));
}

/// CASE 6: a faulty schema is found before anything is served, and so is a limit whose results could not be kept.
#[cfg(feature = "jsonschema")]
#[test]
fn a_schema_is_compiled_when_the_file_is_checked() {
    let with = |line: &str| {
        problems(&format!(
            "[[upstream]]\nname = \"jobs\"\nrun = {{ tool = \"t\", command = [\"c\"], {line} }}"
        ))
    };
    let said = with("input_schema = { type = \"object\", properties = { n = { type = \"integr\" } } }");
    assert!(
        said[0].starts_with("`input_schema` is no valid JSON Schema: at /properties/n/type: "),
        "{said:?}"
    );
    let said = with("input_schema = { type = \"object\", \"$ref\" = \"http://127.0.0.1:1/x\" }");
    assert!(said[0].contains("schemas are not fetched"), "{said:?}");
}

#[test]
fn a_command_keeps_no_more_than_fits_into_a_result() {
    let with = |limit: &str| {
        format!(
            "max_result = \"6KiB\"\n[[upstream]]\nname = \"jobs\"\n\
                 run = {{ tool = \"t\", command = [\"c\"], output_limit = \"{limit}\" }}"
        )
    };
    valid(&with("2KiB"));
    let said = problems(&with("3KiB"));
    assert_eq!(said, ["`output_limit` (3KiB) is more than a third of `max_result` (6KiB)"]);
}

#[test]
fn a_single_user_needs_a_loopback_address() {
    let with = |listen: &str| problems(&format!("listen = \"{listen}\"\nsingle_user = true\n{LEAST}"));
    assert_eq!(
        with("0.0.0.0:8000"),
        ["a single user needs a loopback address, and 0.0.0.0:8000 can be reached from other machines"]
    );
    valid(&format!("single_user = true\n{LEAST}"));
}

#[test]
fn one_upstream_is_needed() {
    assert_eq!(problems(""), ["there is no upstream, so there is nothing to serve"]);
    assert_eq!(problems("upstream = []"), ["there is no upstream, so there is nothing to serve"]);
}

#[test]
fn names_are_plain_and_short() {
    let with = |name: &str| parse(&format!("[[upstream]]\ndemo = true\nname = \"{name}\"")).is_ok();
    for name in ["a", "A-b_c.1", &"x".repeat(64)] {
        assert!(with(name), "{name}");
    }
    for name in ["", "a b", "ä", "a/b", &"x".repeat(65)] {
        assert!(!with(name), "{name}");
    }
}

#[test]
fn a_file_that_is_no_text_is_an_error_with_its_name() {
    let directory = tempfile::tempdir().expect("directory");
    let file = directory.path().join("binary.toml");
    fs::write(&file, b"a = 1\nb = \"\xff\"\n").expect("write");
    let error = Config::load(&file).expect_err("no text").to_string();
    assert!(error.contains("binary.toml: is not UTF-8 text (line 2)"), "{error}");
    let error = Config::load(directory.path().join("missing.toml")).expect_err("no file").to_string();
    assert!(error.contains("missing.toml: cannot be read: "), "{error}");
}

/// Whatever is cut off a file, and wherever, the answer is a verdict and never a panic.
#[test]
fn a_file_cut_off_anywhere_gets_a_verdict() {
    let text = fs::read_to_string(repository().join("examples/everything.toml")).expect("example");
    for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
        if let Err(errors) = parse(&text[..end]) {
            assert!(!errors.problems.is_empty(), "cut at {end}");
            assert!(!errors.to_string().is_empty(), "cut at {end}");
        }
    }
}

#[test]
fn the_examples_are_valid() {
    for name in ["quickstart.toml", "everything.toml", "several.toml", "url.toml"] {
        Config::load(repository().join("examples").join(name)).unwrap_or_else(|errors| panic!("{errors}"));
    }
}

/// Each piece of a configuration that the manual shows is one, with an upstream where the piece has none.
#[test]
fn the_pieces_in_the_manual_are_valid() {
    let manual = fs::read_to_string(repository().join("docs/config.md")).expect("the manual");
    let pieces = manual.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default());
    let pieces: Vec<&str> = pieces.collect();
    assert!(pieces.len() >= 4, "the manual has lost its examples");
    for piece in pieces {
        valid(&if piece.contains("[[upstream]]") { piece.to_owned() } else { format!("{piece}\n{LEAST}") });
    }
}

#[test]
fn the_examples_of_urls_are_valid() {
    let manual = fs::read_to_string(repository().join("docs/upstream-http.md")).expect("the manual");
    let env = |_: &str| Some("sesame".to_owned());
    let pieces = manual.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default());
    let servers = pieces.map(|piece| {
        let config = Config::parse_with(piece, "f", Path::new("/"), &env).unwrap_or_else(|e| panic!("{e}"));
        config.upstreams[0].server.clone()
    });
    let servers: Vec<UpstreamServer> = servers.collect();
    assert!(servers.len() == 3 && servers.iter().all(|server| matches!(server, UpstreamServer::Url(_))));
}

#[test]
fn the_example_of_a_command_is_valid() {
    let manual = fs::read_to_string(repository().join("docs/command.md")).expect("the manual");
    let (_, rest) = manual.split_once("```toml\n").expect("an example");
    let (example, _) = rest.split_once("```").expect("its end");
    assert!(matches!(valid(example).upstreams[0].server, UpstreamServer::Run(_)));
}

#[test]
fn the_example_of_a_job_is_valid_and_its_page_names_every_key() {
    let manual = fs::read_to_string(repository().join("docs/job-api.md")).expect("the manual");
    let (_, rest) = manual.split_once("```toml\n").expect("an example");
    let (example, _) = rest.split_once("```").expect("its end");
    let config = valid(example);
    let UpstreamServer::Job(tool) = &config.upstreams[0].server else { panic!("a job") };
    assert_eq!(tool.declaration.start.job.len(), 1);
    // What is printed means the same.
    let printed = config.to_toml();
    let again = valid(&printed);
    let UpstreamServer::Job(same) = &again.upstreams[0].server else { panic!("a job: {printed}") };
    assert_eq!(same, tool);
    for section in [&JOB, &SECRET].into_iter().chain(&PARTS) {
        for key in section.keys {
            assert!(
                manual.contains(&format!("`{key}`")) || manual.contains(&format!("{key} = ")),
                "{} of {}",
                key,
                section.name
            );
        }
    }
}
