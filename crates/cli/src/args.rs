//! The command line.

pub mod client;
pub mod server;
pub mod tasks;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};
use taskgate_gateway::access::rules::Condition;
use taskgate_gateway::{
    StorePlace, TaskMode, check_name, limits, parse_duration, parse_size, parse_store_place, parse_task_mode,
};

use crate::display::Output;
use crate::exit_code;

/// Durable tasks for MCP servers that know nothing of them.
///
/// taskgate stands in front of an MCP server. A call that takes long becomes a task: the client gets a handle at once
/// and fetches the result later, even after a crash of client or gateway. The server needs no change.
///
/// Logs go to stderr; the variable TASKGATE_LOG says how much, such as "taskgate=debug".
#[derive(Debug, Parser)]
#[command(name = "taskgate", version, after_help = exit_code::HELP, subcommand_required = true)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve one or more MCP servers over HTTP.
    Serve(Serve),
    /// Be a stdio MCP server in front of another one: a desktop host changes one line of its configuration.
    Wrap(Wrap),
    /// Say whether a configuration file is valid, and show every problem at its line.
    Check(Check),
    /// Call a tool of a server, and follow the call to its result.
    Call(client::Call),
    /// Say how a task stands.
    Get(client::One),
    /// Follow tasks to their results.
    Watch(client::Watch),
    /// Wait for the result of a task and print nothing else.
    Result(client::Watch),
    /// Answer what a task asks.
    Answer(client::Answer),
    /// Cancel a task.
    Cancel(client::One),
    /// List the tasks that a server knows for its caller; without a server, the calls that were never seen to their ends.
    List(client::Of),
    /// List the tools of a server.
    Tools(client::Of),
    /// Print what a server logs apart from calls, until Ctrl-C.
    Logs(client::Logs),
    /// Go on with the calls that were never seen to their ends.
    Resume(client::Resume),
    /// Look after a store that no taskgate has open: check it, make its file shorter, back it up, move it.
    #[command(subcommand)]
    Store(Store),
    /// See and move the tasks of a store, whoever owns them: in its file or database, or through the gateway that has it open.
    #[command(subcommand)]
    Tasks(tasks::Tasks),
    /// Print a script with which a shell completes the words of this command.
    Completions(Completions),
    /// Print the manual page, or write the pages of all commands into a directory.
    Man(Manual),
    /// Run the command of one attempt: started by taskgate itself, for commands that outlive it.
    #[command(hide = true)]
    Supervise(Supervise),
}

/// `taskgate serve`.
#[derive(Debug, clap::Args)]
pub struct Serve {
    /// The configuration file. Without it a small demo server is served, for this machine only.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The address to listen on, instead of the configured one.
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<SocketAddr>,
    /// Where tasks are kept, instead of the configured place: a path, sqlite:PATH, postgres://… or memory. Where nobody says it, a
    /// file in the user's state directory.
    // A URL may hold a password, which others on the machine could read off the command line.
    #[arg(long, value_name = "PLACE", value_parser = store_place, env = "TASKGATE_STORE", hide_env_values = true)]
    pub store: Option<StorePlace>,
    /// Treat all callers as one and the same user, who can list all tasks. For loopback addresses only.
    #[arg(long)]
    pub single_user: bool,
}

/// `taskgate wrap`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "taskgate wrap [OPTIONS] -- CMD [ARGS]...")]
pub struct Wrap {
    /// Where tasks are kept: a path, sqlite:PATH, postgres://… or memory. By default a file for this very command in the user's
    /// state directory. If another wrap keeps the file for longer than two seconds, one with a number in its name is used.
    #[arg(long, value_name = "PLACE", value_parser = store_place)]
    pub store: Option<StorePlace>,
    /// A file with a key to encrypt the store with. Can be given several times: the first one encrypts, the others decrypt what
    /// they have encrypted.
    #[arg(long, value_name = "FILE")]
    pub key_file: Vec<PathBuf>,
    /// When a call becomes a task: auto (when it takes long), always or never.
    #[arg(long, value_name = "MODE", default_value = "auto", value_parser = task_mode)]
    pub tasks: TaskMode,
    /// With auto: how long a call may take before it becomes a task; 2s if not given.
    #[arg(long, value_name = "TIME", value_parser = inline_for)]
    pub inline_for: Option<Duration>,
    /// How long a host that knows no tasks waits for a call before it is told in words how to get the result: a time or off; 45s if
    /// not given.
    #[arg(long, value_name = "TIME", value_parser = host_budget)]
    pub host_budget: Option<HostBudget>,
    /// A name for the server: in logs, in stored tasks and for its file. Keep it, as stored tasks refer to it.
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub name: Option<String>,
    /// The mode of a single tool, such as `crawl=always`. Can be given several times.
    #[arg(long = "tool", value_name = "NAME=MODE", value_parser = tool_mode)]
    pub tools: Vec<ToolMode>,
    /// The server's program and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    pub command: Vec<String>,
}

