//! `taskgate list`: the tasks that a server knows for us; or, where none is given, the calls that this machine remembers as open.

use serde::Serialize;
use taskgate_client::OpenCall;

use super::connect;
use super::subject::server_of;
use crate::args::client::Of;
use crate::calls;
use crate::display::{self, Output, short, table};
use crate::endpoint::Named;
use crate::exit_code::Failure;
use crate::follow::{State, failure, print, status};
use crate::handle::Token;
use crate::say::say;

/// Lists them.
pub async fn run(args: Of) -> Result<(), Failure> {
    if args.endpoint.is_none() && args.server.command.is_empty() {
        return remembered(&calls::open_calls().await?, args.output);
    }
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
                let message = display::line(task.message.as_deref().unwrap_or_default());
                let created = display::line(task.created.as_deref().unwrap_or_default());
                [display::line(&task.task), display::line(status(&task.status)), created, message]
            });
            say(table(["TASK", "STATUS", "CREATED", "MESSAGE"], rows))
        }
    }
}

/// A call that is open, for programs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    endpoint: &'a str,
    tool: &'a str,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    handle: Option<String>,
    /// Milliseconds since 1970.
    created_ms: u64,
}

impl<'a> Line<'a> {
    fn of((call, named): &'a (OpenCall, Named)) -> Line<'a> {
        let handle = call.handle.as_ref();
        Line {
            endpoint: &call.endpoint,
            tool: &call.tool,
            // One that was sent may have arrived or not; one that was accepted is a task.
            state: if handle.is_some() { "accepted" } else { "sent" },
            task_id: handle.map(|handle| handle.task.as_str()),
            handle: handle.map(|handle| Token::new(handle.clone(), named).write()),
            created_ms: call.created,
        }
    }
}

fn remembered(calls: &[(OpenCall, Named)], output: Output) -> Result<(), Failure> {
    match output {
        Output::Json => calls.iter().try_for_each(|call| print(&Line::of(call))),
        Output::Text if calls.is_empty() => say("nothing is open\n"),
        Output::Text => {
            let rows = calls.iter().map(|call| {
                let line = Line::of(call);
                let age = short(u64::try_from(call.0.age().as_millis()).unwrap_or(u64::MAX));
                let handle = line.handle.unwrap_or_default();
                [display::line(line.endpoint), display::line(line.tool), line.state.to_owned(), age, handle]
            });
            say(table(["SERVER", "TOOL", "STATE", "AGE", "HANDLE"], rows))
        }
    }
}
