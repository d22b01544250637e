//! Jobs of an API that are tools: started once, followed wherever they are, and stopped when nobody wants them.

mod ends;
mod presets;
mod questions;
mod starts;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use taskgate_gateway::{Config, Gateway, GatewayBuilder, TaskMode, ToolPolicy, UpstreamKind};

use crate::harness::job_api::{Api, Heard, JobApi, Reply};
use crate::harness::{Life, Modern, Server, quick, settings};

/// An API with everything an API can have. Starting with a key twice starts one job.
#[derive(Default)]
pub struct Forge {
    pub jobs: BTreeMap<String, Job>,
    /// Whether a key that is known is refused, and not answered as if it were new.
    pub refuses_known: bool,
    pub token: Option<&'static str>,
}

#[derive(Debug)]
pub struct Job {
    pub key: String,
    pub args: Value,
    pub shows: Value,
    pub result: Value,
    pub answers: Vec<(String, Value)>,
    pub is_cancelled: bool,
}

impl Api for Forge {
    fn kind(&self, heard: &Heard) -> &'static str {
        match heard.line() {
            ("POST", parts) if parts == ["jobs"] => "start",
            ("GET", parts) if parts.len() == 2 => "status",
            ("GET", parts) if parts.ends_with(&["result"]) => "result",
            ("DELETE", parts) if parts.len() == 2 => "cancel",
            ("POST", parts) if parts.contains(&"answers") => "answer",
            _ => "unknown",
        }
    }

    fn answer(&mut self, heard: &Heard) -> Result<Reply, String> {
        if let Some(token) = self.token
            && heard.header("authorization") != format!("Bearer {token}")
        {
            return Ok((401, json!("who are you")));
        }
        let (_, parts) = heard.line();
        if self.kind(heard) == "start" {
            return self.begin(heard);
        }
        let job = parts.get(1).and_then(|id| self.jobs.get_mut(*id));
        let Some(job) = job else { return Ok((404, json!("no such job"))) };
        if heard.method != "POST" && !heard.body.is_empty() {
            return Err("a body".to_owned());
        }
        match (heard.method.as_str(), &parts[2..]) {
            ("GET", []) => Ok((200, job.shows.clone())),
            ("GET", ["result"]) => Ok((200, json!({ "value": job.result }))),
            ("DELETE", []) => {
                job.is_cancelled = true;
                Ok((202, Value::Null))
            }
            ("POST", ["answers", key]) => {
                job.answers.push(((*key).to_owned(), heard.json()));
                Ok((204, Value::Null))
            }
            _ => Err("nothing like that".to_owned()),
        }
    }
}

impl Forge {
    fn begin(&mut self, heard: &Heard) -> Result<Reply, String> {
        if heard.header("content-type") != "application/json" || heard.header("x-kind") != "smith" {
            return Err("wrong headers".to_owned());
        }
        let body = heard.json();
        let members: Vec<_> = body.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
        let key = body["key"].as_str().unwrap_or_default().to_owned();
        if members != ["key", "args"] || key.len() != 32 || !key.bytes().all(|byte| byte.is_ascii_hexdigit())
        {
            return Err("a wrong body".to_owned());
        }
        let id = format!("job-{key}");
        if self.jobs.contains_key(&id) {
            return Ok(if self.refuses_known { (409, json!("known")) } else { (200, json!({ "id": id })) });
        }
        let shows = json!({"state": "RUNNING"});
        let (args, result, answers) = (body["args"].clone(), Value::Null, Vec::new());
        self.jobs.insert(id.clone(), Job { key, args, shows, result, answers, is_cancelled: false });
        Ok((201, json!({ "id": id })))
    }

    /// The one job.
    pub fn only(&mut self) -> Option<&mut Job> {
        assert!(self.jobs.len() <= 1, "{:?}", self.jobs);
        self.jobs.values_mut().next()
    }

    pub fn shows(&mut self, what: Value) {
        self.only().expect("a job").shows = what;
    }

    pub fn ends(&mut self, result: Value) {
        let job = self.only().expect("a job");
        (job.result, job.shows) = (result, json!({"state": "DONE"}));
    }
}

/// What people write for it, with more at the end.
pub fn written(base: &str, more: &str) -> String {
    format!(
        r#"
        [[upstream]]
        name = "forge"
        [upstream.job]
        tool = "forge"
        description = "Forges."
        input_schema = {{ type = "object", properties = {{ what = {{ type = "string" }} }} }}
        with = {{ base = "{base}" }}
        [upstream.job.start]
        url = "{{{{ with.base|safe }}}}/jobs"
        headers = {{ X-Kind = "smith" }}
        body = '{{"key": {{{{ key }}}}, "args": {{{{ args }}}}}}'
        job = {{ id = "body.id" }}
        idempotent = true
        exists = [409]
        exists_job = {{ id = "'job-' ~ key" }}
        [upstream.job.status]
        url = "{{{{ with.base|safe }}}}/jobs/{{{{ job.id }}}}"
        state = "body.state"
        states = {{ RUNNING = "working", ASKS = "input_required", DONE = "completed", BROKEN = "failed", STOPPED = "cancelled" }}
        message = "body.note"
        progress = "body.done"
        total = "body.of"
        error = "body.why"
        poll = "20ms"
        poll_max = "50ms"
        [upstream.job.result]
        url = "{{{{ with.base|safe }}}}/jobs/{{{{ job.id }}}}/result"
        value = "body.value"
        [upstream.job.cancel]
        method = "DELETE"
        url = "{{{{ with.base|safe }}}}/jobs/{{{{ job.id }}}}"
        gone = [404]
        [upstream.job.question]
        key = "body.question.id"
        message = "body.question.text"
        schema = "body.question.schema"
        [upstream.job.answer]
        url = "{{{{ with.base|safe }}}}/jobs/{{{{ job.id }}}}/answers/{{{{ question }}}}"
        body = '{{"action": {{{{ answer.action }}}}, "content": {{{{ answer.content }}}}}}'
        {more}
        "#
    )
}

/// A builder in front of what is written.
pub fn builder(written: &str, tasks: TaskMode) -> GatewayBuilder {
    let config = Config::parse_with(written, "jobs.toml", Path::new(""), &|name| std::env::var(name).ok());
    let config = config.unwrap_or_else(|errors| panic!("{errors}"));
    let spec = config.upstreams[0].spec(|| panic!("no demo"));
    assert!(matches!(spec.kind, UpstreamKind::Job(_)));
    Gateway::builder().add(spec).policy(ToolPolicy { tasks, ..quick() }).settings(settings())
}

pub async fn serve(written: &str, tasks: TaskMode) -> Server {
    Server::start(builder(written, tasks).build().await.expect("gateway")).await
}

/// A gateway that can be killed, all of whose calls are tasks.
pub async fn live(file: &Path, written: String) -> Life {
    Life::start(file, move || builder(&written, TaskMode::Always)).await
}

pub async fn forge() -> JobApi<Forge> {
    JobApi::start(Forge::default()).await
}

/// Calls the tool and returns its task.
pub async fn task(modern: &Modern, what: &str) -> String {
    modern.ask("tools/call", json!({"name": "forge", "arguments": {"what": what}})).await.task()
}
