//! `taskgate get`: how a task stands.

use std::time::Duration;

use taskgate_client::TaskState;

use super::connect;
use super::subject::find_one;
use crate::args::client::One;
use crate::display::{Output, Paint, line, short};
use crate::exit_code::Failure;
use crate::follow::{State, failure, print, status};
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
    // Only the colour of the status is ours; everything else is the server's.
    let word = Paint::stdout().status(&line(status(&state.status)));
    let mut rows = vec![("task", line(&state.task)), ("status", word)];
    let mut add = |name, value: Option<&str>| rows.extend(value.map(|value| (name, line(value))));
    add("message", state.message.as_deref());
    add("created", state.created.as_deref());
    add("updated", state.updated.as_deref());
    add("kept for", time(state.ttl).as_deref());
    add("ask every", time(state.poll_interval).as_deref());
    for (key, _) in &state.inputs {
        add("asks", Some(key));
    }
    rows.iter().map(|(name, value)| format!("{name:<10} {value}\n")).collect()
}

#[cfg(test)]
mod tests {
    use taskgate_client::{TaskState, TaskStatus};
    use taskgate_gateway::Payload;

    #[test]
    fn a_server_cannot_write_lines_of_ours_or_steer_the_terminal() {
        let hostile = "\u{1b}]0;title\u{7}\nstatus     completed";
        let state = TaskState {
            task: hostile.to_owned(),
            status: TaskStatus::Unknown(hostile.to_owned()),
            message: Some(hostile.to_owned()),
            created: Some(hostile.to_owned()),
            updated: Some(hostile.to_owned()),
            ttl: None,
            poll_interval: None,
            next_poll: None,
            inputs: vec![(hostile.to_owned(), Payload::null())],
            raw: Payload::null(),
        };
        let text = super::text(&state);
        assert!(!text.contains(['\u{1b}', '\u{7}']), "{text:?}");
        assert_eq!(text.lines().count(), 6, "{text:?}");
    }
}