/// `taskgate check`.
#[derive(Debug, clap::Args)]
pub struct Check {
    /// The configuration file.
    pub file: PathBuf,
    /// Print the file with every default filled in, and the values of variables and passwords hidden.
    #[arg(long)]
    pub print: bool,
    /// Where tasks are to be kept, instead of the configured place, as for `serve`.
    #[arg(long, value_name = "PLACE", value_parser = store_place, env = "TASKGATE_STORE", hide_env_values = true)]
    pub store: Option<StorePlace>,
    /// Say which rule of [policy] decides about each tool that the file names, and why. No server is asked.
    #[arg(long, conflicts_with = "print")]
    pub explain: bool,
    #[command(flatten)]
    pub explanation: Explain,
}

/// What rules are explained for.
#[derive(Debug, Default, clap::Args)]
pub struct Explain {
    /// A tool, by the name that clients see or its server's own, instead of those in the file. Can be given several times.
    #[arg(long = "tool", value_name = "NAME", requires = "explain")]
    pub tools: Vec<String>,
    /// Who would call it, as `taskgate tasks list` shows owners, such as `token NAME`.
    #[arg(long, value_name = "OWNER", requires = "explain")]
    pub owner: Option<String>,
    /// A scope of the caller. Can be given several times.
    #[arg(long = "scope", value_name = "SCOPE", requires = "explain")]
    pub scopes: Vec<String>,
    /// A claim of the caller, such as `groups=ops`. Can be given several times.
    #[arg(long = "claim", value_name = "NAME=VALUE", value_parser = claim, requires = "explain")]
    pub claims: Vec<Claim>,
    /// What the tool says of itself: read_only, destructive, idempotent or open_world, such as `read_only=true`. Can be given several
    /// times; what is not given is as the specification says.
    #[arg(long = "annotation", value_name = "NAME=BOOL", value_parser = annotation, requires = "explain")]
    pub annotations: Vec<Annotation>,
    /// For people, or as objects of JSON, one a line.
    #[arg(long, value_enum, default_value_t, requires = "explain")]
    pub output: Output,
}

/// A claim of a caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    pub name: String,
    pub value: String,
}

/// What a tool says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Annotation {
    pub hint: Condition,
    pub value: bool,
}

/// `taskgate store`.
#[derive(Debug, Subcommand)]
pub enum Store {
    /// Say whether everything in the store can be so. Exits with 5 if not; nothing is mended.
    Check(Place),
    /// Give the room of deleted tasks back to the file system (SQLite). Needs room for a second file meanwhile.
    Vacuum(Place),
    /// Write everything in the store as lines of JSON: payloads and secrets too. What is encrypted stays so.
    Export(Export),
    /// Keep everything of an export in a store without tasks.
    Import(Import),
    /// Encrypt with the first key what another key has encrypted, or none, so that old keys can go.
    Reseal(Place),
}

/// Which store.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Place {
    /// The store: a path, sqlite:PATH or postgres://…; otherwise the one of the configuration, or of `serve` without one.
    // A URL may hold a password, which others on the machine could read off the command line.
    #[arg(long, value_name = "PLACE", value_parser = store_place, env = "TASKGATE_STORE", hide_env_values = true)]
    pub store: Option<StorePlace>,
    /// The configuration that names the store, and the keys that it is encrypted with.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// A file with a key of the store, instead of those of the configuration. Can be given several times: the first one encrypts.
    #[arg(long, value_name = "FILE")]
    pub key_file: Vec<PathBuf>,
}

