use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;
use crate::identity::Identity;
use crate::rights::Rights;

fn patterns(texts: &[&str]) -> Vec<Pattern> {
    texts.iter().map(|text| Pattern::new(text)).collect()
}

fn rule(effect: Effect) -> Rule {
    Rule { effect, ..Rule::default() }
}

/// What the spec says of a tool without annotations.
const BARE: Hints = Hints { read_only: false, destructive: true, idempotent: false, open_world: true };
const READER: Hints = Hints { read_only: true, destructive: false, idempotent: true, open_world: true };

fn known(scopes: &[&str], claims: Value) -> Shown {
    let Value::Object(claims) = claims else { panic!("no claims") };
    Shown {
        scopes: Some(scopes.iter().map(|scope| (*scope).to_owned()).collect()),
        claims: claims.into_iter().collect(),
    }
}

const ANN: &str = r#"oauth ["https://i","ann","app"]"#;

#[test]
fn each_condition_is_met_or_not_or_not_known() {
    let shown =
        known(&["read", "write:a"], json!({"groups": ["ops", "dev"], "level": 3, "org": "x", "none": null}));
    let asked = Asked {
        upstream: Some("git"),
        tool: &["delete_repo", "git_delete_repo"],
        hints: Some(BARE),
        owner: Some(ANN),
        shown: &shown,
    };
    let base = rule(Effect::Deny);
    let claim = |name: &str, words: &[&str]| Rule {
        claims: BTreeMap::from([(name.to_owned(), patterns(words))]),
        ..rule(Effect::Deny)
    };
    let fits = |rule: &Rule| rule.fit(&asked) == Fit::Fits;
    for (rule, expected) in [
        (base.clone(), true),
        (Rule { upstreams: patterns(&["g*"]), ..base.clone() }, true),
        (Rule { upstreams: patterns(&["hub", "gi"]), ..base.clone() }, false),
        // By the name that clients see, and by the one its server gave it.
        (Rule { tools: patterns(&["delete_*"]), ..base.clone() }, true),
        (Rule { tools: patterns(&["git_*"]), ..base.clone() }, true),
        (Rule { tools: patterns(&["Delete_*", "delete"]), ..base.clone() }, false),
        (Rule { read_only: Some(false), destructive: Some(true), ..base.clone() }, true),
        (Rule { idempotent: Some(false), open_world: Some(true), ..base.clone() }, true),
        (Rule { read_only: Some(true), ..base.clone() }, false),
        (Rule { open_world: Some(false), ..base.clone() }, false),
        (Rule { owners: patterns(&["oauth *"]), ..base.clone() }, true),
        (Rule { owners: patterns(&["token *", "local"]), ..base.clone() }, false),
        (
            Rule { issuers: patterns(&["https://i"]), subjects: patterns(&["bob", "a*"]), ..base.clone() },
            true,
        ),
        (Rule { issuers: patterns(&["https://j"]), subjects: patterns(&["ann"]), ..base.clone() }, false),
        (Rule { clients: patterns(&["app"]), ..base.clone() }, true),
        (Rule { clients: patterns(&["ann"]), ..base.clone() }, false),
        (Rule { scopes: patterns(&["write:*"]), ..base.clone() }, true),
        (Rule { scopes: patterns(&["write"]), ..base.clone() }, false),
        (claim("groups", &["ops"]), true),
        (claim("groups", &["op"]), false),
        (claim("level", &["3"]), true),
        (claim("org", &["x", "y"]), true),
        (claim("none", &["*"]), false),
    ] {
        assert_eq!(fits(&rule), expected, "{rule:?}");
    }
    assert_eq!(claim("other", &["*"]).fit(&asked), Fit::Unknown(Condition::Claim));
}

/// An owner without a token of an issuer has no issuer, and that is known.
#[test]
fn who_has_no_token_of_an_issuer_is_nobodys_subject() {
    let any = Rule { subjects: patterns(&["*"]), ..rule(Effect::Allow) };
    for (owner, fit) in [
        (Some("token ann"), Fit::Differs(Condition::Subject)),
        (Some("local"), Fit::Differs(Condition::Subject)),
        (Some(ANN), Fit::Fits),
        (None, Fit::Unknown(Condition::Subject)),
    ] {
        let shown = Shown::default();
        let asked = Asked { upstream: None, tool: &["t"], hints: None, owner, shown: &shown };
        assert_eq!(any.fit(&asked), fit, "{owner:?}");
    }
}

