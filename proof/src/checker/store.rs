//! What the store says of itself.

use std::collections::BTreeMap;

use super::{Claim, View};
use crate::books::{Books, EventRow, TaskRow, word};

impl View<'_> {
    /// The events of each task, against its record.
    pub(super) fn events(&mut self) {
        let events = by_task(self.last);
        for row in &self.last.tasks {
            let events = events.get(&row.locator).map_or(&[][..], Vec::as_slice);
            self.events_of(row, events);
        }
        let known: Vec<i64> = self.last.tasks.iter().map(|row| row.locator).collect();
        for locator in events.keys().filter(|locator| !known.contains(locator)) {
            self.fault(Claim::EventsAgree, format!("{locator:016x} has events but no record"));
        }
    }

    fn events_of(&mut self, row: &TaskRow, events: &[&EventRow]) {
        let ends = events.iter().filter(|event| event.to >= 3).count();
        if ends != usize::from(row.has_ended()) {
            let found = format!("{} is {} with {ends} terminal events", row.id, word(row.status));
            self.fault(Claim::OneEnd, found);
        }
        if let Some(early) = events.iter().rev().skip(1).find(|event| event.to >= 3) {
            let found = format!("{} moved on after it was {} ({})", row.id, word(early.to), early.version);
            self.fault(Claim::NoWayBack, found);
        }
        let last = events.last().map(|event| event.to);
        if last != Some(row.status) {
            let last = last.map_or("nothing", word);
            let found = format!("{} is {}, but its events lead to {last}", row.id, word(row.status));
            self.fault(Claim::EventsAgree, found);
        }
        let mut before = None;
        for event in events {
            if event.from != before {
                let found =
                    format!("event {} of {} begins elsewhere than the last one ended", event.version, row.id);
                self.fault(Claim::EventsAgree, found);
            }
            before = Some(event.to);
        }
        if events.last().is_some_and(|event| event.version > row.version) {
            self.fault(Claim::OnlyUp, format!("{} has an event from its future", row.id));
        }
    }

    /// Each reading of the store, against the one before.
    pub(super) fn course_of_books(&mut self) {
        for pair in self.evidence.books.windows(2) {
            let [earlier, later] = pair else { continue };
            let rows: BTreeMap<&str, &TaskRow> =
                later.tasks.iter().map(|row| (row.id.as_str(), row)).collect();
            for before in &earlier.tasks {
                match rows.get(before.id.as_str()) {
                    Some(after) => self.course_of(before, after),
                    None => self.fault(Claim::HandlesLast, format!("{} has gone from the store", before.id)),
                }
            }
            let later = by_task(later);
            for (locator, before) in by_task(earlier) {
                let after = later.get(&locator).map_or(&[][..], Vec::as_slice);
                if !after.starts_with(&before) {
                    self.fault(Claim::EventsAgree, format!("events of {locator:016x} have changed or gone"));
                }
            }
        }
    }

    fn course_of(&mut self, before: &TaskRow, after: &TaskRow) {
        let id = &before.id;
        if before.has_ended() && (before.status, before.outcome_kind) != (after.status, after.outcome_kind) {
            let found = format!("{id} went from {} to {}", word(before.status), word(after.status));
            self.fault(Claim::NoWayBack, found);
        }
        if after.version < before.version || after.fence < before.fence {
            let found = format!(
                "{id} went from version {} and fence {} to {} and {}",
                before.version, before.fence, after.version, after.fence
            );
            self.fault(Claim::OnlyUp, found);
        } else if after.version == before.version && after != before {
            self.fault(Claim::OnlyUp, format!("{id} changed without a new version: {before:?}, {after:?}"));
        }
    }

    /// What is left at the end.
    pub(super) fn forgotten(&mut self) {
        let Books { now, exclusive, ref nodes, .. } = *self.last;
        let patience = i64::try_from(self.evidence.patience.as_millis()).expect("a short time");
        for row in &self.last.tasks {
            let lease = |node| nodes.iter().find(|(id, _)| *id == node).map(|(_, until)| *until);
            let found = match (row.carrier, row.ready_at) {
                (Some(node), _) => match lease(node) {
                    None => format!("is carried by {node:016x}, which is no node"),
                    Some(until) if !exclusive && until + patience < now => {
                        format!("is carried by {node:016x}, whose lease is over")
                    }
                    Some(_) => continue,
                },
                (None, Some(at)) if at + patience < now => format!("is ready since {} ms", now - at),
                (None, None) if row.status == 1 => "is carried by nobody".to_owned(),
                _ => continue,
            };
            self.fault(Claim::NobodyForgotten, format!("{} is {} and {found}", row.id, word(row.status)));
        }
    }
}

pub(super) fn by_task(books: &Books) -> BTreeMap<i64, Vec<&EventRow>> {
    let mut events: BTreeMap<i64, Vec<&EventRow>> = BTreeMap::new();
    for event in &books.events {
        events.entry(event.task).or_default().push(event);
    }
    // Whatever order the store has read them in.
    events.values_mut().for_each(|events| events.sort_by_key(|event| event.version));
    events
}
