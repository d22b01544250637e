//! Where hosted tasks are kept, should the client die.

use taskgate_task::Payload;
use taskgate_wire::own_task::OwnTask;

#[cfg(feature = "ledger")]
use crate::ledger::{HostedRow, Ledger};

/// What came of a task: a result, or an error object.
pub(super) type End = Result<Payload, Payload>;

/// A task's question.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) method: String,
    pub(super) params: Option<Payload>,
}

/// Where they are kept: nowhere but in memory, or in a ledger.
#[derive(Debug, Default)]
pub(in super::super) struct Kept {
    #[cfg(feature = "ledger")]
    place: Option<(Ledger, String)>,
}

impl Kept {
    /// In this ledger, as tasks of this server's.
    #[cfg(feature = "ledger")]
    pub(in super::super) fn of(ledger: Option<Ledger>, endpoint: &str) -> Kept {
        Kept { place: ledger.map(|ledger| (ledger, endpoint.to_owned())) }
    }

    /// Whether they outlast this process.
    pub(super) fn is_durable(&self) -> bool {
        #[cfg(feature = "ledger")]
        let is_durable = self.place.is_some();
        #[cfg(not(feature = "ledger"))]
        let is_durable = false;
        is_durable
    }

    /// Notes a task, and what came of it if it is over. It is durable when this returns.
    pub(super) async fn note(&self, task: &OwnTask, asked: &Asked, end: Option<&End>) -> Result<(), String> {
        #[cfg(feature = "ledger")]
        if let Some((ledger, endpoint)) = &self.place {
            let text = |payload: &Payload| payload.as_str().to_owned();
            let row = HostedRow {
                id: task.id.clone(),
                method: asked.method.clone(),
                // A question that has its answer is of no more use.
                params: if end.is_none() { asked.params.as_ref().map(text) } else { None },
                status: task.status.as_str().to_owned(),
                message: task.message.clone(),
                result: end.and_then(|end| end.as_ref().ok()).map(text),
                error: end.and_then(|end| end.as_ref().err()).map(text),
                created: task.created.as_millis(),
                updated: task.updated.as_millis(),
                ttl: i64::try_from(task.ttl.as_millis()).unwrap_or(i64::MAX),
            };
            ledger.hosted(endpoint.clone(), row).await.map_err(|error| error.to_string())?;
        }
        #[cfg(not(feature = "ledger"))]
        let _ = (task, asked, end);
        Ok(())
    }

    /// Forgets a task.
    pub(super) async fn forget(&self, id: &str) {
        #[cfg(feature = "ledger")]
        if let Some((ledger, _)) = &self.place
            && let Err(error) = ledger.forget_hosted(id.to_owned()).await
        {
            // It goes when the ledger is opened the next time.
            tracing::warn!(%error, "a hosted task that has expired is still kept");
        }
        #[cfg(not(feature = "ledger"))]
        let _ = id;
    }
}

#[cfg(feature = "ledger")]
mod restore {
    use std::sync::Arc;
    use std::time::Duration;

    use taskgate_task::{Payload, Status, Timestamp};
    use taskgate_wire::own_task::OwnTask;

    use super::super::super::builder::Handler;
    use super::super::{Host, moment};
    use super::{Asked, End};
    use crate::ledger::{HostedRow, LedgerError};

    impl Host {
        /// Goes on with the tasks that an earlier life of the program hosted. What was still being thought about is asked again of the
        /// handler; where there is none, nobody is left who was asked, and the task fails.
        pub(in super::super::super) async fn restore(
            self: &Arc<Host>,
            handler: Option<&Handler>,
        ) -> Result<(), LedgerError> {
            let Some((ledger, endpoint)) = &self.kept.place else { return Ok(()) };
            for row in ledger.take_over_hosted(endpoint.clone()).await? {
                let id = row.id.clone();
                let Some((task, asked, end)) = self.read(row) else {
                    self.kept.forget(&id).await;
                    continue;
                };
                let is_over = end.is_some();
                match (is_over, handler) {
                    (false, Some(handler)) => {
                        self.place(task, asked, None, None, |input| Some(handler(input)));
                    }
                    _ => self.put_back(task, asked, end),
                }
                if !is_over && handler.is_none() {
                    let why = "The client has started anew, and whoever was asked is gone".to_owned();
                    self.fail(&id, why).await;
                }
            }
            Ok(())
        }

        /// A task as it was kept; `None` if its time is over, or if it is none.
        fn read(&self, row: HostedRow) -> Option<(OwnTask, Asked, Option<End>)> {
            let payload = |text: Option<String>| text.and_then(|text| Payload::parse(text).ok());
            let task = OwnTask {
                id: row.id,
                status: Status::from_word(&row.status)?,
                message: row.message,
                created: Timestamp::from_millis(row.created),
                updated: Timestamp::from_millis(row.updated),
                ttl: Duration::from_millis(u64::try_from(row.ttl).ok()?),
                poll_interval: self.hosting.poll_interval,
            };
            let end = payload(row.result).map(Ok).or_else(|| payload(row.error).map(Err));
            let is_there =
                moment().since(task.created) < task.ttl && end.is_some() == task.status.is_terminal();
            is_there.then_some((task, Asked { method: row.method, params: payload(row.params) }, end))
        }
    }
}
