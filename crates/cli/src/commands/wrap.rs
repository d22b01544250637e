//! `taskgate wrap`: a stdio MCP server in front of a stdio MCP server.

use std::path::Path;
use std::time::Duration;

use taskgate_gateway::{
    Gateway, HostSettings, Settings, StdioCommand, ToolPolicy, UpstreamKind, UpstreamSpec, check_name,
};

use crate::admin;
use crate::args::{HostBudget, Wrap};
use crate::exit_code::{ExitCode, Failure};
use crate::shutdown::Shutdown;
use crate::store;
use crate::unlock::key_files;

/// How long running calls may go on once the host is gone. Hosts follow a closed stdin with SIGTERM, and that with
/// SIGKILL, after two seconds each; everything must be settled and every child process stopped by then.
const GRACE: Duration = Duration::from_secs(1);

/// Serves until stdin ends or a signal comes. Nothing but MCP goes to stdout.
pub async fn run(args: Wrap, shutdown: &Shutdown) -> Result<(), Failure> {
    let place = match args.store.clone() {
        Some(place) => place,
        None => store::wrap_place(args.name.as_deref(), &args.command)?,
    };
    let (store, place) = store::open_or_sibling(place, &key_files(&args.key_file)).await?;
    let upstream = upstream(&args);
    tracing::info!(upstream = upstream.name, store = store::shown(&place), "wrapping");
    let gateway = Gateway::builder().shared_store(store).settings(settings(&args)).add(upstream);
    let gateway = gateway.build().await.map_err(|error| Failure::new(ExitCode::Failure, error))?;
    let _admin = admin::serve(&gateway, &place);
    let served = gateway.serve_stdio(tokio::io::stdin(), tokio::io::stdout(), shutdown.begun()).await;
    served.map_err(|error| {
        Failure::new(ExitCode::Failure, format!("the connection to the host failed: {error}"))
    })
}

/// Whoever has started this program is its only user.
fn settings(args: &Wrap) -> Settings {
    let default = HostSettings::default();
    let budget = args.host_budget.map_or(default.budget, |HostBudget(budget)| budget);
    let hosts = HostSettings { budget, ..default };
    Settings { single_user: true, drain_grace: GRACE, hosts, ..Settings::default() }
}

fn upstream(args: &Wrap) -> UpstreamSpec {
    let mut words = args.command.iter().cloned();
    // The command line is refused without a program.
    let command = StdioCommand::new(words.next().unwrap_or_default()).args(words);
    let name = args.name.clone().unwrap_or_else(|| name_of(&command.program));
    let mut policy = ToolPolicy { tasks: args.tasks, ..ToolPolicy::default() };
    policy.inline_for = args.inline_for.unwrap_or(policy.inline_for);
    let tools =
        args.tools.iter().map(|own| (own.tool.clone(), ToolPolicy { tasks: own.mode, ..policy.clone() }));
    let tools = tools.collect();
    UpstreamSpec { policy, tools, ..UpstreamSpec::new(name, UpstreamKind::Process(command)) }
}

/// A name for a server that was given none: that of its program, where it can be one.
fn name_of(program: &str) -> String {
    let stem = Path::new(program).file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    if check_name(stem).is_ok() { stem.to_owned() } else { "upstream".to_owned() }
}

#[cfg(test)]
mod tests {
    use taskgate_gateway::TaskMode;

    use super::*;
    use crate::args::ToolMode;

    #[test]
    fn the_command_line_becomes_an_upstream() {
        let args = Wrap {
            store: None,
            key_file: Vec::new(),
            tasks: TaskMode::Never,
            inline_for: Some(Duration::from_millis(5)),
            host_budget: Some(HostBudget(None)),
            name: None,
            tools: vec![ToolMode { tool: "slow".to_owned(), mode: TaskMode::Always }],
            command: ["/usr/bin/node.exe", "server.js"].map(str::to_owned).to_vec(),
        };
        let spec = upstream(&args);
        assert_eq!(settings(&args).hosts.budget, None);
        assert_eq!(spec.name, "node");
        assert_eq!(
            (spec.policy_of("other").tasks, spec.policy_of("slow").tasks),
            (TaskMode::Never, TaskMode::Always)
        );
        assert_eq!(spec.policy_of("slow").inline_for, Duration::from_millis(5));
        match spec.kind {
            UpstreamKind::Process(command) => assert_eq!(command.args, ["server.js"]),
            UpstreamKind::Http(_)
            | UpstreamKind::InProcess(_)
            | UpstreamKind::Command(_)
            | UpstreamKind::Job(_) => {
                panic!("a process")
            }
        }
    }

    #[test]
    fn a_program_without_a_usable_name_still_gets_one() {
        assert_eq!(name_of("npx"), "npx");
        assert_eq!(name_of("./mein server"), "upstream");
        assert_eq!(name_of(""), "upstream");
    }
}
