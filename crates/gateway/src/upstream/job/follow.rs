//! Sees a job to its end by looking at it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use taskgate_engine::{Ending, Report};
use taskgate_job::{Call, Failure, JobState, Seen};
use taskgate_task::Payload;
use tokio::time::Instant;

use super::ask::Ask;
use super::callbacks::Hearing;
use super::outcome;
use super::pace::Pace;
use super::place::Place;
use super::runner::{Inner, put_down};
use crate::upstream::asking::Whom;
use crate::upstream::ending::{failed_with, short};

/// A job that was just started may not be seen everywhere at once: for this long it is not gone.
const NOT_SEEN_YET: Duration = Duration::from_secs(10);
/// A line is told at most this often.
const TELL_EVERY: Duration = Duration::from_millis(300);
/// However often it is told, news is looked for at most this often.
const NEWS_EVERY: Duration = Duration::from_millis(250);
/// Answers in a row that cannot be read, after which an API is believed to have none that can.
const UNREADABLE: u32 = 5;

/// A job that is followed.
pub struct Following<'a> {
    inner: &'a Arc<Inner>,
    call: Call,
    job: Map<String, Value>,
    whom: Whom,
    report: &'a Report,
    pace: Pace,
    ask: Ask,
    /// Until when it counts as just started.
    fresh_until: Option<Instant>,
    /// What was told last.
    told: Option<(String, Option<Value>)>,
    told_at: Option<Instant>,
    changes: u64,
    lines: Vec<String>,
    /// The API could not be asked, and whoever looks was told so.
    is_in_trouble: bool,
    unreadable: u32,
    has_warned: bool,
}

impl<'a> Following<'a> {
    pub fn new(
        inner: &'a Arc<Inner>,
        call: Call,
        job: Map<String, Value>,
        whom: Whom,
        report: &'a Report,
        is_fresh: bool,
    ) -> Self {
        let status = &inner.api.declaration().status;
        Following {
            inner,
            call,
            job,
            whom,
            report,
            pace: Pace::new(status.poll, status.poll_max),
            ask: Ask::default(),
            fresh_until: is_fresh.then(|| Instant::now() + NOT_SEEN_YET),
            told: None,
            told_at: None,
            changes: 0,
            lines: Vec::new(),
            is_in_trouble: false,
            unreadable: 0,
            has_warned: false,
        }
    }

