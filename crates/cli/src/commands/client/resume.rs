//! `taskgate resume`: calls that were never seen to their ends are gone on with.

use taskgate_client::{Answers, Client};

use super::subject::{no_credentials, server_of};
use super::{answers, builder, connected, options, or_stop};
use crate::args::client::Resume;
use crate::calls::{self, Remembered};
use crate::endpoint::{self, Named, Target};
use crate::exit_code::Failure;
use crate::follow::{Followed, Signals, are_over, conclude, failure, follow};

/// Follows all that is open at a server, or at every one where something may be.
pub async fn run(args: Resume, signals: &mut Signals) -> Result<(), Failure> {
    let (file, able) = answers(&args.look)?;
    let mut missed = Ok(());
    let targets = match (&args.endpoint, args.server.command.is_empty()) {
        (None, true) => {
            no_credentials(&args.server, "without one, every server is asked at which something is open")?;
            let mut targets = Vec::new();
            for (identity, named) in calls::open_servers()? {
                if named == Named::Command {
                    eprintln!(
                        "taskgate: {identity}: give this server again, as a command after -- or by its URL"
                    );
                    continue;
                }
                targets.push(endpoint::find(&named, &args.server)?);
            }
            targets
        }
        (word, _) => vec![server_of(word.as_deref(), &args.server)?],
    };
    let (mut clients, mut open) = (Vec::new(), Vec::new());
    for target in targets {
        match or_stop(signals, take_up(&target, &args, able)).await {
            Ok((client, remembered, followed)) => {
                clients.push((client, remembered));
                open.extend(followed);
            }
            // What is open elsewhere can be gone on with all the same.
            Err(failure) if args.endpoint.is_none() && args.server.command.is_empty() => {
                eprintln!("taskgate: {}: {}", target.endpoint.identity(), failure.message);
                missed = Err(failure);
            }
            Err(failure) => return Err(failure),
        }
    }
    if open.is_empty() && missed.is_ok() {
        eprintln!("taskgate: nothing is open");
    }
    let ends = follow(open, options(&args.look, file), signals).await?;
    let concluded = conclude(&ends, args.look.output, false);
    for (client, remembered) in clients {
        client.close().await;
        if are_over(&ends) {
            remembered.forget();
        }
    }
    concluded.and(missed)
}

async fn take_up(
    target: &Target,
    args: &Resume,
    able: Answers,
) -> Result<(Client, Remembered, Vec<Followed>), Failure> {
    let remembered = calls::take_over(&target.endpoint.identity())?;
    let builder = builder(target, args.look.deadline, able).ledger(remembered.ledger.clone());
    let client = connected(builder).await?;
    let open = client.resume_all().await.map_err(|error| failure(&error))?;
    remembered.share();
    let followed = open.into_iter().map(|call| {
        let label = call.handle().map_or_else(|| "call".to_owned(), |handle| handle.tool);
        Followed { label, named: target.named.clone(), is_new: false, call }
    });
    Ok((client, remembered, followed.collect()))
}