/// `taskgate store export`.
#[derive(Debug, clap::Args)]
pub struct Export {
    /// Which store.
    #[command(flatten)]
    pub place: Place,
    /// The file to write, which must not be there yet; "-" is stdout. It is readable by its owner alone.
    #[arg(default_value = "-")]
    pub file: PathBuf,
    /// Decrypt what is encrypted: whoever reads the export needs no key.
    #[arg(long)]
    pub decrypt: bool,
}

/// `taskgate store import`.
#[derive(Debug, clap::Args)]
pub struct Import {
    /// Which store.
    #[command(flatten)]
    pub place: Place,
    /// The file to read; "-" is stdin.
    #[arg(default_value = "-")]
    pub file: PathBuf,
    /// The longest line that is read, which is also about how much memory this takes.
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = parse_size)]
    pub max_line: usize,
}

/// `taskgate supervise`.
#[derive(Debug, clap::Args)]
pub struct Supervise {
    /// The attempt's directory.
    pub dir: PathBuf,
}

/// `taskgate completions`.
#[derive(Debug, clap::Args)]
pub struct Completions {
    /// The shell.
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// `taskgate man`.
#[derive(Debug, clap::Args)]
pub struct Manual {
    /// Where to write the pages of all commands, such as share/man/man1. Without it, the page of taskgate goes to stdout.
    pub directory: Option<PathBuf>,
}

/// The mode of a single tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolMode {
    /// The tool's name.
    pub tool: String,
    /// When its calls become tasks.
    pub mode: TaskMode,
}

fn store_place(text: &str) -> Result<StorePlace, String> {
    parse_store_place(text)
}

fn task_mode(text: &str) -> Result<TaskMode, String> {
    parse_task_mode(text).map_err(|_| "write auto, always or never".to_owned())
}

/// How long a host without tasks waits, if not for the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostBudget(pub Option<Duration>);

fn host_budget(text: &str) -> Result<HostBudget, String> {
    let range = limits::HOST_BUDGET;
    match text {
        "off" => Ok(HostBudget(None)),
        text => range
            .parse(text)
            .map(|budget| HostBudget(Some(budget)))
            .map_err(|wrong| format!("it {wrong}; write off, or {}", range.allowed())),
    }
}

fn inline_for(text: &str) -> Result<Duration, String> {
    let range = limits::INLINE_FOR;
    range.parse(text).map_err(|wrong| format!("it {wrong}; write {}", range.allowed()))
}

/// A time such as 90s or 1h30m.
fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).map_err(|wrong| format!("it {wrong}; write a time such as 90s, 1h30m or 7d"))
}

fn name(text: &str) -> Result<String, String> {
    match check_name(text) {
        Ok(()) => Ok(text.to_owned()),
        Err(wrong) => Err(format!("it {wrong}; write 1 to 64 letters, digits, \"_\", \".\" and \"-\"")),
    }
}

fn claim(text: &str) -> Result<Claim, String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => {
            Ok(Claim { name: name.to_owned(), value: value.to_owned() })
        }
        _ => Err("write the claim's name, \"=\" and its value".to_owned()),
    }
}

fn annotation(text: &str) -> Result<Annotation, String> {
    let hints = [Condition::ReadOnly, Condition::Destructive, Condition::Idempotent, Condition::OpenWorld];
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    match (hints.into_iter().find(|hint| hint.as_str() == name), value.parse()) {
        (Some(hint), Ok(value)) => Ok(Annotation { hint, value }),
        _ => {
            Err("write read_only, destructive, idempotent or open_world, \"=\" and true or false".to_owned())
        }
    }
}

