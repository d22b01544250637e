use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use taskgate_engine::{Ending, EngineError, NotStopped, Report, Runner, Work};
use taskgate_job::{Call, Failure, Http, JobApi};
use tokio::sync::{oneshot, watch};

use super::JobTool;
use super::callbacks::Callbacks;
use super::follow::Following;
use super::outcome;
use super::pace::Pace;
use super::place::Place;
use super::starts::{Came, Coming, Starts};
use crate::random::random;
use crate::upstream::asking::Whom;
use crate::upstream::ending::{failed_with, refused};
use crate::upstream::{Request, ToolSchema};

/// What finds a job, if that is known.
type Job = Option<Map<String, Value>>;

/// How long what came of a start is remembered that could not be put down: whoever stops its work will ask.
const REMEMBERED: Duration = Duration::from_secs(60);
/// How often a cancel is sent in a row before somebody else has to see to it.
const CANCELS: u32 = 5;
/// The pause after the first of them that failed.
const CANCEL_AGAIN: Duration = Duration::from_millis(500);

/// Runs a job at its API, and takes up what an earlier process has begun.
#[derive(Clone)]
pub struct JobRunner(Arc<Inner>);

pub(super) struct Inner {
    tool: String,
    takes: ToolSchema,
    pub(super) api: JobApi,
    starts: Starts,
    pub(super) callbacks: Option<Arc<Callbacks>>,
}

impl JobRunner {
    /// For this kind of job.
    ///
    /// # Errors
    ///
    /// Why its API cannot be reached from here.
    pub fn new(tool: &JobTool, callbacks: Option<Arc<Callbacks>>) -> Result<JobRunner, String> {
        let http = Http::within(tool.reach.clone(), tool.ca_file.as_deref())?;
        let api = JobApi::new(tool.declaration.clone(), http);
        let (tool, takes) = (tool.tool.clone(), tool.input_schema.clone());
        Ok(JobRunner(Arc::new(Inner { tool, takes, api, starts: Starts::default(), callbacks })))
    }
}

impl Runner for JobRunner {
    fn run(&self, work: Work, report: Report) -> BoxFuture<'static, Ending> {
        let inner = self.0.clone();
        Box::pin(async move { inner.run(&work, &report).await.unwrap_or_else(|ending| ending) })
    }

    fn stop(&self, work: Work) -> BoxFuture<'static, Result<(), NotStopped>> {
        let inner = self.0.clone();
        Box::pin(async move { inner.stop(&work).await })
    }
}

impl Inner {
    async fn run(self: &Arc<Self>, work: &Work, report: &Report) -> Result<Ending, Ending> {
        let broken = |why: String| failed_with(&why);
        let request = Request::of(work).map_err(broken)?;
        let whom = Whom::of(&request);
        let place = Place::of(work).map_err(broken)?;
        let (call, job) = match place {
            Some(Place { key, job }) => (self.call(&request, key).map_err(broken)?, job),
            None => (self.prepare(&request, report).await?, None),
        };
        let (job, is_put_down, is_fresh) = match job {
            Some(job) => (job, true, false),
            None => {
                let (job, is_put_down) = self.started(&call, work.checkpoint.is_some(), report).await?;
                (job, is_put_down, true)
            }
        };
        let following = Following::new(self, call, job, whom, report, is_fresh);
        Ok(following.until_it_ends(is_put_down).await)
    }

    fn call(&self, request: &Request, key: String) -> Result<Call, String> {
        let args = serde_json::from_str(&request.arguments()?)
            .map_err(|error| format!("The arguments cannot be read: {error}"))?;
        let callback_url = self.callbacks.as_ref().and_then(|callbacks| callbacks.url(&key));
        Ok(Call { args, key, callback_url })
    }

    /// What stopped work has put down: its call, and its job if that is known.
    fn put_down_in(&self, work: &Work) -> Result<Option<(Call, Job)>, String> {
        let Some(place) = Place::of(work)? else { return Ok(None) };
        Ok(Some((self.call(&*Request::of(work)?, place.key)?, place.job)))
    }

