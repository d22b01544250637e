use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

use super::fate::Fate;
use super::job::{Job, What};
use super::session::Session;
use super::transaction::{self, Outcomes, Trouble};
use crate::store::postgres::backoff::Backoff;
use crate::store::postgres::connect::Connector;
use crate::{Feed, StoreError};

/// The most writes in one transaction, and about how many bytes: enough that many share a commit, few enough
/// that the first does not wait long for the last and that the server takes it in one message.
const MOST: usize = 256;
const HEAVIEST: usize = 16 << 20;

/// How often a transaction is tried before the guilty one among its writes is looked for.
const TRIES: u32 = 3;

/// One connection that writes. What waits for it when it comes around is committed together.
pub(in crate::store::postgres) struct Lane {
    pub(super) connector: Connector,
    pub(super) queue: mpsc::UnboundedReceiver<Job>,
    waiting: VecDeque<Job>,
    /// What is being seen to its end, with the number of times it has failed; the next ones are last.
    open: Vec<(Vec<Job>, u32)>,
    pub(super) session: Option<Session>,
    /// Why there is no session.
    reason: String,
    feed: Feed,
    /// Where the locators of what was committed go, for the other nodes.
    news: mpsc::UnboundedSender<i64>,
    pub(super) patience: Duration,
}

impl Lane {
    /// A lane and the queue into it. It is unbounded; callers are bounded by the requests that wait for them.
    pub(in crate::store::postgres) fn new(
        connector: Connector,
        feed: Feed,
        news: mpsc::UnboundedSender<i64>,
        patience: Duration,
    ) -> (mpsc::UnboundedSender<Job>, Lane) {
        let (jobs, queue) = mpsc::unbounded_channel();
        let (waiting, open, session, reason) = (VecDeque::new(), Vec::new(), None, String::new());
        (jobs, Lane { connector, queue, waiting, open, session, reason, feed, news, patience })
    }

    /// Writes until the store is closed and nothing waits any more.
    pub(in crate::store::postgres) async fn serve(mut self) {
        loop {
            if self.waiting.is_empty() {
                match self.queue.recv().await {
                    Some(job) => self.waiting.push_back(job),
                    None => return,
                }
            }
            self.take();
            let batch = self.batch();
            self.settle(batch).await;
        }
    }

    fn take(&mut self) {
        while let Ok(job) = self.queue.try_recv() {
            self.waiting.push_back(job);
        }
    }

    /// The next writes that go together. A statement that is about no task goes alone.
    fn batch(&mut self) -> Vec<Job> {
        let mut batch = Vec::new();
        let mut weight = 0;
        while let Some(job) = self.waiting.pop_front() {
            let alone = matches!(job.what, What::Run { .. });
            let heavier = weight + job.weight();
            if !batch.is_empty() && (alone || heavier > HEAVIEST) {
                self.waiting.push_front(job);
                break;
            }
            weight = heavier;
            batch.push(job);
            if alone || batch.len() == MOST {
                break;
            }
        }
        batch
    }

    /// Sees each of the writes to its end, in their order: together while that works, else half and half until the guilty ones
    /// fail alone.
    async fn settle(&mut self, jobs: Vec<Job>) {
        self.open.push((jobs, 0));
        while let Some((mut jobs, failures)) = self.open.pop() {
            if !self.connect(&mut jobs).await {
                continue;
            }
            let Some(session) = &self.session else { continue };
            let (why, again) = match transaction::run(session, &jobs, self.connector.answer()).await {
                Ok(outcomes) => {
                    self.tell(jobs, outcomes);
                    continue;
                }
                Err(Trouble::Refused { why, again }) => (why, again),
                Err(Trouble::Lost(why)) => {
                    self.drop_session(&why);
                    (why, true)
                }
                Err(Trouble::Unclear { xact, outcomes, why }) => {
                    let process = session.process.clone();
                    self.drop_session(&why);
                    match self.find_out(&xact, &process, &mut jobs).await {
                        Fate::Committed => {
                            self.tell(jobs, outcomes);
                            continue;
                        }
                        Fate::Undone => (why, true),
                        Fate::Unknown => continue,
                    }
                }
            };
            tracing::warn!(%why, writes = jobs.len(), "a transaction was not committed");
            if again && failures + 1 < TRIES {
                self.open.push((jobs, failures + 1));
            } else if jobs.len() > 1 {
                let second = jobs.split_off(jobs.len() / 2);
                self.open.push((second, 0));
                self.open.push((jobs, 0));
            } else {
                fail(&mut jobs, &StoreError::Failed(format!("{why}; nothing was written")));
            }
        }
    }

    fn tell(&self, jobs: Vec<Job>, outcomes: Outcomes) {
        for (mut job, outcome) in jobs.into_iter().zip(outcomes) {
            let locator = job.task().map(|id| id.locator());
            if job.tell(outcome, &self.feed)
                && let Some(locator) = locator
            {
                // A notifier that is gone has nobody to tell.
                let _ = self.news.send(locator);
            }
        }
    }

    fn drop_session(&mut self, why: &str) {
        self.session = None;
        self.reason = why.to_owned();
    }

    /// Sees to it that there is a session. `false` if none could be had while the jobs had patience: all have been told.
    async fn connect(&mut self, jobs: &mut Vec<Job>) -> bool {
        let mut backoff = Backoff::new();
        loop {
            match &self.session {
                Some(session) if !session.client.is_closed() => return true,
                Some(_) => self.drop_session("the connection was closed"),
                None => {}
            }
            let connector = self.connector.clone();
            match self.patiently(jobs, async move { Session::open(&connector).await }).await {
                Ok(session) => self.session = Some(session),
                Err(why) => self.reason = why,
            }
            if jobs.is_empty() {
                return false;
            }
            if self.session.is_none() {
                self.patiently(jobs, sleep(backoff.next())).await;
            }
        }
    }

    /// Waits for `what`; meanwhile jobs whose patience is over are told so.
    pub(super) async fn patiently<T>(&mut self, jobs: &mut Vec<Job>, what: impl Future<Output = T>) -> T {
        let mut what = pin!(what);
        loop {
            self.take();
            let now = Instant::now();
            // All of them are in the order in which they came, and had the same patience.
            let mut late = overdue(jobs, now);
            for (jobs, _) in &mut self.open {
                late.extend(overdue(jobs, now));
            }
            while self.waiting.front().is_some_and(|job| job.until <= now) {
                late.extend(self.waiting.pop_front());
            }
            let reason = if self.reason.is_empty() { "no answer yet" } else { &self.reason };
            fail(&mut late, &self.connector.unreachable(&format!("{reason}; nothing was written")));
            let open = self.open.iter().filter_map(|(jobs, _)| jobs.first());
            let next = open.chain(jobs.first()).chain(self.waiting.front()).map(|job| job.until).min();
            let next = next.unwrap_or(now + self.patience);
            tokio::select! {
                done = &mut what => return done,
                () = sleep_until(next) => {}
            }
        }
    }
}

/// Takes those out whose patience is over.
fn overdue(jobs: &mut Vec<Job>, now: Instant) -> Vec<Job> {
    let late = jobs.iter().take_while(|job| job.until <= now).count();
    jobs.drain(..late).collect()
}

pub(super) fn fail(jobs: &mut [Job], error: &StoreError) {
    for job in jobs {
        job.fail(error.clone());
    }
}
