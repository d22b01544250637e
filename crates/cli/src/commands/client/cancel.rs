//! `taskgate cancel`: a task is ended.

use super::connect;
use super::subject::find_one;
use crate::args::client::One;
use crate::exit_code::Failure;
use crate::follow::failure;

/// Cancels it, and says how it stands then.
pub async fn run(args: One) -> Result<(), Failure> {
    let subject = find_one(&args.words, &args.server)?;
    let client = connect(&subject.target, args.deadline).await?;
    let done = match client.cancel(&subject.handle).await {
        Ok(()) => client.get(&subject.handle).await,
        Err(error) => Err(error),
    };
    client.close().await;
    super::get::tell(&done.map_err(|error| failure(&error))?, args.output)
}