    /// A new call of the API. Its key is put down before anything is sent.
    async fn prepare(&self, request: &Request, report: &Report) -> Result<Call, Ending> {
        let arguments = request.arguments().map_err(|why| failed_with(&why))?;
        super::accept(&self.tool, &self.takes, &arguments).map_err(|why| refused(&why))?;
        let key = random().map_err(|error| failed_with(&format!("no randomness: {error}")))?;
        let call = self.call(request, key).map_err(|why| failed_with(&why))?;
        // What is wrong with the arguments is said before there is anything to settle.
        self.api.check(&call).map_err(|failure| outcome::unsuccessful(&failure.to_string(), &[]))?;
        let place = Place { key: call.key.clone(), job: None };
        put_down(&place, report).await.map_err(|error| failed_with(&error.to_string()))?;
        Ok(call)
    }

    /// The job of this call: of the start that is under way, or of one that is made now.
    async fn started(
        self: &Arc<Self>,
        call: &Call,
        is_taken_up: bool,
        report: &Report,
    ) -> Result<(Map<String, Value>, bool), Ending> {
        if is_taken_up {
            let came = match self.starts.find(&call.key) {
                Some(coming) => coming.came().await,
                None => None,
            };
            match came {
                Some(Came::Started { job, is_put_down }) => return Ok((job, is_put_down)),
                _ if !self.api.declaration().start.is_idempotent => return Err(lost_at_start(&call.key)),
                _ => {}
            }
        }
        let (coming, _wish) = self.begin(call.clone(), report.clone());
        match coming.came().await {
            Some(Came::Started { job, is_put_down }) => Ok((job, is_put_down)),
            Some(Came::Failed(failure)) if failure.did_nothing() => {
                Err(outcome::unsuccessful(&failure.to_string(), &[]))
            }
            Some(Came::Failed(failure)) => {
                let why =
                    format!("{failure}. The job may have been started all the same. {}", look_for(&call.key));
                Err(failed_with(&why))
            }
            None => Err(failed_with("The gateway is shutting down")),
        }
    }

    /// Begins to start a job. The start is given up when the wish is dropped, but not while a request is out.
    fn begin(self: &Arc<Self>, call: Call, report: Report) -> (Coming, oneshot::Sender<()>) {
        let (tell, coming) = self.starts.begin(&call.key);
        let (wish, wished) = oneshot::channel();
        tokio::spawn(self.clone().start(call, report, wished, tell));
        (coming, wish)
    }

    async fn start(
        self: Arc<Self>,
        call: Call,
        report: Report,
        mut wished: oneshot::Receiver<()>,
        tell: watch::Sender<Option<Came>>,
    ) {
        let came = match self.start_at_last(&call, &report, &mut wished).await {
            Ok(job) => {
                let is_put_down = self.keep(&call, &job, &report).await;
                Came::Started { job, is_put_down }
            }
            Err(failure) => Came::Failed(failure),
        };
        let is_known = matches!(came, Came::Started { is_put_down: true, .. });
        tell.send_replace(Some(came));
        // What is put down is found there by whoever stops the work, and anything else only here.
        if !is_known {
            tokio::time::sleep(REMEMBERED).await;
        }
        self.starts.forget(&call.key);
    }

    /// Starts a job, again and again if the start is one that may be repeated, as long as somebody wants it.
    async fn start_at_last(
        &self,
        call: &Call,
        report: &Report,
        wished: &mut oneshot::Receiver<()>,
    ) -> Result<Map<String, Value>, Failure> {
        let declaration = self.api.declaration();
        let mut pace = Pace::new(declaration.status.poll, declaration.status.poll_max);
        loop {
            let failure = match self.api.start(call).await {
                Ok(started) => return Ok(started.job),
                Err(failure) => failure,
            };
            let is_unsent = matches!(failure, Failure::Unsent { .. });
            if !failure.is_transient() || !(declaration.start.is_idempotent || is_unsent) {
                return Err(failure);
            }
            report.wait(format!("Waiting for the job API: {failure}"));
            tokio::select! {
                () = tokio::time::sleep(pace.pause(failure.retry_after())) => {}
                _ = &mut *wished => return Err(failure),
            }
        }
    }

