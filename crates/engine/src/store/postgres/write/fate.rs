use tokio::time::{Instant, sleep};

use super::job::Job;
use super::lane::{Lane, fail};
use super::session::{Process, Session};
use crate::StoreError;
use crate::store::postgres::backoff::Backoff;

/// What became of a transaction whose session ended during its commit.
pub(super) enum Fate {
    Committed,
    Undone,
    /// The callers have been told that nobody knows.
    Unknown,
}

impl Lane {
    /// Asks the server what became of the transaction. While nobody answers the callers wait, but no longer than their
    /// patience; even then the question stays, so that followers are told what was committed.
    pub(super) async fn find_out(&mut self, xact: &str, process: &Process, jobs: &mut [Job]) -> Fate {
        let until = Instant::now() + self.patience;
        let mut backoff = Backoff::new();
        let mut told = false;
        loop {
            let connector = self.connector.clone();
            let session = self.session.take();
            let asking = async move {
                let session = match session {
                    Some(session) => session,
                    None => Session::open(&connector).await?,
                };
                let status = connector.within(status(&session, xact, process)).await?;
                Ok::<_, String>((session, status))
            };
            let why = match self.patiently(&mut Vec::new(), asking).await {
                Ok((session, status)) => {
                    self.session = Some(session);
                    match status {
                        Some(true) => return Fate::Committed,
                        Some(false) if told => return Fate::Unknown,
                        Some(false) => return Fate::Undone,
                        None => "its session has not ended".to_owned(),
                    }
                }
                Err(why) => self.connector.unreachable(&why).to_string(),
            };
            if Instant::now() >= until && !told {
                fail(jobs, &unknown(&why));
                told = true;
            }
            if told && self.queue.is_closed() {
                return Fate::Unknown;
            }
            self.patiently(&mut Vec::new(), sleep(backoff.next())).await;
        }
    }
}

/// Whether it was committed; `None` if it may still be. Its session is lost to us, but may not have noticed, so it is
/// ended first: afterwards nothing can change any more.
///
/// The server could also be asked for the status of the transaction's number. But after a crash it gives the numbers of
/// transactions that had not reached its disk to others, and would speak of those.
async fn status(
    session: &Session,
    xact: &str,
    process: &Process,
) -> Result<Option<bool>, tokio_postgres::Error> {
    let end = include_str!("../queries/xact_end.sql");
    if !session.client.query(end, &[&process.number, &process.started]).await?.is_empty() {
        return Ok(None);
    }
    let mark = include_str!("../queries/xact_mark.sql");
    session.client.query_one(mark, &[&process.mark, &xact]).await?.try_get(0).map(Some)
}

fn unknown(why: &str) -> StoreError {
    StoreError::Failed(format!(
        "the connection ended while the write was being committed, and whether it was could not be found out: {why}"
    ))
}