/// Where something is not known, a rule that denies fits and one that allows does not.
#[test]
fn what_is_not_known_counts_against_the_caller() {
    let shown = Shown::default();
    let asked = Asked { upstream: None, tool: &["t"], hints: None, owner: Some("local"), shown: &shown };
    let scoped = |effect| Rule { scopes: patterns(&["s"]), ..rule(effect) };
    let hinted = |effect| Rule { read_only: Some(true), ..rule(effect) };
    let upstream = |effect| Rule { upstreams: patterns(&["u"]), ..rule(effect) };
    for with in [scoped, hinted, upstream] {
        let rules = |rule: Rule, default| Rules { rules: vec![rule], default };
        assert!(!rules(with(Effect::Deny), Effect::Allow).decide(&asked).is_allowed());
        assert!(!rules(with(Effect::Allow), Effect::Deny).decide(&asked).is_allowed());
        // What is known is enough to say that the rule is not about this.
        let other = Rule { tools: patterns(&["u"]), ..with(Effect::Deny) };
        assert!(rules(other, Effect::Allow).decide(&asked).is_allowed());
    }
}

#[test]
fn only_what_rules_look_at_is_kept_of_a_caller() {
    let claims = json!({"sub": "ann", "email": "ann@example.org", "realm": {"roles": ["ops"]}});
    let Value::Object(claims) = claims else { panic!("no claims") };
    let identity =
        Identity { owner: ANN.to_owned(), scopes: ["admin".to_owned()].into(), expires: None, claims };
    let rights =
        Rights { includes: [("admin".to_owned(), vec!["read".to_owned()])].into(), ..Rights::default() };
    let claim = |name: &str| Rule {
        claims: BTreeMap::from([(name.to_owned(), patterns(&["ops"]))]),
        ..rule(Effect::Allow)
    };
    let rules = Rules { rules: vec![claim("/realm/roles"), claim("groups")], default: Effect::Deny };
    let shown = Shown::by(Some(&identity), &rules, &rights);
    assert_eq!(shown, known(&["admin", "read"], json!({"/realm/roles": ["ops"], "groups": null})));
    let asked =
        Asked { upstream: Some("u"), tool: &["t"], hints: Some(BARE), owner: Some(ANN), shown: &shown };
    assert_eq!(rules.decide(&asked).rule, Some(0));
    let again: Shown =
        serde_json::from_str(&serde_json::to_string(&shown).expect("JSON")).expect("it is read");
    assert_eq!(again, shown);
    // Whoever need show nothing has nothing, and that is known.
    assert_eq!(Shown::by(None, &rules, &rights), known(&[], json!({"/realm/roles": null, "groups": null})));
    let by_tool =
        Rules { rules: vec![Rule { tools: patterns(&["t"]), ..rule(Effect::Deny) }], ..Rules::default() };
    assert_eq!(Shown::by(Some(&identity), &by_tool, &rights), Shown::default());
}

#[test]
fn rules_that_never_decide_are_found() {
    let tools = |words: &[&str]| Rule { tools: patterns(words), ..rule(Effect::Deny) };
    let all = vec![
        tools(&["delete_*", "drop"]),
        tools(&["delete_repo", "drop"]),
        tools(&["delete_repo", "dropped"]),
        Rule { destructive: Some(false), ..rule(Effect::Allow) },
        Rule { read_only: Some(true), tools: patterns(&["x"]), ..rule(Effect::Allow) },
        Rule { read_only: Some(true), destructive: Some(true), ..rule(Effect::Deny) },
        Rule { owners: patterns(&["token *"]), ..rule(Effect::Deny) },
        Rule { owners: patterns(&["token a*b"]), scopes: patterns(&["s"]), ..rule(Effect::Allow) },
        rule(Effect::Allow),
        tools(&["x"]),
    ];
    let rules = Rules { rules: all, default: Effect::Allow };
    assert_eq!(
        rules.shadowed(),
        [
            (1, Shadow::Of(0)),
            (4, Shadow::Of(3)),
            (5, Shadow::Contradiction),
            (7, Shadow::Of(6)),
            (9, Shadow::Of(8))
        ]
    );
}

/// Words that often match, and patterns that sometimes do.
fn words() -> impl Strategy<Value = String> {
    proptest::collection::vec(prop_oneof![Just("a"), Just("b"), Just("_")], 0..4)
        .prop_map(|parts| parts.concat())
}

fn globs() -> impl Strategy<Value = Vec<String>> {
    let glob = proptest::collection::vec(prop_oneof![Just("a"), Just("b"), Just("_"), Just("*")], 0..4)
        .prop_map(|parts| parts.concat());
    proptest::collection::vec(glob, 0..3)
}