    /// Puts down where a job is. If nobody wants it any more, it is cancelled.
    async fn keep(&self, call: &Call, job: &Map<String, Value>, report: &Report) -> bool {
        let place = Place { key: call.key.clone(), job: Some(job.clone()) };
        match put_down(&place, report).await {
            Ok(()) => true,
            Err(error @ (EngineError::Terminal(_) | EngineError::NotFound)) => {
                tracing::debug!(%error, "a job was started too late");
                if let Err(failure) = self.cancel(call, job).await {
                    tracing::error!(%failure, key = call.key, "a job that nobody wants may go on");
                }
                false
            }
            Err(error) => {
                tracing::warn!(%error, key = call.key, "where a job is could not be put down");
                false
            }
        }
    }

    /// Cancels a job, and tries more than once.
    pub(super) async fn cancel(&self, call: &Call, job: &Map<String, Value>) -> Result<(), Failure> {
        let mut pause = CANCEL_AGAIN;
        for again in (0..CANCELS).rev() {
            match self.api.cancel(call, job).await {
                Ok(true) => break,
                Ok(false) => {
                    tracing::warn!(key = call.key, "this API cannot cancel a job, so it goes on");
                    break;
                }
                Err(failure) if again == 0 || !failure.is_transient() => return Err(failure),
                Err(failure) => {
                    tracing::debug!(%failure, "a cancel failed");
                    tokio::time::sleep(pause.max(failure.retry_after().unwrap_or_default())).await;
                    pause *= 2;
                }
            }
        }
        Ok(())
    }

    async fn stop(self: &Arc<Self>, work: &Work) -> Result<(), NotStopped> {
        let (call, job) = match self.put_down_in(work) {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(()),
            // It never will be readable.
            Err(error) => {
                tracing::error!(error, "cannot stop a job");
                return Ok(());
            }
        };
        let not_stopped = |failure: Failure| NotStopped(failure.to_string());
        let job = match job {
            Some(job) => Some(job),
            None => self.of_broken_start(&call).await?,
        };
        match job {
            Some(job) => self.cancel(&call, &job).await.map_err(not_stopped),
            None => Ok(()),
        }
    }

    /// The job of a call whose start was not seen to its end; `None` if there is none, or nobody can know.
    async fn of_broken_start(&self, call: &Call) -> Result<Job, NotStopped> {
        if let Some(coming) = self.starts.find(&call.key) {
            // Nobody wants it any more, so it is one request and no more.
            match coming.came().await {
                Some(Came::Started { job, .. }) => return Ok(Some(job)),
                Some(Came::Failed(failure)) if failure.did_nothing() => return Ok(None),
                _ => {}
            }
        }
        if !self.api.declaration().start.is_idempotent {
            tracing::warn!(
                key = call.key,
                "a job may have been started, and nobody can know whether it goes on"
            );
            return Ok(None);
        }
        // Starting with the same key is the way to learn which job it is.
        match self.api.start(call).await {
            Ok(started) => Ok(Some(started.job)),
            Err(failure) if failure.is_transient() => Err(NotStopped(failure.to_string())),
            Err(failure) => {
                tracing::warn!(%failure, key = call.key, "a start that was cut off cannot be made again");
                Ok(None)
            }
        }
    }
}

pub(super) async fn put_down(place: &Place, report: &Report) -> Result<(), EngineError> {
    let state = place.to_payload().map_err(|error| EngineError::Store(error.to_string()))?;
    report.checkpoint(state).await
}

/// The end of work of which nobody can say whether there is a job.
fn lost_at_start(key: &str) -> Ending {
    let why = "The work was interrupted while its job was being started, and starting it twice could make two jobs of it.";
    failed_with(&format!("{why} The job may be running. {}", look_for(key)))
}

fn look_for(key: &str) -> String {
    format!(
        "Look among the jobs of the API for one begun at this time; where its start was sent a key, that is {key}."
    )
}
