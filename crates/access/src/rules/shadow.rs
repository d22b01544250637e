//! Rules that never decide anything.

use super::{Pattern, Rule, Rules};

/// Why a rule never decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shadow {
    /// The rule at this place, from 0, fits wherever it does and comes first.
    Of(usize),
    /// Its conditions contradict each other: what is read-only destroys nothing and is idempotent.
    Contradiction,
}

impl Rules {
    /// The rules that never decide, by their places from 0, and why. What only several rules cover together is not found.
    pub fn shadowed(&self) -> Vec<(usize, Shadow)> {
        let shadow = |(at, rule): (usize, &Rule)| {
            if rule.is_contradictory() {
                return Some((at, Shadow::Contradiction));
            }
            let earlier = self.rules[..at].iter().position(|earlier| earlier.covers(rule))?;
            Some((at, Shadow::Of(earlier)))
        };
        self.rules.iter().enumerate().filter_map(shadow).collect()
    }
}

impl Rule {
    fn is_contradictory(&self) -> bool {
        self.read_only == Some(true) && (self.destructive == Some(true) || self.idempotent == Some(false))
    }

    /// Whether it fits wherever the other one does: each of its conditions follows from one of the other's.
    fn covers(&self, other: &Rule) -> bool {
        let hints = [
            (self.read_only, other.read_only),
            (self.destructive, other.destructive_in_fact()),
            (self.idempotent, other.idempotent_in_fact()),
            (self.open_world, other.open_world),
        ];
        let lists = [
            (&self.upstreams, &other.upstreams),
            (&self.tools, &other.tools),
            (&self.owners, &other.owners),
            (&self.issuers, &other.issuers),
            (&self.subjects, &other.subjects),
            (&self.clients, &other.clients),
            (&self.scopes, &other.scopes),
        ];
        hints.into_iter().all(|(own, other)| own.is_none() || own == other)
            && lists.into_iter().all(|(own, other)| cover(own, other))
            && self
                .claims
                .iter()
                .all(|(name, own)| other.claims.get(name).is_some_and(|other| cover(own, other)))
    }

    fn destructive_in_fact(&self) -> Option<bool> {
        if self.read_only == Some(true) { Some(false) } else { self.destructive }
    }

    fn idempotent_in_fact(&self) -> Option<bool> {
        if self.read_only == Some(true) { Some(true) } else { self.idempotent }
    }
}

/// Whether the first list is met wherever the second one is.
fn cover(own: &[Pattern], other: &[Pattern]) -> bool {
    own.is_empty()
        || (!other.is_empty() && other.iter().all(|pattern| own.iter().any(|own| own.covers(pattern))))
}