    /// Looks until there is an end. Where the job is, is put down as soon as that goes.
    pub async fn until_it_ends(mut self, mut is_put_down: bool) -> Ending {
        let hearing = self.inner.callbacks.as_ref().and_then(|callbacks| callbacks.listen(&self.call.key));
        loop {
            if !is_put_down {
                let place = Place { key: self.call.key.clone(), job: Some(self.job.clone()) };
                is_put_down = put_down(&place, self.report).await.is_ok();
            }
            let looked = Instant::now();
            let wanted = match self.look().await {
                Ok(wanted) => wanted,
                Err(ending) => return ending,
            };
            let pause = self.pace.pause(wanted);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.ask.next() => self.pace.news(),
                () = news(hearing.as_ref(), looked) => self.pace.news(),
            }
            self.deliver().await;
        }
    }

    /// Looks once. Returns how long the API wants to be left alone, or the end.
    async fn look(&mut self) -> Result<Option<Duration>, Ending> {
        let seen = match self.inner.api.look(&self.call, &self.job).await {
            Ok(seen) => seen,
            Err(failure) => {
                let ended = self.not_seen(&failure);
                // Nobody will look after it any more.
                if ended.is_err() && !is_gone(&failure) {
                    self.let_go().await;
                }
                return ended;
            }
        };
        self.unreadable = 0;
        self.out_of_trouble();
        match seen.state {
            Some(JobState::Completed) => return Err(self.completed(&seen).await),
            Some(JobState::Failed) => {
                self.read_lines(&seen).await;
                let found = self.inner.api.failure(&self.call, &self.job, &seen).await;
                let why = found.as_ref().or(seen.error.as_ref()).map(text_of).or(seen.message);
                let why = why.unwrap_or_else(|| format!("The job failed: its state is {}.", seen.word));
                return Err(outcome::unsuccessful(&why, &self.lines));
            }
            Some(JobState::Cancelled) => {
                let said = seen.message.map(|message| format!(": {message}")).unwrap_or_default();
                return Err(failed_with(&short(format!("The job was cancelled at its API{said}"))));
            }
            Some(JobState::Working | JobState::InputRequired) => {}
            None if !std::mem::replace(&mut self.has_warned, true) => {
                tracing::warn!(
                    word = short(seen.word.clone()),
                    "a job has a state that the configuration does not know; it counts as working"
                );
            }
            None => {}
        }
        if let Err(why) = self.ask.listed(seen.asked.as_ref(), &self.whom, self.report).await {
            self.let_go().await;
            return Err(failed_with(&why));
        }
        self.tell(&seen).await;
        Ok(seen.retry_after)
    }

    /// The job is followed no more, so it must not go on.
    async fn let_go(&self) {
        if let Err(failure) = self.inner.cancel(&self.call, &self.job).await {
            tracing::error!(%failure, key = self.call.key, "a job that is followed no more may go on");
        }
    }

    fn not_seen(&mut self, failure: &Failure) -> Result<Option<Duration>, Ending> {
        let is_fresh = self.fresh_until.is_some_and(|until| Instant::now() < until);
        if matches!(failure, Failure::Unreadable { .. }) {
            self.unreadable += 1;
        }
        let passes = failure.is_transient()
            || matches!(failure, Failure::Unreadable { .. }) && self.unreadable < UNREADABLE;
        match failure.code() {
            Some(404) if is_fresh => Ok(None),
            _ if is_gone(failure) => Err(failed_with(&format!("The job is gone: {failure}"))),
            _ if passes => {
                self.trouble(failure);
                Ok(failure.retry_after())
            }
            _ => Err(failed_with(&format!("It cannot be seen where the job stands: {failure}"))),
        }
    }

    /// Says, once, that the API cannot be asked: that is no silence of the job.
    fn trouble(&mut self, failure: &Failure) {
        if !std::mem::replace(&mut self.is_in_trouble, true) {
            self.report.wait(short(format!("Waiting for the job API: {failure}")));
        }
    }

    fn out_of_trouble(&mut self) {
        if std::mem::take(&mut self.is_in_trouble) {
            self.report.go_on("The job API answers again.".to_owned());
            self.told = None;
        }
    }

    async fn completed(&mut self, seen: &Seen) -> Ending {
        loop {
            match self.inner.api.result(&self.call, &self.job, seen).await {
                Ok(value) => return outcome::completed(&value),
                Err(failure) if failure.is_transient() => {
                    self.trouble(&failure);
                    tokio::time::sleep(self.pace.pause(failure.retry_after())).await;
                }
                Err(failure) => {
                    return failed_with(&format!(
                        "The job is completed, and its result cannot be had: {failure}"
                    ));
                }
            }
        }
    }

    /// Says how far the job is, if that is news.
    async fn tell(&mut self, seen: &Seen) {
        self.read_lines(seen).await;
        let far = match (&seen.progress, &seen.total) {
            (Some(progress), Some(total)) => {
                Some(format!("Progress: {}/{}", text_of(progress), text_of(total)))
            }
            (Some(progress), None) => Some(format!("Progress: {}", text_of(progress))),
            (None, _) => None,
        };
        let written = self.lines.iter().rev().find(|line| !line.trim().is_empty()).cloned();
        let line = seen.message.clone().filter(|line| !line.is_empty()).or(written).or(far);
        let line = match (line, seen.state) {
            (Some(line), Some(_)) => line,
            (Some(line), None) => format!("{}: {line}", seen.word),
            (None, _) => format!("The job is {}.", seen.word),
        };
        let news = Some((short(line), seen.progress.clone()));
        if news == self.told {
            return;
        }
        self.pace.news();
        // A task keeps few lines a second, and there may be none after this one for a long time: the next look tells it.
        if self.told_at.is_some_and(|at| at.elapsed() < TELL_EVERY) {
            return;
        }
        (self.told, self.told_at) = (news, Some(Instant::now()));
        self.changes += 1;
        let progress = seen.progress.as_ref().and_then(number).unwrap_or_else(|| self.changes.into());
        let Some((line, _)) = &self.told else { return };
        let mut raw = json!({ "progress": progress, "message": line });
        if let Some(total) = seen.total.as_ref().and_then(number) {
            raw["total"] = total;
        }
        self.report
            .progress(Some(line.clone()), Payload::from_value(&raw).unwrap_or_else(|_| Payload::null()));
    }

    async fn read_lines(&mut self, seen: &Seen) {
        match self.inner.api.logs(&self.call, &self.job, seen).await {
            Ok(Some(lines)) => self.lines = lines,
            Ok(None) => {}
            Err(failure) => tracing::debug!(%failure, "what a job has written cannot be read"),
        }
    }

    /// Hands over the answers that were given.
    async fn deliver(&mut self) {
        for (key, answer) in std::mem::take(&mut self.ask.undelivered) {
            match self.inner.api.answer(&self.call, &self.job, &key, &answer).await {
                Ok(()) => self.pace.news(),
                Err(failure) if failure.is_transient() => {
                    self.trouble(&failure);
                    self.ask.undelivered.push((key, answer));
                }
                Err(failure) => {
                    tracing::warn!(%failure, "a job's API refused an answer");
                    self.ask.refused(&key, &answer);
                }
            }
        }
    }
}

/// Whether the API does not know the job any more.
fn is_gone(failure: &Failure) -> bool {
    matches!(failure.code(), Some(404 | 410))
}

/// Resolves when the API says that there is news, and it was last looked for long enough ago; never, if it cannot.
async fn news(hearing: Option<&Hearing>, looked: Instant) {
    match hearing {
        Some(hearing) => {
            hearing.news().await;
            tokio::time::sleep_until(looked + NEWS_EVERY).await;
        }
        None => std::future::pending().await,
    }
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A number, however it is written.
fn number(value: &Value) -> Option<Value> {
    match value {
        Value::Number(_) => Some(value.clone()),
        Value::String(text) => {
            serde_json::from_str::<serde_json::Number>(text.trim()).ok().map(Value::Number)
        }
        _ => None,
    }
}
