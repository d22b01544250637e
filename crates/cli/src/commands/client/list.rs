//! `taskgate list`: the tasks that a server knows for us.

use super::connect;
use super::subject::server_of;
use crate::args::client::Of;
use crate::display::{Output, table};
use crate::exit_code::Failure;
use crate::follow::{State, failure, print, status};
use crate::forms::clean;
use crate::say::say;

/// Lists them.
pub async fn run(args: Of) -> Result<(), Failure> {
    let target = server_of(args.endpoint.as_deref(), &args.server)?;
    let client = connect(&target, args.deadline).await?;
    let tasks = client.list().await;
    client.close().await;
    let tasks = tasks.map_err(|error| failure(&error))?;
    match args.output {
        Output::Json => tasks.iter().try_for_each(|task| print(&State::of(task))),
        Output::Text if tasks.is_empty() => say("no tasks\n"),
        Output::Text => {
            let rows = tasks.iter().map(|task| {
                let message = clean(task.message.as_deref().unwrap_or_default());
                let created = clean(task.created.as_deref().unwrap_or_default());
                [clean(&task.task), clean(status(&task.status)), created, message]
            });
            say(table(["TASK", "STATUS", "CREATED", "MESSAGE"], rows))
        }
    }
}
