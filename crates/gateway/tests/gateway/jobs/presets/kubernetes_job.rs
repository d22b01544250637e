//! Kubernetes Jobs, by the reference of the API: a name is used once, what a pod has written is found through its labels.

use serde_json::{Value, json};

use super::{Scene, is_from, live, members, not_found, token, unknown, written};
use crate::harness::Modern;
use crate::harness::job_api::{Api, Heard, JobApi, Reply, Twist};
use crate::jobs::task;

#[derive(Default)]
struct Kubernetes {
    job: Option<Value>,
    has_pod: bool,
    log: String,
}

impl Api for Kubernetes {
    fn kind(&self, heard: &Heard) -> &'static str {
        match (heard.method.as_str(), heard.line().1.as_slice()) {
            ("POST", ["apis", "batch", "v1", "namespaces", "forge", "jobs"]) => "start",
            ("GET", ["apis", "batch", "v1", "namespaces", "forge", "jobs", _]) => "status",
            ("DELETE", ["apis", "batch", "v1", "namespaces", "forge", "jobs", _]) => "cancel",
            ("GET", ["api", "v1", "namespaces", "forge", pods]) if pods.starts_with("pods?") => "pods",
            ("GET", ["api", "v1", "namespaces", "forge", "pods", "the-pod", log])
                if log.starts_with("log?") =>
            {
                "log"
            }
            _ => "unknown",
        }
    }

    fn answer(&mut self, heard: &Heard) -> Result<Reply, String> {
        is_from(heard, "sa-token")?;
        let kind = self.kind(heard);
        if kind == "start" {
            return self.create(&heard.json());
        }
        let Some(job) = &self.job else { return not_found("jobs.batch not found") };
        let name = job["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let last = *heard.line().1.last().unwrap_or(&"");
        match kind {
            "status" if last == name => Ok((200, job.clone())),
            "cancel" if last == format!("{name}?propagationPolicy=Background") => {
                self.job = None;
                Ok((200, json!({"kind": "Status", "status": "Success"})))
            }
            "pods" if last == format!("pods?labelSelector=job-name%3D{name}") => {
                let pod = json!({"metadata": {"name": "the-pod"}, "status": {"phase": "Running"}});
                Ok((200, json!({"items": if self.has_pod { vec![pod] } else { Vec::new() }})))
            }
            "log" if ["log?tailLines=100", "log?limitBytes=4194304"].contains(&last) => {
                Ok((200, json!(self.log)))
            }
            _ => unknown("nothing like that"),
        }
    }
}

impl Kubernetes {
    fn create(&mut self, body: &Value) -> Result<Reply, String> {
        members(body, &["apiVersion", "kind", "metadata", "spec"])?;
        let name = body["metadata"]["name"].as_str().unwrap_or_default();
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let pod = &body["spec"]["template"]["spec"];
        if body["apiVersion"] != "batch/v1"
            || body["kind"] != "Job"
            || name.len() > 63
            || !name.chars().all(is_name)
        {
            return unknown("no job");
        }
        if pod["restartPolicy"] != "Never" || pod["containers"][0]["image"] != "forge:1" {
            return unknown("a wrong pod");
        }
        if self.job.as_ref().is_some_and(|job| job["metadata"]["name"] == name) {
            return Ok((409, json!({"kind": "Status", "reason": "AlreadyExists"})));
        }
        self.job = Some(body.clone());
        Ok((201, body.clone()))
    }

    fn ends(&mut self, condition: Value) {
        self.job.as_mut().expect("a job")["status"] = json!({"conditions": [condition]});
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_a_job() {
    let api = JobApi::start(Kubernetes::default()).await;
    let (_token, auth) = token("sa-token");
    let with = format!(
        "with = {{ address = \"{}\", namespace = \"forge\", image = \"forge:1\", command = [\"forge\", \"it\"] }}\n{auth}",
        api.base
    );
    let begun = |kubernetes: &mut Kubernetes| kubernetes.job.is_some();
    // The gateway dies between the start and its answer, and there is one job all the same.
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("tasks.db");
    api.twist("start", Twist::Hold);
    let life = live(&file, written("kubernetes-job", &with)).await;
    let id = task(&Modern::new(life.server()), "a \"nail\"").await;
    api.until("a job", |kubernetes| begun(kubernetes).then_some(())).await;
    life.kill().await;
    let life = live(&file, written("kubernetes-job", &with)).await;
    let modern = Modern::new(life.server());
    let container = api.with(|kubernetes| kubernetes.job.clone()).expect("a job")["spec"]["template"]["spec"]
        ["containers"][0]
        .clone();
    assert_eq!(container["command"], json!(["forge", "it"]));
    assert_eq!(
        container["env"],
        json!([{"name": "TASKGATE_ARGUMENTS", "value": r#"{"what":"a \"nail\""}"#}])
    );
    // Without a pod it is seen all the same; with one, its last line is.
    api.heard_times("pods", 2).await;
    assert_eq!(modern.get(&id).await["status"], "working");
    api.with(|kubernetes| (kubernetes.has_pod, kubernetes.log) = (true, "heating\nforging\n".to_owned()));
    crate::harness::eventually("its message", || async {
        (modern.get(&id).await["statusMessage"] == "forging").then_some(())
    })
    .await;
    api.with(|kubernetes| kubernetes.ends(json!({"type": "Complete", "status": "True"})));
    assert_eq!(modern.until(&id, "completed").await["result"]["content"][0]["text"], "heating\nforging\n");
    assert_eq!(api.heard("start").len(), 2);
    drop(life);
    let scene = Scene::new(written("kubernetes-job", &with)).await;
    api.with(|kubernetes| kubernetes.job = None);
    let id = scene.begun(&api, begun).await;
    api.with(|kubernetes| {
        kubernetes.ends(json!({"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "it has reached the limit"}));
    });
    scene.fails_with(&id, "it has reached the limit").await;
    assert!(scene.modern.get(&id).await["result"].to_string().contains("forging"));
    api.with(|kubernetes| kubernetes.job = None);
    let id = scene.begun(&api, begun).await;
    scene.cancel(&id).await;
    api.until("it is gone", |kubernetes| kubernetes.job.is_none().then_some(())).await;
    api.is_content();
}
