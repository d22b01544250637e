//! What is written of who may call which tool.

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::TOP;
use super::auth::tables;
use crate::config::error::Problems;
use crate::config::fields::{Entry, Fields, FromValue, Section, with_article};

/// The keys of `[policy]`.
pub(in crate::config) const RULES: Section = Section { name: "[policy]", keys: &["default", "rule"] };

/// The keys of `[[policy.rule]]`.
pub(in crate::config) const RULE: Section = Section {
    name: "[[policy.rule]]",
    keys: &[
        "effect",
        "reason",
        "upstream",
        "tool",
        "read_only",
        "destructive",
        "idempotent",
        "open_world",
        "owner",
        "issuer",
        "subject",
        "client",
        "scope",
        "claim",
    ],
};

/// Who may call which tool.
#[derive(Debug)]
pub(in crate::config) struct RawRules {
    pub(in crate::config) default: Entry<String>,
    pub(in crate::config) rules: Vec<Spanned<RawRule>>,
}

/// One rule.
#[derive(Debug)]
pub(in crate::config) struct RawRule {
    pub(in crate::config) effect: Entry<String>,
    pub(in crate::config) reason: Entry<String>,
    pub(in crate::config) upstream: Entry<OneOrMore>,
    pub(in crate::config) tool: Entry<OneOrMore>,
    pub(in crate::config) read_only: Entry<bool>,
    pub(in crate::config) destructive: Entry<bool>,
    pub(in crate::config) idempotent: Entry<bool>,
    pub(in crate::config) open_world: Entry<bool>,
    pub(in crate::config) owner: Entry<OneOrMore>,
    pub(in crate::config) issuer: Entry<OneOrMore>,
    pub(in crate::config) subject: Entry<OneOrMore>,
    pub(in crate::config) client: Entry<OneOrMore>,
    pub(in crate::config) scope: Entry<OneOrMore>,
    pub(in crate::config) claim: Entry<Vec<(Spanned<String>, OneOrMore)>>,
    /// Whether it says what its effect is, even if that could not be read.
    pub(in crate::config) has_effect: bool,
}

/// A string, or several in an array.
#[derive(Debug)]
pub(in crate::config) struct OneOrMore(pub(in crate::config) Vec<Spanned<String>>);

/// Reads it, with the place of a string that stands alone.
fn one_or_more(value: &Spanned<DeValue<'_>>, key: &'static str, problems: &Problems) -> Option<OneOrMore> {
    match value.get_ref().as_str() {
        Some(text) => Some(OneOrMore(vec![Spanned::new(value.span(), text.to_owned())])),
        None => <Vec<Spanned<String>>>::read(value.get_ref(), key, problems).map(OneOrMore),
    }
}

impl<'a, 'i: 'a> FromValue<'a, 'i> for RawRules {
    const WHAT: &'static str = "a table";

    fn read(value: &'a DeValue<'i>, _: &'static str, problems: &Problems) -> Option<Self> {
        let fields = Fields::new(value.as_table()?, &RULES, &[&RULE, &TOP], problems);
        let array = fields.get::<&DeArray<'_>>("rule");
        let rules = tables(array, "rule", |table| RawRule::read(table, problems), problems);
        Some(RawRules { default: fields.get("default"), rules })
    }
}

impl RawRule {
    fn read(table: &DeTable<'_>, problems: &Problems) -> RawRule {
        let fields = Fields::new(table, &RULE, &[&RULES, &TOP], problems);
        let list = |key: &'static str| {
            let value = table.get(key)?;
            let read = one_or_more(value, key, problems);
            if read.is_none() {
                let found = with_article(value.get_ref().type_str());
                let what = format!("`{key}` must be a string or an array of strings, not {found}");
                problems.add(value.span(), what);
            }
            Some(Spanned::new(value.span(), read?))
        };
        RawRule {
            effect: fields.get("effect"),
            reason: fields.get("reason"),
            upstream: list("upstream"),
            tool: list("tool"),
            read_only: fields.get("read_only"),
            destructive: fields.get("destructive"),
            idempotent: fields.get("idempotent"),
            open_world: fields.get("open_world"),
            owner: list("owner"),
            issuer: list("issuer"),
            subject: list("subject"),
            client: list("client"),
            scope: list("scope"),
            claim: fields.get("claim"),
            has_effect: table.contains_key("effect"),
        }
    }
}

impl<'a, 'i> FromValue<'a, 'i> for Vec<(Spanned<String>, OneOrMore)> {
    const WHAT: &'static str = "a table of strings, or arrays of strings, by the names of claims";

    fn read(value: &'a DeValue<'i>, key: &'static str, problems: &Problems) -> Option<Self> {
        let claims = value.as_table()?.iter().filter_map(|(name, value)| {
            let read = one_or_more(value, key, problems);
            if read.is_none() {
                let found = with_article(value.get_ref().type_str());
                let name = name.get_ref();
                let what = format!("`{key}`: `{name}` must be a string or an array of strings, not {found}");
                problems.add(value.span(), what);
            }
            Some((Spanned::new(name.span(), name.get_ref().to_string()), read?))
        });
        Some(claims.collect())
    }
}
