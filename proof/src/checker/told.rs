//! What clients were told.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Claim, View};
use crate::books::word;
use crate::ledger::{Entry, Fact};

/// Whether a status word says that the task has ended.
fn is_end(status: &str) -> bool {
    ["completed", "failed", "cancelled", "ended"].contains(&status)
}

impl View<'_> {
    pub(super) fn handles(&mut self) {
        let mut given = BTreeMap::new();
        let mut read = BTreeSet::new();
        for entry in &self.evidence.entries {
            match &entry.fact {
                Fact::Handle { task, label } => {
                    if let Some(before) = given.insert(task.as_str(), label.as_str()) {
                        self.fault(Claim::HandlesLast, format!("{task} stands for {before} and for {label}"));
                    }
                }
                Fact::Unknown { task } => {
                    let found = format!("{task} was unknown at {:?} on {}", entry.until, entry.node);
                    self.fault(Claim::HandlesLast, found);
                }
                Fact::Told { task, .. } if entry.since >= self.evidence.settled => {
                    read.insert(task.as_str());
                }
                _ => {}
            }
        }
        for (task, label) in given {
            if !self.rows.contains_key(task) {
                self.fault(Claim::HandlesLast, format!("{task} ({label}) is not in the store"));
            }
            if !read.contains(task) {
                self.fault(Claim::HandlesLast, format!("{task} ({label}) was not read at the end"));
            }
        }
    }

    /// What was told of ended tasks, against the record, against what others were told, and against what was told later.
    pub(super) fn ends_as_told(&mut self) {
        let mut first_end: BTreeMap<&str, Duration> = BTreeMap::new();
        let mut said: BTreeMap<(&str, &str), &str> = BTreeMap::new();
        let entries = &self.evidence.entries;
        for (task, status, how, raw, entry) in entries.iter().filter_map(told) {
            if !is_end(status) {
                // Entries are in the order of their ends, so an end told before this request left is known here.
                if let Some(end) = first_end.get(task).filter(|end| **end < entry.since) {
                    let found = format!("{task} had ended at {end:?} and was {status} at {:?}", entry.since);
                    self.fault(Claim::NoWayBack, found);
                }
                continue;
            }
            first_end.entry(task).or_insert(entry.until);
            let before = said.entry((task, how)).or_insert(raw);
            if *before != raw {
                let found = format!("{how} of {task} said {before} and then {raw}");
                self.fault(Claim::EndsAgree, found);
            }
            if let Some(row) = self.rows.get(task) {
                let agrees = match status {
                    "ended" => row.has_ended(),
                    // 2025-11-25 calls a task failed whose result says that it is an error.
                    "failed" if how.starts_with("2025") && row.outcome_kind == Some(2) => true,
                    status => status == word(row.status),
                };
                if !agrees {
                    let found =
                        format!("{how} said of {task} that it is {status}, but it is {}", word(row.status));
                    self.fault(Claim::EndsAgree, found);
                }
            }
        }
    }

    pub(super) fn answers(&mut self) {
        let answers: Vec<Answer> = self.evidence.entries.iter().filter_map(answer).collect();
        let mut acknowledged: BTreeMap<(&str, &str), &Answer> = BTreeMap::new();
        for answer in answers.iter().filter(|answer| answer.acknowledged) {
            acknowledged.entry((answer.task, answer.key)).or_insert(answer);
        }
        for entry in &self.evidence.entries {
            let Fact::Told { task, open, .. } = &entry.fact else { continue };
            for key in open {
                if let Some(answer) = acknowledged.get(&(task.as_str(), key.as_str()))
                    && answer.entry.until < entry.since
                {
                    let (answered, asked) = (answer.entry.until, entry.since);
                    let found =
                        format!("{key} of {task} was answered at {answered:?} and asked at {asked:?}");
                    self.fault(Claim::AnswersLast, found);
                }
            }
        }
        let by_value: BTreeMap<&str, &Answer> = answers.iter().map(|answer| (answer.value, answer)).collect();
        for effect in &self.evidence.effects {
            let Some(value) = effect.answer.as_deref() else { continue };
            let task = self.tasks.get(effect.label.as_str()).copied();
            match by_value.get(value) {
                Some(answer) if task.is_none_or(|task| task == answer.task) => {
                    let first = acknowledged.get(&(answer.task, answer.key));
                    if let Some(first) = first.filter(|first| first.entry.until < answer.entry.since) {
                        let found =
                            format!("{} got {value}, but {} came before it", effect.label, first.value);
                        self.fault(Claim::AnswersLast, found);
                    }
                }
                _ => {
                    let found = format!("{} got {value}, which nobody has answered to it", effect.label);
                    self.fault(Claim::AnswersLast, found);
                }
            }
        }
    }

    pub(super) fn cancels(&mut self) {
        let mut first: BTreeMap<&str, Duration> = BTreeMap::new();
        for entry in &self.evidence.entries {
            match &entry.fact {
                Fact::Cancelled { task } => {
                    first.entry(task).or_insert(entry.until);
                }
                Fact::Told { task, status, .. } if !is_end(status) => {
                    if let Some(at) = first.get(task.as_str()).filter(|at| **at < entry.since) {
                        let found =
                            format!("{task} was cancelled at {at:?} and {status} at {:?}", entry.since);
                        self.fault(Claim::CancelsLast, found);
                    }
                }
                _ => {}
            }
        }
        for task in first.keys() {
            if let Some(row) = self.rows.get(task).filter(|row| !row.has_ended()) {
                let found = format!("{task} was cancelled, but is {}", word(row.status));
                self.fault(Claim::CancelsLast, found);
            }
        }
    }
}

fn told(entry: &Entry) -> Option<(&str, &str, &'static str, &str, &Entry)> {
    match &entry.fact {
        Fact::Told { task, status, how, raw, .. } => Some((task, status, how, raw, entry)),
        _ => None,
    }
}

struct Answer<'a> {
    task: &'a str,
    key: &'a str,
    value: &'a str,
    acknowledged: bool,
    entry: &'a Entry,
}

fn answer(entry: &Entry) -> Option<Answer<'_>> {
    match &entry.fact {
        Fact::Answered { task, key, value, acknowledged } => {
            Some(Answer { task, key, value, acknowledged: *acknowledged, entry })
        }
        _ => None,
    }
}
