//! Other upstreams while the gateway serves.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLockUpgradableReadGuard;
use taskgate_access::Rules;
use taskgate_engine::Runner;
use tokio::sync::broadcast;

use crate::builder::BuildError;
use crate::gateway::Gateway;
use crate::policy::{ToolPolicy, UpstreamKind, UpstreamSpec};
use crate::rules::RuleBook;
use crate::upstream::{Callbacks, Change, CommandRunner, JobRunner, Upstream, Yard};
use crate::upstreams::Upstreams;

/// How many changes of lists a slow listener may be behind before it loses some.
const CHANGES: usize = 1024;

/// What all upstreams of a gateway have in common, however late they come.
pub(crate) struct Common {
    /// Which tools callers may use.
    pub(crate) rules: Arc<RuleBook>,
    /// The policy of every tool that has none of its own, over what its upstream says.
    pub(crate) policy: Option<ToolPolicy>,
    /// Policies by the names of tools, in every upstream.
    pub(crate) tools: HashMap<String, ToolPolicy>,
    /// The longest message of a server that must arrive, in bytes.
    pub(crate) longest_line: usize,
    /// Where commands run.
    pub(crate) yard: Option<Arc<Yard>>,
    /// Where APIs say that there is news of their jobs.
    pub(crate) callbacks: Option<Arc<Callbacks>>,
    /// Where upstreams say what belongs to no call.
    pub(crate) changes: broadcast::Sender<Change>,
}

impl Common {
    /// A channel for [`Common::changes`].
    pub(crate) fn channel() -> broadcast::Sender<Change> {
        broadcast::Sender::new(CHANGES)
    }

    /// What is to be, with everything that holds for all.
    pub(crate) fn complete(&self, mut specs: Vec<UpstreamSpec>) -> Result<Vec<UpstreamSpec>, BuildError> {
        if specs.is_empty() {
            return Err(BuildError::NoUpstream);
        }
        for index in 0..specs.len() {
            let (before, spec) = specs.split_at_mut(index);
            let Some(spec) = spec.first_mut() else { continue };
            if before.iter().any(|other| other.name == spec.name) {
                return Err(BuildError::DuplicateUpstream(spec.name.clone()));
            }
            if let Some(policy) = &self.policy {
                spec.policy = policy.clone();
            }
            spec.tools.extend(self.tools.clone());
            // Whoever has set a limit of its own for a server means it.
            let limit = match &mut spec.kind {
                UpstreamKind::Process(command) => Some(&mut command.line_limit),
                UpstreamKind::Http(server) => Some(&mut server.message_limit),
                UpstreamKind::InProcess(_) | UpstreamKind::Command(_) | UpstreamKind::Job(_) => None,
            };
            if let Some(limit) = limit.filter(|limit| **limit == crate::StdioCommand::LINE_LIMIT) {
                *limit = (*limit).max(self.longest_line);
            }
        }
        Ok(specs)
    }

    /// What runs the tool of an upstream that is no server.
    pub(crate) fn own_runner(&self, spec: &UpstreamSpec) -> Result<Option<Arc<dyn Runner>>, BuildError> {
        Ok(match (&spec.kind, &self.yard) {
            (UpstreamKind::Command(tool), Some(yard)) => {
                let policy = spec.policy_of(&tool.tool).clone();
                Some(Arc::new(CommandRunner::new(tool.clone(), policy, yard.clone())))
            }
            (UpstreamKind::Command(_), None) => return Err(BuildError::NoPlace(spec.name.clone())),
            (UpstreamKind::Job(tool), _) => {
                let runner = JobRunner::new(tool, self.callbacks.clone());
                Some(Arc::new(runner.map_err(|why| BuildError::Job { name: spec.name.clone(), why })?))
            }
            (UpstreamKind::Process(_) | UpstreamKind::Http(_) | UpstreamKind::InProcess(_), _) => None,
        })
    }
}

/// What a [`Gateway::reload`] has changed: names of upstreams, and the rules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// New ones.
    pub added: Vec<String>,
    /// Those that are reached or treated in another way.
    pub changed: Vec<String>,
    /// Those that are gone.
    pub removed: Vec<String>,
    /// Whether there are other rules of who may call which tool.
    pub rules: bool,
}

