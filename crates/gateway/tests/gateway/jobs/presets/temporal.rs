//! Temporal, by the description of its HTTP API: ids are used once, JSON stands for payloads, a query needs a worker.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{live, members, not_found, unknown};
use crate::harness::job_api::{Api, Heard, JobApi, Reply, Twist};
use crate::harness::{Modern, accept};
use crate::jobs::task;

#[derive(Default)]
struct Temporal {
    workflows: BTreeMap<String, Workflow>,
    has_worker: bool,
}

#[derive(Default)]
struct Workflow {
    request: String,
    input: Value,
    status: String,
    says: Value,
    last_event: Value,
    signals: Vec<Value>,
}

impl Api for Temporal {
    fn kind(&self, heard: &Heard) -> &'static str {
        match (heard.method.as_str(), heard.line().1.get(6)) {
            ("POST", None) => "start",
            ("GET", None) => "describe",
            ("POST", Some(&"query")) => "query",
            ("POST", Some(&"signal")) => "signal",
            ("POST", Some(&"cancel")) => "cancel",
            ("GET", Some(part)) if part.starts_with("history") => "history",
            _ => "unknown",
        }
    }

    fn answer(&mut self, heard: &Heard) -> Result<Reply, String> {
        let kind = self.kind(heard);
        let (_, parts) = heard.line();
        if parts.len() < 6 || parts[..5] != ["api", "v1", "namespaces", "a%20b", "workflows"] {
            return unknown("a wrong path");
        }
        if heard.method == "POST" && heard.header("content-type") != "application/json" {
            return unknown("no JSON");
        }
        let id = parts[5].to_owned();
        if kind == "start" {
            return self.begin(id, &heard.json());
        }
        let has_worker = self.has_worker;
        let Some(workflow) = self.workflows.get_mut(&id) else { return not_found("workflow not found") };
        match (kind, &parts[6..]) {
            ("describe", []) => Ok((
                200,
                json!({"workflowExecutionInfo": {
                    "execution": {"workflowId": id}, "status": format!("WORKFLOW_EXECUTION_STATUS_{}", workflow.status),
                }}),
            )),
            ("query", ["query", "how"]) if heard.body == "{}" => Ok(match has_worker {
                true => (200, json!({"queryResult": [workflow.says]})),
                false => (504, json!({"code": 4, "message": "context deadline exceeded"})),
            }),
            ("signal", ["signal", "tell"]) => {
                let body = heard.json();
                members(&body, &["input", "requestId"])?;
                workflow.signals.push(body["input"].clone());
                Ok((200, json!({})))
            }
            ("cancel", ["cancel"]) => {
                members(&heard.json(), &["reason", "requestId"])?;
                workflow.status = "CANCELED".to_owned();
                Ok((200, json!({})))
            }
            ("history", ["history?historyEventFilterType=HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT"]) => {
                Ok((200, json!({"history": {"events": [workflow.last_event]}})))
            }
            _ => unknown("nothing like that"),
        }
    }
}

impl Temporal {
    fn begin(&mut self, id: String, body: &Value) -> Result<Reply, String> {
        members(body, &["workflowType", "taskQueue", "input", "requestId", "workflowIdReusePolicy"])?;
        let request = body["requestId"].as_str().unwrap_or_default().to_owned();
        if body["workflowType"] != json!({"name": "Forge"})
            || body["taskQueue"] != json!({"name": "forges"})
            || body["workflowIdReusePolicy"] != "WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE"
            || id != format!("taskgate-{request}")
        {
            return unknown("a wrong start");
        }
        if let Some(workflow) = self.workflows.get(&id) {
            let is_same = workflow.request == request;
            return Ok(if is_same {
                (200, json!({"runId": "r", "started": true}))
            } else {
                (409, json!({"code": 6}))
            });
        }
        let (input, status) = (body["input"].clone(), "RUNNING".to_owned());
        self.workflows
            .insert(id, Workflow { request, input, status, says: json!({}), ..Workflow::default() });
        Ok((200, json!({"runId": "r", "started": true})))
    }

