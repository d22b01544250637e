//! `taskgate`: puts durable tasks in front of MCP servers that know nothing of them.

mod admin;
mod args;
mod calls;
mod commands;
mod demo;
mod display;
mod endpoint;
mod exit_code;
mod follow;
mod forms;
mod handle;
mod logging;
mod reload;
mod say;
mod shutdown;
mod store;
mod unlock;

use std::time::Duration;

use clap::Parser;

use args::{Args, Command};
use exit_code::{ExitCode, Failure};
use shutdown::Shutdown;

/// A request allocates on one thread and may be freed on another, where the system's allocator makes threads wait
/// for each other (docs/figures.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How long the end of the program waits for threads that may never end, such as one that reads stdin.
const PATIENCE: Duration = Duration::from_millis(500);

fn main() -> std::process::ExitCode {
    match run(Args::parse()) {
        Ok(()) => ExitCode::Success.into(),
        Err(Failure { code, message }) => {
            eprintln!("taskgate: {}", display::clean(&taskgate_gateway::redact::redact(&message)));
            code.into()
        }
    }
}

fn run(args: Args) -> Result<(), Failure> {
    // A supervisor has its command's environment, which says nothing of our logs.
    if !matches!(args.command, Command::Supervise(_)) {
        logging::start()?;
    }
    match args.command {
        Command::Supervise(supervise) => commands::supervise::run(&supervise),
        Command::Check(check) => commands::check::run(&check),
        Command::Tasks(tasks) => commands::tasks::run(&tasks),
        Command::Completions(completions) => commands::completions::run(&completions),
        Command::Man(man) => commands::man::run(&man),
        Command::Store(store) => commands::store::run(&store),
        client @ (Command::Call(_)
        | Command::Get(_)
        | Command::Watch(_)
        | Command::Result(_)
        | Command::Answer(_)
        | Command::Cancel(_)
        | Command::List(_)
        | Command::Tools(_)
        | Command::Logs(_)
        | Command::Resume(_)) => commands::client::run(client),
        Command::Serve(serve) => block_on(async |shutdown| commands::serve::run(serve, shutdown).await),
        Command::Wrap(wrap) => block_on(async |shutdown| commands::wrap::run(wrap, shutdown).await),
    }
}

/// Runs a server until it ends by itself, or at once if the user insists.
fn block_on(server: impl AsyncFnOnce(&Shutdown) -> Result<(), Failure>) -> Result<(), Failure> {
    let cannot = |error| Failure::new(ExitCode::Failure, format!("cannot start: {error}"));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(cannot)?;
    let result = runtime.block_on(async {
        let shutdown = Shutdown::on_signals().map_err(cannot)?;
        tokio::select! {
            result = server(&shutdown) => result,
            signal = shutdown.insisted() => {
                Err(Failure::new(ExitCode::Killed(signal), "stopped at once; what was still running is left to the next start"))
            }
        }
    });
    // Whatever still runs is dropped here, and child processes are stopped by that.
    runtime.shutdown_timeout(PATIENCE);
    result
}
