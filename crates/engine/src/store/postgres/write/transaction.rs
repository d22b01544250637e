use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::OptionFuture;
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Row, Statement};

use super::columns::Keys;
use super::job::{Done, Job, What};
use super::plan::{Plan, Writes};
use super::session::Session;
use crate::StoreError;
use crate::store::postgres::fault::{is_collision, is_refusal, is_session_stale, say};
use crate::store::postgres::reader::Params;

/// What each of the writes led to.
pub(super) type Outcomes = Vec<Result<Done, StoreError>>;

/// Why a transaction was not committed, or is not known to be.
pub(super) enum Trouble {
    /// It was refused; nothing was written.
    Refused {
        why: String,
        /// Whether somebody else was in the way, so that it may succeed another time.
        again: bool,
    },
    /// The session ended, or is of no more use, before anything was committed.
    Lost(String),
    /// The session ended while the commit was under way.
    Unclear {
        /// The transaction, by which the server knows what became of it.
        xact: String,
        /// What is true if it was committed.
        outcomes: Outcomes,
        why: String,
    },
}

/// How the end of a transaction went.
enum End {
    Committed,
    Undone(Trouble),
    Unclear(String),
}

/// Makes all of the writes in one transaction, in two round trips: one to lock and read the records, one to write and
/// commit them. An error means that none of them was made, or with [`Trouble::Unclear`] all or none.
pub(super) async fn run(session: &Session, jobs: &[Job], answer: Duration) -> Result<Outcomes, Trouble> {
    let client = &session.client;
    if let [Job { what: What::Run { sql, params, .. }, .. }] = jobs {
        let begun = timeout(answer, begin_and_run(session, sql, params)).await;
        let (xact, rows) = match begun.map_err(|_| silent(answer))? {
            Ok(begun) => begun,
            Err(error) => return Err(roll_back(client, undone(&error)).await),
        };
        let end = commit(client, &Writes::default(), session, answer).await;
        return conclude(end, xact, vec![Ok(Done::Ran(rows))]);
    }
    let begun = timeout(answer, begin_and_lock(session, jobs)).await;
    let (xact, locked, taken) = match begun.map_err(|_| silent(answer))? {
        Ok(begun) => begun,
        Err(error) => return Err(roll_back(client, undone(&error)).await),
    };
    let mut outcomes = Outcomes::with_capacity(jobs.len());
    let end = match Plan::new(jobs, &locked, &taken) {
        Ok(mut plan) => {
            outcomes.extend(jobs.iter().map(|job| plan.make(job)));
            match plan.writes() {
                Ok(writes) => {
                    let end = commit(client, &writes, session, answer).await;
                    // Whatever became of a transaction that wrote nothing, what was found in it holds.
                    if writes.is_empty() { End::Committed } else { end }
                }
                Err(error) => End::Undone(roll_back(client, unwritable(&error)).await),
            }
        }
        Err(error) => End::Undone(roll_back(client, unwritable(&error)).await),
    };
    conclude(end, xact, outcomes)
}

fn conclude(end: End, xact: String, outcomes: Outcomes) -> Result<Outcomes, Trouble> {
    match end {
        End::Committed => Ok(outcomes),
        End::Undone(trouble) => Err(trouble),
        End::Unclear(why) => Err(Trouble::Unclear { xact, outcomes, why }),
    }
}

/// The first round trip: the transaction's number, the records and the keys.
///
/// Requests go out in the order in which they are polled first, and the server answers them in that order. After one
/// has failed the others fail as well, so the first error is the cause.
async fn begin_and_lock(session: &Session, jobs: &[Job]) -> Result<(String, Vec<Row>, Vec<Row>), Error> {
    let client = &session.client;
    let mut locators: Vec<i64> = jobs.iter().filter_map(|job| job.task().map(|id| id.locator())).collect();
    locators.sort_unstable();
    locators.dedup();
    let mut keys = Keys::default();
    for job in jobs {
        if let What::Create { new, .. } = &job.what
            && let Some(key) = &new.key
        {
            keys.push(new.owner.as_str(), key);
        }
    }
    let (locators, keyed): ([&(dyn ToSql + Sync); 1], _) = ([&locators], keys.params());
    let mark: [&(dyn ToSql + Sync); 1] = [&session.process.mark];
    let (begun, xact, locked, taken) = tokio::join!(
        biased;
        client.batch_execute("BEGIN"),
        client.query_one(&session.xact_id, &mark),
        client.query(&session.lock, &locators),
        OptionFuture::from((!keys.is_empty()).then(|| client.query(&session.keyed, &keyed))),
    );
    begun?;
    let xact = xact?.try_get(0)?;
    Ok((xact, locked?, taken.transpose()?.unwrap_or_default()))
}

