//! The commands that speak to a server as its requestor. One verb, one file.

mod answer;
mod arguments;
mod call;
mod cancel;
mod get;
mod list;
mod logs;
mod resume;
mod subject;
mod tools;
mod watch;

use std::time::Duration;

use taskgate_client::{Answers, Client, ClientBuilder, ConnectError};

use crate::args::Command;
use crate::args::client::Look;
use crate::calls::{self, Remembered};
use crate::display::indented;
use crate::endpoint::Target;
use crate::exit_code::{ExitCode, Failure};
use crate::follow::{self, Signals};
use crate::forms::AnswerFile;

/// How long the end of the program waits for threads that may never end, such as one that reads from the terminal.
const PATIENCE: Duration = Duration::from_millis(100);

/// Does what one of these commands says.
pub fn run(command: Command) -> Result<(), Failure> {
    let cannot = |error| Failure::new(ExitCode::Failure, format!("cannot start: {error}"));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(cannot)?;
    let result = runtime.block_on(async {
        let mut signals = Signals::new()?;
        match command {
            Command::Call(args) => call::run(args, &mut signals).await,
            Command::Watch(args) => watch::run(args, false, &mut signals).await,
            Command::Result(args) => watch::run(args, true, &mut signals).await,
            Command::Logs(args) => logs::run(args, &mut signals).await,
            Command::Answer(args) => answer::run(args, &mut signals).await,
            Command::Resume(args) => resume::run(args, &mut signals).await,
            Command::Get(args) => or_stop(&mut signals, get::run(args)).await,
            Command::Cancel(args) => or_stop(&mut signals, cancel::run(args)).await,
            Command::List(args) => or_stop(&mut signals, list::run(args)).await,
            Command::Tools(args) => or_stop(&mut signals, tools::run(args)).await,
            // Others are no commands of a requestor.
            _ => Ok(()),
        }
    });
    runtime.shutdown_timeout(PATIENCE);
    result
}

/// What follows no call ends at the first signal: there is nothing yet that one could come back to.
async fn or_stop<T>(
    signals: &mut Signals,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    tokio::select! {
        done = work => done,
        signal = signals.next() => Err(Failure::new(ExitCode::Detached, format!("stopped by {signal:?}"))),
    }
}

/// How to connect to a server. A deadline holds for that, too, and for every request by itself.
fn builder(target: &Target, deadline: Option<Duration>, answers: Answers) -> ClientBuilder {
    let builder = Client::builder(target.endpoint.clone())
        .name("taskgate")
        .version(env!("CARGO_PKG_VERSION"))
        .answers(answers);
    match deadline {
        Some(deadline) => builder.deadline(deadline),
        None => builder,
    }
}

/// Connects, for a question or an order.
async fn connect(target: &Target, deadline: Option<Duration>) -> Result<Client, Failure> {
    connected(builder(target, deadline, Answers::default())).await
}

/// Connects, for calls that are followed, of which account is kept for as long as the second value lives.
async fn connect_to_follow(
    target: &Target,
    deadline: Option<Duration>,
    answers: Answers,
) -> Result<(Client, Option<Remembered>), Failure> {
    connect_to_follow_with(target, builder(target, deadline, answers)).await
}

/// The same, with more to say of the connection.
async fn connect_to_follow_with(
    target: &Target,
    builder: ClientBuilder,
) -> Result<(Client, Option<Remembered>), Failure> {
    let remembered = calls::remember(&target.endpoint.identity(), &target.named);
    let builder = match &remembered {
        Some(remembered) => builder.ledger(remembered.ledger.clone()),
        None => builder,
    };
    Ok((connected(builder).await?, remembered))
}

async fn connected(builder: ClientBuilder) -> Result<Client, Failure> {
    builder.connect().await.map_err(|error| unconnected(&error))
}

fn unconnected(error: &ConnectError) -> Failure {
    let code = match error {
        ConnectError::Deadline(_) => ExitCode::Timeout,
        ConnectError::Start(_) | ConnectError::Open(_) => ExitCode::Unreachable,
    };
    Failure::new(code, indented(&error.to_string()))
}

/// The answers of a script, and what can be answered with them or at the terminal.
fn answers(look: &Look) -> Result<(AnswerFile, Answers), Failure> {
    let file = look.answer.as_deref().map(AnswerFile::read).transpose()?;
    // Forms are answered later where nobody is here. What people cannot answer is only for files.
    let has_file = file.is_some();
    let able = Answers { form: true, url: true, sampling: has_file, roots: has_file };
    Ok((file.unwrap_or_default(), able))
}

/// What is wanted of following where nothing special is.
fn options(look: &Look, answers: AnswerFile) -> follow::Options {
    follow::Options { output: look.output, detach: false, quiet: false, until_answered: false, answers }
}
