//! What taskgate sends, against schemas that nobody in this project wrote.
//!
//! The golden transcripts hold what is sent; here every message in them, and the lists they leave out, are checked.
//! Sessions before 2025-11-25 are checked as that version, as the SDK does that brings the schemas.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::{Value, json};
use taskgate_proof::stdio::Pipe;
use taskgate_proof::{peers, programs};

use crate::serve::fixtures_stdio;

/// A value, and the schema it must fit.
struct Item {
    place: String,
    schema: Schema,
    value: Value,
}

/// Whose schema, and its name there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Schema {
    /// Of 2025-11-25.
    Session(&'static str),
    /// Of 2026-07-28.
    Stateless(&'static str),
    /// Of the tasks extension.
    Tasks(&'static str),
}
use Schema::{Session, Stateless, Tasks};

/// CASE 15: every message of every generation fits the schema of its kind.
#[test]
fn everything_sent_fits_the_published_schemas() {
    let mut items = Vec::new();
    let golden = programs::repository().join("proof/golden");
    for version in fs::read_dir(&golden).expect("goldens").map(|entry| entry.expect("a folder").path()) {
        for file in fs::read_dir(&version).expect("goldens").map(|entry| entry.expect("a file").path()) {
            let place = file.strip_prefix(&golden).expect("in there").display().to_string();
            read(&place, &fs::read_to_string(&file).expect("a transcript"), &mut items);
        }
    }
    lists(&mut items);
    // Each of these is in what was checked: a transcript that loses one would prove less than it says.
    let checked: BTreeSet<Schema> = items.iter().map(|item| item.schema).collect();
    for schema in MUST {
        assert!(checked.contains(&schema), "nothing of {} was checked", name(schema).1);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let core = folder.path().join("core.jsonl");
    let tasks = folder.path().join("tasks.jsonl");
    let lines = |wanted: &dyn Fn(Schema) -> bool| -> String {
        items.iter().filter(|item| wanted(item.schema)).map(|item| line(item) + "\n").collect()
    };
    fs::write(&core, lines(&|schema| !matches!(schema, Tasks(_)))).expect("written");
    fs::write(&tasks, lines(&|schema| matches!(schema, Tasks(_)))).expect("written");
    let mut command = peers::python_command("fastmcp", &peers::files().join("schemas/core.py"));
    command.arg(core);
    let first = peers::passed("core schemas", command);
    let mut command = peers::node_command(&peers::files().join("schemas/tasks.mjs"));
    command.arg(tasks);
    let second = peers::passed("schemas of the tasks extension", command);
    let total = first["passed"].as_u64().zip(second["passed"].as_u64()).map(|(one, two)| one + two);
    assert_eq!(total, Some(items.len() as u64));
}

const MUST: [Schema; 24] = [
    Session("InitializeResult"),
    Session("CallToolResult"),
    Session("CreateTaskResult"),
    Session("GetTaskResult"),
    Session("ListTasksResult"),
    Session("CancelTaskResult"),
    Session("TaskStatusNotification"),
    Session("ElicitRequest"),
    Session("ListToolsResult"),
    Session("Result"),
    Session("JSONRPCErrorResponse"),
    Stateless("DiscoverResult"),
    Stateless("CallToolResult"),
    Stateless("InputRequiredResult"),
    Stateless("ListToolsResult"),
    Stateless("SubscriptionsAcknowledgedNotification"),
    Stateless("JSONRPCErrorResponse"),
    Stateless("MissingRequiredClientCapabilityError"),
    Stateless("UnsupportedProtocolVersionError"),
    Tasks("CreateTaskResultV2Schema"),
    Tasks("GetTaskResultV2Schema"),
    Tasks("UpdateTaskResultV2Schema"),
    Tasks("CancelTaskResultV2Schema"),
    Tasks("TaskStatusNotificationV2Schema"),
];

/// Takes what was received from a transcript.
fn read(place: &str, transcript: &str, items: &mut Vec<Item>) {
    let stateless = place.starts_with("2026-07-28");
    let mut asked: BTreeMap<String, Value> = BTreeMap::new();
    for (number, text) in transcript.lines().enumerate() {
        let place = format!("{place}:{}", number + 1);
        let entry: Value = serde_json::from_str(&text.replace("\"<milliseconds>\"", "1")).expect("JSON");
        if let Some(sent) = entry.get("send") {
            asked.insert(sent["id"].to_string(), sent.clone());
        } else if let Some(received) = entry.get("receive") {
            let question = asked.get(&received["id"].to_string());
            message(&place, stateless, received, question, items);
        }
    }
}

/// Takes one message. `question` is the request it answers, if it answers one.
fn message(place: &str, stateless: bool, message: &Value, question: Option<&Value>, items: &mut Vec<Item>) {
    let mut add = |schema, value: &Value| {
        items.push(Item { place: place.to_owned(), schema, value: value.clone() });
    };
    if let Some(method) = message["method"].as_str() {
        let schema = match (stateless, method) {
            // SEP-1686 as first written has no published schema of its own.
            (false, "notifications/tasks/created") => Session("Notification"),
            (false, "notifications/tasks/status") => Session("TaskStatusNotification"),
            (false, "elicitation/create") => Session("ElicitRequest"),
            (false, "notifications/message") => Session("LoggingMessageNotification"),
            (true, "notifications/message") => Stateless("LoggingMessageNotification"),
            (true, "notifications/resources/updated") => Stateless("ResourceUpdatedNotification"),
            (true, "notifications/tasks") => Tasks("TaskStatusNotificationV2Schema"),
            (true, "notifications/subscriptions/acknowledged") => {
                Stateless("SubscriptionsAcknowledgedNotification")
            }
            _ => panic!("{place}: nobody knows the schema of {method}"),
        };
        if method == "notifications/tasks" && message["params"]["status"] == "completed" {
            add(Stateless("CallToolResult"), &message["params"]["result"]);
        }
        return add(schema, message);
    }
    if let Some(error) = message.get("error") {
        // Where no id could be read, JSON-RPC wants null and the published schema wants it left out; we send null, and the
        // models take either.
        let schema = match (stateless, error["code"].as_i64()) {
            (false, _) => Session("JSONRPCErrorResponse"),
            (true, Some(-32020)) => Stateless("HeaderMismatchError"),
            (true, Some(-32021)) => Stateless("MissingRequiredClientCapabilityError"),
            (true, Some(-32022)) => Stateless("UnsupportedProtocolVersionError"),
            (true, _) => Stateless("JSONRPCErrorResponse"),
        };
        return add(schema, message);
    }
    let method = question.and_then(|question| question["method"].as_str()).expect("what was asked");
    let result = &message["result"];
    let schema = match (stateless, method, result["resultType"].as_str()) {
        // Only what they share with all results is published.
        (false, "tasks/get" | "tasks/list" | "tasks/delete", _) if place.starts_with("2025-10-20") => {
            Session("Result")
        }
        (false, "initialize", _) => Session("InitializeResult"),
        (false, "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe", _) => {
            Session("Result")
        }
        (false, "tools/call", _) if result.get("task").is_some() => Session("CreateTaskResult"),
        (false, "tools/call" | "tasks/result", _) => Session("CallToolResult"),
        (false, "tasks/get", _) => Session("GetTaskResult"),
        (false, "tasks/list", _) => Session("ListTasksResult"),
        (false, "tasks/cancel", _) => Session("CancelTaskResult"),
        (false, "tools/list", _) => Session("ListToolsResult"),
        (false, "prompts/list", _) => Session("ListPromptsResult"),
        (false, "resources/list", _) => Session("ListResourcesResult"),
        (false, "resources/templates/list", _) => Session("ListResourceTemplatesResult"),
        (true, "server/discover", _) => Stateless("DiscoverResult"),
        (true, "tools/call", Some("task")) => Tasks("CreateTaskResultV2Schema"),
        (true, "tools/call", Some("input_required")) => Stateless("InputRequiredResult"),
        (true, "tools/call", _) => Stateless("CallToolResult"),
        (true, "tasks/get", _) => Tasks("GetTaskResultV2Schema"),
        (true, "tasks/update", _) => Tasks("UpdateTaskResultV2Schema"),
        (true, "tasks/cancel", _) => Tasks("CancelTaskResultV2Schema"),
        (true, "tools/list", _) => Stateless("ListToolsResult"),
        (true, "prompts/list", _) => Stateless("ListPromptsResult"),
        (true, "resources/list", _) => Stateless("ListResourcesResult"),
        (true, "resources/templates/list", _) => Stateless("ListResourceTemplatesResult"),
        _ => panic!("{place}: nobody knows the schema of the answer to {method}"),
    };
    if stateless && method == "tasks/get" && result["status"] == "completed" {
        add(Stateless("CallToolResult"), &result["result"]);
    }
    add(schema, result);
}

/// The lists of a live server, in both generations: taskgate edits them, and the transcripts leave them out.
fn lists(items: &mut Vec<Item>) {
    let mut pipe = Pipe::start(fixtures_stdio());
    pipe.initialize("2025-11-25");
    for method in ["tools/list", "prompts/list", "resources/list", "resources/templates/list"] {
        let request = json!({ "method": method });
        for stateless in [false, true] {
            let result =
                if stateless { pipe.modern(method, json!({})) } else { pipe.in_session(method, json!({})) };
            let answer = json!({ "result": result.expect("a list") });
            message(method, stateless, &answer, Some(&request), items);
        }
    }
    pipe.close();
}

fn name(schema: Schema) -> (&'static str, &'static str) {
    match schema {
        Session(name) => ("2025-11-25", name),
        Stateless(name) | Tasks(name) => ("2026-07-28", name),
    }
}

fn line(item: &Item) -> String {
    let (version, schema) = name(item.schema);
    json!({ "where": item.place, "version": version, "schema": schema, "value": item.value }).to_string()
}