/// The first round trip of a statement that is about no task.
async fn begin_and_run(
    session: &Session,
    sql: &'static str,
    params: &Params,
) -> Result<(String, Vec<Row>), Error> {
    let client = &session.client;
    let statement = client.prepare(sql).await?;
    let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|param| &**param as _).collect();
    let mark: [&(dyn ToSql + Sync); 1] = [&session.process.mark];
    let (begun, xact, rows) = tokio::join!(
        biased;
        client.batch_execute("BEGIN"),
        client.query_one(&session.xact_id, &mark),
        client.query(&statement, &params),
    );
    begun?;
    let xact = xact?.try_get(0)?;
    Ok((xact, rows?))
}

/// The second round trip: the writes and the commit.
///
/// The server turns the commit of a transaction in which a statement failed into its opposite, and does not call that
/// an error; so it counts only if every statement has succeeded. A statement that could not even be sent (it is too long) would
/// leave no trace there, so the commit is not sent after one.
async fn commit(client: &Client, writes: &Writes<'_>, session: &Session, answer: Duration) -> End {
    let unsent = AtomicBool::new(false);
    let erased: [&(dyn ToSql + Sync); 1] = [&writes.erased];
    let (creates, updates, events) =
        (writes.creates.params(), writes.updates.params(), writes.events.params());
    let end = async {
        if unsent.load(Ordering::Relaxed) {
            return client.batch_execute("ROLLBACK").await.map(|()| false);
        }
        client.batch_execute("COMMIT").await.map(|()| true)
    };
    let all = async {
        tokio::join!(
            biased;
            OptionFuture::from((!writes.erased.is_empty()).then(|| write(client, &session.delete, &erased, &unsent))),
            OptionFuture::from((!writes.creates.is_empty()).then(|| write(client, &session.create, &creates, &unsent))),
            OptionFuture::from((!writes.updates.is_empty()).then(|| write(client, &session.update, &updates, &unsent))),
            OptionFuture::from((!writes.events.is_empty()).then(|| write(client, &session.append, &events, &unsent))),
            end,
        )
    };
    let Ok((erased, created, updated, appended, ended)) = timeout(answer, all).await else {
        return End::Unclear(format!("no answer within {answer:?}"));
    };
    let failed = [erased, created, updated, appended].into_iter().flatten().find_map(Result::err);
    match (failed, ended) {
        (None, Ok(true)) => End::Committed,
        // Every statement that was refused has undone the transaction.
        (Some(error), _) if is_refusal(&error) => End::Undone(undone(&error)),
        (None, Err(error)) if is_refusal(&error) => End::Undone(undone(&error)),
        (Some(error), Ok(_)) => End::Undone(undone(&error)),
        (None, Ok(false)) => End::Undone(Trouble::Lost("a statement was not sent".to_owned())),
        (Some(error), Err(_)) | (None, Err(error)) => End::Unclear(say(&error)),
    }
}

/// Sends one statement, and notes if that was not possible.
async fn write(
    client: &Client,
    statement: &Statement,
    params: &[&(dyn ToSql + Sync)],
    unsent: &AtomicBool,
) -> Result<u64, Error> {
    let done = client.execute(statement, params).await;
    if done.as_ref().is_err_and(|error| !is_refusal(error)) {
        unsent.store(true, Ordering::Relaxed);
    }
    done
}

/// Leaves the session without a transaction. If that fails it has ended, and the transaction with it.
async fn roll_back(client: &Client, trouble: Trouble) -> Trouble {
    match &trouble {
        Trouble::Refused { .. } => match client.batch_execute("ROLLBACK").await {
            Ok(()) => trouble,
            Err(error) => Trouble::Lost(say(&error)),
        },
        _ => trouble,
    }
}

/// What an error means before the commit was sent.
fn undone(error: &Error) -> Trouble {
    if is_refusal(error) && !is_session_stale(error) {
        Trouble::Refused { why: say(error), again: is_collision(error) }
    } else {
        Trouble::Lost(say(error))
    }
}

fn unwritable(error: &StoreError) -> Trouble {
    let why = match error {
        StoreError::Failed(why) => why.clone(),
        other => other.to_string(),
    };
    Trouble::Refused { why, again: false }
}

fn silent(answer: Duration) -> Trouble {
    Trouble::Lost(format!("no answer within {answer:?}"))
}
