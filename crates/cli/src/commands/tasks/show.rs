//! How tasks look to people.

use taskgate_gateway::admin::{EventView, TaskView};

use crate::display::{Paint, short, table};

/// How much of an id is shown: where the task lies, without the part that is a secret.
const LOCATOR: usize = 16;

/// A table of tasks.
pub fn list(tasks: &[TaskView]) -> String {
    if tasks.is_empty() {
        return "no tasks\n".to_owned();
    }
    let rows = tasks.iter().map(|task| {
        [
            name(task),
            task.status.as_str().to_owned(),
            short(task.age_ms),
            task.owner.clone(),
            task.upstream.clone(),
            task.tool.clone().unwrap_or_default(),
            task.status_message.clone().unwrap_or_default(),
        ]
    });
    table(["TASK", "STATUS", "AGE", "OWNER", "UPSTREAM", "TOOL", "MESSAGE"], rows)
}

/// One task and its events.
pub fn one(task: &TaskView, events: &[EventView]) -> String {
    let paint = Paint::stdout();
    let tries = format!("{} of {}", task.attempts, task.max_attempts);
    let mut rows = vec![("task", task.task_id.clone()), ("status", paint.status(task.status.as_str()))];
    let mut add = |name, value: Option<&str>| rows.extend(value.map(|value| (name, value.to_owned())));
    add("message", task.status_message.as_deref());
    add("result", task.is_error.then_some("the tool reported an error"));
    add("failure", task.failure.as_deref());
    add("owner", Some(&task.owner));
    add("upstream", Some(&task.upstream));
    add("tool", task.tool.as_deref());
    add("class", Some(&task.class));
    add("attempts", Some(&tries));
    add("carried by", task.ended_at.is_none().then_some(task.carrier.as_str()));
    add("created", Some(&task.created_at));
    add("updated", Some(&task.last_updated_at));
    add("ended", task.ended_at.as_deref());
    add("stops by", task.run_deadline.as_deref());
    add("kept until", task.kept_until.as_deref());
    for key in &task.questions {
        rows.push(("waits for", key.clone()));
    }
    let mut text: String = rows.iter().map(|(name, value)| format!("{name:<11} {value}\n")).collect();
    let rows = events.iter().map(|event| {
        let from = event.from.map_or("", |status| status.as_str());
        [
            event.at.clone(),
            event.who.clone(),
            from.to_owned(),
            event.to.as_str().to_owned(),
            event.why.clone(),
        ]
    });
    text.push('\n');
    text.push_str(&table(["AT", "WHO", "FROM", "TO", "WHY"], rows));
    text
}

fn name(task: &TaskView) -> String {
    task.task_id.chars().take(LOCATOR).collect()
}