fn tool_mode(text: &str) -> Result<ToolMode, String> {
    // A tool's name may hold an equals sign, a mode cannot.
    match text.rsplit_once('=') {
        Some((tool, mode)) if !tool.is_empty() => {
            Ok(ToolMode { tool: tool.to_owned(), mode: task_mode(mode)? })
        }
        _ => Err("write the tool's name, \"=\" and auto, always or never".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn wrap(words: &[&str]) -> Result<Wrap, clap::Error> {
        let args = Args::try_parse_from(["taskgate", "wrap"].iter().chain(words))?;
        match args.command {
            Command::Wrap(wrap) => Ok(wrap),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Args::command().debug_assert();
    }

    #[test]
    fn the_manual_names_every_option() {
        let read = |page: &str| {
            let file = format!("{}/../../docs/{page}", env!("CARGO_MANIFEST_DIR"));
            std::fs::read_to_string(file).expect("the page")
        };
        let pages = read("config.md") + &read("operations.md");
        let store = |verb| (vec!["store", verb], read("operations.md"));
        let tasks = |verb| (vec!["tasks", verb], read("operations.md"));
        let client = |verb| (vec![verb], read("cli.md"));
        for (path, pages) in [
            (vec!["serve"], pages.clone()),
            (vec!["check"], pages),
            (vec!["wrap"], read("wrap.md")),
            store("check"),
            store("vacuum"),
            store("export"),
            store("import"),
            store("reseal"),
            tasks("list"),
            tasks("show"),
            tasks("cancel"),
            tasks("fail"),
            tasks("requeue"),
            tasks("prune"),
            client("call"),
            client("get"),
            client("watch"),
            client("result"),
            client("answer"),
            client("cancel"),
            client("list"),
            client("tools"),
            client("logs"),
            client("resume"),
            client("completions"),
            client("man"),
        ] {
            let (all, name) = (Args::command(), path.join(" "));
            let find =
                |command: &clap::Command, name: &str| command.find_subcommand(name).expect("it").clone();
            let command = path.iter().fold(all, |command, name| find(&command, name));
            assert!(pages.contains(path.last().expect("a verb")), "no page tells of taskgate {name}");
            for option in command.get_arguments().filter_map(|argument| argument.get_long()) {
                let said = pages.contains(&format!("--{option}`")) || pages.contains(&format!("--{option} "));
                assert!(said, "no page tells of --{option} of taskgate {name}");
            }
        }
        for line in exit_code::HELP.lines().skip(1) {
            let (_, meaning) = line.trim().split_once("  ").expect("a code and what it means");
            assert!(read("operations.md").contains(meaning.trim()), "{line}");
        }
    }

    #[test]
    fn nobody_is_told_of_what_is_not_for_people() {
        let help = Args::command().render_long_help().to_string();
        assert!(help.contains("serve") && !help.contains("supervise"), "{help}");
    }

    #[test]
    fn what_follows_the_dashes_belongs_to_the_wrapped_command() {
        let parsed =
            wrap(&["--inline-for", "500ms", "--tool", "a=b=never", "--", "npx", "-y", "--tasks", "x"]);
        let parsed = parsed.expect("parses");
        assert_eq!(parsed.command, ["npx", "-y", "--tasks", "x"]);
        assert_eq!((parsed.tasks, parsed.inline_for), (TaskMode::Auto, Some(Duration::from_millis(500))));
        assert_eq!(parsed.tools, [ToolMode { tool: "a=b".to_owned(), mode: TaskMode::Never }]);
    }

    #[test]
    fn the_dashes_may_be_left_out() {
        let parsed = wrap(&["--tasks", "always", "npx", "--store", "x"]).expect("parses");
        assert_eq!(parsed.command, ["npx", "--store", "x"]);
        assert_eq!((parsed.tasks, parsed.store), (TaskMode::Always, None));
    }

    #[test]
    fn nonsense_is_refused_with_the_code_for_it() {
        for words in [
            &["--"][..],
            &["--tasks", "sometimes", "--", "x"],
            &["--inline-for", "2", "--", "x"],
            &["--inline-for", "2h", "--", "x"],
            &["--name", "a b", "--", "x"],
            &["--tool", "always", "--", "x"],
            &["--tool", "=always", "--", "x"],
            &["--store", "mysql://x", "--", "x"],
        ] {
            let error = wrap(words).expect_err("is refused");
            assert_eq!(error.exit_code(), i32::from(exit_code::ExitCode::Invalid.number()), "{words:?}");
        }
    }
}
