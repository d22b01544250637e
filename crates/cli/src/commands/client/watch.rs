//! `taskgate watch` and `taskgate result`: tasks are followed to their ends.

use super::subject::{Subject, find};
use super::{answers, connect_to_follow, options, or_stop};
use crate::args::client::Watch;
use crate::exit_code::Failure;
use crate::follow::{Followed, Options, Signals, are_over, conclude, follow};

/// Follows them; quietly where only the result counts.
pub async fn run(args: Watch, quiet: bool, signals: &mut Signals) -> Result<(), Failure> {
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
        calls.push(Followed { label, named: target.named, is_new: false, call: client.resume(handle) });
    }
    let ends = follow(calls, Options { quiet, ..options(&args.look, file) }, signals).await?;
    let concluded = conclude(&ends, args.look.output, false);
    for (_, (client, remembered)) in clients {
        client.close().await;
        if let Some(remembered) = remembered
            && are_over(&ends)
        {
            remembered.forget();
        }
    }
    concluded
}
