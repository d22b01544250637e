//! `taskgate resume`: calls that were never seen to their ends are gone on with.

use super::subject::server_of;
use super::{answers, builder, connected, options, or_stop};
use crate::args::client::Resume;
use crate::calls;
use crate::exit_code::Failure;
use crate::follow::{Followed, Signals, conclude, failure, follow};

/// Follows all that is open at this server.
pub async fn run(args: Resume, signals: &mut Signals) -> Result<(), Failure> {
    let target = server_of(args.endpoint.as_deref(), &args.server)?;
    let (file, able) = answers(&args.look)?;
    let remembered = calls::take_over(&target.endpoint.identity())?;
    let builder = builder(&target, args.look.deadline, able).ledger(remembered.ledger.clone());
    let client = or_stop(signals, connected(builder)).await?;
    let open = client.resume_all().await.map_err(|error| failure(&error))?;
    remembered.share();
    if open.is_empty() {
        eprintln!("taskgate: nothing is open");
    }
    let open = open.into_iter().map(|call| {
        let label = call.handle().map_or_else(|| "call".to_owned(), |handle| handle.tool);
        Followed { label, named: target.named.clone(), call }
    });
    let ends = follow(open.collect(), options(&args.look, file), signals).await?;
    let concluded = conclude(&ends, args.look.output, false);
    client.close().await;
    concluded
}
