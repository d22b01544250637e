//! What a model reads. It does what it is told if that is short, comes with the very call to make, and says what not to do.

use std::time::Duration;

use taskgate_task::{Status, Task, WorkClass};
use taskgate_wire::method;

use super::companions::{Companion, Names};
use crate::config::format_duration;

/// The same for every task that this caller does not have, whatever the reason.
pub(super) const UNKNOWN: &str = "There is no task with this id: it is not one of yours, or it has expired and its result is gone. \
     Use the id exactly as the tool said it. Do not guess ids. If the id was right, tell the user that the result is \
     lost; call the tool again only if it may do its work a second time.";

/// The answer to a call that goes on as a task.
pub(super) fn begun(
    task: &Task,
    tool: &str,
    names: &Names,
    budget: Duration,
    message: Option<&str>,
) -> String {
    let mut text = format!("This is not finished. The work of {tool} goes on as a task.\n");
    stand(&mut text, task, message);
    next(&mut text, task, names, budget);
    text.push_str(&format!("Do not call {tool} again for this: the work would be done twice.\n"));
    others(&mut text, task, names);
    text
}

/// The answer to a question about a task that has not ended. `cannot_ask` says that it wants to know something that this caller
/// cannot be asked.
pub(super) fn unfinished(task: &Task, names: &Names, budget: Duration, cannot_ask: bool) -> String {
    let mut text = "This is not finished.\n".to_owned();
    stand(&mut text, task, None);
    if cannot_ask {
        text.push_str(
            "The work waits for an answer of the user, and this application cannot be asked for it",
        );
        match asked(task) {
            Some(question) => text.push_str(&format!(": {question}\n")),
            None => text.push_str(".\n"),
        }
        let call = call(names, Companion::Cancel, task);
        text.push_str(&format!(
            "Next: tell the user that the task waits for this answer and that it must be given in another application. \
             Do not poll. To give the work up, call {call}.\n"
        ));
        return text;
    }
    next(&mut text, task, names, budget);
    text.push_str("Do not call the tool again that began the work.\n");
    others(&mut text, task, names);
    text
}

/// How a task ended, and how its result is had.
pub(super) fn ended(task: &Task, names: &Names) -> String {
    let mut text = "This has ended.\n".to_owned();
    stand(&mut text, task, None);
    if task.status != Status::Cancelled {
        text.push_str(&format!("Next: call {} to get its result.\n", call(names, Companion::Result, task)));
    }
    text
}

/// What there is instead of the result of work that was ended from outside.
pub(super) fn no_result(task: &Task) -> String {
    let mut text = "There is no result.\n".to_owned();
    stand(&mut text, task, None);
    text.push_str(if task.status == Status::Cancelled {
        "The task was cancelled. Call the tool again only if the user wants the work to be done after all.\n"
    } else {
        "The work was ended before it was done. Tell the user. Call the tool again only if it may do its work a second time.\n"
    });
    text
}

/// What is said to whoever stops a task.
pub(super) const CANCELLED: &str = "The task is cancelled. Its work is being stopped and there will be no result. There is nothing more to do for it.";

/// What is said to whoever leaves out which task is meant.
pub(super) fn wrong_arguments(name: &str) -> String {
    format!(
        "Nothing was done: the arguments are wrong. Call {name} with {{\"task\": \"ID\"}}, where ID is the id that the tool \
         said when it was not finished."
    )
}

fn stand(text: &mut String, task: &Task, message: Option<&str>) {
    text.push_str(&format!("Task: {}\nState: {}\n", task.id, state(task.status)));
    if let Some(message) = task.status_message.as_deref().or(message) {
        // One line, so that nobody takes a line of it for one of ours.
        let words: Vec<&str> = message.split_whitespace().collect();
        text.push_str(&format!("Message: {}\n", words.join(" ")));
    }
}

fn state(status: Status) -> &'static str {
    match status {
        Status::Working => "working",
        Status::InputRequired => "waiting for an answer of the user",
        Status::Completed => "completed",
        Status::Failed => "failed",
        Status::Cancelled => "cancelled",
    }
}

fn next(text: &mut String, task: &Task, names: &Names, budget: Duration) {
    let (call, waits) = (call(names, Companion::Result, task), format_duration(budget));
    text.push_str(&format!("Next: call {call}. It waits up to {waits} for the result"));
    text.push_str(if task.status == Status::InputRequired {
        ", and the user is asked meanwhile. If it is still not finished, call it again.\n"
    } else {
        ". If it is still not finished, call it again.\n"
    });
}

fn others(text: &mut String, task: &Task, names: &Names) {
    let [status, cancel] =
        [Companion::Status, Companion::Cancel].map(|companion| call(names, companion, task));
    text.push_str(&format!(
        "To see only how it stands, call {status}. To stop it for good, call {cancel}.\n"
    ));
    if task.class == WorkClass::Live {
        text.push_str("If the gateway in front of the tool is stopped before the end, the work is lost.\n");
    }
}

/// The very call to make.
fn call(names: &Names, companion: Companion, task: &Task) -> String {
    format!("{} with {{\"task\": \"{}\"}}", names.of(companion), task.id)
}

/// What the first open question wants to know, in the words of whoever asks.
fn asked(task: &Task) -> Option<String> {
    let asks = |method: &str| method == method::ELICIT;
    let question = task.inputs.open().find(|question| asks(&question.method))?;
    let params: serde_json::Value = serde_json::from_str(question.params.as_ref()?.as_str()).ok()?;
    params.get("message")?.as_str().map(str::to_owned)
}
