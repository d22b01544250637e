//! What an operator may do to a task, over the heads of its requestor and of its work.

use crate::{Carrier, Failure, Refusal, Status, Task, Timestamp, Who, WorkClass};

use super::Change;

/// What an operator wants of a task. Whoever gives it has the store, so no owner is asked.
///
/// Stores keep no word for an operator: in the events it is the receiver that moves, and the reason says for whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// End it as if its requestor had cancelled it.
    Cancel,
    /// End it as failed.
    Fail {
        /// Why, for the requestor.
        message: String,
    },
    /// Take the work away from whoever carries it, to be begun anew at once with all its attempts.
    Requeue,
    /// Delete it before its retention is over, if it has ended.
    Prune,
}

impl Task {
    pub(super) fn order(&self, change: &mut Change, order: Order, now: Timestamp) -> Result<(), Refusal> {
        match order {
            Order::Cancel => {
                change.task.status_message = Some("The task was cancelled by an operator.".to_owned());
                let why = "cancelled by an operator".to_owned();
                change.end(self, Status::Cancelled, Who::Receiver, now, why);
            }
            Order::Fail { message } => {
                change.task.status_message = Some(message);
                change.task.failure = Some(Failure::Interrupted);
                change.end(self, Status::Failed, Who::Receiver, now, "failed by an operator".to_owned());
            }
            Order::Requeue => {
                if self.class == WorkClass::Live {
                    return Err(Refusal::NotRepeatable);
                }
                let task = &mut change.task;
                match self.carrier {
                    // The questions of an attempt that is taken away have nobody left to answer to.
                    Carrier::Node(_) => {
                        task.inputs.close(|_| true);
                    }
                    // It may be about to go on with the answers it has.
                    Carrier::Ready(_) => {}
                    Carrier::Nobody => return Err(Refusal::NotStartable),
                }
                task.attempts = 0;
                task.fence += 1;
                task.carrier = Carrier::Ready(now);
                task.status_message = Some("The work was put back by an operator.".to_owned());
                change.moved(self, Status::Working, Who::Receiver, now, "put back by an operator".to_owned());
            }
            Order::Prune => return Err(Refusal::NotDue),
        }
        Ok(())
    }

    /// The same for a task that has ended: all that is left is that it goes, once nothing of its work is left to be stopped.
    pub(super) fn order_after_end(&self, change: &mut Change, order: &Order) -> Result<(), Refusal> {
        match order {
            Order::Prune if self.carrier == Carrier::Nobody => {
                change.delete = true;
                Ok(())
            }
            Order::Prune => Err(Refusal::NotDue),
            Order::Cancel | Order::Fail { .. } | Order::Requeue => Err(Refusal::Terminal(self.status)),
        }
    }
}

#[cfg(test)]
mod tests;