prop_compose! {
    fn rules_()(effect in any::<bool>(), upstreams in globs(), tools in globs(), owners in globs(), scopes in globs(),
        claim in proptest::option::of(globs().prop_filter("not empty", |list| !list.is_empty())),
        read_only in proptest::option::of(any::<bool>()), destructive in proptest::option::of(any::<bool>())) -> Rule {
        let compiled = |texts: &[String]| texts.iter().map(|text| Pattern::new(text)).collect::<Vec<_>>();
        Rule {
            effect: if effect { Effect::Allow } else { Effect::Deny },
            upstreams: compiled(&upstreams), tools: compiled(&tools), owners: compiled(&owners), scopes: compiled(&scopes),
            claims: claim.iter().map(|list| ("c".to_owned(), compiled(list))).collect(),
            read_only, destructive,
            ..Rule::default()
        }
    }
}

/// The meaning of a pattern in the fewest words.
fn means(pattern: &[char], text: &[char]) -> bool {
    match pattern {
        [] => text.is_empty(),
        ['*', rest @ ..] => (0..=text.len()).any(|skipped| means(rest, &text[skipped..])),
        [letter, rest @ ..] => text.first() == Some(letter) && means(rest, &text[1..]),
    }
}

/// Whether a rule fits, in the fewest words.
fn model_fits(
    rule: &Rule,
    upstream: &str,
    tool: &str,
    hints: Hints,
    owner: &str,
    scopes: &[String],
    claim: &str,
) -> bool {
    let any = |list: &[Pattern], texts: &[&str]| {
        let chars = |text: &str| text.chars().collect::<Vec<_>>();
        list.is_empty()
            || texts.iter().any(|text| list.iter().any(|p| means(&chars(p.as_str()), &chars(text))))
    };
    let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
    any(&rule.upstreams, &[upstream])
        && any(&rule.tools, &[tool])
        && any(&rule.owners, &[owner])
        && any(&rule.scopes, &scopes)
        && rule.claims.values().all(|list| any(list, &[claim]))
        && rule.read_only.is_none_or(|wanted| wanted == hints.read_only)
        && rule.destructive.is_none_or(|wanted| wanted == hints.destructive)
}

proptest! {
    /// The first rule that fits decides, and what is said to be shadowed never does.
    #[test]
    fn the_first_rule_that_fits_decides(
        rules in proptest::collection::vec(rules_(), 0..5), default in any::<bool>(), upstream in words(), tool in words(),
        owner in words(), scopes in proptest::collection::vec(words(), 0..3), claim in words(), reads in any::<bool>(),
    ) {
        let default = if default { Effect::Allow } else { Effect::Deny };
        let hints = if reads { READER } else { BARE };
        let scopes_known = scopes.iter().cloned().collect();
        let claims = Map::from_iter([("c".to_owned(), json!(claim))]);
        let shown = Shown { scopes: Some(scopes_known), claims: claims.into_iter().collect() };
        let asked = Asked {
            upstream: Some(&upstream), tool: &[&tool], hints: Some(hints), owner: Some(&owner), shown: &shown,
        };
        let first = rules.iter().position(|rule| model_fits(rule, &upstream, &tool, hints, &owner, &scopes, &claim));
        let effect = first.map_or(default, |at| rules[at].effect);
        let rules = Rules { rules, default };
        let verdict = rules.decide(&asked);
        prop_assert_eq!((verdict.rule, verdict.effect), (first, effect));
        prop_assert!(!rules.shadowed().iter().any(|(at, _)| Some(*at) == first));
    }

    /// Nobody gets more by what is not known of him.
    #[test]
    fn knowing_less_allows_no_more(rules in proptest::collection::vec(rules_(), 0..5), tool in words(), owner in words(),
        scopes in proptest::collection::vec(words(), 0..3), reads in any::<bool>()) {
        let rules = Rules { rules, default: Effect::Allow };
        let shown = Shown {
            scopes: Some(scopes.into_iter().collect()),
            claims: BTreeMap::from([("c".to_owned(), json!("a"))]),
        };
        let hints = Some(if reads { READER } else { BARE });
        let whole = Asked { upstream: Some("a"), tool: &[&tool], hints, owner: Some(&owner), shown: &shown };
        let nothing = Shown::default();
        for less in [
            Asked { shown: &nothing, ..whole }, Asked { hints: None, ..whole }, Asked { upstream: None, ..whole },
            Asked { upstream: None, hints: None, shown: &nothing, owner: None, ..whole },
        ] {
            prop_assert!(rules.decide(&whole).is_allowed() || !rules.decide(&less).is_allowed());
        }
    }
}
