//! `taskgate check --explain`: which rule decides about a tool, and why, without asking any server.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde_json::{Value, json};
use taskgate_gateway::access::rules::{
    Asked, Condition, Effect, Fit, Hints, Rule, Rules, Shadow, Shown, Verdict,
};
use taskgate_gateway::access::{AccessConfig, Identity};
use taskgate_gateway::{Config, ToolHints, UpstreamConfig, UpstreamServer, hints_of};

use crate::args::{Annotation, Explain};
use crate::exit_code::{ExitCode, Failure};

/// What was decided about a tool.
pub struct Explained {
    upstream: String,
    tool: String,
    effect: Effect,
    /// The rule that decides, from 1; `None` is the default.
    rule: Option<usize>,
    reason: Option<String>,
    /// The rules that were looked at, in their order.
    steps: Vec<(Effect, Fit)>,
}

/// A tool that a server may have.
struct Tool<'a> {
    upstream: &'a UpstreamConfig,
    name: String,
    hints: Option<Hints>,
}

/// Decides about each tool that is known, or those that were named.
pub fn explain(config: &Config, rules: &Rules, asked: &Explain) -> Result<Vec<Explained>, Failure> {
    let (owner, shown) = caller(config, rules, asked);
    let tools = match asked.tools.is_empty() {
        true => config
            .upstreams
            .iter()
            .flat_map(declared)
            .map(|(upstream, name)| (upstream, name.to_owned()))
            .collect(),
        false => named(config, &asked.tools)?,
    };
    let tools = tools.into_iter().map(|(upstream, name)| Tool {
        upstream,
        name,
        hints: hints(upstream, &asked.annotations),
    });
    let explained = tools.map(|Tool { upstream, name, hints }| {
        let full = full_name(upstream, &name);
        let asked = Asked {
            upstream: Some(&upstream.name),
            tool: &[&name, &full],
            hints,
            owner: owner.as_deref(),
            shown: &shown,
        };
        let Verdict { effect, rule, reason } = rules.decide(&asked);
        let until = rule.map_or(rules.rules.len(), |rule| rule + 1);
        let steps = rules.rules[..until].iter().map(|rule: &Rule| (rule.effect, rule.fit(&asked)));
        Explained {
            upstream: upstream.name.clone(),
            tool: name.clone(),
            effect,
            rule: rule.map(|rule| rule + 1),
            reason: reason.map(str::to_owned),
            steps: steps.collect(),
        }
    });
    Ok(explained.collect())
}

/// The upstreams whose tools only they know.
pub fn unknown(config: &Config) -> impl Iterator<Item = &str> {
    let is_server = |upstream: &&UpstreamConfig| declared(upstream).next().is_none();
    config.upstreams.iter().filter(is_server).map(|upstream| upstream.name.as_str())
}

/// What is wrong with the rules in themselves, for people.
pub fn warnings(rules: &Rules) -> impl Iterator<Item = String> {
    rules.shadowed().into_iter().map(|(at, shadow)| {
        let why = match shadow {
            Shadow::Of(earlier) => format!("rule {} fits wherever it would, and comes first", earlier + 1),
            Shadow::Contradiction => "what is read-only destroys nothing and is idempotent".to_owned(),
        };
        format!("rule {} of [policy] never decides: {why}", at + 1)
    })
}

/// The tools that the file names.
fn declared(upstream: &UpstreamConfig) -> impl Iterator<Item = (&UpstreamConfig, &str)> {
    let own = match &upstream.server {
        UpstreamServer::Run(tool) => Some(tool.tool.as_str()),
        UpstreamServer::Job(job) => Some(job.tool.as_str()),
        UpstreamServer::Command(_) | UpstreamServer::Url(_) | UpstreamServer::Demo => None,
    };
    let configured = upstream.tools.keys().map(String::as_str).filter(move |name| Some(*name) != own);
    own.into_iter().chain(configured).map(move |name| (upstream, name))
}

/// Whoever may have tools of these names.
fn named<'a>(config: &'a Config, names: &[String]) -> Result<Vec<(&'a UpstreamConfig, String)>, Failure> {
    let mut found = Vec::new();
    for name in names {
        let before = found.len();
        for upstream in &config.upstreams {
            let own = name.strip_prefix(&full_name(upstream, "")).unwrap_or(name);
            let may_have = match &upstream.server {
                UpstreamServer::Run(tool) => [own, name].contains(&tool.tool.as_str()),
                UpstreamServer::Job(job) => [own, name].contains(&job.tool.as_str()),
                UpstreamServer::Command(_) | UpstreamServer::Url(_) | UpstreamServer::Demo => true,
            };
            if may_have {
                found.push((upstream, own.to_owned()));
            }
        }
        if found.len() == before {
            let why = format!("no upstream of the file can have a tool {name:?}");
            return Err(Failure::new(ExitCode::Invalid, why));
        }
    }
    Ok(found)
}

fn full_name(upstream: &UpstreamConfig, tool: &str) -> String {
    format!("{}_{tool}", upstream.prefix.as_deref().unwrap_or(&upstream.name))
}

