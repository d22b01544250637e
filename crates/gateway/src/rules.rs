//! The rules in force: which tools a caller may see and call, asked again when work is begun later.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use serde_json::json;
use taskgate_access::rules::{Asked, Hints, Shown, Verdict};
use taskgate_access::{Identity, Rights, Rules};
use taskgate_engine::{Ending, Work};
use taskgate_task::Owner;
use taskgate_wire::tool::{ToolFacts, ToolHints};
use taskgate_wire::{RpcError, method};

use crate::gateway::Target;
use crate::upstream::{self, Upstream};

/// The `reason` in the data of an error for what the rules deny.
const DENIED: &str = "denied";

/// The rules as they are configured now, if there are any.
pub(crate) struct RuleBook {
    /// Looked at first: where there are no rules, nobody waits for a lock.
    has_any: AtomicBool,
    rules: RwLock<Option<Arc<Rules>>>,
    /// Which scopes others include.
    rights: Rights,
}

/// What one caller may.
pub(crate) struct Allowed {
    rules: Arc<Rules>,
    owner: Owner,
    shown: Shown,
}

/// On what grounds a call was allowed, besides whose it is and which tool it calls. Kept with its work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grounds {
    /// What its caller had shown.
    shown: Shown,
    /// What the tool said of itself.
    hints: Hints,
}

/// Asks again whether work may be done.
#[derive(Clone)]
pub(crate) struct Again {
    rules: Arc<RuleBook>,
    upstream: Weak<Upstream>,
}

impl RuleBook {
    /// With these rules, or none.
    pub(crate) fn new(rules: Option<Rules>, rights: Rights) -> Arc<RuleBook> {
        let book = RuleBook { has_any: AtomicBool::new(false), rules: RwLock::default(), rights };
        book.replace(rules);
        Arc::new(book)
    }

    /// Puts these rules in the place of those there are; says whether they are others.
    pub(crate) fn replace(&self, rules: Option<Rules>) -> bool {
        let mut kept = self.rules.write();
        if kept.as_deref() == rules.as_ref() {
            return false;
        }
        self.has_any.store(rules.is_some(), Ordering::Release);
        *kept = rules.map(Arc::new);
        true
    }

    fn now(&self) -> Option<Arc<Rules>> {
        if !self.has_any.load(Ordering::Acquire) {
            return None;
        }
        self.rules.read().clone()
    }

    /// What a caller may; `None` if there are no rules, so that it may do anything.
    pub(crate) fn of(&self, owner: &Owner, identity: Option<&Identity>) -> Option<Allowed> {
        let rules = self.now()?;
        let shown = Shown::by(identity, &rules, &self.rights);
        Some(Allowed { rules, owner: owner.clone(), shown })
    }

    /// Whether a caller may call this tool, which it calls `name`. What it may not call does not exist for it, so `false` is no error yet.
    ///
    /// # Errors
    ///
    /// The rule that denies it gives a reason.
    pub(crate) fn lets(
        &self,
        owner: &Owner,
        identity: Option<&Identity>,
        target: &Target,
        name: &str,
    ) -> Result<bool, RpcError> {
        let Some(allowed) = self.of(owner, identity) else { return Ok(true) };
        let Some(tool) = &target.tool else { return Ok(true) };
        let verdict = allowed.verdict(&target.upstream, tool);
        match verdict.reason.filter(|_| !verdict.is_allowed()) {
            Some(reason) => Err(denied(&format!("The tool {name} is not allowed: {reason}"))),
            None => Ok(verdict.is_allowed()),
        }
    }

    /// What is kept of a caller and a tool, so that the rules can be asked again; `None` if there are none.
    pub(crate) fn grounds(
        &self,
        owner: &Owner,
        identity: Option<&Identity>,
        hints: ToolHints,
    ) -> Option<Grounds> {
        let Allowed { shown, .. } = self.of(owner, identity)?;
        Some(Grounds { shown, hints: hints_of(hints) })
    }
}

impl Allowed {
    /// Whether this tool of an upstream is among it.
    pub(crate) fn has(&self, upstream: &Upstream, tool: &ToolFacts) -> bool {
        self.verdict(upstream, tool).is_allowed()
    }

    fn verdict(&self, upstream: &Upstream, tool: &ToolFacts) -> Verdict<'_> {
        let full = full_name(upstream, &tool.name);
        self.rules.decide(&Asked {
            upstream: Some(upstream.name()),
            tool: &[&tool.name, &full],
            hints: Some(hints_of(tool.hints)),
            owner: Some(self.owner.as_str()),
            shown: &self.shown,
        })
    }
}

impl Again {
    /// For work at this upstream.
    pub(crate) fn of(rules: &Arc<RuleBook>, upstream: &Arc<Upstream>) -> Again {
        Again { rules: rules.clone(), upstream: Arc::downgrade(upstream) }
    }

    /// How work ends that may not be done, or not any more. What was not kept of its request counts against it.
    pub(crate) fn refused(&self, work: &Work) -> Option<Ending> {
        let rules = self.rules.now()?;
        // What cannot be read fails anyway, when it is to be run.
        let request =
            upstream::Request::of(work).ok().filter(|request| request.method == method::TOOLS_CALL)?;
        let tool = request.tool()?;
        let upstream = self.upstream.upgrade();
        let full = upstream.as_ref().map(|upstream| full_name(upstream, &tool));
        let names: Vec<&str> =
            [Some(&tool), full.as_ref()].into_iter().flatten().map(String::as_str).collect();
        let nothing = Shown::default();
        let grounds = request.grounds.as_ref();
        let verdict = rules.decide(&Asked {
            upstream: upstream.as_ref().map(|upstream| upstream.name()),
            tool: &names,
            hints: grounds.map(|grounds| grounds.hints),
            owner: Some(work.owner.as_str()),
            shown: grounds.map_or(&nothing, |grounds| &grounds.shown),
        });
        if verdict.is_allowed() {
            return None;
        }
        let begun = if work.checkpoint.is_some() { "resumed" } else { "begun" };
        let why = verdict.reason.map(|reason| format!(": {reason}")).unwrap_or_default();
        let message = format!("The call is not {begun}, as its caller is no longer allowed to make it{why}");
        Some(upstream::failed(denied(&message).to_payload(), message))
    }
}

/// A tool's name with that of its upstream before it. Clients see it so where names clash, and a rule means it by both names, so that no
/// other server decides by its own tools what a rule means.
fn full_name(upstream: &Upstream, tool: &str) -> String {
    let spec = upstream.spec();
    format!("{}_{tool}", spec.prefix.as_deref().unwrap_or(upstream.name()))
}

fn denied(message: &str) -> RpcError {
    RpcError::invalid_params(message).with_data(&json!({ "reason": DENIED }))
}

/// What a tool says of itself, as rules look at it.
pub fn hints_of(hints: ToolHints) -> Hints {
    let ToolHints { read_only, destructive, idempotent, open_world } = hints;
    Hints { read_only, destructive, idempotent, open_world }
}
