//! `taskgate get`: how a task stands.

use std::time::Duration;

use taskgate_client::TaskState;

use super::connect;
use super::subject::find_one;
use crate::args::client::One;
use crate::display::{Output, Paint, short};
use crate::exit_code::Failure;
use crate::follow::{State, failure, print, status};
use crate::forms::clean;
use crate::say::say;

/// Asks once.
pub async fn run(args: One) -> Result<(), Failure> {
    let subject = find_one(&args.words, &args.server)?;
    let client = connect(&subject.target, args.deadline).await?;
    let state = client.get(&subject.handle).await;
    client.close().await;
    tell(&state.map_err(|error| failure(&error))?, args.output)
}

/// Prints how it stands.
pub fn tell(state: &TaskState, output: Output) -> Result<(), Failure> {
    match output {
        Output::Json => print(&State::of(state)),
        Output::Text => say(text(state)),
    }
}

fn text(state: &TaskState) -> String {
    let time = |duration: Option<Duration>| {
        duration.map(|duration| short(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)))
    };
    let mut rows =
        vec![("task", state.task.clone()), ("status", Paint::stdout().status(status(&state.status)))];
    let mut add = |name, value: Option<String>| rows.extend(value.map(|value| (name, value)));
    add("message", state.message.clone());
    add("created", state.created.clone());
    add("updated", state.updated.clone());
    add("kept for", time(state.ttl));
    add("ask every", time(state.poll_interval));
    for (key, _) in &state.inputs {
        add("asks", Some(key.clone()));
    }
    rows.iter().map(|(name, value)| format!("{name:<10} {}\n", plain(value))).collect()
}

/// A status is coloured by us; everything else is the server's.
fn plain(value: &str) -> String {
    if value.starts_with('\u{1b}') { value.to_owned() } else { clean(value) }
}
