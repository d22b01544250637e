//! How tasks look to people.

use taskgate_gateway::admin::{EventView, TaskView};

use crate::display::{Paint, line, short, table};

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
            line(&task.owner),
            line(&task.upstream),
            line(task.tool.as_deref().unwrap_or_default()),
            line(task.status_message.as_deref().unwrap_or_default()),
        ]
    });
    table(["TASK", "STATUS", "AGE", "OWNER", "UPSTREAM", "TOOL", "MESSAGE"], rows)
}

/// One task and its events.
pub fn one(task: &TaskView, events: &[EventView]) -> String {
    let paint = Paint::stdout();
    let tries = format!("{} of {}", task.attempts, task.max_attempts);
    let mut rows = vec![("task", task.task_id.clone()), ("status", paint.status(task.status.as_str()))];
    let mut add = |name, value: Option<&str>| rows.extend(value.map(|value| (name, line(value))));
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
        rows.push(("waits for", line(key)));
    }
    let mut text: String = rows.iter().map(|(name, value)| format!("{name:<11} {value}\n")).collect();
    let rows = events.iter().map(|event| {
        let from = event.from.map_or("", |status| status.as_str());
        [event.at.clone(), line(&event.who), from.to_owned(), event.to.as_str().to_owned(), line(&event.why)]
    });
    text.push('\n');
    text.push_str(&table(["AT", "WHO", "FROM", "TO", "WHY"], rows));
    text
}

fn name(task: &TaskView) -> String {
    task.task_id.chars().take(LOCATOR).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn what_clients_and_servers_chose_can_neither_steer_a_terminal_nor_write_lines() {
        let hostile = "\u{1b}[2J\u{9b}1A\nstatus      completed";
        let task = json!({
            "taskId": "1", "status": "working", "statusMessage": hostile, "owner": hostile, "upstream": hostile,
            "tool": hostile, "class": "live", "createdAt": "now", "ageMs": 1, "lastUpdatedAt": "now",
            "attempts": 1, "maxAttempts": 1, "carrier": hostile, "failure": hostile, "isError": false,
            "questions": [hostile],
        });
        let event =
            json!({"version": 1, "at": "now", "who": hostile, "from": null, "to": "working", "why": hostile});
        let task: super::TaskView = serde_json::from_value(task).expect("a task");
        let event: super::EventView = serde_json::from_value(event).expect("an event");
        let list = super::list(std::slice::from_ref(&task));
        let one = super::one(&task, &[event]);
        assert!(!format!("{list}{one}").contains(['\u{1b}', '\u{9b}']), "{list}{one}");
        assert_eq!(one.lines().filter(|line| line.starts_with("status")).count(), 1, "{one}");
    }
}