/// What a tool says of itself: what was given, or nothing, for a tool that has no annotations. What a server says only it knows.
fn hints(upstream: &UpstreamConfig, given: &[Annotation]) -> Option<Hints> {
    let is_ours = matches!(upstream.server, UpstreamServer::Run(_) | UpstreamServer::Job(_));
    if !is_ours && given.is_empty() {
        return None;
    }
    let said = |condition: Condition| {
        given.iter().rev().find(|annotation| annotation.hint == condition).map(|annotation| annotation.value)
    };
    Some(hints_of(ToolHints::of(
        said(Condition::ReadOnly),
        said(Condition::Destructive),
        said(Condition::Idempotent),
        said(Condition::OpenWorld),
    )))
}

/// Who would ask, and what that caller would show. What the file says of it is known, such as the scopes of a token.
fn caller(config: &Config, rules: &Rules, asked: &Explain) -> (Option<String>, Shown) {
    let auth = config.settings.auth.as_ref();
    let owner = asked.owner.clone().or_else(|| match auth {
        Some(_) => None,
        None if config.settings.single_user => Some("local".to_owned()),
        None => Some("anonymous".to_owned()),
    });
    let of_file = owner.as_deref().and_then(|owner| scopes_of(auth, owner));
    let scopes = match asked.scopes.is_empty() {
        false => Some(asked.scopes.iter().cloned().collect()),
        true => of_file.clone(),
    };
    // Only an issuer says more of a caller than its scopes.
    let has_no_claims = of_file.is_some();
    let mut claims = serde_json::Map::new();
    for claim in &asked.claims {
        let values = claims.entry(claim.name.clone()).or_insert_with(|| json!([]));
        if let Value::Array(values) = values {
            values.push(json!(claim.value));
        }
    }
    let identity = Identity {
        owner: owner.clone().unwrap_or_default(),
        scopes: scopes.clone().unwrap_or_default(),
        expires: None,
        claims: claims.clone(),
    };
    let rights = auth.map(|auth| auth.rights.clone()).unwrap_or_default();
    let mut shown = Shown::by(Some(&identity), rules, &rights);
    if scopes.is_none() {
        shown.scopes = None;
    }
    // A name that is a path was given as such.
    shown.claims.extend(claims);
    if !has_no_claims {
        shown.claims.retain(|_, value| !value.is_null());
    }
    (owner, shown)
}

/// The scopes that the file gives to an owner; `None` if it does not say.
fn scopes_of(auth: Option<&AccessConfig>, owner: &str) -> Option<BTreeSet<String>> {
    let Some(auth) = auth else { return Some(BTreeSet::new()) };
    let token = auth.tokens.iter().find(|token| Identity::owner_of_token(&token.name) == owner);
    let proxy = auth.proxy.as_ref().filter(|_| owner.starts_with("proxy "));
    let scopes = token.map(|token| &token.scopes).or(proxy.map(|proxy| &proxy.scopes))?;
    Some(scopes.iter().cloned().collect())
}

impl Explained {
    /// For people.
    pub fn text(&self) -> String {
        let by = match self.rule {
            Some(rule) => format!("by rule {rule}"),
            None => "by the default".to_owned(),
        };
        let done = if self.effect == Effect::Allow { "allowed" } else { "denied" };
        let why = self.reason.as_ref().map(|reason| format!(": {reason:?}")).unwrap_or_default();
        let mut text = format!("{} {}: {done} {by}{why}\n", self.upstream, self.tool);
        for (at, (effect, fit)) in self.steps.iter().enumerate() {
            let said = match fit {
                Fit::Fits => "fits".to_owned(),
                Fit::Differs(condition) => format!("does not fit: `{}` is another", condition.as_str()),
                Fit::Unknown(condition) => {
                    let counts =
                        if *effect == Effect::Deny { "so it counts" } else { "so it does not count" };
                    format!(
                        "may fit: `{}` is not known{}, {counts}",
                        condition.as_str(),
                        option_of(*condition)
                    )
                }
            };
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  rule {} ({}) {said}", at + 1, effect.as_str());
        }
        text
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let steps = self.steps.iter().enumerate().map(|(at, (effect, fit))| {
            let (fits, condition) = match fit {
                Fit::Fits => ("yes", None),
                Fit::Differs(condition) => ("no", Some(condition)),
                Fit::Unknown(condition) => ("unknown", Some(condition)),
            };
            json!({"rule": at + 1, "effect": effect.as_str(), "fits": fits, "condition": condition.map(|one| one.as_str())})
        });
        json!({
            "upstream": self.upstream,
            "tool": self.tool,
            "effect": self.effect.as_str(),
            "rule": self.rule,
            "reason": self.reason,
            "rules": steps.collect::<Vec<_>>(),
        })
    }
}

