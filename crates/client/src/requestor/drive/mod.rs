//! Seeing a call through: one task for each call that is under way, which does whatever it takes.

mod account;
mod ends;
mod first;
mod follow;
mod questions;
mod retries;
mod round;
mod send;

use std::sync::Arc;
use std::time::Duration;

use taskgate_task::Payload;
use taskgate_wire::dialect::d2025_10_20;
use taskgate_wire::{RawObject, hosted, meta};
use tokio::sync::watch;
use tokio::time::Instant;

use super::call::{CallRequest, PendingCall};
use super::connect::{Connection, Era, Inner, may_come_back};
use super::error::CallError;
use super::event::Event;
use super::feed::{Feed, Order};
use super::handle::Handle;
use super::random;
use super::result::CallResult;
use crate::session::CallFailure;

pub(super) use account::Account;
#[cfg(feature = "ledger")]
pub(super) use account::digest;
use first::Original;
use follow::Start;
use questions::Questions;
pub(super) use questions::{key_of, refusal};
pub(super) use retries::Retries;
use round::Round;
use send::Sent;

/// What is to be seen through.
pub(super) enum Job {
    /// A call that is to be made.
    Call(CallRequest),
    /// A call that was made in an earlier life and whose answer was never seen: to be found by its key, and to be made only if it
    /// never was, and may be.
    #[cfg(feature = "ledger")]
    Find { request: CallRequest, may_send: bool },
    /// A task that is there.
    Resume(Handle),
}

/// Begins, and gives what the caller holds on to.
pub(super) fn start(inner: Arc<Inner>, job: Job, account: Account) -> PendingCall {
    let feed = Arc::new(Feed::default());
    tokio::spawn(run(inner, job, account, feed.clone()));
    PendingCall::new(feed)
}

