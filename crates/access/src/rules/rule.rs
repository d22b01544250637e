use std::collections::BTreeMap;

use super::{Asked, Effect, Pattern};
use crate::identity::Identity;

/// A rule: it fits where all of its conditions do. A list of patterns is met by any of them, and an empty one is no condition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// What it says.
    pub effect: Effect,
    /// What a caller is told whom it denies a tool. Without one the tool does not exist for the caller.
    pub reason: Option<String>,
    /// The upstream's name.
    pub upstreams: Vec<Pattern>,
    /// The tool's name, as clients see it or as its server gave it.
    pub tools: Vec<Pattern>,
    /// Whether the tool changes nothing.
    pub read_only: Option<bool>,
    /// Whether it may destroy something.
    pub destructive: Option<bool>,
    /// Whether a second call with the same arguments changes nothing more.
    pub idempotent: Option<bool>,
    /// Whether it deals with things outside.
    pub open_world: Option<bool>,
    /// Whom the caller's tasks belong to: `token NAME`, `proxy NAME`, `local` or `anonymous`.
    pub owners: Vec<Pattern>,
    /// Who gave out the caller's token.
    pub issuers: Vec<Pattern>,
    /// Whom its issuer calls it.
    pub subjects: Vec<Pattern>,
    /// The client it uses.
    pub clients: Vec<Pattern>,
    /// A scope that it has.
    pub scopes: Vec<Pattern>,
    /// What its issuer says of it, by the names of claims. Of a claim that is a list, one of its words.
    pub claims: BTreeMap<String, Vec<Pattern>>,
}

/// One of the conditions that a rule can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The upstream's name.
    Upstream,
    /// The tool's name.
    Tool,
    /// Whether it is read-only.
    ReadOnly,
    /// Whether it is destructive.
    Destructive,
    /// Whether it is idempotent.
    Idempotent,
    /// Whether its world is open.
    OpenWorld,
    /// The owner's name.
    Owner,
    /// The token's issuer.
    Issuer,
    /// The token's subject.
    Subject,
    /// The token's client.
    Client,
    /// The scopes.
    Scope,
    /// The claims.
    Claim,
}

/// Whether a rule fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// It does.
    Fits,
    /// It does not, for the sake of this condition.
    Differs(Condition),
    /// It cannot be said, for want of what this condition is about.
    Unknown(Condition),
}

impl Condition {
    /// The key in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Condition::Upstream => "upstream",
            Condition::Tool => "tool",
            Condition::ReadOnly => "read_only",
            Condition::Destructive => "destructive",
            Condition::Idempotent => "idempotent",
            Condition::OpenWorld => "open_world",
            Condition::Owner => "owner",
            Condition::Issuer => "issuer",
            Condition::Subject => "subject",
            Condition::Client => "client",
            Condition::Scope => "scope",
            Condition::Claim => "claim",
        }
    }
}

impl Rule {
    /// Whether it fits. One condition that is not met is enough to say that it does not, whatever else is not known.
    pub fn fit(&self, asked: &Asked<'_>) -> Fit {
        let mut fit = Fit::Fits;
        let met = self.of_tool(asked).chain(self.of_caller(asked));
        for (condition, is_met) in met {
            match is_met {
                Some(true) => {}
                Some(false) => return Fit::Differs(condition),
                None if fit == Fit::Fits => fit = Fit::Unknown(condition),
                None => {}
            }
        }
        fit
    }

    /// Which conditions about the tool are met.
    fn of_tool<'a>(&'a self, asked: &Asked<'a>) -> impl Iterator<Item = (Condition, Option<bool>)> + use<'a> {
        let Asked { upstream, tool, hints, .. } = *asked;
        let patterns = [
            (Condition::Upstream, &self.upstreams, upstream.map(|name| matches(&self.upstreams, [name]))),
            (Condition::Tool, &self.tools, Some(matches(&self.tools, tool.iter().copied()))),
        ];
        let hinted = [
            (Condition::ReadOnly, self.read_only, hints.map(|hints| hints.read_only)),
            (Condition::Destructive, self.destructive, hints.map(|hints| hints.destructive)),
            (Condition::Idempotent, self.idempotent, hints.map(|hints| hints.idempotent)),
            (Condition::OpenWorld, self.open_world, hints.map(|hints| hints.open_world)),
        ];
        let patterns = patterns.into_iter().filter(|(_, wanted, _)| !wanted.is_empty());
        let hinted = hinted.into_iter().filter_map(|(condition, wanted, said)| {
            let wanted = wanted?;
            Some((condition, said.map(|said| said == wanted)))
        });
        patterns.map(|(condition, _, is_met)| (condition, is_met)).chain(hinted)
    }

    /// Which conditions about the caller are met.
    fn of_caller<'a>(
        &'a self,
        asked: &Asked<'a>,
    ) -> impl Iterator<Item = (Condition, Option<bool>)> + use<'a> {
        let Asked { owner, shown, .. } = *asked;
        let owners = [(Condition::Owner, &self.owners)].into_iter().filter(|(_, wanted)| !wanted.is_empty());
        let owners =
            owners.map(move |(condition, wanted)| (condition, owner.map(|owner| matches(wanted, [owner]))));
        let is_about_tokens =
            [&self.issuers, &self.subjects, &self.clients].iter().any(|list| !list.is_empty());
        let parts = owner.filter(|_| is_about_tokens).map(Identity::parts);
        let of_token = [
            (Condition::Issuer, &self.issuers),
            (Condition::Subject, &self.subjects),
            (Condition::Client, &self.clients),
        ];
        let of_token = of_token.into_iter().enumerate().filter(|(_, (_, wanted))| !wanted.is_empty());
        let of_token = of_token.map(move |(at, (condition, wanted))| {
            // Whoever has no token of an issuer has none of these.
            let is_met = parts
                .as_ref()
                .map(|parts| parts.as_ref().is_some_and(|parts| matches(wanted, [parts[at].as_str()])));
            (condition, is_met)
        });
        let scopes = [&self.scopes].into_iter().filter(|wanted| !wanted.is_empty()).map(|wanted| {
            let has = shown.scopes.as_ref();
            (Condition::Scope, has.map(|has| matches(wanted, has.iter().map(String::as_str))))
        });
        let claims = self.claims.iter().map(|(name, wanted)| {
            let words = shown.words(name);
            (Condition::Claim, words.map(|words| matches(wanted, words.iter().map(String::as_str))))
        });
        owners.chain(of_token).chain(scopes).chain(claims)
    }
}

/// Whether any of the patterns means any of the texts.
fn matches<'t>(patterns: &[Pattern], texts: impl IntoIterator<Item = &'t str>) -> bool {
    texts.into_iter().any(|text| patterns.iter().any(|pattern| pattern.matches(text)))
}
