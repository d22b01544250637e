//! Google Cloud Workflows, by the reference of its executions; the machine's own account gives the tokens.

use serde_json::{Value, json};

use super::{Scene, is_from, members, not_found, unknown, written};
use crate::harness::job_api::{Api, Heard, JobApi, Reply};

const NAME: &str = "projects/p/locations/europe-west1/workflows/w/executions/e-1";

#[derive(Default)]
struct Google {
    tokens: usize,
    execution: Option<Value>,
    is_cancelled: bool,
}

impl Api for Google {
    fn kind(&self, heard: &Heard) -> &'static str {
        match (heard.method.as_str(), heard.path.as_str()) {
            ("GET", "/token") => "token",
            ("POST", path) if path.ends_with("/executions") => "start",
            ("POST", path) if path.ends_with(":cancel") => "cancel",
            ("GET", _) => "status",
            _ => "unknown",
        }
    }

    fn answer(&mut self, heard: &Heard) -> Result<Reply, String> {
        let kind = self.kind(heard);
        if kind == "token" {
            if heard.header("metadata-flavor") != "Google" {
                return unknown("not for the metadata server");
            }
            self.tokens += 1;
            return Ok((
                200,
                json!({"access_token": format!("t{}", self.tokens), "expires_in": 3599, "token_type": "Bearer"}),
            ));
        }
        is_from(heard, &format!("t{}", self.tokens))?;
        match (kind, heard.path.as_str()) {
            ("start", "/v1/projects/p/locations/europe-west1/workflows/w/executions") => {
                let body = heard.json();
                members(&body, &["argument"])?;
                let argument = body["argument"].as_str().unwrap_or_default();
                serde_json::from_str::<Value>(argument).map_err(|error| error.to_string())?;
                let execution = json!({"name": NAME, "state": "ACTIVE", "argument": argument});
                self.execution = Some(execution.clone());
                Ok((200, execution))
            }
            ("status", path) if path == format!("/v1/{NAME}") => {
                Ok((200, self.execution.clone().unwrap_or_default()))
            }
            ("cancel", path) if path == format!("/v1/{NAME}:cancel") && heard.body == "{}" => {
                self.is_cancelled = true;
                Ok((200, self.execution.clone().unwrap_or_default()))
            }
            _ => not_found("no such thing"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_an_execution() {
    let api = JobApi::start(Google::default()).await;
    let base = &api.base;
    let with = format!(
        "with = {{ endpoint = \"{base}\", project = \"p\", location = \"europe-west1\", workflow = \"w\" }}\n\
         auth = {{ google = {{ token_url = \"{base}/token\" }} }}"
    );
    let scene = Scene::new(written("google-workflows", &with)).await;
    let shows = |what: Value| {
        api.with(|google| {
            let execution = google.execution.as_mut().and_then(Value::as_object_mut).expect("an execution");
            execution.extend(what.as_object().expect("an object").clone());
        });
    };
    let begun = |google: &mut Google| google.execution.is_some();
    let id = scene.begun(&api, begun).await;
    let argument = api.with(|google| google.execution.clone()).expect("an execution")["argument"].clone();
    assert_eq!(argument, r#"{"what":"a \"nail\""}"#);
    shows(json!({"status": {"currentSteps": [{"routine": "main", "step": "heat"}]}}));
    crate::harness::eventually("its step", || async {
        (scene.modern.get(&id).await["statusMessage"] == "At the step heat").then_some(())
    })
    .await;
    // A token that is not believed any more is asked for anew.
    api.twist("status", crate::harness::job_api::Twist::Refuse(401, "expired"));
    api.until("another token", |google| (google.tokens == 2).then_some(())).await;
    shows(json!({"state": "SUCCEEDED", "result": "{\"nails\":1}"}));
    assert_eq!(scene.completes(&id).await["structuredContent"], json!({"nails": 1}));
    api.with(|google| google.execution = None);
    let id = scene.begun(&api, begun).await;
    shows(json!({"state": "FAILED", "error": {"payload": "\"cold\"", "context": "at heat"}}));
    scene.fails_with(&id, "cold").await;
    api.with(|google| google.execution = None);
    let id = scene.begun(&api, begun).await;
    scene.cancel(&id).await;
    api.until("a cancel", |google| google.is_cancelled.then_some(())).await;
    api.is_content();
}
