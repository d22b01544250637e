use std::fmt::{self, Write};

use taskgate_access::rules::{Pattern, Rule, Rules};
use toml::Value;

use super::{set, text};

/// `[policy]` and its rules.
pub(super) fn write_rules(out: &mut String, rules: &Rules) -> fmt::Result {
    writeln!(out, "\n[policy]")?;
    set(out, "default", text(rules.default.as_str()))?;
    rules.rules.iter().try_for_each(|rule| write_rule(out, rule))
}

fn write_rule(out: &mut String, rule: &Rule) -> fmt::Result {
    writeln!(out, "\n[[policy.rule]]")?;
    set(out, "effect", text(rule.effect.as_str()))?;
    if let Some(reason) = &rule.reason {
        set(out, "reason", text(reason))?;
    }
    for (key, flag) in [
        ("read_only", rule.read_only),
        ("destructive", rule.destructive),
        ("idempotent", rule.idempotent),
        ("open_world", rule.open_world),
    ] {
        if let Some(flag) = flag {
            set(out, key, flag)?;
        }
    }
    for (key, list) in [
        ("upstream", &rule.upstreams),
        ("tool", &rule.tools),
        ("owner", &rule.owners),
        ("issuer", &rule.issuers),
        ("subject", &rule.subjects),
        ("client", &rule.clients),
        ("scope", &rule.scopes),
    ] {
        if !list.is_empty() {
            set(out, key, patterns(list))?;
        }
    }
    if !rule.claims.is_empty() {
        let claims = rule.claims.iter().map(|(name, list)| (name.clone(), patterns(list)));
        set(out, "claim", Value::Table(claims.collect()))?;
    }
    Ok(())
}

fn patterns(list: &[Pattern]) -> Value {
    Value::Array(list.iter().map(text).collect())
}
