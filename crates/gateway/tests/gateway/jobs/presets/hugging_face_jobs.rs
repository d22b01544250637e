//! Hugging Face Jobs, by the reference of its API and what its own client sends.

use serde_json::{Value, json};

use super::{Scene, is_from, members, not_found, token, unknown, written};
use crate::harness::job_api::{Api, Heard, JobApi, Reply};

#[derive(Default)]
struct HuggingFace {
    spec: Option<Value>,
    status: Value,
    is_cancelled: bool,
}

impl Api for HuggingFace {
    fn kind(&self, heard: &Heard) -> &'static str {
        match (heard.method.as_str(), heard.path.as_str()) {
            ("POST", "/api/jobs/octo") => "start",
            ("GET", "/api/jobs/octo/j1") => "status",
            ("GET", "/api/jobs/octo/j1/logs") => "logs",
            ("POST", "/api/jobs/octo/j1/cancel") => "cancel",
            _ => "unknown",
        }
    }

    fn answer(&mut self, heard: &Heard) -> Result<Reply, String> {
        is_from(heard, "hf_x")?;
        match self.kind(heard) {
            "start" => {
                let body = heard.json();
                members(
                    &body,
                    &["dockerImage", "command", "arguments", "environment", "flavor", "timeoutSeconds"],
                )?;
                let is_job = body["command"].is_array()
                    && body["timeoutSeconds"].is_u64()
                    && body["flavor"] == "cpu-basic";
                if !is_job || body["dockerImage"] != "python:3.12" {
                    return unknown("a wrong job");
                }
                self.spec = Some(body);
                self.status = json!({"stage": "RUNNING", "message": null});
                Ok((200, json!({"id": "j1", "status": self.status})))
            }
            _ if self.spec.is_none() => not_found("no such job"),
            "status" => Ok((200, json!({"id": "j1", "status": self.status}))),
            "logs" if heard.header("accept") == "text/event-stream" => {
                let events = "data: {\"data\":\"heating\",\"timestamp\":\"1\"}\n\n: keep-alive\n\ndata: {\"data\":\"done \\\"x\\\"\"}\n\n";
                Ok((200, json!(events)))
            }
            "cancel" if heard.body.is_empty() => {
                self.is_cancelled = true;
                Ok((200, json!({})))
            }
            _ => unknown("nothing like that"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_a_job() {
    let api = JobApi::start(HuggingFace::default()).await;
    let (_token, auth) = token("hf_x");
    let with = format!(
        "with = {{ api = \"{}\", namespace = \"octo\", image = \"python:3.12\", command = [\"python\", \"x.py\"] }}\n{auth}",
        api.base
    );
    let scene = Scene::new(written("hugging-face-jobs", &with)).await;
    let begun = |face: &mut HuggingFace| face.spec.is_some();
    let id = scene.begun(&api, begun).await;
    let spec = api.with(|face| face.spec.clone()).expect("a job");
    assert_eq!(spec["command"], json!(["python", "x.py"]));
    assert_eq!(spec["environment"], json!({"TASKGATE_ARGUMENTS": r#"{"what":"a \"nail\""}"#}));
    api.with(|face| face.status = json!({"stage": "COMPLETED", "message": null}));
    assert_eq!(scene.completes(&id).await["content"][0]["text"], "heating\ndone \"x\"");
    for (status, why) in [
        (json!({"stage": "ERROR", "message": "Job timeout"}), "Job timeout"),
        (json!({"stage": "ERROR", "message": null}), "The job ended as ERROR"),
    ] {
        api.with(|face| face.spec = None);
        let id = scene.begun(&api, begun).await;
        api.with(|face| face.status = status);
        scene.fails_with(&id, why).await;
    }
    api.with(|face| face.spec = None);
    let id = scene.begun(&api, begun).await;
    scene.cancel(&id).await;
    api.until("a cancel", |face| face.is_cancelled.then_some(())).await;
    api.is_content();
}
