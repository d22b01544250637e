//! Who may call which tool: a list of rules, of which the first that fits decides.
//!
//! What is not known counts against the caller: where it cannot be said whether a rule fits, one that denies does and one that allows
//! does not. For a request everything is known. For work that is begun again later it is what was kept of its request.

mod hints;
mod pattern;
mod rule;
mod shadow;
mod shown;
#[cfg(test)]
mod tests;

pub use hints::Hints;
pub use pattern::Pattern;
pub use rule::{Condition, Fit, Rule};
pub use shadow::Shadow;
pub use shown::Shown;

/// What a rule says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effect {
    /// The tool may be seen and called.
    #[default]
    Allow,
    /// It may not.
    Deny,
}

/// Which tools may be seen and called, and by whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// The rules in their order.
    pub rules: Vec<Rule>,
    /// What holds where no rule fits.
    pub default: Effect,
}

/// What is decided about: a tool, and somebody who wants it.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The upstream's name in the configuration; `None` if it is not known.
    pub upstream: Option<&'a str>,
    /// The names of the tool. A rule that means any of them means the tool.
    pub tool: &'a [&'a str],
    /// What the tool says of itself; `None` if it is not known.
    pub hints: Option<Hints>,
    /// Who asks: the owner of its tasks; `None` if it is not known.
    pub owner: Option<&'a str>,
    /// What else it has shown.
    pub shown: &'a Shown,
}

/// What was decided, and by what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict<'a> {
    /// Whether it may.
    pub effect: Effect,
    /// The place of the rule that decides, from 0; `None` if it is the default.
    pub rule: Option<usize>,
    /// What the rule gives as its reason.
    pub reason: Option<&'a str>,
}

impl Effect {
    /// The word in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Effect::Allow => "allow",
            Effect::Deny => "deny",
        }
    }
}

impl Verdict<'_> {
    /// Whether the tool may be seen and called.
    pub fn is_allowed(&self) -> bool {
        self.effect == Effect::Allow
    }
}

impl Rules {
    /// Decides.
    pub fn decide(&self, asked: &Asked<'_>) -> Verdict<'_> {
        let decides = |rule: &Rule| match rule.fit(asked) {
            Fit::Fits => true,
            Fit::Differs(_) => false,
            Fit::Unknown(_) => rule.effect == Effect::Deny,
        };
        match self.rules.iter().position(decides) {
            Some(at) => {
                let Rule { effect, reason, .. } = &self.rules[at];
                Verdict { effect: *effect, rule: Some(at), reason: reason.as_deref() }
            }
            None => Verdict { effect: self.default, rule: None, reason: None },
        }
    }

    /// The claims that rules look at.
    pub fn claims(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().flat_map(|rule| rule.claims.keys()).map(String::as_str)
    }

    /// Whether any rule looks at what a caller has shown besides who it is.
    pub fn look_at_what_is_shown(&self) -> bool {
        self.rules.iter().any(|rule| !rule.scopes.is_empty() || !rule.claims.is_empty())
    }
}
