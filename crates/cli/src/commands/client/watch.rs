//! `taskgate watch`, `taskgate result` and `taskgate logs`: tasks are followed to their ends.

use super::subject::{Subject, find};
use super::{answers, connect_to_follow, options, or_stop};
use crate::args::client::Watch;
use crate::exit_code::Failure;
use crate::follow::{Followed, Options, Signals, conclude, follow};

/// What is wanted of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// All that happens, and its result.
    Everything,
    /// Its result, when there is one.
    Result,
    /// What its server logs.
    Logs,
}

/// Follows them.
pub async fn run(args: Watch, what: What, signals: &mut Signals) -> Result<(), Failure> {
    let subjects = find(&args.words, &args.server)?;
    let (file, able) = answers(&args.look)?;
    let (mut clients, mut calls) = (Vec::new(), Vec::new());
    for Subject { handle, target } in subjects {
        let known = clients.iter().find(|(identity, _)| *identity == target.endpoint.identity());
        let client = match known {
            Some((_, (client, _))) => client,
            None => {
                let client = or_stop(signals, connect_to_follow(&target, args.look.deadline, able)).await?;
                clients.push((target.endpoint.identity(), client));
                &clients[clients.len() - 1].1.0
            }
        };
        let label =
            if handle.tool.is_empty() { handle.task.chars().take(16).collect() } else { handle.tool.clone() };
        calls.push(Followed { label, named: target.named, call: client.resume(handle) });
    }
    let (quiet, only_logs) = (what == What::Result, what == What::Logs);
    let ends = follow(calls, Options { quiet, only_logs, ..options(&args.look, file) }, signals).await?;
    let concluded = conclude(&ends, args.look.output, false);
    for (_, (client, _)) in &clients {
        client.close().await;
    }
    concluded
}
