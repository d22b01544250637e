//! `taskgate logs`: what a server logs apart from calls, as it comes.

use std::time::Duration;

use taskgate_client::{Answers, Logs};

use super::subject::server_of;
use super::{builder, connected, or_stop};
use crate::args::client;
use crate::display::Output;
use crate::exit_code::Failure;
use crate::follow::{Line, Signals, failure, log_line, print};
use crate::say::say;

/// Prints it, until a signal or the end of its time.
pub async fn run(args: client::Logs, signals: &mut Signals) -> Result<(), Failure> {
    let target = server_of(args.endpoint.as_deref(), &args.server)?;
    let builder = builder(&target, args.deadline, Answers::default()).log_level(args.level);
    let client = or_stop(signals, connected(builder)).await?;
    let listening = or_stop(signals, async { client.logs().await.map_err(|error| failure(&error)) }).await;
    let done = match listening {
        Ok(logs) => tokio::select! {
            failed = tell(logs, args.output) => Err(failed),
            // That is how it is meant to end.
            _ = signals.next() => Ok(()),
            () = over(args.listen_for) => Ok(()),
        },
        Err(failure) => Err(failure),
    };
    client.close().await;
    done
}

/// Prints what comes, until nothing can come any more.
async fn tell(mut logs: Logs, output: Output) -> Failure {
    loop {
        let said = match logs.next().await {
            Ok(params) => match output {
                Output::Json => print(&Line::Log { params: &params }),
                Output::Text => say(format_args!("{}\n", log_line(&params))),
            },
            Err(error) => Err(failure(&error)),
        };
        if let Err(failure) = said {
            return failure;
        }
    }
}

async fn over(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}
