//! AWS Step Functions, by its API reference: one path, the action in a header, JSON 1.0, a name that is used once.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{live, members, unknown};
use crate::harness::job_api::{Api, Heard, JobApi, Reply, Twist};
use crate::harness::{Modern, eventually};
use crate::jobs::task;

const MACHINE: &str = "arn:aws:states:eu-west-1:123456789012:stateMachine:Forge";

#[derive(Default)]
struct States {
    /// By their ARNs: the input, and what is seen.
    executions: BTreeMap<String, (String, Value)>,
}

impl Api for States {
    fn kind(&self, heard: &Heard) -> &'static str {
        match heard.header("x-amz-target") {
            "AWSStepFunctions.StartExecution" => "start",
            "AWSStepFunctions.DescribeExecution" => "describe",
            "AWSStepFunctions.StopExecution" => "stop",
            _ => "unknown",
        }
    }

    fn answer(&mut self, heard: &Heard) -> Result<Reply, String> {
        if heard.method != "POST"
            || heard.path != "/"
            || heard.header("content-type") != "application/x-amz-json-1.0"
        {
            return unknown("no request of JSON 1.0");
        }
        let signed = heard.header("authorization");
        if !signed.starts_with("AWS4-HMAC-SHA256 Credential=AKID/")
            || !signed.contains("/eu-west-1/states/aws4_request,")
        {
            return unknown("not signed");
        }
        let body = heard.json();
        let arn = body["executionArn"].as_str().unwrap_or_default().to_owned();
        let missing =
            || Ok((400, json!({"__type": "com.amazonaws.states#ExecutionDoesNotExist", "message": "none"})));
        match self.kind(heard) {
            "start" => {
                members(&body, &["stateMachineArn", "name", "input"])?;
                let name = body["name"].as_str().unwrap_or_default();
                if body["stateMachineArn"] != MACHINE || name.is_empty() || name.len() > 80 {
                    return unknown("no such machine, or a wrong name");
                }
                let input = body["input"].as_str().unwrap_or_default().to_owned();
                serde_json::from_str::<Value>(&input).map_err(|error| error.to_string())?;
                let arn = format!("{}:{name}", MACHINE.replace("stateMachine", "execution"));
                if let Some((before, shows)) = self.executions.get(&arn) {
                    let is_same = *before == input && shows["status"] == "RUNNING";
                    let exists = json!({"__type": "ExecutionAlreadyExists", "message": format!("'{arn}'")});
                    return Ok(if is_same {
                        (200, json!({"executionArn": arn, "startDate": 1.0}))
                    } else {
                        (400, exists)
                    });
                }
                self.executions
                    .insert(arn.clone(), (input, json!({"executionArn": arn, "status": "RUNNING"})));
                Ok((200, json!({"executionArn": arn, "startDate": 1_700_000_000.5})))
            }
            "describe" => {
                members(&body, &["executionArn"])?;
                self.executions.get(&arn).map_or_else(missing, |(_, shows)| Ok((200, shows.clone())))
            }
            "stop" => {
                members(&body, &["executionArn", "error", "cause"])?;
                let Some((_, shows)) = self.executions.get_mut(&arn) else { return missing() };
                shows["status"] = json!("ABORTED");
                Ok((200, json!({"stopDate": 1.0})))
            }
            _ => unknown("no such action"),
        }
    }
}

impl States {
    fn shows(&mut self, what: Value) {
        let (_, shows) = self.executions.values_mut().next_back().expect("an execution");
        shows.as_object_mut().expect("an object").extend(what.as_object().expect("an object").clone());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_an_execution() {
    let keys = tempfile::tempdir().expect("a directory");
    let [id, key] = ["id", "key"].map(|name| keys.path().join(name));
    std::fs::write(&id, "AKID").expect("written");
    std::fs::write(&key, "sesame").expect("written");
    let api = JobApi::start(States::default()).await;
    let written = format!(
        r#"
        [[upstream]]
        name = "states"
        [upstream.job]
        tool = "forge"
        preset = "aws-step-functions"
        with = {{ state_machine = "{MACHINE}", endpoint = "{}" }}
        status = {{ poll = "20ms", poll_max = "50ms" }}
        [upstream.job.auth.aws]
        region = "{{{{ (with.state_machine|split(':')|list)[3] }}}}"
        service = "states"
        access_key_id = {{ from_file = "{}" }}
        secret_access_key = {{ from_file = "{}" }}
        "#,
        api.base,
        id.display(),
        key.display(),
    );
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("tasks.db");
    // The gateway dies while the first start is under way, and the execution ends before the next one looks.
    api.twist("start", Twist::Hold);
    let life = live(&file, written.clone()).await;
    let first = task(&Modern::new(life.server()), "a \"nail\"").await;
    let input = api.until("an execution", |states| Some(states.executions.values().next()?.0.clone())).await;
    assert_eq!(serde_json::from_str::<Value>(&input).expect("JSON"), json!({"what": "a \"nail\""}));
    life.kill().await;
    api.with(|states| states.shows(json!({"status": "SUCCEEDED", "output": "{\"nails\":1}"})));
    let life = live(&file, written).await;
    let modern = Modern::new(life.server());
    let done = modern.until(&first, "completed").await;
    assert_eq!(done["result"]["structuredContent"], json!({"nails": 1}));
    assert_eq!((api.heard("start").len(), api.with(|states| states.executions.len())), (2, 1));
    // What it has too much to do is no end, a failure is one, and so is what somebody else did.
    for (shows, said) in [
        (json!({"status": "FAILED", "error": "Cold", "cause": "the iron is cold"}), "Cold: the iron is cold"),
        (json!({"status": "TIMED_OUT"}), "The execution ended as TIMED_OUT"),
    ] {
        api.with(|states| states.executions.clear());
        api.twist("start", Twist::Refuse(400, r#"{"__type": "ThrottlingException"}"#));
        api.twist("describe", Twist::Refuse(400, r#"{"__type": "ThrottlingException"}"#));
        let id = task(&modern, "x").await;
        api.until("an execution", |states| (states.executions.len() == 1).then_some(())).await;
        api.with(|states| states.shows(shows));
        let failed = modern.until(&id, "completed").await;
        assert_eq!(
            (&failed["result"]["isError"], &failed["result"]["content"][0]["text"]),
            (&json!(true), &json!(said))
        );
    }
    api.with(|states| states.executions.clear());
    let id = task(&modern, "x").await;
    api.heard_times("describe", 4).await;
    modern.ask("tasks/cancel", json!({"taskId": id})).await.result();
    eventually("it is stopped", || {
        std::future::ready(api.with(|states| {
            states.executions.values().any(|(_, shows)| shows["status"] == "ABORTED").then_some(())
        }))
    })
    .await;
    api.is_content();
}
