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
                    match status.as_deref() {
                        Some("committed") => return Fate::Committed,
                        Some("aborted") if told => return Fate::Unknown,
                        Some("aborted") => return Fate::Undone,
                        Some(_) => "the transaction has not ended".to_owned(),
                        None => {
                            fail(jobs, &unknown("the server has forgotten the transaction"));
                            return Fate::Unknown;
                        }
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

/// `None` if the server does not know the transaction any more. One that has not ended is ended: its session is lost to us, but
/// may not have noticed.
async fn status(
    session: &Session,
    xact: &str,
    process: &Process,
) -> Result<Option<String>, tokio_postgres::Error> {
    let ask = || async {
        let row = session.client.query_one(include_str!("../queries/xact_status.sql"), &[&xact]).await?;
        row.try_get::<_, Option<String>>(0)
    };
    let status = ask().await?;
    if status.as_deref() != Some("in progress") {
        return Ok(status);
    }
    let end = include_str!("../queries/xact_end.sql");
    session.client.query(end, &[&process.number, &process.started]).await?;
    ask().await
}

fn unknown(why: &str) -> StoreError {
    StoreError::Failed(format!(
        "the connection ended while the write was being committed, and whether it was could not be found out: {why}"
    ))
}
