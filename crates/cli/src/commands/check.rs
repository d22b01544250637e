//! `taskgate check`: is this configuration valid, and what does it say?

mod explain;

use taskgate_gateway::{Config, StorePlace, TaskMode, UpstreamConfig, UpstreamServer, format_duration};

use crate::args::{Check, Explain};
use crate::display::{Output, clean, json_line};
use crate::exit_code::{ExitCode, Failure};
use crate::say::say;
use crate::store;

/// Prints a summary, or the whole configuration, or fails with every problem.
pub fn run(check: &Check) -> Result<(), Failure> {
    let mut config = Config::load(&check.file)
        .map_err(|errors| Failure::new(ExitCode::Invalid, format!("not valid\n\n{errors}")))?;
    // What `serve` would use, which may not be what the file says.
    config.store = check.store.clone().or(config.store);
    super::serve::has_place_for_commands(&config, config.store.as_ref().unwrap_or(&ELSEWHERE))?;
    if check.print {
        say(config.to_toml())
    } else if check.explain {
        explained(&config, &check.explanation)
    } else {
        say(format_args!("{}: valid\n{}", check.file.display(), summary(&config)))
    }
}

/// What the rules say, tool by tool.
fn explained(config: &Config, asked: &Explain) -> Result<(), Failure> {
    let Some(rules) = &config.rules else {
        eprintln!("There is no [policy]: every caller may see and call every tool.");
        return Ok(());
    };
    let all = explain::explain(config, rules, asked)?;
    warnings(rules).for_each(|warning| eprintln!("warning: {warning}"));
    if asked.output == Output::Json {
        return all.iter().try_for_each(|one| say(format_args!("{}\n", json_line(&one.json().to_string()))));
    }
    let mut text: String = all.iter().map(|one| clean(&one.text())).collect();
    if asked.tools.is_empty() {
        for upstream in explain::unknown(config) {
            text += &format!("{upstream}: its tools are known when it runs; name one with --tool\n");
        }
    }
    say(text)
}

pub use explain::warnings;

/// The default is a file, wherever it is.
const ELSEWHERE: StorePlace = StorePlace::Sqlite(std::path::PathBuf::new());

fn summary(config: &Config) -> String {
    let callers = match (&config.settings.auth, config.settings.single_user) {
        (Some(_), _) => "callers with tokens",
        (None, true) => "a single user",
        (None, false) => "anonymous callers",
    };
    let place = match &config.store {
        Some(place) => store::shown(place),
        // The file is valid all the same: what is missing is missing on this machine.
        None => store::serve_place().map_or_else(
            |failure| format!("no place here: {}", failure.message),
            |place| format!("{} (default)", store::shown(&place)),
        ),
    };
    let mut text = format!("  listens on  http://{}{}, for {callers}\n", config.listen, config.settings.path);
    let encrypted = if config.encryption.is_empty() { "" } else { ", encrypted" };
    text += &format!("  keeps tasks in  {place}{encrypted}\n");
    for upstream in &config.upstreams {
        text += &format!("  upstream  {}\n", describe(upstream));
    }
    if let Some(rules) = &config.rules {
        let count = rules.rules.len();
        let words = if count == 1 { "1 rule".to_owned() } else { format!("{count} rules") };
        text += &format!("  tools are for  whom [policy] says: {words}, else {}\n", rules.default.as_str());
        text.extend(warnings(rules).map(|warning| format!("  warning  {warning}\n")));
    }
    text
}

/// The arguments are left out: they are long, and may hold secrets.
fn describe(upstream: &UpstreamConfig) -> String {
    let server = match &upstream.server {
        UpstreamServer::Command(command) => format!("runs {}", command.program),
        UpstreamServer::Url(url) => format!("is at {}", url.server.url),
        UpstreamServer::Run(tool) => {
            format!("runs {} for {}", tool.program(), tool.tool)
        }
        UpstreamServer::Job(job) => format!("runs jobs for {}", job.tool),
        UpstreamServer::Demo => "is the demo server".to_owned(),
    };
    let tasks = match upstream.policy.tasks {
        TaskMode::Auto => {
            format!("calls longer than {} become tasks", format_duration(upstream.policy.inline_for))
        }
        TaskMode::Always => "every call is a task".to_owned(),
        TaskMode::Never => "no call is a task".to_owned(),
    };
    let own = match upstream.tools.len() {
        0 => String::new(),
        1 => ", 1 tool has its own settings".to_owned(),
        count => format!(", {count} tools have their own settings"),
    };
    format!("{} {server}, {tasks}{own}", upstream.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMAND: &str = "[[upstream]]\nname = \"jobs\"\nrun = { tool = \"t\", command = [\"true\"] }\n";

    /// What the command line, or `TASKGATE_STORE`, puts over the file is looked at as `serve` would.
    #[test]
    fn the_store_that_would_be_served_is_the_one_that_is_checked() {
        let directory = tempfile::tempdir().expect("directory");
        let file = directory.path().join("taskgate.toml");
        std::fs::write(&file, COMMAND).expect("write");
        let with = |store| {
            run(&Check {
                file: file.clone(),
                print: false,
                store,
                explain: false,
                explanation: Explain::default(),
            })
        };
        assert_eq!(with(None), Ok(()));
        let database = taskgate_gateway::parse_store_place("postgres://me:pw@db/x").expect("a place");
        assert_eq!(with(Some(database.clone())), Ok(()));
        assert_eq!(with(Some(StorePlace::Memory)).expect_err("is refused").code, ExitCode::Invalid);
        let config = Config { store: Some(database), ..Config::load(&file).expect("valid") };
        assert!(summary(&config).contains("keeps tasks in  postgres://me@db/x\n"), "{}", summary(&config));
    }

    /// Whoever looks at the file is told whom it lets in.
    #[test]
    fn it_is_said_for_whom_is_served() {
        let auth = format!(
            "auth = {{ resource = \"https://a\", token = [{{ name = \"a\", sha256 = \"{}\" }}] }}\n",
            "0".repeat(64)
        );
        for (top, callers) in [
            ("", "anonymous callers"),
            ("single_user = true\n", "a single user"),
            (auth.as_str(), "callers with tokens"),
        ] {
            let config = Config::parse(&format!("{top}{COMMAND}"), "taskgate.toml").expect("valid");
            assert!(summary(&config).contains(&format!(", for {callers}\n")), "{}", summary(&config));
        }
    }
}
