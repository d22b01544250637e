//! What each generation says of tasks and reads of them, both ways: what one side writes, the other side reads as what it was.

use std::time::Duration;

use arbitrary::{Result, Unstructured};
use serde_json::Value;
use taskgate_task::{Outcome, Owner, Payload, Status, Task, TaskId};
use taskgate_wire::dialect::{d2025_10_20 as first, d2025_11_25 as old, d2026_07_28 as new};
use taskgate_wire::hosted::{self, HostedStatus, HostedTask};
use taskgate_wire::{Capabilities, Dialect, Params, RawObject, Reply, RpcError, meta};

use crate::life;
use crate::pieces::{check_error, text};

/// Verbs, and what is none.
const METHODS: [&str; 11] = [
    "tasks/get",
    "tasks/result",
    "tasks/list",
    "tasks/cancel",
    "tasks/delete",
    "tasks/update",
    "tools/call",
    "subscriptions/listen",
    "initialize",
    "tasks/other",
    "prompts/get",
];

pub fn check(data: &[u8]) {
    let Some((kind, rest)) = data.split_first() else { return };
    if kind % 2 == 0 {
        // Too few bytes are no life.
        let _ = spoken(&mut Unstructured::new(rest));
    } else if let Ok(text) = std::str::from_utf8(rest)
        && let Ok(payload) = Payload::parse(text.to_owned())
    {
        heard(usize::from(kind / 2), &payload);
        raw(&payload);
    }
}

/// A task, whatever has happened to it, is read by a requestor as what it is.
fn spoken(input: &mut Unstructured<'_>) -> Result<()> {
    let id = TaskId::from_parts(input.int_in_range(1..=i64::MAX)?, input.arbitrary()?);
    let mut task = Task::create(&life::new_task(input, id, Owner::local())?);
    let mut now = life::BEGIN;
    while !input.is_empty() && input.ratio(7_u8, 8_u8)? {
        now = now.after(Duration::from_millis(input.int_in_range(0..=20_000_u64)?));
        if let Ok(change) = task.step(life::step(input)?, now) {
            task = change.task;
        }
    }
    for dialect in [Dialect::D2025_11_25, Dialect::D2026_07_28] {
        let created = dialect.encode(Reply::Created { task: &task, immediate: Some("soon") }).unwrap();
        let (named, said) = hosted::created(dialect, &created).unwrap().unwrap();
        assert_eq!(TaskId::parse(&named), Ok(id));
        assert!(said.result.is_none() && said.error.is_none() && said.input_requests.is_none());
        let state = hosted::state(dialect, &dialect.encode(Reply::State(&task)).unwrap()).unwrap();
        for said in [&said, &state] {
            same(dialect, &task, said);
        }
        if dialect == Dialect::D2026_07_28 {
            ended(&task, &state);
        }
    }
    assert_eq!(
        hosted::immediate(&old::encode(Reply::Created { task: &task, immediate: Some("soon") }).unwrap()),
        Some("soon".to_owned())
    );
    outcome(&task);
    let said = first::requestor::hosted(&first::state(&task).unwrap()).unwrap();
    let word = first_word(&task);
    assert_eq!(said.status, status(if word == "submitted" { "working" } else { word }));
    assert_eq!(said.poll_interval, Some(task.poll_interval));
    asked(input)
}

fn first_word(task: &Task) -> &'static str {
    if task.status == Status::Working && task.version == 1 { "submitted" } else { task.status.as_str() }
}

fn status(word: &str) -> HostedStatus {
    match word {
        "working" => HostedStatus::Working,
        "input_required" => HostedStatus::InputRequired,
        "completed" => HostedStatus::Completed,
        "failed" => HostedStatus::Failed,
        "cancelled" => HostedStatus::Cancelled,
        other => panic!("{other} is no word of ours"),
    }
}

fn same(dialect: Dialect, task: &Task, said: &HostedTask) {
    let is_tools_error = matches!(task.outcome, Some(Outcome::Result { is_error: true, .. }));
    let fails = dialect == Dialect::D2025_11_25 && is_tools_error;
    assert_eq!(said.status, status(if fails { "failed" } else { task.status.as_str() }));
    assert_eq!((said.ttl, said.poll_interval), (Some(task.lifetime.ttl), Some(task.poll_interval)));
    if let Some(message) = task.status_message.as_ref().filter(|message| !message.is_empty()) {
        assert_eq!(said.message.as_ref(), Some(message));
    }
    assert!(said.created.is_some() && said.updated.is_some());
}

/// 2026-07-28 has the end of a task in its state.
fn ended(task: &Task, said: &HostedTask) {
    let value = |payload: &Payload| serde_json::from_str::<Value>(payload.as_str()).unwrap();
    match &task.outcome {
        Some(Outcome::Result { body, .. }) => {
            let mut expected = value(body);
            let members = expected.as_object_mut().unwrap();
            members.entry("resultType").or_insert(Value::from("complete"));
            assert_eq!(said.result.as_ref().map(value), Some(expected));
        }
        Some(Outcome::Error { body, .. }) => assert_eq!(said.error.as_ref(), Some(body)),
        None => {
            assert_eq!((said.result.is_some(), said.error.is_some()), (false, task.status == Status::Failed))
        }
    }
    let open: Vec<&str> = task.inputs.open().map(|asked| asked.key.as_str()).collect();
    let shown = said.input_requests.as_ref().map(value).unwrap_or(Value::Object(serde_json::Map::new()));
    let shown: Vec<&str> = shown.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(shown, if task.status == Status::InputRequired { open } else { Vec::new() });
}