/// The option that would say it.
fn option_of(condition: Condition) -> &'static str {
    match condition {
        Condition::Owner | Condition::Issuer | Condition::Subject | Condition::Client => " (--owner)",
        Condition::Scope => " (--scope)",
        Condition::Claim => " (--claim)",
        Condition::ReadOnly | Condition::Destructive | Condition::Idempotent | Condition::OpenWorld => {
            " (--annotation)"
        }
        Condition::Upstream | Condition::Tool => "",
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Args, Command};

    const FILE: &str = r#"
        [auth]
        resource = "https://gate.example/mcp"
        scopes.includes = { admin = ["write"] }
        token = [{ name = "ann", sha256 = "0000000000000000000000000000000000000000000000000000000000000000", scopes = ["admin"] }]
        [[auth.issuer]]
        issuer = "https://login.example"
        [policy]
        default = "deny"
        [[policy.rule]]
        effect = "deny"
        reason = "it is being mended"
        tool = "export*"
        [[policy.rule]]
        effect = "allow"
        upstream = "files"
        read_only = true
        [[policy.rule]]
        effect = "allow"
        scope = "write"
        [[policy.rule]]
        effect = "allow"
        claim = { groups = "ops" }
        [[policy.rule]]
        effect = "deny"
        tool = "export_all"
        [[upstream]]
        name = "files"
        command = ["server"]
        tools.search = { tasks = "always" }
        [[upstream]]
        name = "jobs"
        run = { tool = "export", command = ["true"] }
    "#;

    fn explained(words: &[&str]) -> String {
        let config = Config::parse(FILE, "taskgate.toml").expect("valid");
        let args = Args::try_parse_from(["taskgate", "check", "f", "--explain"].iter().chain(words))
            .expect("arguments");
        let Command::Check(check) = args.command else { panic!("another command") };
        let rules = config.rules.as_ref().expect("[policy]");
        let all = explain(&config, rules, &check.explanation).expect("explained");
        all.iter().map(Explained::text).collect()
    }

    #[test]
    fn it_is_said_which_rule_decides_and_why() {
        for (words, expected) in [
            (
                vec![],
                "files search: denied by the default\n  \
                 rule 1 (deny) does not fit: `tool` is another\n  \
                 rule 2 (allow) may fit: `read_only` is not known (--annotation), so it does not count\n  \
                 rule 3 (allow) may fit: `scope` is not known (--scope), so it does not count\n  \
                 rule 4 (allow) may fit: `claim` is not known (--claim), so it does not count\n  \
                 rule 5 (deny) does not fit: `tool` is another\n\
                 jobs export: denied by rule 1: \"it is being mended\"\n  \
                 rule 1 (deny) fits\n",
            ),
            (
                vec!["--tool", "files_search", "--annotation", "read_only=true"],
                "files search: allowed by rule 2\n  \
                 rule 1 (deny) does not fit: `tool` is another\n  \
                 rule 2 (allow) fits\n",
            ),
            // The scopes of a token in the file are known, with those that they include, and it has no claims.
            (
                vec!["--tool", "write_file", "--owner", "token ann", "--annotation", "destructive=false"],
                "files write_file: allowed by rule 3\n  \
                 rule 1 (deny) does not fit: `tool` is another\n  \
                 rule 2 (allow) does not fit: `read_only` is another\n  \
                 rule 3 (allow) fits\n",
            ),
            (
                vec!["--tool", "x", "--scope", "read", "--claim", "groups=dev", "--claim", "groups=ops"],
                "files x: allowed by rule 4\n  \
                 rule 1 (deny) does not fit: `tool` is another\n  \
                 rule 2 (allow) may fit: `read_only` is not known (--annotation), so it does not count\n  \
                 rule 3 (allow) does not fit: `scope` is another\n  \
                 rule 4 (allow) fits\n",
            ),
        ] {
            assert_eq!(explained(&words), expected, "{words:?}");
        }
    }

    #[test]
    fn programs_read_the_same() {
        let config = Config::parse(FILE, "taskgate.toml").expect("valid");
        let rules = config.rules.as_ref().expect("[policy]");
        let asked = Explain {
            tools: vec!["export".to_owned()],
            scopes: vec!["write".to_owned()],
            ..Explain::default()
        };
        let all = explain(&config, rules, &asked).expect("explained");
        let said: Vec<Value> = all.iter().map(Explained::json).collect();
        assert_eq!(said.len(), 2, "the server may have one, too");
        assert_eq!(
            said[1],
            json!({"upstream": "jobs", "tool": "export", "effect": "deny", "rule": 1, "reason": "it is being mended",
                "rules": [{"rule": 1, "effect": "deny", "fits": "yes", "condition": null}]})
        );
        assert_eq!(unknown(&config).count(), 0);
        let warned: Vec<String> = warnings(rules).collect();
        assert_eq!(
            warned,
            ["rule 5 of [policy] never decides: rule 1 fits wherever it would, and comes first"]
        );
    }

    #[test]
    fn a_tool_that_nobody_can_have_is_a_mistake() {
        let text =
            "[policy]\n[[upstream]]\nname = \"jobs\"\nrun = { tool = \"export\", command = [\"true\"] }\n";
        let config = Config::parse(text, "taskgate.toml").expect("valid");
        let asked = Explain { tools: vec!["other".to_owned()], ..Explain::default() };
        let refused = explain(&config, &Rules::default(), &asked).err().expect("refused");
        assert_eq!(refused.code, ExitCode::Invalid);
    }
}
