use taskgate_access::rules::{Effect, Shadow};

use super::*;
use crate::config::raw::rules::{RULE, RULES};

#[test]
fn a_printed_policy_means_the_same() {
    let config = valid(&format!(
        r#"
        [policy]
        default = "deny"
        [[policy.rule]]
        effect = "deny"
        reason = "Only \"ops\" may do that."
        tool = "delete_*"
        upstream = ["git", "hub"]
        read_only = false
        destructive = true
        idempotent = false
        open_world = true
        [[policy.rule]]
        effect = "allow"
        owner = ["token a", "local"]
        issuer = "https://login.example"
        subject = ["ann"]
        client = "app"
        scope = ["write:*"]
        claim = {{ groups = ["ops"], "/realm_access/roles" = "admin" }}
        {LEAST}"#
    ));
    let rules = config.rules.as_ref().expect("[policy]");
    assert_eq!((rules.rules.len(), rules.default), (2, Effect::Deny));
    assert_eq!(rules.rules[0].tools[0].as_str(), "delete_*");
    assert_eq!(
        rules.rules[1].claims.keys().map(String::as_str).collect::<Vec<_>>(),
        ["/realm_access/roles", "groups"]
    );
    let again = valid(&config.to_toml());
    assert_eq!(again.rules, config.rules);
    assert_eq!(again.to_toml(), config.to_toml());
    assert_eq!(valid(LEAST).rules, None);
}

#[test]
fn the_pieces_on_the_page_are_valid() {
    let page = fs::read_to_string(repository().join("docs/policy.md")).expect("the page");
    let pieces: Vec<&str> =
        page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(!pieces.is_empty());
    for piece in pieces {
        let text =
            if piece.contains("[[upstream]]") { piece.to_owned() } else { format!("{piece}\n{LEAST}") };
        let rules = valid(&text).rules.expect("[policy]");
        let contradictions =
            rules.shadowed().into_iter().filter(|(_, shadow)| *shadow == Shadow::Contradiction);
        assert_eq!(contradictions.count(), 0);
    }
}

#[test]
fn the_manual_explains_every_key_of_the_policy() {
    let manual = fs::read_to_string(repository().join("docs/config.md")).expect("the manual");
    let rows = &manual[manual.find("## Who may call which tool").expect("the part about [policy]")..];
    for key in [&RULES, &RULE].into_iter().flat_map(|section| section.keys) {
        assert!(rows.contains(&format!("| `{key}` |")), "docs/config.md does not explain `{key}`");
    }
}