async fn run(inner: Arc<Inner>, job: Job, account: Account, feed: Arc<Feed>) {
    let after = match &job {
        Job::Call(request) => request.deadline.unwrap_or(inner.deadline),
        _ => inner.deadline,
    };
    let deadline = Instant::now().checked_add(after);
    let orders = feed.order.subscribe();
    let mut left = feed.order.subscribe();
    let questions = Questions::new(inner.clone(), feed.clone());
    let mut driver = Driver { inner, feed: feed.clone(), orders, questions, account };
    let ended = {
        // Whatever is done for the call is done in here, so nothing outlasts its deadline.
        let seen_through = Box::pin(driver.see_through(job));
        tokio::select! {
            biased;
            outcome = seen_through => Some(outcome),
            _ = left.wait_for(|order| *order == Order::Leave) => None,
            () = sleep_until(deadline) => {
                Some(Err(CallError::Deadline { handle: feed.handle().cloned().map(Box::new), after }))
            }
        }
    };
    let outcome = ended.unwrap_or(Err(CallError::Detached));
    let end = driver.account.end(&outcome, feed.handle());
    drop(driver);
    match end {
        None => {
            feed.noted();
            feed.finish(outcome);
        }
        Some(end) => {
            feed.finish(outcome);
            if feed.is_taken().await {
                end.note().await;
                feed.noted();
            }
        }
    }
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// A call that may have arrived.
struct Lost {
    /// Why nobody knows.
    why: String,
    /// Whether it may be made if it never was.
    may_send: bool,
}

struct Driver {
    inner: Arc<Inner>,
    feed: Arc<Feed>,
    orders: watch::Receiver<Order>,
    questions: Questions,
    account: Account,
}

impl Driver {
    async fn see_through(&mut self, job: Job) -> Result<CallResult, CallError> {
        let raw = match job {
            Job::Call(request) => self.call(request, None).await?,
            #[cfg(feature = "ledger")]
            Job::Find { request, may_send } => {
                let why = "it was sent by a program that has ended".to_owned();
                self.call(request, Some(Lost { why, may_send })).await?
            }
            Job::Resume(handle) => self.resume(handle).await?,
        };
        let raw = meta::without(d2025_10_20::RELATED_TASK, raw);
        Ok(CallResult::read(meta::without(meta::RELATED_TASK, raw)))
    }

    /// Makes the call, as often as it takes for it to arrive once. One whose answer was lost is looked for by its key before
    /// anything else is done.
    async fn call(&mut self, mut request: CallRequest, mut lost: Option<Lost>) -> Result<Payload, CallError> {
        if request.idempotency_key.is_none() && lost.is_none() && self.account.is_kept() {
            let name = random::name().map_err(|error| CallError::Params(error.to_string()))?;
            request.idempotency_key = Some(name);
        }
        let mut retries = Retries::new(self.inner.patience);
        let mut corrected = false;
        let mut round: Option<Round> = None;
        loop {
            let connection = self.connected(Era::Newest, &mut retries, None).await?;
            let sent = match &lost {
                Some(lost) => self.find(&connection, &request, lost).await?,
                None => self.send(&connection, &request, round.as_ref(), &mut corrected).await?,
            };
            match sent {
                Sent::Result(raw) => return Ok(raw),
                Sent::Task(start) => return self.follow(*start, &mut retries).await,
                Sent::Sought(start, why) => {
                    let end = self.follow(*start, &mut retries).await;
                    // There is no such task: the call has not arrived, or its server makes none.
                    let is_none = matches!(end, Err(CallError::Expired { .. } | CallError::Unsupported(_)));
                    return if is_none { Err(CallError::Uncertain { why }) } else { end };
                }
                Sent::Asked(asked) => {
                    round = Some(self.answer_round(asked).await?);
                    retries.reset();
                }
                Sent::Corrected => {}
                Sent::Unknown => lost = None,
                Sent::Missed(why) => self.pause(&mut retries, why, None).await?,
                Sent::Lost(why) => {
                    self.account.lost();
                    lost = Some(Lost { why: why.clone(), may_send: true });
                    self.pause(&mut retries, why, None).await?;
                }
            }
        }
    }

    async fn resume(&mut self, handle: Handle) -> Result<Payload, CallError> {
        if handle.endpoint != self.inner.identity {
            let (theirs, ours) = (handle.endpoint, self.inner.identity.clone());
            return Err(CallError::WrongEndpoint { theirs, ours });
        }
        self.feed.keep(handle.clone());
        self.feed.push(Event::Accepted(handle.clone()));
        self.questions.remember(self.account.resumed(&handle).await?);
        let mut retries = Retries::new(self.inner.patience);
        let connection = self.connected(Era::of(&handle.version), &mut retries, Some(&handle)).await?;
        let heard = connection.session.notifications();
        self.follow(
            Start { connection, handle, first: None, original: Original::default(), token: None, heard },
            &mut retries,
        )
        .await
    }

    /// A connection, as soon as there is one.
    async fn connected(
        &mut self,
        era: Era,
        retries: &mut Retries,
        handle: Option<&Handle>,
    ) -> Result<Arc<Connection>, CallError> {
        loop {
            let inner = self.inner.clone();
            let error = match self.unless_cancelled(handle, inner.connection(era)).await? {
                Ok(connection) => {
                    let Some(handle) = handle else { return Ok(connection) };
                    return self.unless_cancelled(Some(handle), inner.back_to(handle, connection)).await;
                }
                Err(error) => error,
            };
            if !may_come_back(&error) {
                return Err(match CallError::from(error) {
                    CallError::Unreachable { why, .. } => {
                        CallError::Unreachable { handle: handle.cloned().map(Box::new), why }
                    }
                    error => error,
                });
            }
            self.pause(retries, error.to_string(), handle).await?;
        }
    }

    /// Waits before something is tried again, and tells of it.
    async fn pause(
        &mut self,
        retries: &mut Retries,
        why: String,
        handle: Option<&Handle>,
    ) -> Result<(), CallError> {
        let Some(wait) = retries.failed() else {
            return Err(CallError::Unreachable { handle: handle.cloned().map(Box::new), why });
        };
        self.feed.push(Event::Retrying { why, attempt: retries.attempt, wait });
        self.unless_cancelled(handle, tokio::time::sleep(wait)).await
    }

    /// Waits for something, or for the order to cancel. A call that is a task cannot just be let go of: its server has to be
    /// told, and so the order waits.
    async fn unless_cancelled<T>(
        &mut self,
        handle: Option<&Handle>,
        what: impl Future<Output = T>,
    ) -> Result<T, CallError> {
        if handle.is_some() {
            return Ok(what.await);
        }
        tokio::select! {
            biased;
            () = cancelled(&mut self.orders) => Err(CallError::Cancelled { message: None }),
            done = what => Ok(done),
        }
    }
}

/// Resolves once the caller wants the call to end.
async fn cancelled(orders: &mut watch::Receiver<Order>) {
    if orders.wait_for(|order| *order == Order::Cancel).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// What a result says it is.
enum Kind {
    Complete,
    InputRequired,
}

/// Tells results from what only looks like one. A `resultType` that is not known makes it invalid, whatever the server's
/// version: taken for a result, a handle or a question of some other protocol would look like success.
fn kind_of(raw: &Payload) -> Result<Kind, CallError> {
    let object = RawObject::parse(raw.as_str())
        .map_err(|_| CallError::InvalidResponse("the result is no object".to_owned()))?;
    match object.get("resultType").map(serde_json::value::RawValue::get) {
        None | Some("\"complete\"") => Ok(Kind::Complete),
        Some("\"input_required\"") => Ok(Kind::InputRequired),
        Some(other) => {
            let other: String = other.chars().take(100).collect();
            Err(CallError::InvalidResponse(format!("the resultType {other} is not known")))
        }
    }
}

/// What a task ended with, which can only be a result.
fn final_result(raw: Payload) -> Result<Payload, CallError> {
    match kind_of(&raw)? {
        Kind::Complete if hosted::created(taskgate_wire::Dialect::D2025_11_25, &raw).is_some() => {
            Err(CallError::InvalidResponse("the task ended with another task".to_owned()))
        }
        Kind::Complete => Ok(raw),
        Kind::InputRequired => Err(CallError::InvalidResponse("the task ended with a question".to_owned())),
    }
}

/// Whether nothing more can be asked on this connection.
pub(super) fn is_of_connection(failure: &CallFailure) -> bool {
    match failure {
        CallFailure::Closed(_) => true,
        CallFailure::Request(failure) => failure.is_of_connection(),
        _ => false,
    }
}

/// How long a server may take to say what became of a call that is cancelled.
const SAID_WITHIN: Duration = Duration::from_secs(30);