    fn only(&mut self) -> Option<&mut Workflow> {
        assert!(self.workflows.len() <= 1);
        self.workflows.values_mut().next()
    }

    fn ends(&mut self, status: &str, last_event: Value) {
        let workflow = self.only().expect("a workflow");
        (workflow.status, workflow.last_event) = (status.to_owned(), last_event);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_a_workflow() {
    let api = JobApi::start(Temporal::default()).await;
    let written = format!(
        r#"
        [[upstream]]
        name = "temporal"
        [upstream.job]
        tool = "forge"
        preset = "temporal"
        status = {{ poll = "20ms", poll_max = "50ms" }}
        [upstream.job.with]
        address = "{}"
        namespace = "a b"
        workflow = "Forge"
        task_queue = "forges"
        query = "how"
        signal = "tell"
        "#,
        api.base
    );
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("tasks.db");
    api.twist("start", Twist::Hold);
    let life = live(&file, written.clone()).await;
    let id = task(&Modern::new(life.server()), "x").await;
    let input =
        api.until("a workflow", |temporal| temporal.only().map(|workflow| workflow.input.clone())).await;
    assert_eq!(input, json!([{"what": "x"}]));
    life.kill().await;
    let life = live(&file, written).await;
    let modern = Modern::new(life.server());
    // Without a worker it is seen all the same.
    api.heard_times("query", 2).await;
    assert_eq!(modern.get(&id).await["status"], "working");
    api.with(|temporal| {
        temporal.has_worker = true;
        temporal.only().expect("one").says = json!({"message": "hot", "progress": 1, "total": 2});
    });
    crate::harness::eventually("a message", || async {
        (modern.get(&id).await["statusMessage"] == "hot").then_some(())
    })
    .await;
    let question =
        json!({"key": "which", "message": "Which?", "schema": {"type": "object", "properties": {}}});
    api.with(|temporal| temporal.only().expect("one").says = json!({ "question": question }));
    let asks = modern.until(&id, "input_required").await;
    assert_eq!(asks["inputRequests"]["which"]["params"]["message"], "Which?");
    modern.update(&id, json!({"which": accept("this")})).await.result();
    let signal = api.until("a signal", |temporal| temporal.only()?.signals.pop()).await;
    assert_eq!(signal, json!([{"question": "which", "action": "accept", "content": {"name": "this"}}]));
    api.with(|temporal| {
        temporal.only().expect("one").says = json!({});
        let result = json!({"workflowExecutionCompletedEventAttributes": {"result": [{"nails": 1}]}});
        temporal.ends("COMPLETED", result);
    });
    assert_eq!(modern.until(&id, "completed").await["result"]["structuredContent"], json!({"nails": 1}));
    let failed = |failure: Value| json!({"eventType": "X", "workflowExecutionFailedEventAttributes": {"failure": failure}});
    for (status, event, said) in [
        ("FAILED", failed(json!({"message": "cold"})), "cold"),
        ("FAILED", failed(json!({"message": "outer", "cause": {"message": "inner"}})), "inner"),
        (
            "TIMED_OUT",
            json!({"eventType": "EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT"}),
            "EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT",
        ),
    ] {
        api.with(|temporal| temporal.workflows.clear());
        let id = task(&modern, "y").await;
        api.until("a workflow", |temporal| temporal.only().map(|_| ())).await;
        api.with(|temporal| temporal.ends(status, event));
        let task = modern.until(&id, "completed").await;
        assert_eq!(
            (&task["result"]["isError"], &task["result"]["content"][0]["text"]),
            (&json!(true), &json!(said))
        );
    }
    api.with(|temporal| temporal.workflows.clear());
    let id = task(&modern, "z").await;
    api.until("a workflow", |temporal| temporal.only().map(|_| ())).await;
    modern.ask("tasks/cancel", json!({"taskId": id})).await.result();
    api.until("it is cancelled", |temporal| (temporal.only()?.status == "CANCELED").then_some(())).await;
    api.is_content();
}
