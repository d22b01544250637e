//! Who may call which tool.

use taskgate_access::rules::{Effect, Pattern, Rule, Rules};

use super::Surroundings;
use crate::config::fields::Entry;
use crate::config::raw::RawConfig;
use crate::config::raw::rules::{OneOrMore, RawRule, RawRules};

/// The longest reason, in bytes.
const LONGEST_REASON: usize = 1024;
/// The longest pattern, in bytes: each is looked at for every tool of a list.
const LONGEST_PATTERN: usize = 512;

/// Checks `[policy]`; nothing if there is none.
pub(super) fn check(raw: &RawConfig, around: &Surroundings<'_>) -> Option<Rules> {
    let RawRules { default, rules } = raw.rules.as_ref()?.get_ref();
    let default = around.parsed(default, "default", "\"allow\", \"deny\"", effect).unwrap_or_default();
    let rules = rules.iter().map(|written| {
        let raw = written.get_ref();
        if !raw.has_effect {
            let help = "add `effect`: \"allow\" or \"deny\"";
            around.problems.add_with_help(written.span(), "[[policy.rule]] has no `effect`", help);
        }
        check_rule(raw, around)
    });
    Some(Rules { rules: rules.collect(), default })
}

fn check_rule(raw: &RawRule, around: &Surroundings<'_>) -> Rule {
    let flag = |entry: &Entry<bool>| entry.as_ref().map(|flag| *flag.get_ref());
    let list = |entry: &Entry<OneOrMore>, key| {
        let Some(list) = entry else { return Vec::new() };
        let OneOrMore(words) = list.get_ref();
        if words.is_empty() {
            let what = format!("`{key}` is empty, so the rule would never fit");
            around.problems.add_with_help(list.span(), what, "leave it out, or add what it shall mean");
        }
        patterns(list.get_ref(), key, around)
    };
    let effect = around.parsed(&raw.effect, "effect", "\"allow\", \"deny\"", effect).unwrap_or_default();
    let reason =
        around.parsed(&raw.reason, "reason", &format!("1 to {LONGEST_REASON} bytes"), |text| match text {
            _ if text.trim().is_empty() => Err("is empty".to_owned()),
            _ if text.len() > LONGEST_REASON => Err("is too long".to_owned()),
            _ => Ok(text.to_owned()),
        });
    if let (Effect::Allow, Some(written)) = (effect, &raw.reason) {
        let what = "`reason` is what a caller is told whom a tool is denied, and this rule allows";
        around.problems.add(written.span(), what);
    }
    let claims = raw.claim.iter().flat_map(|claims| claims.get_ref()).map(|(name, words)| {
        if words.0.is_empty() {
            let what = format!("the claim `{}` has no values, so the rule would never fit", name.get_ref());
            around.problems.add(name.span(), what);
        }
        (name.get_ref().clone(), patterns(words, "claim", around))
    });
    Rule {
        effect,
        reason,
        upstreams: list(&raw.upstream, "upstream"),
        tools: list(&raw.tool, "tool"),
        read_only: flag(&raw.read_only),
        destructive: flag(&raw.destructive),
        idempotent: flag(&raw.idempotent),
        open_world: flag(&raw.open_world),
        owners: list(&raw.owner, "owner"),
        issuers: list(&raw.issuer, "issuer"),
        subjects: list(&raw.subject, "subject"),
        clients: list(&raw.client, "client"),
        scopes: list(&raw.scope, "scope"),
        claims: claims.collect(),
    }
}

fn effect(text: &str) -> Result<Effect, String> {
    match text {
        "allow" => Ok(Effect::Allow),
        "deny" => Ok(Effect::Deny),
        _ => Err("is no effect".to_owned()),
    }
}

fn patterns(OneOrMore(words): &OneOrMore, key: &str, around: &Surroundings<'_>) -> Vec<Pattern> {
    let allowed =
        format!("1 to {LONGEST_PATTERN} bytes of plain text, in which `*` stands for any characters");
    let pattern = |text: &str| match text {
        "" => Err("is empty".to_owned()),
        _ if text.len() > LONGEST_PATTERN => Err("is too long".to_owned()),
        _ if text.chars().any(char::is_control) => Err("has a control character".to_owned()),
        _ => Ok(Pattern::new(text)),
    };
    words.iter().filter_map(|word| around.parsed_at(word, key, &allowed, pattern)).collect()
}