/// `tasks/result`: what the call itself would have been answered, and the task it belongs to.
fn outcome(task: &Task) {
    let said = old::encode(Reply::Outcome(task));
    match (&task.outcome, said) {
        (Some(Outcome::Result { body, .. }), Ok(said)) => {
            let left = meta::without(meta::RELATED_TASK, said);
            let [left, body] =
                [&left, body].map(|text| serde_json::from_str::<Value>(text.as_str()).unwrap());
            let Value::Object(mut body) = body else { panic!("no object") };
            if body.get("resultType") == Some(&Value::from("complete")) {
                body.remove("resultType");
            }
            assert_eq!(left, Value::Object(body));
        }
        (Some(Outcome::Error { body, .. }), Err(said)) => assert_eq!(said, *body),
        (None, Err(_)) => {}
        (outcome, said) => panic!("{said:?} for {outcome:?}"),
    }
}

/// What a requestor asks for is what is understood.
fn asked(input: &mut Unstructured<'_>) -> Result<()> {
    let name = text(input)?;
    let keep =
        input.arbitrary::<bool>()?.then(|| Ok(Duration::from_millis(input.arbitrary()?))).transpose()?;
    let params = life::object(input)?;
    let Ok(made) = first::requestor::as_task(&params, &name, keep) else { return Ok(()) };
    assert_eq!(first::requestor::made_by(made.as_raw()).as_deref(), Some(name.as_str()));
    let read = Params::parse(Some(&made)).unwrap();
    match first::wanted(&read) {
        Ok(wanted) => {
            assert_eq!(wanted, Some(first::TaskRequest { id: name.clone(), keep_alive: keep }));
        }
        Err(error) => assert!(error.message.contains("taskId") && (name.is_empty() || name.len() > 256)),
    }
    let about = Payload::from_value(&first::requestor::about(&name)).unwrap();
    assert_eq!(first::requestor::related_to(&about).as_deref(), Some(name.as_str()));
    let call = first::decode("tasks/get", &Params::parse(Some(&about)).unwrap(), false).unwrap();
    assert_eq!(call, Some(first::Call::GetTask(name)));
    let keep = keep.unwrap_or_default();
    let made = hosted::as_task(Some(&params), keep).unwrap();
    let read = Params::parse(Some(&made)).unwrap().task_request().unwrap().unwrap();
    assert_eq!(read.ttl, Some(keep));
    let place = input.int_in_range(0..=i64::MAX)?;
    assert_eq!(old::cursor::read(&old::cursor::write(place)).ok(), Some(place));
    Ok(())
}

/// Params and answers of anybody.
fn heard(which: usize, said: &Payload) {
    let method = METHODS[which % METHODS.len()];
    let wrong = |error: &RpcError| {
        check_error(error);
        assert!(matches!(error.code.number(), -32601 | -32602 | -32021), "{error}");
    };
    if said.as_str().starts_with('{') {
        match Params::parse(Some(said)) {
            Ok(params) => {
                let none = Capabilities::default();
                old::decode(method, &params, true).map_or_else(|error| wrong(&error), |_| ());
                new::decode(method, &params, Capabilities::ALL).map_or_else(|error| wrong(&error), |_| ());
                first::decode(method, &params, true).map_or_else(|error| wrong(&error), |_| ());
                first::asked(method, &params).map_or_else(|error| wrong(&error), |_| ());
                // Who has not declared tasks learns nothing of them.
                if let Ok(call) = new::decode(method, &params, none) {
                    use new::Call::{CancelTask, GetTask, UpdateTask};
                    assert!(!matches!(call, GetTask(_) | UpdateTask(..) | CancelTask(_)), "{call:?}");
                }
            }
            Err(error) => wrong(&error),
        }
    }
    for dialect in [Dialect::D2025_11_25, Dialect::D2026_07_28] {
        let state = hosted::state(dialect, said);
        assert_eq!(state.is_some(), said.as_str().starts_with('{'));
        if let Some(Ok((id, task))) = hosted::created(dialect, said) {
            assert!((1..=1024).contains(&id.len()));
            if dialect == Dialect::D2026_07_28 {
                assert_eq!(Some(task), state);
            }
        }
    }
    if let Some(text) = hosted::immediate(said) {
        assert!(text.len() <= 4096);
    }
}

/// Members that nobody touches stay what they are.
fn raw(said: &Payload) {
    let Ok(object) = RawObject::parse(said.as_str()) else { return };
    let again = object.to_payload().unwrap();
    let twice = RawObject::parse(again.as_str()).unwrap().to_payload().unwrap();
    assert_eq!(again, twice);
    let marked = meta::edit(Some(said), |meta| {
        meta.set("fuzz/mark", Payload::null().as_raw().to_owned());
        Ok(())
    });
    let Ok(value) = serde_json::from_str::<Value>(said.as_str()) else { return };
    let back = |payload: &Payload| serde_json::from_str::<Value>(payload.as_str()).unwrap();
    assert_eq!(back(&again), value);
    let mut left = back(&marked.unwrap());
    let meta = left["_meta"].as_object_mut().unwrap();
    assert_eq!(meta.remove("fuzz/mark"), Some(Value::Null));
    let mut expected = value.clone();
    let kept = expected.as_object_mut().unwrap().remove("_meta").filter(Value::is_object);
    let mut kept = kept.unwrap_or(Value::Object(serde_json::Map::new()));
    kept.as_object_mut().unwrap().remove("fuzz/mark");
    assert_eq!(left.as_object_mut().unwrap().remove("_meta"), Some(kept));
    assert_eq!(left, expected);
    let typed = back(&new::with_result_type(said).unwrap());
    let mut expected = value;
    expected.as_object_mut().unwrap().entry("resultType").or_insert(Value::from("complete"));
    assert_eq!(typed, expected);
}
