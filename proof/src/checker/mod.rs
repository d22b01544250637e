//! Holds what clients were told and what tools did against what the store says, and against nothing else: it shares no
//! code with the programs it checks.

mod effects;
mod store;
mod told;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::books::{Books, TaskRow};
use crate::effects::Effect;
use crate::ledger::{Entry, Fact};

/// Everything a run has left.
pub struct Evidence {
    /// What clients were told.
    pub entries: Vec<Entry>,
    /// What the tools did.
    pub effects: Vec<Effect>,
    /// The store at moments of the run, in their order. The last one is its end, when all is settled.
    pub books: Vec<Books>,
    /// From when on, on the ledger's clock, all was settled. Every handle was read once after that.
    pub settled: Duration,
    /// How long, at the end, work may be ready without anybody who begins it.
    pub patience: Duration,
}

/// What is claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Claim {
    /// Every handle that was given can be read, always and afterwards; no two calls have the same one.
    HandlesLast,
    /// A task has exactly one terminal event, its last one, if it has ended, and none otherwise.
    OneEnd,
    /// The record is what the events lead to, and events are only ever added.
    EventsAgree,
    /// Whoever was told how a task ended was told what the record says, and the same as everybody else.
    EndsAgree,
    /// No task goes back from its end, in the store or in what clients see.
    NoWayBack,
    /// Fences and versions only go up.
    OnlyUp,
    /// Work has no more effects than its class allows, and work that has succeeded has had its effect.
    EffectsFit,
    /// Whose answer was acknowledged is not asked again, and that answer is the one the work gets.
    AnswersLast,
    /// A task whose cancelling was acknowledged has ended.
    CancelsLast,
    /// What has not ended is carried by a living node, will soon be begun, or waits for an answer.
    NobodyForgotten,
}

/// A claim that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The claim.
    pub claim: Claim,
    /// What is there instead.
    pub found: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.claim, self.found)
    }
}

/// Every claim that does not hold, and where.
pub fn check(evidence: &Evidence) -> Vec<Fault> {
    let mut view = View::new(evidence);
    view.handles();
    view.ends_as_told();
    view.answers();
    view.cancels();
    view.events();
    view.course_of_books();
    view.forgotten();
    view.effects();
    view.faults
}

/// The evidence, sorted.
struct View<'a> {
    evidence: &'a Evidence,
    last: &'a Books,
    /// The records at the end, by id.
    rows: BTreeMap<&'a str, &'a TaskRow>,
    /// The ids of the tasks with handles, by the label of the call.
    tasks: BTreeMap<&'a str, &'a str>,
    faults: Vec<Fault>,
}

impl<'a> View<'a> {
    fn new(evidence: &'a Evidence) -> View<'a> {
        let last = evidence.books.last().expect("the store was read at the end");
        let rows = last.tasks.iter().map(|row| (row.id.as_str(), row)).collect();
        let handles = evidence.entries.iter().filter_map(|entry| match &entry.fact {
            Fact::Handle { task, label } => Some((label.as_str(), task.as_str())),
            _ => None,
        });
        View { evidence, last, rows, tasks: handles.collect(), faults: Vec::new() }
    }

    fn fault(&mut self, claim: Claim, found: String) {
        self.faults.push(Fault { claim, found });
    }
}
