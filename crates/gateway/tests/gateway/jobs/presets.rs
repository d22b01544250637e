//! The presets, each against a strict copy of its API.

mod github_actions;
mod google_workflows;
mod hugging_face_jobs;
mod kubernetes_job;
#[cfg(feature = "aws")]
mod step_functions;
mod temporal;

use serde_json::{Value, json};

use super::{live, task};
use crate::harness::job_api::{Api, Heard, JobApi, Reply};
use crate::harness::{Life, Modern};

/// What an API says of a request that it does not know.
fn unknown<T>(what: impl Into<String>) -> Result<T, String> {
    Err(what.into())
}

/// The members of a body, which must be exactly these.
fn members(body: &Value, names: &[&str]) -> Result<(), String> {
    let mut written: Vec<&str> =
        body.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    let mut names = names.to_vec();
    written.sort_unstable();
    names.sort_unstable();
    if written == names { Ok(()) } else { Err(format!("{written:?} and not {names:?}")) }
}

fn not_found(message: &str) -> Result<Reply, String> {
    Ok((404, json!({ "message": message })))
}

/// Whether a request says with this token who sends it.
fn is_from(heard: &Heard, token: &str) -> Result<(), String> {
    let said = heard.header("authorization");
    if said == format!("Bearer {token}") { Ok(()) } else { Err(format!("{said:?} and not the token")) }
}

/// A file with a token in it, and what is written to use it.
fn token(text: &str) -> (tempfile::NamedTempFile, String) {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), text).expect("written");
    let auth = format!("auth = {{ bearer = {{ from_file = \"{}\" }} }}", file.path().display());
    (file, auth)
}

/// What people write for a preset.
fn written(preset: &str, more: &str) -> String {
    format!(
        "[[upstream]]\nname = \"jobs\"\n[upstream.job]\ntool = \"forge\"\npreset = \"{preset}\"\n\
         status = {{ poll = \"20ms\", poll_max = \"50ms\" }}\n{more}\n"
    )
}

/// A gateway in front of an API, all of whose calls are tasks.
struct Scene {
    _folder: tempfile::TempDir,
    _life: Life,
    modern: Modern,
}

impl Scene {
    async fn new(written: String) -> Scene {
        let folder = tempfile::tempdir().expect("a directory");
        let life = live(&folder.path().join("tasks.db"), written).await;
        let modern = Modern::new(life.server());
        Scene { _folder: folder, _life: life, modern }
    }

    /// A call whose job is there.
    async fn begun<A: Api>(&self, api: &JobApi<A>, is_there: impl Fn(&mut A) -> bool) -> String {
        let id = task(&self.modern, "a \"nail\"").await;
        api.until("a job", |api| is_there(api).then_some(())).await;
        id
    }

    async fn completes(&self, id: &str) -> Value {
        self.modern.until(id, "completed").await["result"].clone()
    }

    /// The task ends with a failure whose text has this.
    async fn fails_with(&self, id: &str, why: &str) {
        let result = self.completes(id).await;
        assert_eq!(result["isError"], true, "{result}");
        assert!(result["content"].to_string().contains(why), "{result}");
    }

    async fn cancel(&self, id: &str) {
        self.modern.ask("tasks/cancel", json!({ "taskId": id })).await.result();
        self.modern.until(id, "cancelled").await;
    }
}
