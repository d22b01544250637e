//! What nodes tell each other: the locators of tasks that were changed, after the commit.
//!
//! `NOTIFY` within the transaction would tell the same with fewer words, but it holds a lock of the whole server while
//! the log is written, so that no two commits could share that. A notification that is lost costs time and nothing else:
//! nodes also look by themselves.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_postgres::{Client, Statement};

use super::backoff::Backoff;
use super::connect::Connector;

/// What is told is gathered for so long after something was told.
const REST: Duration = Duration::from_millis(3);

/// The most locators in one notification: 17 bytes each at most, of the 8000 that fit.
const MOST: usize = 400;

/// More than these that could not be told, and only that something happened is told.
const TOO_MANY: usize = 20_000;

/// One life of a store that tells others: 16 hexadecimal digits.
pub(super) type Teller = String;

/// Tells the other nodes what is committed, until the lanes have ended.
pub(super) struct Notifier {
    pub(super) connector: Connector,
    pub(super) channel: String,
    pub(super) teller: Teller,
    pub(super) news: mpsc::UnboundedReceiver<i64>,
}

impl Notifier {
    pub(super) async fn serve(mut self) {
        let mut session = None;
        let mut backoff = Backoff::new();
        let mut missed = false;
        let mut untold = Vec::new();
        loop {
            if untold.is_empty() && !missed {
                match self.news.recv().await {
                    Some(first) => untold.push(first),
                    None => return,
                }
            }
            while let Ok(next) = self.news.try_recv() {
                untold.push(next);
            }
            untold.sort_unstable();
            untold.dedup();
            if untold.len() > TOO_MANY {
                missed = true;
                untold.clear();
            }
            match self.tell(&mut session, &untold, missed).await {
                Ok(()) => {
                    untold.clear();
                    missed = false;
                    backoff = Backoff::new();
                    sleep(REST).await;
                }
                // Some of it may have been told; twice does no harm.
                Err(why) => {
                    tracing::debug!(%why, "the other nodes are not told of changes");
                    session = None;
                    if self.news.is_closed() {
                        return;
                    }
                    sleep(backoff.next()).await;
                }
            }
        }
    }

    async fn tell(
        &self,
        session: &mut Option<(Client, Statement)>,
        locators: &[i64],
        missed: bool,
    ) -> Result<(), String> {
        let (client, notify) = match session {
            Some(session) => session,
            None => session.insert(self.open().await?),
        };
        let mut payloads: Vec<String> =
            locators.chunks(MOST).map(|locators| payload(&self.teller, locators)).collect();
        if missed {
            payloads.push(gap(&self.teller));
        }
        self.connector.within(client.execute(&*notify, &[&self.channel, &payloads])).await.map(drop)
    }

    async fn open(&self) -> Result<(Client, Statement), String> {
        let client = self.connector.connect().await?;
        // A notification is no promise, so nobody waits for the disk because of it.
        let opening = async {
            client.batch_execute("SET synchronous_commit TO off").await?;
            client.prepare(include_str!("queries/notify.sql")).await
        };
        let notify = self.connector.within(opening).await?;
        Ok((client, notify))
    }
}

fn payload(teller: &str, locators: &[i64]) -> String {
    let mut payload = String::from(teller);
    for locator in locators {
        payload.push_str(&format!(" {locator:x}"));
    }
    payload
}

fn gap(teller: &str) -> String {
    format!("{teller} *")
}

/// Reads a payload: the locators, or `None` for anything else, which may stand for any change. `Some` of nothing for our own.
pub(super) fn read(payload: &str, teller: &str) -> Option<Vec<i64>> {
    let mut words = payload.split(' ');
    if words.next() == Some(teller) {
        return Some(Vec::new());
    }
    words.map(|word| i64::from_str_radix(word, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_understood() {
        let locators = [1, 77, i64::MAX];
        let told = payload("00000000000000aa", &locators);
        assert_eq!(read(&told, "00000000000000bb"), Some(locators.to_vec()));
        assert_eq!(read(&told, "00000000000000aa"), Some(vec![]));
        assert_eq!(read(&gap("00000000000000aa"), "00000000000000bb"), None);
        assert_eq!(read("hello world", "00000000000000bb"), None);
        assert!(payload("00000000000000aa", &[i64::MAX; MOST]).len() < 8000);
    }
}
