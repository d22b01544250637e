//! What the tools did.

use std::collections::{BTreeMap, BTreeSet};

use super::store::by_task;
use super::{Claim, View};
use crate::effects::Effect;
use crate::ledger::Fact;

impl View<'_> {
    pub(super) fn effects(&mut self) {
        let mut effects: BTreeMap<&str, Vec<&Effect>> = BTreeMap::new();
        for effect in &self.evidence.effects {
            effects.entry(&effect.label).or_default().push(effect);
        }
        let events = by_task(self.last);
        for (label, effects) in &effects {
            let row = self.tasks.get(label).and_then(|task| self.rows.get(task)).copied();
            // Of a call without a handle nobody knows how often it was begun.
            let begun = row.map(|row| {
                let events = events.get(&row.locator).map_or(&[][..], Vec::as_slice);
                events.iter().filter(|event| event.is_beginning()).count()
            });
            let classes = ["live", "repeatable", "resumable", "external"];
            if let Some(row) = row
                && classes.get((row.class - 1) as usize) != Some(&effects[0].class.as_str())
            {
                let found = format!("{label} is {} to its tool, but not in the store", effects[0].class);
                self.fault(Claim::EffectsFit, found);
            }
            if let Some(found) = too_many(effects, begun) {
                self.fault(Claim::EffectsFit, format!("{label} ({}) {found}", effects[0].class));
            }
        }
        self.results(&effects);
    }

    /// What was said to be the result of a task, against what was done for it.
    fn results(&mut self, effects: &BTreeMap<&str, Vec<&Effect>>) {
        let mut seen = BTreeSet::new();
        let labels: BTreeMap<&str, &str> = self.tasks.iter().map(|(label, task)| (*task, *label)).collect();
        for entry in &self.evidence.entries {
            let Fact::Told { task, status, text, .. } = &entry.fact else { continue };
            if (status != "completed" && text.is_none()) || !seen.insert((task, text)) {
                continue;
            }
            let Some(label) = labels.get(task.as_str()) else { continue };
            let Some(text) = text else {
                // The older words give the result to another request.
                if entry.is_whole() {
                    self.fault(Claim::EffectsFit, format!("{label} is completed without a result"));
                }
                continue;
            };
            let done = effects.get(label).into_iter().flatten();
            if !done.into_iter().any(|effect| *text == format!("{label} by {}", effect.nonce)) {
                let found = format!("the result of {label} is {text:?}, which is none of its effects");
                self.fault(Claim::EffectsFit, found);
            }
        }
    }
}

/// What is wrong with these effects of one call, which was begun so often.
fn too_many(effects: &[&Effect], begun: Option<usize>) -> Option<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for effect in effects {
        *counts.entry(&effect.step).or_default() += 1;
    }
    let (step, most) = counts.iter().max_by_key(|(_, count)| **count)?;
    let allowed = match effects[0].class.as_str() {
        "repeatable" => begun?,
        "resumable" => {
            // Steps come in order; where one attempt ended and the next went on, the step in flight may come twice.
            let mut twice = 0;
            let steps: Vec<u64> = effects.iter().filter_map(|effect| effect.step.parse().ok()).collect();
            for pair in steps.windows(2) {
                match pair[1].checked_sub(pair[0]) {
                    Some(1) => {}
                    Some(0) => twice += 1,
                    _ => return Some(format!("did step {} after step {}", pair[1], pair[0])),
                }
            }
            let breaks = begun?.saturating_sub(1);
            return (twice > breaks)
                .then(|| format!("did {twice} steps twice, but was interrupted {breaks} times"));
        }
        _ => 1,
    };
    (*most > allowed).then(|| format!("did {step:?} {most} times, {allowed} allowed"))
}
