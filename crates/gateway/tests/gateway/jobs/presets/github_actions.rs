//! GitHub Actions, by GitHub's REST reference.

use serde_json::{Value, json};

use super::{Scene, is_from, members, not_found, token, unknown, written};
use crate::harness::job_api::{Api, Heard, JobApi, Reply, Twist};

#[derive(Default)]
struct GitHub {
    inputs: Option<Value>,
    run: Value,
    is_cancelled: bool,
}

impl Api for GitHub {
    fn kind(&self, heard: &Heard) -> &'static str {
        match (heard.method.as_str(), heard.line().1.last()) {
            ("POST", Some(&"dispatches")) => "start",
            ("POST", Some(&"cancel")) => "cancel",
            ("GET", _) => "status",
            _ => "unknown",
        }
    }

    fn answer(&mut self, heard: &Heard) -> Result<Reply, String> {
        is_from(heard, "ghp_x")?;
        if heard.header("accept") != "application/vnd.github+json"
            || heard.header("x-github-api-version") != "2026-03-10"
            || !heard.header("user-agent").starts_with("taskgate/")
        {
            return unknown("wrong headers");
        }
        match (heard.method.as_str(), heard.path.as_str()) {
            ("POST", "/repos/octo/hello/actions/workflows/a%20b.yml/dispatches") => {
                let body = heard.json();
                members(&body, &["ref", "inputs", "return_run_details"])?;
                let are_texts =
                    body["inputs"].as_object().is_some_and(|inputs| inputs.values().all(Value::is_string));
                if body["ref"] != "main" || body["return_run_details"] != true || !are_texts {
                    return unknown("a wrong dispatch");
                }
                self.inputs = Some(body["inputs"].clone());
                self.run = json!({"id": 41, "status": "queued", "conclusion": null, "html_url": "https://gh/41", "head_sha": "abc"});
                Ok((
                    200,
                    json!({"workflow_run_id": 41, "run_url": "https://api/41", "html_url": "https://gh/41"}),
                ))
            }
            ("GET", "/repos/octo/hello/actions/runs/41") => Ok((200, self.run.clone())),
            ("POST", "/repos/octo/hello/actions/runs/41/cancel") if heard.body.is_empty() => {
                self.is_cancelled = true;
                Ok(if self.run["status"] == "completed" {
                    (409, json!({"message": "too late"}))
                } else {
                    (202, json!({}))
                })
            }
            _ => not_found("Not Found"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_a_run_of_a_workflow() {
    let api = JobApi::start(GitHub::default()).await;
    let (_token, auth) = token("ghp_x");
    let with = format!(
        "with = {{ api = \"{}\", repository = \"octo/hello\", workflow = \"a b.yml\" }}\n{auth}",
        api.base
    );
    let scene = Scene::new(written("github-actions", &with)).await;
    let begun = |github: &mut GitHub| github.inputs.is_some();
    let id = scene.begun(&api, begun).await;
    assert_eq!(api.with(|github| github.inputs.take()), Some(json!({"what": "a \"nail\""})));
    // A rate limit is waited out.
    api.twist("status", Twist::RefuseWith(403, "retry-after", "1"));
    api.with(|github| github.run["status"] = json!("in_progress"));
    crate::harness::eventually("its page", || async {
        (scene.modern.get(&id).await["statusMessage"] == "in_progress: https://gh/41").then_some(())
    })
    .await;
    let ends = |conclusion: &'static str| {
        api.with(|github| {
            (github.run["status"], github.run["conclusion"]) = (json!("completed"), json!(conclusion))
        });
    };
    ends("success");
    let result = scene.completes(&id).await;
    assert_eq!(
        result["structuredContent"],
        json!({"conclusion": "success", "run": 41, "page": "https://gh/41", "head_sha": "abc"})
    );
    for conclusion in ["failure", "timed_out", "startup_failure", "action_required"] {
        api.with(|github| github.inputs = None);
        let id = scene.begun(&api, begun).await;
        ends(conclusion);
        scene.fails_with(&id, &format!("{conclusion}: https://gh/41")).await;
    }
    api.with(|github| github.inputs = None);
    let id = scene.begun(&api, begun).await;
    scene.cancel(&id).await;
    api.until("a cancel", |github| github.is_cancelled.then_some(())).await;
    // Inputs are texts, whatever the arguments are; and there may be none.
    let call = json!({"name": "forge", "arguments": {"n": 1, "list": [true, null], "text": "x"}});
    api.with(|github| github.inputs = None);
    scene.modern.ask("tools/call", call).await.task();
    let inputs = api.until("inputs", |github| github.inputs.take()).await;
    assert_eq!(inputs, json!({"n": "1", "list": "[true,null]", "text": "x"}));
    scene.modern.ask("tools/call", json!({"name": "forge"})).await.task();
    assert_eq!(api.until("inputs", |github| github.inputs.take()).await, json!({}));
    api.is_content();
}
