//! Work that waits for its turn before it begins.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use taskgate_engine::{Ending, NotStopped, Report, Runner, Work};

use super::{Limits, Ticket};
use crate::rules::Again;

/// What people are told of a call that waits.
pub const QUEUED: &str = "Queued: as many calls run as may; this one waits for its turn";

/// Runs work when it is its turn.
pub struct Turn {
    limits: Arc<Limits>,
    /// Whether it still may, where it was not asked for just now.
    again: Again,
    with: Arc<dyn Runner>,
    /// The place that the call has already.
    ticket: Mutex<Option<Ticket>>,
}

impl Turn {
    /// For a call that has been admitted, or work that was begun before.
    pub fn before(
        limits: Arc<Limits>,
        again: Again,
        with: Arc<dyn Runner>,
        ticket: Option<Ticket>,
    ) -> Arc<dyn Runner> {
        Arc::new(Turn { limits, again, with, ticket: Mutex::new(ticket) })
    }
}

impl Runner for Turn {
    fn run(&self, work: Work, report: Report) -> BoxFuture<'static, Ending> {
        let ticket = self.ticket.lock().take();
        let is_new = ticket.is_some();
        let ticket = ticket.unwrap_or_else(|| {
            let (owner, turns) = (self.limits.of_owner(&work.owner), self.limits.turns());
            // What goes on elsewhere goes on without a turn; it must only be followed.
            if work.checkpoint.is_some() { turns.admit_running(&owner) } else { turns.admit_again(&owner) }
        });
        let with = self.with.clone();
        // Said before anything is awaited: a call that becomes a task at once is one before its work is looked at.
        if !ticket.waits() {
            // A call that has just come in has just been looked at.
            if !is_new && let Some(refused) = self.again.refused(&work) {
                return Box::pin(std::future::ready(refused));
            }
            // As without a queue in between: what a runner does at once it does now.
            let run = with.run(work, report);
            return Box::pin(async move {
                let _permit = ticket.turn().await;
                run.await
            });
        }
        report.queued(QUEUED.to_owned());
        let again = self.again.clone();
        Box::pin(async move {
            // Whoever looks at a task that was begun before would not see it otherwise.
            if report.is_task() && work.is_taken_up {
                report.wait(QUEUED.to_owned());
            }
            let _permit = ticket.turn().await;
            if let Some(refused) = again.refused(&work) {
                return refused;
            }
            report.begins("The call's turn has come".to_owned());
            with.run(work, report).await
        })
    }

    fn reach(&self, work: &Work) -> Result<(), String> {
        self.with.reach(work)
    }

    fn stop(&self, work: Work) -> BoxFuture<'static, Result<(), NotStopped>> {
        self.with.stop(work)
    }
}