impl Reloaded {
    /// Whether everything is as it was.
    pub fn is_nothing(&self) -> bool {
        *self == Reloaded::default()
    }
}

impl Gateway {
    /// Puts these upstreams in the place of those there are, in their order. No call and no task is lost by it:
    ///
    /// - One that is the same stays connected, also if only its policies or its prefix have changed; these hold for calls
    ///   that begin from now on.
    /// - One that is reached in another way is connected anew. Calls that run go on with the server they were made to, which
    ///   ends with the last of them; later calls wait for the new one.
    /// - One that is gone ends with its last running call. Tasks that would have to call it again fail, as they would after a
    ///   start without it.
    ///
    /// Clients are told of changed lists if [`Settings::reloads`](crate::Settings::reloads) is set.
    ///
    /// # Errors
    ///
    /// [`BuildError`] if these cannot be upstreams; then nothing has changed.
    pub fn reload(&self, specs: Vec<UpstreamSpec>) -> Result<Reloaded, BuildError> {
        self.replace(specs, None)
    }

    /// The same, with these rules of who may call which tool, or none, in the place of those there are. They count from now on, also for
    /// work that is begun or resumed; work that runs goes on.
    ///
    /// # Errors
    ///
    /// [`BuildError`] if these cannot be upstreams; then nothing has changed.
    pub fn reload_with_rules(
        &self,
        specs: Vec<UpstreamSpec>,
        rules: Option<Rules>,
    ) -> Result<Reloaded, BuildError> {
        self.replace(specs, Some(rules))
    }

    /// Upstreams, and rules if there are others.
    fn replace(
        &self,
        specs: Vec<UpstreamSpec>,
        rules: Option<Option<Rules>>,
    ) -> Result<Reloaded, BuildError> {
        let (pool, engine) = (&self.0.pool, &self.0.engine);
        let common = &pool.common;
        let specs = common.complete(specs)?;
        let mut reloaded = Reloaded::default();
        // Held throughout, so that one reload follows the other; calls look at the upstreams meanwhile.
        let kept = pool.all.upgradable_read();
        let is_kept = |spec: &UpstreamSpec| {
            kept.named(&spec.name).is_some_and(|upstream| upstream.spec().is_same(spec))
        };
        // Before anything is changed, since it may fail. What stays as it is keeps what it has.
        let owns: Vec<Option<Arc<dyn Runner>>> = specs
            .iter()
            .map(|spec| if is_kept(spec) { Ok(None) } else { common.own_runner(spec) })
            .collect::<Result<_, _>>()?;
        let mut all = Vec::with_capacity(specs.len());
        let mut told: Vec<Arc<Upstream>> = Vec::new();
        for (spec, own) in specs.into_iter().zip(owns) {
            let upstream = match kept.named(&spec.name) {
                Some(upstream) if upstream.spec().is_same(&spec) => upstream.clone(),
                Some(upstream) => {
                    reloaded.changed.push(spec.name.clone());
                    upstream.become_what(spec, own);
                    told.push(upstream.clone());
                    upstream.clone()
                }
                None => {
                    reloaded.added.push(spec.name.clone());
                    pool.start(spec, own, true)
                }
            };
            engine.add_runner(upstream.name(), pool.runner(&upstream));
            all.push(upstream);
        }
        for upstream in kept.iter() {
            if !all.iter().any(|other| Arc::ptr_eq(other, upstream)) {
                reloaded.removed.push(upstream.name().to_owned());
                engine.remove_runner(upstream.name());
                told.push(upstream.clone());
            }
        }
        reloaded.rules = rules.is_some_and(|rules| common.rules.replace(rules));
        if reloaded.rules {
            // What a caller sees of each of them may be another thing.
            told.extend(
                all.iter()
                    .filter(|one| !told.iter().any(|other| Arc::ptr_eq(one, other)))
                    .cloned()
                    .collect::<Vec<_>>(),
            );
        }
        *RwLockUpgradableReadGuard::upgrade(kept) = Upstreams::new(all);
        pool.rearrange(&reloaded);
        // Those that are new say so themselves, as soon as they have something to list.
        told.iter().for_each(|upstream| upstream.tell_of_lists());
        Ok(reloaded)
    }
}
